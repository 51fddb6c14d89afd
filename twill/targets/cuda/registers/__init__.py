"""Tiles and vectors in registers: which thread has which element."""
