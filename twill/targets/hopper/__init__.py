"""Hopper (sm_90a): wgmma, register fragments, waits."""
