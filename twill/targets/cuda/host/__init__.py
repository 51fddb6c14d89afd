"""What the host launches: parameters, tensor maps, numbers it computes, and blocks without work."""
