"""Speeds of other projects' kernels on a GPU: the last measurement of every launch.

`reports/wild_speeds.json` has them by GPU, kernel and launch: the date, the largest relative error beside
Triton's results, and for those that are timed milliseconds of Twill's kernel and of Triton's. `part` makes
the part of reports/wild.md that shows them.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from measure import table

HEAD = ("kernel", "launch", "largest relative error", "ms", "Triton's ms", "speed", "measured")
METHOD = (
    "Made by `python benchmarks/wild_gpu.py report`: the last measurement of each launch of",
    "`benchmarks/launches`, with its date, kept in [wild_speeds.json](wild_speeds.json). Twill's kernel and",
    "Triton 3.9's own compilation of the same TTGIR (the faster of 3 and 4 stages) start from the same",
    "memory, and whatever either has written is compared. Times are medians of 9 rounds in random order",
    "with a flushed L2. Ragged launches are compared, not timed. A kernel's speed, Triton's time by Twill's,",
    "is the geometric mean of its timed launches.",
)
AIMS = (1, 0.95)
"""Speeds that are counted."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What came of a launch of both kernels."""

    date: str
    error: float
    """Norm of the difference by the norm, of the array that differs most."""
    wrong: bool = False
    ms: float | None = None
    triton_ms: float | None = None

    @property
    def speed(self) -> float | None:
        """Triton's time by Twill's."""
        return self.triton_ms / self.ms if self.ms and self.triton_ms else None


Speeds = dict[str, dict[str, Launch]]
"""By kernel and launch."""


def read(path: Path, gpu: str) -> Speeds:
    """What was measured on a GPU; nothing where there is no file."""
    found = _read(path)
    return {
        kernel: {launch: Launch(**facts) for launch, facts in launches.items()}
        for kernel, launches in found.get(gpu, {}).items()
    }


def write(path: Path, gpu: str, speeds: Speeds) -> None:
    """The file with the measurements of one GPU in place of those that it had."""
    found = _read(path)
    found[gpu] = {
        kernel: {launch: _facts(one) for launch, one in launches.items()}
        for kernel, launches in speeds.items()
    }
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _facts(one: Launch) -> dict[str, Any]:
    return {
        name: value for name, value in asdict(one).items() if value not in (None, False) or name == "error"
    }


def with_rows(speeds: Speeds, rows: Iterable[Mapping[str, Any]], date: str) -> Speeds:
    """With the rows of `wild_gpu.py measure` in the place of what was measured before; a launch that was
    refused leaves that as it is."""
    found = {kernel: dict(launches) for kernel, launches in speeds.items()}
    for row in rows:
        if not row.get("refused"):
            found.setdefault(row["name"], {})[row["case"]] = _launch(row, date)
    return found


def _launch(row: Mapping[str, Any], date: str) -> Launch:
    error = float(f"{max(row['errors'].values(), default=0.0):.0e}")
    if "ratio" not in row:
        return Launch(date, error, bool(row["wrong"]))
    theirs = min(ms for name, ms in row["ms"].items() if name != "twill")
    return Launch(date, error, bool(row["wrong"]), round(row["ms"]["twill"], 4), round(theirs, 4))


def of_kernels(speeds: Speeds) -> dict[str, float]:
    """The speed of each kernel with a timed launch: the geometric mean of these."""
    found = {
        kernel: [one.speed for one in launches.values() if one.speed is not None]
        for kernel, launches in speeds.items()
    }
    return {kernel: geometric_mean(timed) for kernel, timed in found.items() if timed}


def part(gpu: str, speeds: Speeds, listed: Container[str]) -> str:
    """Markdown of the report: counts of the kernels that are `listed` and of the others, then a row for each
    launch."""
    groups = {
        "The list": {name: launches for name, launches in speeds.items() if name in listed},
        "Others": {name: launches for name, launches in speeds.items() if name not in listed},
    }
    groups = {name: some for name, some in groups.items() if some}
    lines = [f"## On an {gpu}", "", *METHOD, "", *table(("", *groups), _counts(groups)).splitlines()]
    for name, some in groups.items():
        lines += ["", f"### {name} on an {gpu}", "", *table(HEAD, _rows(some)).splitlines()]
    return "\n".join(lines)


def _counts(groups: Mapping[str, Speeds]) -> list[tuple[str, ...]]:
    columns = [_column(speeds) for speeds in groups.values()]
    return [(what, *(column[what] for column in columns)) for what in columns[0]]


def _column(speeds: Speeds) -> dict[str, str]:
    launches = [one for all_of in speeds.values() for one in all_of.values()]
    by_kernel = of_kernels(speeds)
    slowest = min(by_kernel, key=by_kernel.__getitem__)
    return {
        "kernels that ran": str(len(speeds)),
        "launches": str(len(launches)),
        "launches with other results than Triton's": str(sum(one.wrong for one in launches)),
        "kernels that were timed": str(len(by_kernel)),
        "Triton's time by Twill's, geometric mean": f"{geometric_mean(by_kernel.values()):.2f}",
        "median": f"{median(by_kernel.values()):.2f}",
        **{
            f"kernels at {aim:g} or above": str(sum(round(one, 2) >= aim for one in by_kernel.values()))
            for aim in AIMS
        },
        "slowest": f"{by_kernel[slowest]:.2f} ({slowest})",
    }


def _rows(speeds: Speeds) -> Sequence[tuple[str, ...]]:
    return [
        (
            kernel,
            launch,
            f"{'wrong: ' if one.wrong else ''}{one.error:.0e}",
            *("" if ms is None else f"{ms:.3f}" for ms in (one.ms, one.triton_ms)),
            "" if one.speed is None else f"{one.speed:.2f}",
            one.date,
        )
        for kernel, launches in sorted(speeds.items())
        for launch, one in sorted(launches.items())
    ]
