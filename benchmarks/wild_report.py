"""The Markdown of `wild.py`: a part with counts and a row for each kernel, and its place in the report."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from measure import machine, table

PARTS = {"sm90": "# Kernels of other projects", "sm100": "## On Blackwell"}
"""The heading of each architecture's part of the report."""
HEAD = (
    *("kernel", "interval (lower bound)", "generated", "values", "PTX executed", "built"),
    "warnings, or what keeps it out",
)
BRIEF = ("kernel", "interval (lower bound)", "generated", "warnings, or what keeps it out")


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one kernel."""

    name: str
    interval: str = ""
    generated: str = ""
    values: str = ""
    executed: str = ""
    built: str = ""
    remarks: str = ""

    def cells(self, sources: Mapping[str, str]) -> tuple[str, ...]:
        return (
            sources.get(self.name, self.name),
            self.interval,
            self.generated,
            self.values,
            self.executed,
            self.built,
            self.remarks,
        )


# --- one part ---------------------------------------------------------------------------------------------


def in_short(
    rows: Sequence[Row], sources: Mapping[str, str], arch: str, limit: float, heading: str = ""
) -> str:
    """Markdown of --brief: counts, then a row for each kernel."""
    cells = [(sources.get(row.name, row.name), row.interval, row.generated, row.remarks) for row in rows]
    counts = [
        f"{sum(bool(row.generated) for row in rows)} kernels were tried",
        f"{sum(bool(row.interval) for row in rows)} have a schedule for every loop",
        f"{sum(row.generated == 'yes' for row in rows)} are generated",
    ]
    return "\n".join(
        [
            heading or PARTS[arch],
            "",
            f"Made by `python benchmarks/wild.py SNAPSHOTS --arch {arch} --brief`: {machine()}",
            f"{limit:g} s of search for each loop. Nothing is built or executed.",
            "",
            *(f"- {count}" for count in counts),
            "",
            *table(BRIEF, cells).splitlines(),
        ]
    )


def report(
    rows: Sequence[Row], sources: Mapping[str, str], arch: str, limit: float, heading: str = ""
) -> str:
    """Markdown: counts, then a row for each kernel."""
    return "\n".join(
        [
            heading or PARTS[arch],
            "",
            f"Made by `python benchmarks/wild.py SNAPSHOTS`: {machine()}",
            (
                f"{arch}a, {limit:g} s of search for each loop, no GPU: values are those of the warp programs"
                " on the CPU beside the TTGIR"
            ),
            (
                "executed as it stands, for one program of the grid. The kernels are not part of this"
                " repository."
            ),
            "",
            *(f"- {count}" for count in counts(rows)),
            "",
            *table(HEAD, [row.cells(sources) for row in rows]).splitlines(),
        ]
    )


def counts(rows: Sequence[Row]) -> tuple[str, ...]:
    """What the rows of a part come to; a kernel that was not done within its time counts as tried."""
    return (
        f"{len(rows)} kernels were tried",
        f"{sum(row.generated == 'yes' for row in rows)} are generated",
        f"{sum(row.values.startswith('right') for row in rows)} have values that were compared and are right",
        (
            f"{sum(row.executed.startswith('right') for row in rows)} were executed as PTX by the emulator,"
            " right and without hazards"
        ),
        f"{sum(row.built == 'yes' for row in rows)} are built by nvcc",
        (
            f"{sum('spilled' in row.remarks or 'serialized' in row.remarks for row in rows)} of these spill"
            " registers or serialize MMAs"
        ),
    )


# --- its place --------------------------------------------------------------------------------------------


def with_part(text: str, part: str) -> str:
    """A report with one part written anew: the first, or one that begins with a heading of the second
    level."""
    title, *_ = part.splitlines()
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE) if text else []
    at = next((i for i, old in enumerate(parts) if old.startswith(title + "\n")), None)
    if at is None:
        at = 0 if title.startswith("# ") else len(parts)
        parts.insert(at, "")
    parts[at] = part + "\n"
    return "\n".join(one.rstrip("\n") + "\n" for one in parts)


def without_rows(text: str, kernels: Iterable[str], section: str) -> str:
    """A report whose tables of `HEAD`, except that of `section`, have no rows of these kernels; the counts
    before such a table are made again from the rows that are left."""
    gone = frozenset(kernels)
    parts = re.split(r"^(?=##+ )", text, flags=re.MULTILINE)
    return "".join(part if part.startswith(section + "\n") else _thinned(part, gone) for part in parts)


def _thinned(part: str, gone: frozenset[str]) -> str:
    lines = part.splitlines(keepends=True)
    if _line(HEAD) not in lines:
        return part
    begin = lines.index(_line(HEAD)) + 2
    end = next((i for i in range(begin, len(lines)) if not lines[i].startswith("| ")), len(lines))
    left = [line for line in lines[begin:end] if _cells(line)[0] not in gone]
    if len(left) == end - begin:
        return part
    said = [i for i in range(begin) if lines[i].startswith("- ")]
    before = lines[: said[0]] if said else lines[: begin - 2]
    made = [f"- {count}\n" for count in counts([Row(*_cells(line)) for line in left])]
    return "".join([*before, *made, "\n", *lines[begin - 2 : begin], *left, *lines[end:]])


def _cells(line: str) -> list[str]:
    return line.removeprefix("| ").removesuffix(" |\n").split(" | ", len(HEAD) - 1)


def _line(head: Sequence[str]) -> str:
    return table(head, ()).splitlines(keepends=True)[0]
