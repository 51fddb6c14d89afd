"""Tiles between two layouts, and what threads exchange for it."""
