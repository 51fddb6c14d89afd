"""Waits and positions of loops, and loops that are not scheduled."""
