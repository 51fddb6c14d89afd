"""How Triton launches a kernel."""

OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
"""Launch options and their defaults, which are Triton's."""
