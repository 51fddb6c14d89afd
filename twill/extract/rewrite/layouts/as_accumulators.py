"""How threads hold tiles that may be held otherwise than they are laid out: as the accumulator of an MMA.

Takes a shape and a number of warps; gives a distribution.
"""

from twill.ir.distribution import Distribution, distribution
from twill.ir.loop import NvidiaMma

WARP_MMA, WARPGROUP_MMA = 2, 3
"""Major versions of the layouts of MMAs by one warp (mma.sync) and by four (wgmma)."""
ONE_WARP = NvidiaMma((WARP_MMA, 0), (1, 1), (16, 8))
"""As one warp does."""


def as_accumulator(shape: tuple[int, ...], warps: int) -> Distribution | None:
    """Warps go as far down the rows of a tile as these go."""
    if warps == 1:
        return distribution(ONE_WARP, shape)
    down = max(1, min(warps, shape[0] // 16))
    columns = max(8, shape[1] // (warps // down))
    return distribution(NvidiaMma((WARPGROUP_MMA, 0), (down, warps // down), (16, columns)), shape)
