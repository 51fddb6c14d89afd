"""How tiles go to global memory, and atomic operations."""
