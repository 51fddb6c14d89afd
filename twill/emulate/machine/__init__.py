"""Warps, CTAs and clusters, and what they wait for."""
