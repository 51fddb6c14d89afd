"""Special registers (PTX ISA, "Special Registers")."""

from collections.abc import Callable, Mapping

import numpy as np

from twill.emulate.machine.warp import LANES, Warp


def _thread(axis: int) -> Callable[[Warp], object]:
    def value(warp: Warp) -> object:
        x, y, _ = warp.cta.launch.block
        linear = warp.index * 32 + LANES
        return (linear % x, linear // x % y, linear // (x * y))[axis]

    return value


def _rank(warp: Warp) -> tuple[int, int, int]:
    return (
        warp.cta.index[0] % warp.cta.launch.cluster[0],
        warp.cta.index[1] % warp.cta.launch.cluster[1],
        warp.cta.index[2] % warp.cta.launch.cluster[2],
    )


def _clusters(warp: Warp, axis: int) -> int:
    return warp.cta.launch.grid[axis] // warp.cta.launch.cluster[axis]


def _axes(name: str, value: Callable[[int], Callable[[Warp], object]]) -> dict[str, Callable[[Warp], object]]:
    return {f"{name}.{axis}": value(i) for i, axis in enumerate("xyz")}


_ONE = np.uint64(1)

SPECIALS: Mapping[str, Callable[[Warp], object]] = {
    **_axes("%tid", _thread),
    **_axes("%ntid", lambda i: lambda warp: warp.cta.launch.block[i]),
    **_axes("%ctaid", lambda i: lambda warp: warp.cta.index[i]),
    **_axes("%nctaid", lambda i: lambda warp: warp.cta.launch.grid[i]),
    **_axes("%cluster_ctaid", lambda i: lambda warp: _rank(warp)[i]),
    **_axes("%cluster_nctaid", lambda i: lambda warp: warp.cta.launch.cluster[i]),
    **_axes("%clusterid", lambda i: lambda warp: warp.cta.index[i] // warp.cta.launch.cluster[i]),
    **_axes("%nclusterid", lambda i: lambda warp: _clusters(warp, i)),
    "%cluster_ctarank": lambda warp: warp.cta.rank,
    "%cluster_nctarank": lambda warp: len(warp.cta.cluster.ctas) if hasattr(warp.cta.cluster, "ctas") else 1,
    "%is_explicit_cluster": lambda warp: warp.cta.launch.cluster != (1, 1, 1),
    "%laneid": lambda warp: LANES,
    "%warpid": lambda warp: warp.index,
    "%nwarpid": lambda warp: 64,
    "%smid": lambda warp: (
        (warp.cta.index[0] + warp.cta.index[1] * 7 + warp.cta.index[2] * 31) % warp.cta.launch.processors
    ),
    "%nsmid": lambda warp: warp.cta.launch.processors,
    "%gridid": lambda warp: 0,
    "%lanemask_eq": lambda warp: _ONE << LANES.astype(np.uint64),
    "%lanemask_lt": lambda warp: (_ONE << LANES.astype(np.uint64)) - _ONE,
    "%lanemask_le": lambda warp: (_ONE << (LANES + 1).astype(np.uint64)) - _ONE,
    "%lanemask_gt": lambda warp: 0xFFFFFFFF & ~((1 << (LANES + 1)) - 1),
    "%lanemask_ge": lambda warp: 0xFFFFFFFF & ~((1 << LANES) - 1),
    "%dynamic_smem_size": lambda warp: warp.cta.launch.shared,
    "%total_smem_size": lambda warp: warp.cta.launch.shared + warp.code.shared,
    "%aggr_smem_size": lambda warp: warp.cta.launch.shared + warp.code.shared,
    "%clock": lambda warp: 0,
    "%clock_hi": lambda warp: 0,
    "%clock64": lambda warp: 0,
    "%globaltimer": lambda warp: 0,
    "%globaltimer_lo": lambda warp: 0,
    "%globaltimer_hi": lambda warp: 0,
}
"""Value of each for the lanes of a warp. Clocks are still: nothing here takes time."""
