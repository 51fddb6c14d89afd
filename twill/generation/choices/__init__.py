"""What a kernel may have, where the user leaves that open."""
