# pyright: basic
"""Rules REGISTERS and THREADS: what each group holds at every residue, and how the register file is split.

What a group holds is largest where some value is born, so it is enough to look there. At the birth of one value, an instance k periods
old of another is still held if its range is longer than D + k * I, where D is how far the one is born behind the other modulo I: one
literal for every pair and k. Attention's forward loop is found 5 to 100 times sooner than with cumulative constraints over modular
intervals.
"""

from dataclasses import dataclass
from itertools import pairwise

from ortools.sat.python import cp_model

from twill.ir.problem import Use, Value
from twill.smt.cpsat import groups
from twill.smt.cpsat.variables import Literal, Variables, negate


@dataclass(frozen=True, slots=True)
class End:
    """The range lasts at least to `time` where `condition` holds."""

    time: cp_model.LinearExprT
    condition: Literal


@dataclass(frozen=True, slots=True)
class Held:
    """A value as one group holds it: from its birth at stage * I + residue to the latest of its ends."""

    name: str
    size: int
    stage: cp_model.IntVar
    residue: cp_model.IntVar
    ends: tuple[End, ...]
    on: tuple[Literal, ...]
    """on[g]: it is group g that holds it."""
    src: int | None
    """The producer whose group holds it; None for what another group holds."""


def state(v: Variables, used: list[Literal]) -> None:
    """Peaks under grants, grants under the register file, warps under the block's limit."""
    values = [value for value in v.problem.values if value.registers]
    top = _highest_peak(v, values)
    peaks = [v.model.new_int_var(0, top, f"peak[{g}]") for g in range(v.group_count)]
    held = [_home(v, value) for value in values if not value.resident]
    held += [item for value in values for g in range(v.group_count) if (item := _away(v, value, g))]
    resident = [_residents(v, values, g) for g in range(v.group_count)]
    for g, peak in enumerate(peaks):
        v.model.add(peak >= resident[g])
    for item in held:
        _at_birth(v, item, held, peaks, resident, top)
    _file(v, peaks, used)


def _highest_peak(v: Variables, values: list[Value]) -> int:
    """What a thread's limit leaves; a narrow group has no limit of its own, so all there is where one may hold values."""
    operation, limits = v.problem.operation, v.problem.limits
    if any(operation(op).warps == 1 for value in values for op in (value.src, *(use.op for use in value.uses))):
        return 2 * sum(value.registers for value in values) * (v.most_copies + 1)
    return max(0, limits.registers_per_thread - limits.register_base)


def _residents(v: Variables, values: list[Value], g: int) -> cp_model.LinearExpr:
    """What is updated in place round the loop takes its room at every residue."""
    kept = [value for value in values if value.resident]
    return cp_model.LinearExpr.sum([value.registers * v.on(v.problem.index(value.src), g) for value in kept])


def _home(v: Variables, value: Value) -> Held:
    """The producing group holds a value to its last use there, and through its latency if it is handed over."""
    src = v.problem.index(value.src)
    ends = [End(_end(v, use), v.same(src, v.problem.index(use.op))) for use in value.uses]
    handed = v.any_of([negate(end.condition) for end in ends], f"handed[{value.id}]")
    ends.append(End(v.start[src] + v.problem.operations[src].latency, handed))
    on = tuple(v.on(src, g) for g in range(v.group_count))
    live = tuple(end for end in ends if end.condition is not False)
    return Held(value.id, value.registers, v.stage[src], v.residue[src], live, on, src)


def _end(v: Variables, use: Use) -> cp_model.LinearExprT:
    return v.start[v.problem.index(use.op)] + use.distance * v.interval + use.hold


def _away(v: Variables, value: Value, g: int) -> Held | None:
    """Group g holds a value that another group produced from its first use there to the end of its last; None if that takes no time."""
    src = v.problem.index(value.src)
    users = [(use, v.problem.index(use.op)) for use in value.uses if v.same(src, v.problem.index(use.op)) is not True]
    if not users or (len(users) == 1 and users[0][0].hold == 0):
        return None
    here = [v.both(v.on(op, g), negate(v.on(src, g)), "") for _, op in users]
    begin = v.end_var(f"arrive[{value.id},{g}]")
    for (use, op), literal in zip(users, here, strict=True):
        v.when(v.model.add(begin <= v.start[op] + use.distance * v.interval), literal)
    ends = tuple(End(_end(v, use), literal) for (use, _), literal in zip(users, here, strict=True))
    present = v.any_of(here, f"away[{value.id},{g}]")
    on = tuple(present if group == g else False for group in range(v.group_count))
    return Held(f"{value.id}@{g}", value.registers, v.stage_of(begin), v.residue_of(begin), ends, on, None)


def _at_birth(
    v: Variables, born: Held, held: list[Held], peaks: list[cp_model.IntVar], resident: list[cp_model.LinearExpr], top: int
) -> None:
    """When `born` is, its group holds no more than its peak."""
    others = [(other, _together(v, born, other)) for other in held]
    counts = [(other.size, _alive(v, other, born, same, top)) for other, same in others if same is not False]
    total = cp_model.LinearExpr.sum([size * literal for size, literals in counts for literal in literals])
    for g, peak in enumerate(peaks):
        if born.on[g] is not False:
            v.when(v.model.add(total + resident[g] <= peak), born.on[g])


def _together(v: Variables, a: Held, b: Held) -> Literal:
    """One group holds both."""
    if a is b:
        return True
    if a.src is not None and b.src is not None:
        return v.same(a.src, b.src)
    shared = [v.both(x, y, "") for x, y in zip(a.on, b.on, strict=True) if x is not False and y is not False]
    return v.any_of(shared, "")


def _alive(v: Variables, other: Held, born: Held, same: Literal, top: int) -> list[Literal]:
    """Literal k: where one group holds both, the instance of `other` born k periods before its last is still held at `born`'s birth.

    More instances than the budget has room for are forbidden outright.
    """
    most = min(top // other.size, v.most_copies)
    literals: list[Literal] = [v.model.new_bool_var("") for _ in range(most)]
    for older, newer in pairwise(reversed(literals)):
        v.model.add_implication(older, newer)
    behind = born.residue + v.interval * (0 if other is born else v.before(born.residue, other.residue))
    for k in range(most + (most == top // other.size)):
        dead = [negate(literals[k])] if k < most else []
        for end in other.ends:
            over = v.model.add(end.time <= v.interval * other.stage + behind + k * v.interval)
            v.when(over, same, end.condition, *dead)
    return literals


def _file(v: Variables, peaks: list[cp_model.IntVar], used: list[Literal]) -> None:
    """Grants in register steps; the sum over wide groups and narrow warpgroups fits the register file, their warps the block."""
    limits, all_widths = v.problem.limits, groups.widths(v.problem)
    cost: list[cp_model.LinearExprT] = []
    warps: list[cp_model.LinearExprT] = []
    narrow: list[Literal] = []
    for g, peak in enumerate(peaks):
        grant = v.model.new_int_var(0, limits.registers_per_thread // limits.register_step, f"grant[{g}]")
        price = v.model.new_int_var(0, limits.registers_total, f"price[{g}]")
        width = v.model.new_int_var(0, max(all_widths, default=0), f"width[{g}]")
        wide = [(w, groups.wide(v, g, w)) for w in all_widths]
        is_wide = v.any_of([literal for _, literal in wide], f"wide[{g}]")
        v.when(v.model.add(grant * limits.register_step >= limits.register_base + peak), is_wide)
        for w, literal in wide:
            if literal is not False:
                v.when(v.model.add(price >= 32 * w * limits.register_step * grant), literal)
                v.when(v.model.add(width >= w), literal)
        cost.append(price)
        warps.append(width)
        narrow.append(v.both(used[g], negate(is_wide), f"narrow[{g}]"))
    warpgroups = v.model.new_int_var(0, -(-len(narrow) // 4), "narrow warpgroups")
    v.model.add(4 * warpgroups >= sum(narrow))
    v.model.add(cp_model.LinearExpr.sum(cost) + 128 * limits.narrow_registers * warpgroups <= limits.registers_total)
    v.model.add(cp_model.LinearExpr.sum(warps) + 4 * warpgroups <= limits.warps)
