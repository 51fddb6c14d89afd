"""What the warps of a kernel wait for, for each statement of the schedule: samples that Nsight Compute takes
of every warp's next instruction, followed through SASS and CUDA lines.

Takes the CSV of ncu's source page, the disassembly of the kernel (`nvdisasm -gi`) and its kernel.cu; gives a
`Profile`. A warp is sampled at regular times, so the part of a group's samples that a statement has is the
part of the time that the group spends there. Reasons are ncu's (Nsight Compute, "Warp Stall Reasons").
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from twill.diagnostics import TwillError

Part = Literal["steady", "other"]
"""Of a pipelined loop: its steady state, or anything else of the group."""
REASONS: Mapping[str, str] = {
    "barrier": "named barrier",
    "branch_resolving": "branch",
    "dispatch": "dispatch",
    "drain": "stores at the end",
    "gmma": "tensor core",
    "imc": "constant cache",
    "lg": "queue of global memory",
    "long_sb": "global memory or mbarrier",
    "math": "arithmetic pipe busy",
    "membar": "memory fence",
    "mio": "queue of shared memory",
    "misc": "other",
    "no_inst": "instruction cache",
    "not_selected": "another warp issues",
    "selected": "issues",
    "short_sb": "shared memory or MUFU",
    "sleep": "sleeps",
    "tex": "texture queue",
    "wait": "fixed latency",
}
"""In words, by ncu's name."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a group, as the CUDA has it."""

    group: int
    loop: str
    """The path of its loop; empty outside of loops."""
    part: Part
    line: int
    """Of its first line."""
    name: str
    """An operation of the schedule, or what is waited for: `consumer_wait x`, `wait 0` (MMAs)."""
    cycle: int | None
    """In the schedule."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A statement with its samples."""

    statement: Statement
    samples: int
    reasons: Mapping[str, int]
    """Samples by ncu's name of the reason."""


@dataclass(frozen=True, slots=True)
class Profile:
    """All samples of one launch."""

    kernel: str
    samples: int
    statements: tuple[Sampled, ...]
    """In the order of the CUDA, those that have samples."""

    def groups(self) -> tuple[int, ...]:
        return tuple(sorted({one.statement.group for one in self.statements}))

    def steady(self, group: int) -> tuple[Sampled, ...]:
        """Of a group's loops."""
        return tuple(
            one for one in self.statements if one.statement.group == group and one.statement.part == "steady"
        )

    def outside(self, group: int) -> float:
        """The part of a group's samples that is not in the steady state of a loop."""
        whole = sum(one.samples for one in self.statements if one.statement.group == group)
        return 1 - sum(one.samples for one in self.steady(group)) / whole if whole else 0.0


_GROUP = re.compile(r"^ *// ---- group (\d+): ")
_LOOP = re.compile(r"^ *// (\S+): \d+ stages, an iteration every \d+ cycles$")
_STEADY = re.compile(r"^( *)for \(int32_t i = .*; i < n; \+\+i\) \{$")
_OPERATION = re.compile(
    r"^ *// (?:cycle (?P<cycle>\d+), stage \d+: )?(?P<name>.+) \(\S+:\d+:\d+\)$"
    r"|^ *// (?:cycle (?P<at>\d+), stage \d+: )?(?P<stored>store \S+ to \S+)$"
)
_SYNCHRONIZING: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"channel_(\w+)\.(producer_acquire|consumer_wait|consumer_release)\("), r"{1} {0}"),
    (re.compile(r"wgmma_wait<(\d+)>"), "wait {0}"),
    (re.compile(r"(\w+)\.wait\("), "wait {0}"),
    (re.compile(r"named_barrier_sync\((\w+)"), "wait {0}"),
    (re.compile(r"tma_wait_read<\d+>"), "wait for stores"),
)


def statements(cuda: str) -> dict[int, Statement]:
    """The statement of each line of a kernel.cu that belongs to a group."""
    found, reader = dict[int, Statement](), _Reader()
    for number, line in enumerate(cuda.splitlines(), 1):
        statement = reader.read(number, line)
        if statement is not None:
            found[number] = statement
    return found


@dataclass(slots=True)
class _Reader:
    """Where in the text a line stands."""

    group: int | None = None
    loop: str = ""
    end: str | None = None
    """The line that ends the steady state."""
    entered: bool = False
    """The loop's steady state has begun; what follows it is its epilogue."""
    operation: tuple[str, int | None, int] = ("", None, 0)
    """Name, cycle and first line of the operation that lines belong to."""

    def read(self, number: int, line: str) -> Statement | None:
        if found := _GROUP.match(line):
            self.group, self.loop, self.end = int(found[1]), "", None
            self.operation = ("before and after loops", None, number)
        elif found := _LOOP.match(line):
            self.loop, self.entered, self.operation = found[1], False, ("bounds", None, number)
        elif found := _STEADY.match(line):
            self.end = None if self.entered else f"{found[1]}}}"
            self.entered, self.operation = True, ("loop", None, number)
        elif self.end == line:
            self.end = None
        elif found := _OPERATION.match(line):
            cycle, name = found["cycle"] or found["at"], found["name"] or found["stored"]
            self.operation = (name, int(cycle) if cycle else None, number)
        if self.group is None:
            return None
        name, cycle, first = self._synchronizing(line, number) or self.operation
        part: Part = "steady" if self.end else "other"
        return Statement(self.group, self.loop, part, first, name, cycle)

    def _synchronizing(self, line: str, number: int) -> tuple[str, None, int] | None:
        for pattern, form in _SYNCHRONIZING:
            if found := pattern.search(line):
                return form.format(*found.groups()), None, number
        return None


_SECTION = re.compile(r"^\.text\.(\S+):$")
_LINE = re.compile(r'//## File ".*kernel\.cu", line (\d+)')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/")


def lines(disassembly: str, kernel: str) -> dict[int, int]:
    """The line of kernel.cu by an instruction's offset, in bytes, in the kernel called so."""
    found, inside, line = dict[int, int](), False, 0
    for raw in disassembly.splitlines():
        if section := _SECTION.match(raw):
            inside = f"{len(kernel)}{kernel}" in section[1]
        elif place := _LINE.search(raw):
            line = int(place[1])
        elif inside and (instruction := _INSTRUCTION.match(raw)):
            found[int(instruction[1], 16)] = line
    return found


def profile(page: str, disassembly: str, cuda: str) -> Profile:
    """Of ncu's source page (`--page source --csv --print-source sass`). Raises TwillError for a page that is
    not of this kernel."""
    kernel, rows = _table(page)
    of_line, of_offset = statements(cuda), lines(disassembly, kernel)
    samples, reasons = Counter[Statement](), dict[Statement, Counter[str]]()
    total, base = 0, None
    for address, counts in rows:
        base = address if base is None else base
        taken = sum(counts.values())
        total += taken
        statement = of_line.get(of_offset.get(address - base, 0))
        if statement is not None and taken:
            samples[statement] += taken
            reasons.setdefault(statement, Counter()).update(counts)
    if total and not samples:
        raise TwillError(
            f"ncu's samples are of {kernel}, which is not the kernel that was built",
            help="build it again: twill codegen",
        )
    found = sorted(samples, key=lambda one: (one.line, one.group))
    return Profile(
        kernel, total, tuple(Sampled(one, samples[one], dict(reasons[one].most_common())) for one in found)
    )


def _table(page: str) -> tuple[str, Iterator[tuple[int, dict[str, int]]]]:
    """The kernel's name, and each instruction's address with its samples by reason."""
    text = list(csv.reader(line for line in page.splitlines() if line.startswith('"')))
    head = next((i for i, row in enumerate(text) if row[:2] == ["Address", "Source"]), None)
    if head is None:
        raise TwillError("ncu shows no source page", help="Nsight Compute 2022 or newer is needed")
    kernel = next((row[1] for row in text[:head] if row[0] == "Kernel Name"), "").partition("(")[0]
    return kernel, _rows(text[head], text[head + 1 :])


def _rows(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[tuple[int, dict[str, int]]]:
    columns = [
        (i, name.removeprefix("stall_"))
        for i, name in enumerate(names)
        if name.startswith("stall_") and "Not Issued" not in name
    ]
    for row in rows:
        counts = {name: int(row[i]) for i, name in columns if row[i].isdigit() and int(row[i])}
        yield int(row[0], 16), counts
