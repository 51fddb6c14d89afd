"""Scans along an axis of tiles in registers: each thread goes along what it holds, lanes exchange the totals
of their segments by shuffles, and warps through the group's scratch buffer.

Takes a `tt.scan` with its operands in registers and the names of its results; gives C. The coordinate along
the axis is counted by bits of the register, lane and warp numbers (`Spread.counted`): lowest bit first, each
one joins two segments, the later one of which adds the total of the one before to all that it has. Results
of threads that hold the same elements are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from twill.ir.loop import Op, Tensor, Value
from twill.ops.axis import axis_of
from twill.ops.c import c_type
from twill.targets.cuda.registers.fragments import tile_room
from twill.targets.cuda.registers.linear_tiles import Point, Spread
from twill.targets.cuda.registers.register_tiles import cast, number
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.arithmetic import neutral
from twill.targets.cuda.values.tuples import combined


@dataclass(frozen=True, slots=True)
class Scan:
    """What the steps of a scan have in common."""

    op: Op
    form: Spread
    names: tuple[str, ...]
    """The results, an element in each register: what precedes it in its segment, and itself."""
    scratch: str
    group_barrier: str

    @property
    def reverse(self) -> bool:
        return bool(self.op.attributes.get("reverse"))

    @property
    def totals(self) -> tuple[str, ...]:
        return tuple(f"total{k}_" for k in range(len(self.names)))

    @property
    def before(self) -> tuple[str, ...]:
        """Totals of the segments that come before."""
        return tuple(f"before{k}_" for k in range(len(self.names)))

    def after(self, lanes: int) -> str:
        """Condition that a segment comes before this lane's, in one of these bits."""
        return f"({'~' if self.reverse else ''}thread.lane & {lanes}) != 0"

    def earlier(self, joined: int) -> list[str]:
        """What comes before the segment of register i_."""
        return [f"{name}[i_ & ~{joined}]" if joined else f"{name}[i_]" for name in self.before]

    def each(self, lines: Sequence[str], condition: str = "") -> list[str]:
        """For every register, or those for which the condition holds once the loop is unrolled."""
        head = f"for (int i_ = 0; i_ < {self.form.registers}; ++i_) {{"
        body = [f"if ({condition}) {{", *(f"    {line}" for line in lines), "}"] if condition else lines
        return [UNROLL, head, *(f"    {line}" for line in body), "}"]

    def of_segments(self, lines: Sequence[str], joined: int) -> list[str]:
        """For the first register of each segment, whose registers differ in the bits `joined`."""
        return self.each(lines, f"(i_ & {joined}) == 0" if joined else "")

    def join(self, into: Sequence[str], first: Sequence[str], second: Sequence[str]) -> list[str]:
        """The operation on numbers at two places."""
        found = zip(self.op.results, first, second, strict=True)
        one, other = list[str](), list[str]()
        for value, a, b in found:
            one.append(number(value.type, a))
            other.append(number(value.type, b))
        return combined(self.op, into, one, other)

    def arrays(self, names: Sequence[str]) -> list[str]:
        kinds = (c_type(value.type) for value in self.op.results)
        return [f"{kind} {name}[{self.form.registers}];" for kind, name in zip(kinds, names, strict=True)]


def lines(scan: Scan, elements: Sequence[str]) -> list[str]:
    """The whole scan into declared variables; `elements` are those of register i_."""
    steps = scan.form.counted(axis_of(scan.op))
    assert steps is not None
    own = [f"{name}[i_]" for name in scan.names]
    totals = [f"{name}[i_]" for name in scan.totals]
    results = zip(own, totals, scan.op.results, elements, strict=True)
    first = [f"{total} = {place} = {cast(v.type, text)};" for place, total, v, text in results]
    found, joined = [*scan.arrays(scan.totals), *scan.arrays(scan.before), *scan.each(first)], 0
    runs = [(kind, [bit for _, bit in run]) for kind, run in groupby(steps, lambda one: one[0])]
    for k, (kind, bits) in enumerate(runs):
        last, done = k == len(runs) - 1, sum(len(run) for _, run in runs[:k])
        match kind:
            case "register":
                for bit in bits:
                    found += _register(scan, 1 << bit, joined, last=last and bit == bits[-1])
                    joined |= 1 << bit
            case "lane":
                found += _lanes(scan, bits, joined, last=last)
            case _:
                found += _warps(scan, bits, done, joined, last=last)
    return ["{", *(f"    {line}" for line in found), "}"]


def _register(scan: Scan, bit: int, joined: int, *, last: bool) -> list[str]:
    """Segments in two registers of a thread."""
    later = 0 if scan.reverse else bit
    earlier = f"(i_ & ~{joined | bit})" if later else f"(i_ & ~{joined} | {bit})"
    own = [f"{name}[i_]" for name in scan.names]
    before = [f"{name}[{earlier}]" for name in scan.totals]
    found = scan.each(scan.join(own, before, own), f"(i_ & {bit}) == {later}")
    low, high = ([f"{name}[{at}]" for name in scan.totals] for at in ("i_", f"i_ | {bit}"))
    ordered = (high, low) if scan.reverse else (low, high)
    return found if last else [*found, *scan.of_segments(scan.join(low, *ordered), joined | bit)]


def _lanes(scan: Scan, bits: Sequence[int], joined: int, *, last: bool) -> list[str]:
    """Segments in several lanes: what comes before is joined bit by bit, and added at the end."""
    totals, before = ([f"{name}[i_]" for name in names] for names in (scan.totals, scan.before))
    theirs = [f"theirs{k}_" for k in range(len(totals))]
    passed = list(zip(scan.op.results, theirs, totals, strict=True))
    taken = [f"{one} = {other};" for one, other in zip(before, theirs, strict=True)]
    found, seen = list[str](), 0
    for bit in bits:
        apart = 1 << bit
        lines = [f"const {c_type(v.type)} {t} = __shfl_xor_sync(~0u, {m}, {apart});" for v, t, m in passed]
        joining = [f"    {line}" for line in scan.join(before, theirs, before)]
        if seen:
            lines += [f"if ({scan.after(apart)}) {{", f"    if ({scan.after(seen)}) {{"]
            lines += [*(f"    {line}" for line in joining), f"    }} else {{ {' '.join(taken)} }}", "}"]
        else:
            lines += taken
        if not (last and bit == bits[-1]):
            lines += scan.join(totals, *_ordered(scan, totals, theirs, scan.after(apart)))
        found += scan.of_segments(lines, joined)
        seen |= apart
    own = [f"{name}[i_]" for name in scan.names]
    return [*found, *scan.each(scan.join(own, scan.earlier(joined), own), scan.after(seen))]


def _ordered(
    scan: Scan, mine: Sequence[str], theirs: Sequence[str], after: str
) -> tuple[Sequence[str], Sequence[str]]:
    """The totals of two segments, that which comes first first; either, where it does not matter."""
    block = scan.op.regions[0].blocks[0]
    if len(block.ops) == 2 and neutral(block.ops[0]) is not None:
        return mine, theirs
    pairs = list(zip(mine, theirs, strict=True))
    return [f"({after} ? {other} : {own})" for own, other in pairs], [
        f"({after} ? {own} : {other})" for own, other in pairs
    ]


def _warps(scan: Scan, bits: Sequence[int], done: int, joined: int, *, last: bool) -> list[str]:
    """Segments in several warps, one for each value of these bits of their numbers; `done` bits of the
    coordinate lie within them."""
    count, mine = 1 << len(bits), _number(bits)
    here = _places(scan, done, done + len(bits))

    def in_order(step: str) -> str:
        """The warp that comes at a step, or the step of a warp."""
        return f"({count - 1} - {step})" if scan.reverse else step

    totals, before = ([f"{name}[i_]" for name in names] for names in (scan.totals, scan.before))
    put = [f"{one(mine)} = {total};" for one, total in zip(here, totals, strict=True)]
    begin = [f"{total} = {one(in_order('0'))};" for one, total in zip(here, totals, strict=True)]
    other = [one(in_order("step_")) for one in here]
    keep = " ".join(f"{one} = {total};" for one, total in zip(before, totals, strict=True))
    along = [
        *begin,
        f"for (int step_ = 1; step_ < {count}; ++step_) {{",
        f"    if (step_ == {in_order(mine)}) {{ {keep} }}",
        *(f"    {line}" for line in scan.join(totals, totals, other)),
        "}",
    ]
    own = [f"{name}[i_]" for name in scan.names]
    return [
        scan.group_barrier,
        *scan.of_segments(put, joined),
        scan.group_barrier,
        *scan.of_segments(along, joined),
        *scan.each(scan.join(own, scan.earlier(joined), own), f"{in_order(mine)} != 0"),
        *([] if last else [scan.group_barrier]),
    ]


def _places(scan: Scan, low: int, high: int) -> list[Callable[[str], str]]:
    """Where the total of a segment of a warp is, for each operand: `low` bits of the coordinate lie within a
    segment, those up to `high` are the warp's."""
    axis, shape = axis_of(scan.op), scan.form.shape
    place, stride = _without(scan.form, axis, high).flat(), (1 << low) * prod(shape[axis + 1 :])
    found, used = list[Callable[[str], str]](), 0
    for value in scan.op.operands:
        found.append(_at(f"{scan.scratch} + {used}" if used else scan.scratch, place, stride, value))
        used += tile_room(value)
    return found


def _at(scratch: str, place: str, stride: int, value: Value) -> Callable[[str], str]:
    assert isinstance(value.type, Tensor)
    kind = c_type(value.type)
    return lambda warp: f"shared_at<{kind}>({scratch} + ({place} + {warp} * {stride}) * sizeof({kind}))"


def _number(bits: Sequence[int]) -> str:
    found = " + ".join(f"(thread.warp >> {bit} & 1) * {1 << k}" for k, bit in enumerate(bits))
    return f"({found})"


def _without(form: Spread, axis: int, bits: int) -> Point:
    """The element, with so many of the lowest bits of its coordinate along the axis zero."""

    def cleared(vector: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(at >> bits << bits if d == axis else at for d, at in enumerate(vector))

    return form.point().map(form.shape, cleared)
