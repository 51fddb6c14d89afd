"""One loop of a module to its dependence graph."""
