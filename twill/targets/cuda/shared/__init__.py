"""Tiles in shared memory: where their elements lie, and how threads write and exchange them there."""
