"""Kernels as nvcc builds them, and others where ptxas spills or serializes."""
