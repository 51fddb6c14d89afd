"""Long chains of index arithmetic that no operation of the loop reads: work grows with their length alone."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from twill.emit import ttgir as annotated
from twill.extract.dependence.body import Body
from twill.inputs import Inputs, cases
from twill.pipeline import solve

GEMM = Path("examples/ttgir/gemm.sm90.ttgir")


def _chain(length: int, folder: Path) -> str:
    """The example with so many additions before its MMA."""
    head, mma, rest = GEMM.read_text().partition("      %acc_9 = ttng.warp_group_dot")
    names = ["%k", *(f"%link{i}" for i in range(length))]
    links = [f"      {new} = arith.addi {old}, %k : i32\n" for old, new in pairwise(names)]
    path = folder / f"chain{length}.ttgir"
    path.write_text(head + "".join(links) + mma + rest)
    return str(path)


def test_the_work_for_a_chain_is_linear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, reads, first = Counter[int](), Body.reads, annotated._first  # pyright: ignore[reportPrivateUsage]
    current = 0

    def counted_reads(self: Body, op: object) -> object:
        counts[current] += 1
        return reads(self, op)  # pyright: ignore[reportArgumentType]

    def counted_first(*near: object) -> object:
        counts[current] += 1
        return first(*near)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Body, "reads", counted_reads)
    monkeypatch.setattr(annotated, "_first", counted_first)
    for current in (200, 400, 800):
        (case,) = cases(Inputs(_chain(current, tmp_path), arch="sm90"))
        solution = solve(case.problem).solution
        assert solution is not None
        assert case.module is not None
        assert case.loop is not None
        assert case.graph is not None
        text = annotated.annotate(case.module, case.loop, case.graph, case.problem, solution)
        assert text.count("twill.start") > current
    assert counts[800] - counts[400] <= 2.2 * (counts[400] - counts[200])
