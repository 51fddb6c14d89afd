# pyright: reportUnknownMemberType=false
"""Rules REGISTERS and THREADS: what each group holds at every residue, and how the register file is split.

What a group holds is largest where it takes something up: at the start of an operation that makes a value or
reads one, so it is enough to count there. When operation `at` starts, an instance of a value that began D
before (modulo I) and k periods more is still held if its range is longer than D + k * I. So the number n of
instances held then satisfies n * I >= (length of the range) - D, one inequality for every range that the
value may have in `at`'s group: from its birth to each of its uses there where that group makes it, between
any two of its uses there where another does. Attention's forward loop is found 5 to 100 times sooner than
with cumulative constraints over modular intervals.
"""

from dataclasses import dataclass
from itertools import chain

from ortools.sat.python import cp_model

from twill.ir.problem import Use, Value
from twill.smt.cpsat import groups
from twill.smt.cpsat.variables import Literal, Variables, negate


@dataclass(frozen=True, slots=True)
class Range:
    """From the start of operation `begin`, in some iteration, to some end, where all of `conditions` hold."""

    begin: int
    length: cp_model.LinearExprT
    """From the beginning of the period in which `begin` starts."""
    conditions: tuple[Literal, ...]
    readers: tuple[int, ...] = ()
    """Operations that share the group, which did not make the value; none where the group made it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A value with all ranges for which some group may hold it."""

    id: str
    src: int
    size: int
    resident: bool
    ranges: tuple[Range, ...]


def state(v: Variables, used: list[Literal]) -> None:
    """Peaks under grants, grants under the register file, warps under the block's limit."""
    limits = v.problem.limits
    most = limits.registers_per_thread // limits.register_step * limits.register_step - limits.register_base
    peaks = [v.model.new_int_var(0, max(0, most), f"peak[{g}]") for g in range(v.group_count)]
    wide = [[(w, groups.wide(v, g, w)) for w in groups.widths(v.problem)] for g in range(v.group_count)]
    broad = [v.any_of([literal for _, literal in row], f"wide[{g}]") for g, row in enumerate(wide)]
    held = [_held(v, value) for value in v.problem.values if value.registers]
    for at in _takers(v, held):
        v.pause()
        _at_start(v, at, held, peaks, broad, max(0, most))
    _file(v, peaks, used, wide, broad)


def _held(v: Variables, value: Value) -> Held:
    """The producing group holds a value to its last use there, and through its latency if it is handed over;
    any other that reads it, from its first use there to its last."""
    src, users = v.problem.index(value.src), [(use, v.problem.index(use.op)) for use in value.uses]
    ranges = [] if value.resident else _own(v, value, src, users)
    away = [(use, op) for use, op in users if v.same(src, op) is not True]
    for first, begin in away:
        for last, op in away:
            if (first, begin) != (last, op) or first.hold:
                later = (last.distance - first.distance) * v.interval + last.hold
                ranges.append(
                    Range(begin, v.start[op] - v.interval * v.stage[begin] + later, (), (begin, op))
                )
    return Held(value.id, src, value.registers, value.resident, tuple(ranges))


def _own(v: Variables, value: Value, src: int, users: list[tuple[Use, int]]) -> list[Range]:
    before = v.interval * v.stage[src]
    uses = [
        Range(src, v.start[op] - before + (use.distance * v.interval + use.hold), (v.same(src, op),))
        for use, op in users
    ]
    handed = v.any_of([negate(v.same(src, op)) for _, op in users], f"handed[{value.id}]")
    return [*uses, Range(src, v.residue[src] + v.problem.operations[src].latency, (handed,))]


def _takers(v: Variables, held: list[Held]) -> list[int]:
    """Operations that may begin to hold a value in a group of more than one warp: what one warp holds is not
    limited."""
    operations = v.problem.operations
    kinds = {op.variable for op in operations if op.warps > 1}
    begins = {one.begin for value in held for one in value.ranges} | {value.src for value in held}
    return sorted(op for op in begins if operations[op].variable in kinds)


def _at_start(
    v: Variables, at: int, held: list[Held], peaks: list[cp_model.IntVar], broad: list[Literal], most: int
) -> None:
    """When `at` starts, its group, if not of one warp, holds no more than its peak."""
    wide = v.problem.operations[at].warps > 1
    counts = [
        (value.size, _instances(v, at, value, most // value.size if wide else v.most_instances))
        for value in held
    ]
    kept = [(value.size, v.same(value.src, at)) for value in held if value.resident]
    total = cp_model.LinearExpr.sum([size * count for size, count in counts + kept])
    for g, peak in enumerate(peaks):
        v.when(v.model.add(total <= peak), v.on(at, g), True if wide else broad[g])


def _instances(v: Variables, at: int, value: Held, most: int) -> cp_model.IntVar | int:
    """At least how many instances of the value `at`'s group holds when `at` starts, those updated in place
    left out."""
    here = v.same(value.src, at)
    ranges = [
        (one, conditions) for one in value.ranges if (conditions := _conditions(v, at, one, here)) is not None
    ]
    if not ranges:
        return 0
    count = v.model.new_int_var(0, min(most, v.most_instances), f"held[{value.id},{at}]")
    for one, conditions in ranges:
        gone = v.interval * (count + v.before(v.residue[at], v.residue[one.begin])) + v.residue[at]
        v.when(v.model.add(gone >= one.length), *conditions)
    return count


def _conditions(v: Variables, at: int, one: Range, here: Literal) -> list[Literal] | None:
    """When the group of `at` may hold the value for this range; None for never."""
    away = chain((negate(here),), (v.same(op, at) for op in dict.fromkeys(one.readers)))
    found: list[Literal] = []
    for literal in away if one.readers else (here, *one.conditions):
        if literal is False:
            return None
        found.append(literal)
    return found


def _file(
    v: Variables,
    peaks: list[cp_model.IntVar],
    used: list[Literal],
    wide: list[list[tuple[int, Literal]]],
    broad: list[Literal],
) -> None:
    """Grants in register steps; the sum over wide groups and narrow warpgroups fits the register file, their
    warps the block."""
    limits = v.problem.limits
    cost: list[cp_model.LinearExprT] = []
    warps: list[cp_model.LinearExprT] = []
    for g, peak in enumerate(peaks):
        grant = v.model.new_int_var(0, limits.registers_per_thread // limits.register_step, f"grant[{g}]")
        granted = v.model.new_int_var(0, limits.registers_total, f"granted[{g}]")
        width = v.model.new_int_var(0, max((w for w, _ in wide[g]), default=0), f"width[{g}]")
        v.when(v.model.add(grant * limits.register_step >= limits.register_base + peak), broad[g])
        for w, literal in wide[g]:
            if literal is not False:
                v.when(v.model.add(granted >= 32 * w * limits.register_step * grant), literal)
                v.when(v.model.add(width >= w), literal)
        cost.append(granted)
        warps.append(width)
    narrow = [
        v.both(mine, negate(is_wide), f"narrow[{g}]")
        for g, (mine, is_wide) in enumerate(zip(used, broad, strict=True))
    ]
    warpgroups = v.model.new_int_var(0, -(-len(narrow) // 4), "narrow warpgroups")
    v.model.add(4 * warpgroups >= sum(narrow))
    v.model.add(
        cp_model.LinearExpr.sum(cost) + 128 * limits.narrow_registers * warpgroups <= limits.registers_total
    )
    v.model.add(cp_model.LinearExpr.sum(warps) + 4 * warpgroups <= limits.warps)
