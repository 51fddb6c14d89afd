"""Where and in which layout tiles are loaded."""
