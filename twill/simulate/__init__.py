"""Warp programs on the CPU: their values, every order in which their groups may run, and how many cycles they
take."""
