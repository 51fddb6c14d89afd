"""Values that a loop carries to its next iteration."""
