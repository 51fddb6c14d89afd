# pyright: reportUnknownMemberType=false
"""Rules DEPENDENCE, UNITS, PINNED and the length: the rules of plain modulo scheduling."""

from itertools import combinations

from ortools.sat.python import cp_model

from twill.engine.anchor import anchor, fastened, foremost
from twill.ir.problem import Edge, Reservation, Time, Unit
from twill.modulo.bounds import work
from twill.smt.cpsat.variables import Variables, negate
from twill.smt.symmetry import Family, shifts


def state(v: Variables) -> None:
    """All timing rules."""
    dependences(v)
    for unit in v.problem.units:
        if not unit.aggregate:
            occupancy(v, unit)
        elif work(v.problem)[unit.name] > unit.capacity * v.interval:
            v.model.add_bool_or([])
    pins(v)
    span(v)


def dependences(v: Variables) -> None:
    """A consumer waits for its producer, `distance` iterations back; longer where they are in different
    groups."""
    for edge in v.problem.edges:
        src, dst = v.problem.index(edge.src), v.problem.index(edge.dst)
        gap = v.start[dst] + edge.distance * v.interval - v.start[src]
        same = v.same(src, dst)
        if same is True or edge.delay == edge.crossing:
            v.model.add(gap >= edge.delay)
        elif same is False:
            v.model.add(gap >= edge.crossing)
        else:
            _two_delays(v, edge, gap, same)


def _two_delays(v: Variables, edge: Edge, gap: cp_model.LinearExpr, same: cp_model.BoolVarT) -> None:
    low, high = sorted((edge.delay, edge.crossing))
    v.model.add(gap >= low)
    v.model.add(gap >= high).only_enforce_if(negate(same) if edge.crossing > edge.delay else same)


def occupancy(v: Variables, unit: Unit) -> None:
    """At every residue the unit's reservations fit its capacity."""
    uses = [
        (i, use)
        for i, op in enumerate(v.problem.operations)
        for use in op.reservations
        if use.unit == unit.name and use.cycles
    ]
    parts = [(part, use.amount) for i, use in uses for part in rectangles(v, i, use)]
    if unit.capacity == 1:
        v.model.add_no_overlap([interval for interval, _ in parts])
        _alternating(v, uses)
    elif parts:
        v.model.add_cumulative(
            [interval for interval, _ in parts], [amount for _, amount in parts], unit.capacity
        )
    for whole, amount in ((use.cycles // v.interval, use.amount) for _, use in uses):
        if whole * amount > unit.capacity:
            v.model.add_bool_or([])  # overlaps itself too often at this interval


def _alternating(v: Variables, uses: list[tuple[int, Reservation]]) -> None:
    """Implied, by the order literals that waits and registers share: of two reservations each starts when the
    other is over."""
    plain = [(op, use.cycles) for op, use in uses if use.offset == 0]
    for (a, long), (b, other) in combinations(plain, 2):
        v.pause()
        if a != b:
            gap = v.residue[b] - v.residue[a] + v.interval * v.before(v.residue[b], v.residue[a])
            v.model.add(gap >= long)
            v.model.add(gap <= v.interval - other)


def rectangles(v: Variables, op: int, use: Reservation) -> list[cp_model.IntervalVar]:
    """The reservation modulo I, twice: whole periods first, then the rest."""
    residue = v.residue[op] if use.offset == 0 else _shifted(v, op, use.offset)
    whole, rest = divmod(use.cycles, v.interval)
    full = [v.model.new_fixed_size_interval_var(0, 2 * v.interval, "") for _ in range(whole)]
    if rest == 0:
        return full
    ended = use.offset + use.cycles <= v.problem.operations[op].duration
    periods = (0,) if v.alone and ended else (0, 1)
    return full + [
        v.model.new_fixed_size_interval_var(residue + period * v.interval, rest, "") for period in periods
    ]


def _shifted(v: Variables, op: int, offset: int) -> cp_model.IntVar:
    """(r + offset) mod I."""
    shifted = v.model.new_int_var(0, v.interval - 1, "")
    wraps = v.model.new_int_var(0, 1, "")
    v.model.add(v.residue[op] + offset % v.interval == shifted + wraps * v.interval)
    return shifted


def pins(v: Variables) -> None:
    """Starts given from outside."""
    for op, start in v.problem.starts:
        if start > v.horizon:
            v.model.add_bool_or([])
        else:
            v.model.add(v.start[v.problem.index(op)] == start)


def shifted(v: Variables, families: tuple[Family, ...]) -> None:
    """Not a rule but a restriction: every part of a family is the first one, some time later."""
    for family in families:
        for part, shift in zip(family[1:], shifts(family, v.interval)[1:], strict=True):
            for op, first in zip(part, family[0], strict=True):
                v.model.add(v.start[op] == v.start[first] + shift)


def begun_at_once(v: Variables, parts: tuple[tuple[int, ...], ...]) -> None:
    """Not a rule but a restriction: each of these parts begins in the first period, and lasts a period less
    than all may."""
    for part in parts:
        first = v.model.new_int_var(0, v.interval - 1, "")
        v.model.add_min_equality(first, [v.start[op] for op in part])
        for op in part:
            end = v.start[op] + v.problem.operations[op].duration
            v.model.add(end <= first + (v.in_flight - 1) * v.interval)


def no_longer(v: Variables, longest: Time | None) -> None:
    """Not a rule but a restriction, on the length of one iteration."""
    if longest is not None:
        v.model.add(v.length <= longest)


def span(v: Variables) -> None:
    """All of one iteration lies in [first, first + length), at most in_flight * I long.

    Every rule is invariant under shifting all starts, so one operation may be put at residue 0, or at a
    constant.
    """
    for op, start in zip(v.problem.operations, v.start, strict=True):
        v.model.add(start >= v.first)
        v.model.add(start + op.duration <= v.first + v.length)
    if not v.problem.starts and not v.alone and v.problem.operations:
        op = counted_from(v)
        v.model.add(v.residue[op] == 0)
        if v.anchored:
            v.model.add(v.stage[op] == v.in_flight)


def counted_from(v: Variables) -> int:
    """The operation that is put at residue 0."""
    if v.to_improve:
        return foremost(v.problem)
    fixed = fastened(v.problem) if v.anchored else None
    return anchor(v.problem, v.interval) if fixed is None else fixed
