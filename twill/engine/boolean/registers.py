"""Rules REGISTERS and THREADS: what each group holds at each residue, what it is granted, and that the
machine has it.

A grant is a chain of steps: grant[k] says that the group gets more than k * register_step registers per
thread. Groups of one warp are granted a fixed number and hold what they like.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twill.engine.boolean.formula import FALSE, TRUE, Addend, Formula, Literals
from twill.engine.boolean.groups import Groups
from twill.engine.boolean.ranges import Event, count, latest_span
from twill.engine.boolean.starts import Starts
from twill.ir.problem import Problem, Value


@dataclass(frozen=True, slots=True)
class Pool:
    """What the rules of this module share."""

    formula: Formula
    problem: Problem
    starts: Starts
    groups: Groups
    widths: tuple[int, ...]
    """Widths above one warp, narrowest first."""
    wide: tuple[tuple[int, ...], ...]
    """wide[g][i]: group g runs an operation at least widths[i] warps wide."""

    @property
    def steps(self) -> int:
        """Most register steps that a thread can be granted."""
        return self.problem.limits.registers_per_thread // self.problem.limits.register_step

    def broad(self, group: int) -> int:
        """The group is wider than one warp."""
        return self.wide[group][0] if self.widths else FALSE


def state(formula: Formula, problem: Problem, starts: Starts, groups: Groups) -> None:
    """Grants cover what is held; threads and registers suffice for all groups."""
    widths = tuple(sorted({op.warps for op in problem.operations if op.warps > 1}))
    wide = tuple(tuple(groups.widest(g, width) for width in widths) for g in range(groups.count))
    pool = Pool(formula, problem, starts, groups, widths, wide)
    narrow = _narrow_warpgroups(pool)
    _threads(pool, narrow)
    if widths:
        held = [_held(pool, value) for value in problem.values if value.registers]
        grants = [
            _grant(pool, g, [mine for one in held if (mine := one[g]).weights]) for g in range(groups.count)
        ]
        _total(pool, grants, narrow)


def _narrow_warpgroups(pool: Pool) -> Addend:
    """Warpgroups that the one-warp groups fill, four to one: a chain of weight 1 each."""
    formula, groups = pool.formula, pool.groups
    narrow = [formula.equivalent_all([groups.used(g), -pool.broad(g)]) for g in range(groups.count)]
    narrow = [literal for literal in narrow if literal != FALSE]
    taken = [formula.literal() for _ in range(-(-len(narrow) // 4))]
    for more, less in zip(taken[1:], taken, strict=False):
        formula.imply([more], less)
    free = [Addend((4,) * len(taken), tuple(-literal for literal in reversed(taken)))]
    formula.at_most([Addend((1,), (literal,)) for literal in narrow] + free, 4 * len(taken))
    return Addend((1,) * len(taken), tuple(taken))


def _scaled(addend: Addend, factor: int) -> Addend:
    return Addend(tuple(weight * factor for weight in addend.weights), addend.literals)


def _increments(widths: Sequence[int]) -> list[int]:
    """What each width adds to the next narrower one; a group of the narrowest starts from nothing."""
    return [width - below for below, width in zip((0, *widths), widths, strict=False)]


def _threads(pool: Pool, narrow: Addend) -> None:
    wide = [Addend(tuple(_increments(pool.widths)), row) for row in pool.wide]
    pool.formula.at_most([*wide, _scaled(narrow, 4)], pool.problem.limits.warps)


def _held(pool: Pool, value: Value) -> tuple[Addend, ...]:
    """Per group, the registers of the value's live instances that the group holds."""
    formula, starts, groups = pool.formula, pool.starts, pool.groups
    src = pool.problem.index(value.src)
    ends = _own_ends(pool, value)
    depth = 1 if value.resident else _depth(pool, value, latest_span(starts, [Event(src)], ends))
    own = tuple(formula.fresh(starts.interval) for _ in range(0 if value.resident else depth))
    count(formula, starts, [Event(src)], ends, own)
    return tuple(_held_by(pool, value, g, [TRUE] if value.resident else own) for g in range(groups.count))


def _held_by(pool: Pool, value: Value, g: int, own: Sequence[Literals]) -> Addend:
    """The value in group g: as its producer, or as a reader from the first to the last use there."""
    formula, starts, groups = pool.formula, pool.starts, pool.groups
    src = pool.problem.index(value.src)
    begins, ends = _uses_by(pool, value, g)
    depth = max(
        len(own) if groups.on(src, g) != FALSE else 0, _depth(pool, value, latest_span(starts, begins, ends))
    )
    lanes = tuple(formula.fresh(starts.interval) for _ in range(depth))
    for mine, lane in zip(own, lanes, strict=False):
        formula.imply([groups.on(src, g), _guard(pool, src, g), mine], lane)
    count(formula, starts, begins, ends, lanes)
    return Addend((value.registers,) * depth, lanes)


def _own_ends(pool: Pool, value: Value) -> list[Event]:
    """When the producing group may drop the value: after its own uses, and not before it has passed to
    another group."""
    src, period = pool.problem.index(value.src), pool.starts.interval
    users = [(use, pool.problem.index(use.op)) for use in value.uses]
    here = [Event(op, use.distance * period + use.hold, (pool.groups.same(src, op),)) for use, op in users]
    away = pool.formula.equivalent_any(sorted({-pool.groups.same(src, op) for _, op in users}))
    return [*here, Event(src, pool.problem.operations[src].latency, (away,))]


def _uses_by(pool: Pool, value: Value, g: int) -> tuple[list[Event], list[Event]]:
    """Begins and ends of the uses in group g where another group produces the value."""
    src, period = pool.problem.index(value.src), pool.starts.interval
    users = [
        (use, op, (pool.groups.on(op, g), -pool.groups.on(src, g), _guard(pool, op, g)))
        for use in value.uses
        for op in [pool.problem.index(use.op)]
    ]
    begins = [
        Event(op, use.distance * period, when) for use, op, when in users if pool.groups.same(src, op) != TRUE
    ]
    ends = [
        Event(op, use.distance * period + use.hold, when)
        for use, op, when in users
        if pool.groups.same(src, op) != TRUE
    ]
    return begins, ends


def _guard(pool: Pool, op: int, g: int) -> int:
    """Group g is wide, where running `op` does not say so already."""
    return TRUE if pool.problem.operations[op].warps > 1 else pool.broad(g)


def _depth(pool: Pool, value: Value, span: int) -> int:
    """Instances to count: as many as can be live, or one more than registers can hold."""
    most = pool.steps * pool.problem.limits.register_step // value.registers + 1
    return min(-(-span // pool.starts.interval), most)


def _grant(pool: Pool, g: int, held: Sequence[Addend]) -> tuple[int, ...]:
    """The steps that group g is granted: enough for the base and everything held, where the group is wide."""
    formula, limits = pool.formula, pool.problem.limits
    least = -(-limits.register_base // limits.register_step)
    grant = tuple(formula.literal() for _ in range(pool.steps))
    for more, less in zip(grant[1:], grant, strict=False):
        formula.imply([more], less)
    if least > pool.steps:
        formula.imply([pool.broad(g)], FALSE)
        return grant
    for step in grant[:least]:
        formula.imply([pool.broad(g)], step)
    kept_back = Addend((limits.register_step,) * pool.steps, tuple(-step for step in reversed(grant)))
    formula.at_most([*held, kept_back], limits.register_step * pool.steps - limits.register_base)
    return grant


def _total(pool: Pool, grants: Sequence[tuple[int, ...]], narrow: Addend) -> None:
    """32 threads a warp: the registers of all wide groups and narrow warpgroups together."""
    formula, limits = pool.formula, pool.problem.limits
    addends = [_scaled(narrow, 4 * 32 * limits.narrow_registers)]
    for wide, grant in zip(pool.wide, grants, strict=True):
        for extra, at_width in zip(_increments(pool.widths), wide, strict=True):
            paid = tuple(formula.equivalent_all([step, at_width]) for step in grant)
            addends.append(Addend((32 * extra * limits.register_step,) * len(paid), paid))
    formula.at_most(addends, limits.registers_total)
