"""Blackwell (sm_100a): tcgen05.mma on accumulators in tensor memory, completed by mbarriers.

Nothing is generated for it yet. The runtime header `tcgen05.cuh` has its instructions, `ir.program` its
operand locations (`TensorMemory`), completions (`MbarrierArrival`) and channels filled by MMAs.
"""

from twill.diagnostics import TwillError
from twill.warp.target import Target


def target() -> Target:
    """Raises TwillError."""
    raise TwillError("warp programs are made for sm90 (Hopper) alone")
