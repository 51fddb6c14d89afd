"""How long a launch takes, by its number of thread blocks and how many of them an SM holds.

Takes a `BlockPace`; gives predicted machine cycles, for one iteration of the kernel's loops. Blocks take
about as long as each other: they begin in waves, each as many as the SMs hold. The last wave has what is
left over, which goes to the SMs that are done first: on some of them as many as an SM holds, on others none.
Behind several waves blocks no longer begin together, and what is left over is spread evenly.
The launcher of a kernel chooses by the same formulas (`Form` in `targets/runtime/host.cuh`). (On an H200,
FlagGems' product of 2048 x 2048 x 2048 in 1024 blocks: 6 on an SM take 1.30 times as long as 8, which are one
wave, where 1.27 is predicted.)
"""

from collections.abc import Sequence
from math import ceil

from twill.ir.program import BlockPace
from twill.simulate.predict import overlapped

CLEARLY = 1.05
"""How many times as long a launch has to take in as many blocks on an SM as possible, for another number or
form to be chosen (estimate; `choose` in `host.cuh`)."""

DRIFTED = 4
"""Waves behind which blocks begin one by one (estimate; `Form::launch` in `host.cuh`). (On an H200, a grouped
product of SGLang, 17.7 blocks for each SM: by waves two on an SM are predicted to take 0.947 of the time of
four; 0.246 ms, 0.214 in four.)"""


def beside(pace: BlockPace, count: int) -> float:
    """Cycles of so many blocks that begin on an SM at the same time, or of one, which keeps its busiest unit
    waiting at times, too. (On an H200, one block in place of two or three, predicted 1.05 times as fast
    without that: FlagGems' product of float32, whose blocks keep that unit busy for 0.94 of their time, takes
    1.19 times as long, vLLM's fused MoE in tiles of 32 x 128, 0.90, 1.10 times.)"""
    return count * overlapped(pace.busy, pace.alone / count) if count else 0.0


def launch_time(pace: BlockPace, per_sm: float, blocks: int) -> float:
    """Cycles of a launch of so many thread blocks for each SM, of which an SM holds `blocks` at the same
    time."""
    waves, left = int(per_sm // blocks), per_sm % blocks
    last = beside(pace, min(blocks, ceil(left)))
    if not waves:
        return last
    wave = beside(pace, blocks)
    if waves >= DRIFTED:
        return per_sm / blocks * wave
    return waves * wave + ((last + wave) / 2 if left else 0.0)


def fastest(paces: Sequence[BlockPace], per_sm: float) -> tuple[float, int, int]:
    """Cycles of a launch, its form and how many of its blocks an SM holds: of the first form as many as
    it has, unless another choice is clearly faster."""
    first = launch_time(paces[0], per_sm, paces[0].blocks)
    tried = [
        (launch_time(pace, per_sm, blocks), form, blocks)
        for form, pace in enumerate(paces)
        for blocks in range(1, pace.blocks + 1)
    ]
    best = min(tried)
    return best if CLEARLY * best[0] < first else (first, 0, paces[0].blocks)
