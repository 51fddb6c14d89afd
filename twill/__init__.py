"""Twill: optimal software pipelining and warp specialization for Tensor Core loops."""
