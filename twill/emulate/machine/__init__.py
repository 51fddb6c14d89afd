"""Warps, CTAs and clusters at work, and what they wait for."""
