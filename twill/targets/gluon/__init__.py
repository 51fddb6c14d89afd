"""Gluon, Triton's language with explicit layouts: kernels with explicit warp specialization.

Takes a `Program`; gives a Python file that Triton 3.7 to 3.9 compile.
"""
