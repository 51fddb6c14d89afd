"""Plain modulo scheduling: lower bounds, the paper's ILP, and its solvers."""
