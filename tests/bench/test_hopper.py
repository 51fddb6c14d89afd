"""What benchmarks/hopper.py asks for."""

from pathlib import Path

from benchmarks.hopper import VARIANTS, _once


def test_settings_are_numbers_and_types_for_the_kernels_cases() -> None:
    """A case divides by the size of a tile."""
    found = _once(VARIANTS["gemm_persistent.fp8_wide"], Path("build")).settings
    assert (found["BLOCK_M"], found["num_warps"], found["a"]) == (64, 4, "*fp8e4nv:16")
