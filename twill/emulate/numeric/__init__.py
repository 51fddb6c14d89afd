"""Numbers as PTX has them, in NumPy: formats of few bits, roundings, saturation."""
