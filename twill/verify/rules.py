"""The rules of `twill.ir.problem`, one function each, on concrete numbers.

Each takes `Numbers` and yields a `Violation` for every place where its rule is broken. `SINGLE` hold for any
schedule, `JOINT` for one with warp groups; memory, which also judges addresses, has a module of its own.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise

from twill.ir.problem import Edge, Operation, Problem, Reservation, Time, Unit
from twill.verify.numbers import LiveSpan, Numbers, Peak, held, peak
from twill.verify.violation import Violation

Rule = Callable[[Numbers], Iterator[Violation]]


def starts(n: Numbers) -> Iterator[Violation]:
    """START: no operation starts before 0."""
    for op, start in n.start.items():
        if start < 0:
            yield Violation("START", f"{op} starts at {start}", (op,), needs=0, has=start)


def dependences(n: Numbers) -> Iterator[Violation]:
    """DEPENDENCE: s(dst) + distance * I >= s(src) + the delay inside a group or between two."""
    for edge in n.problem.edges:
        crosses = n.group[edge.src] != n.group[edge.dst]
        delay = edge.crossing if crosses else edge.delay
        gap = n.start[edge.dst] + edge.distance * n.interval - n.start[edge.src]
        if gap < delay:
            where = "between groups" if crosses else "in one group"
            text = (
                f"{edge.dst} starts too early after {edge.src} ({edge.kind}, distance {edge.distance},"
                f" {where})"
            )
            yield Violation("DEPENDENCE", text, (edge.src, edge.dst), needs=delay, has=gap)


def units(n: Numbers) -> Iterator[Violation]:
    """UNITS: no residue of a unit is overbooked; of an aggregate one, no iteration."""
    for unit in n.problem.units:
        taken = [
            _span(op, reservation, n.start[op.id])
            for op in n.problem.operations
            for reservation in op.reservations
            if reservation.unit == unit.name
        ]
        yield from _total(unit, taken, n.interval) if unit.aggregate else _busiest(unit, taken, n.interval)


def _span(op: Operation, reservation: Reservation, start: Time) -> LiveSpan:
    begin = start + reservation.offset
    return LiveSpan(op.id, begin, begin + reservation.cycles, reservation.amount)


def _total(unit: Unit, taken: list[LiveSpan], interval: Time) -> Iterator[Violation]:
    total = sum(span.amount * (span.end - span.start) for span in taken)
    if total > unit.capacity * interval:
        yield Violation(
            "UNITS", f"{unit.name} is overbooked over an iteration", needs=total, has=unit.capacity * interval
        )


def _busiest(unit: Unit, taken: list[LiveSpan], interval: Time) -> Iterator[Violation]:
    top = peak(taken, interval)
    if top.amount > unit.capacity:
        text = f"{unit.name} is overbooked at residue {top.residue} by {', '.join(top.owners)}"
        yield Violation("UNITS", text, top.owners, needs=top.amount, has=unit.capacity)


def pinned(n: Numbers) -> Iterator[Violation]:
    """PINNED: these operations start exactly then."""
    for op, start in n.problem.starts:
        if n.start[op] != start:
            yield Violation(
                "PINNED", f"{op} does not start when it must", (op,), needs=start, has=n.start[op]
            )


def variable(n: Numbers) -> Iterator[Violation]:
    """VARIABLE: variable latency, and nothing else, in group 0."""
    for op in n.problem.operations:
        if op.variable != (n.group[op.id] == 0):
            what = (
                "has variable latency and is not in group 0"
                if op.variable
                else "is in group 0 without variable latency"
            )
            yield Violation("VARIABLE", f"{op.id} {what}", (op.id,))


def together(n: Numbers) -> Iterator[Violation]:
    """TOGETHER: each tuple in one group."""
    for ops in n.problem.together:
        for a, b in pairwise(ops):
            if n.group[a] != n.group[b]:
                yield Violation(
                    "TOGETHER", f"{a} is in group {n.group[a]}, {b} in group {n.group[b]}", (a, b)
                )


def apart(n: Numbers) -> Iterator[Violation]:
    """APART: the two in different groups."""
    for a, b in n.problem.apart:
        if n.group[a] == n.group[b]:
            yield Violation("APART", f"{a} and {b} are both in group {n.group[a]}", (a, b))


def concurrency(n: Numbers) -> Iterator[Violation]:
    """CONCURRENCY: while an operation waits, no other of its group is issuing."""
    by_residue = _by_residue(n)
    for v in _waiting(n):
        for other in _begun_before(n, by_residue[n.group[v]], n.start[v] % n.interval):
            gap = (n.start[v] - n.start[other.id]) % n.interval
            if other.id != v and gap < other.undivided:
                text = f"{v} waits while {other.id} of its group {n.group[v]} is issuing"
                yield Violation("CONCURRENCY", text, (v, other.id), needs=other.undivided, has=gap)


def _by_residue(n: Numbers) -> dict[int, list[tuple[Time, int, Operation]]]:
    """The operations of each group by their residues."""
    found: dict[int, list[tuple[Time, int, Operation]]] = {group: [] for group in n.group.values()}
    for i, op in enumerate(n.problem.operations):
        found[n.group[op.id]].append((n.start[op.id] % n.interval, i, op))
    return {group: sorted(ops, key=lambda one: one[:2]) for group, ops in found.items()}


def _begun_before(n: Numbers, ops: list[tuple[Time, int, Operation]], residue: Time) -> list[Operation]:
    """Those that begin less than the longest issue before a residue, in the order of the problem."""
    longest = max(op.issue for _, _, op in ops)
    low, high = residue - longest + 1, residue + 1
    near = ops if longest >= n.interval else []
    for shift in (0, n.interval) if not near else ():
        first, last = bisect_left(ops, (low + shift,)), bisect_left(ops, (high + shift,))
        near = near + ops[first:last]
    return [op for _, _, op in sorted(near, key=lambda one: one[1])]


def _waiting(n: Numbers) -> list[str]:
    """Operations that stop their group's issue until something is done."""
    return sorted({edge.dst for edge in n.problem.edges if _blocks(n, edge)})


def _blocks(n: Numbers, edge: Edge) -> bool:
    if n.group[edge.src] == n.group[edge.dst]:
        return edge.blocking
    return not n.problem.operation(edge.src).streaming


def groups(n: Numbers) -> Iterator[Violation]:
    """GROUPS: not more of them than the machine grants, the loads' included."""
    used, limit = set(n.group.values()), n.problem.limits.groups
    for group in sorted(g for g in used if g < 0):
        yield Violation("GROUPS", f"group {group} does not exist")
    if len(used) > limit:
        yield Violation("GROUPS", "too many groups", needs=len(used), has=limit)


def threads(n: Numbers) -> Iterator[Violation]:
    """THREADS: wide groups' warps and the warpgroups that narrow groups share fit the thread block."""
    wide = [w for w in widths(n).values() if w > 1]
    warps = sum(wide) + 4 * narrow_warpgroups(n)
    if warps > n.problem.limits.warps:
        yield Violation("THREADS", "too many warps", needs=warps, has=n.problem.limits.warps)


def widths(n: Numbers) -> dict[int, int]:
    """Warps of every used group: the widest operation in it."""
    width: dict[int, int] = {}
    for op in n.problem.operations:
        group = n.group[op.id]
        width[group] = max(width.get(group, 1), op.warps)
    return dict(sorted(width.items()))


def narrow_warpgroups(n: Numbers) -> int:
    """Warpgroups of four that the groups of one warp share."""
    return -(-sum(w == 1 for w in widths(n).values()) // 4)


def peaks(n: Numbers) -> dict[int, Peak]:
    """p(g) of every used group, with a residue where it is reached and the values held there."""
    spans: dict[int, list[LiveSpan]] = {group: [] for group in widths(n)}
    for value in n.problem.values:
        for group, start, end in held(n, value) if value.registers else ():
            spans[group].append(LiveSpan(value.id, start, end, value.registers))
    return {group: peak(held_there, n.interval) for group, held_there in spans.items()}


def granted(n: Numbers) -> dict[int, int]:
    """Registers per thread that every used group is granted."""
    limits, top = n.problem.limits, peaks(n)
    step = limits.register_step
    return {
        group: (
            limits.narrow_registers
            if width == 1
            else -(-(limits.register_base + top[group].amount) // step) * step
        )
        for group, width in widths(n).items()
    }


def registers(n: Numbers) -> Iterator[Violation]:
    """REGISTERS: each wide group's grant within a thread's limit, all of them within the SM's."""
    limits, grant, top = n.problem.limits, granted(n), peaks(n)
    wide = {group: width for group, width in widths(n).items() if width > 1}
    for group in wide:
        if grant[group] > limits.registers_per_thread:
            owners = top[group].owners
            text = f"group {group} holds {', '.join(owners) or 'nothing'} at residue {top[group].residue}"
            yield Violation(
                "REGISTERS", text, values=owners, needs=grant[group], has=limits.registers_per_thread
            )
    total = sum(
        32 * width * grant[group] for group, width in wide.items()
    ) + 32 * 4 * limits.narrow_registers * narrow_warpgroups(n)
    if total > limits.registers_total:
        yield Violation(
            "REGISTERS", "all groups together take too many", needs=total, has=limits.registers_total
        )


SINGLE: tuple[Rule, ...] = (starts, dependences, units, pinned)
JOINT: tuple[Rule, ...] = (variable, groups, threads, together, apart, concurrency, registers)


def channels(problem: Problem, group: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Cross-group channels: the distinct (source, group of the reader) over edges between groups, streaming
    sources left out."""
    of = dict(zip((op.id for op in problem.operations), group, strict=True))
    crossing = (edge for edge in problem.edges if of[edge.src] != of[edge.dst])
    return tuple(
        sorted({(edge.src, of[edge.dst]) for edge in crossing if not problem.operation(edge.src).streaming})
    )
