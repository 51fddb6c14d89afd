"""Build, load and call generated kernels."""
