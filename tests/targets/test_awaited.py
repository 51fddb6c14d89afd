"""Reads of tiles that TMA fills again are awaited before their slot is released, whatever else fills it."""

import re

from tests.kernels.programs import cuda


def test_tiles_that_tma_loads_beside_copies_are_awaited() -> None:
    """The group that computes copies one tile to a slot; TMA loads the other, or threads copy it, too."""
    by_tma, by_threads = re.split(r"\nleafed_kernel\(", cuda("leafed"))
    slots = set(re.findall(r"tma_load\((\w+)\.slot\(", by_tma))
    assert slots == set(re.findall(r"Filling::cp_async> (\w+)\{", by_tma))
    products = by_tma.count("warp_mma<")
    assert by_tma.count("await_reads(") == products > 0
    assert "await_reads(" not in by_threads
