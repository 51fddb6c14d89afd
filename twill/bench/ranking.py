"""The best configurations of a sweep on the GPU: how the predicted ranking held.

Takes built configurations of one kernel, best predicted first; gives a `Ranking`. All are measured on one
shape, in random order in each round, and their values are compared with the reference first. Needs PyTorch
and a GPU of their architecture.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import correlation

from twill.bench.case import Run, Shape
from twill.bench.contenders import field
from twill.bench.measure import Spread, times
from twill.bench.run import values
from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import from_text
from twill.inputs import Inputs
from twill.launch.load import load


@dataclass(frozen=True, slots=True)
class Built:
    """One configuration: its name, what it is made from, and the folder of its kernel."""

    key: str
    inputs: Inputs
    folder: Path


@dataclass(frozen=True, slots=True)
class Ranking:
    """The configurations in their predicted order, with their measured times in milliseconds."""

    shape: Shape
    times: tuple[tuple[str, Spread], ...]

    @property
    def order(self) -> tuple[int, ...]:
        """The measured rank of each, 1 for the fastest; the better prediction is first where times are
        equal."""
        fastest = sorted(range(len(self.times)), key=lambda at: self.times[at][1].median)
        return tuple(fastest.index(at) + 1 for at in range(len(self.times)))

    @property
    def correlation(self) -> float | None:
        """Spearman's rank correlation of prediction and measurement: 1 where the order held, -1 where it is
        reversed; None of fewer than two."""
        order = self.order
        return correlation(range(len(order)), order) if len(order) > 1 else None

    @property
    def loss(self) -> float:
        """How much slower the best predicted one is than the fastest: 0.03 is 3%."""
        return self.times[0][1].median / min(one.median for _, one in self.times) - 1


def measured(built: Sequence[Built], shape: Shape, rounds: int) -> Ranking:
    """Compare values, then measure. Without a shape, the last one that the kernel's file names. Raises
    TwillError where a value is wrong."""
    runs = dict[str, Run]()
    for one in built:
        arch, settings = one.inputs.arch or "sm90", from_text(dict(one.inputs.settings))
        lineup = field(one.inputs.spec, arch, settings, load(one.folder))
        shape = shape or {**lineup.bench.defaults, **lineup.bench.shapes[-1]}
        case = lineup.case(shape)
        try:
            values(lineup, case)
        except TwillError as problem:
            raise TwillError(f"{one.key}: {problem.message}", help=problem.help) from problem
        runs[one.key] = lineup.own(case)
    found: Mapping[str, Spread] = times(runs, rounds)
    return Ranking(shape, tuple((one.key, found[one.key]) for one in built))


def text(ranking: Ranking) -> str:
    """A row for each configuration, and what to make of the prediction."""
    shape = ", ".join(f"{name} = {size}" for name, size in ranking.shape.items())
    rows = [
        f"  predicted {at + 1}, measured {rank}: {one.median:.4f} ms ({one.low:.4f} to {one.high:.4f})  {key}"
        for at, (rank, (key, one)) in enumerate(zip(ranking.order, ranking.times, strict=True))
    ]
    held = "" if ranking.correlation is None else f"rank correlation {ranking.correlation:.2f}; "
    loss = f"the best predicted one is {ranking.loss:.1%} slower than the fastest"
    return "\n".join(
        [f"measured with {shape}", *rows, held + (loss if ranking.loss else "the best is first")]
    )


def table(ranking: Ranking) -> str:
    """The same as CSV, in the predicted order."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("configuration", "predicted", "measured", "ms", "ms_low", "ms_high"))
    for at, (rank, (key, one)) in enumerate(zip(ranking.order, ranking.times, strict=True)):
        writer.writerow((key, at + 1, rank, f"{one.median:.5f}", f"{one.low:.5f}", f"{one.high:.5f}"))
    return file.getvalue()
