"""Rows of a kernel's tiles divided into independent sub-tiles."""
