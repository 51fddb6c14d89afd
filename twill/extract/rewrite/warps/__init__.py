"""Modules for the number of warps that their work takes."""
