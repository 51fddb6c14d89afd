"""CUDA C++ for sm_90a from warp programs: `kernel.source` is all of it."""
