"""Runs a schedule: every instance of every operation, tick by tick, for as many iterations as a steady state
needs.

An implementation of the rules that shares no code and no arithmetic with `twill.verify`: nothing is taken
modulo the interval.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from twill.ir.problem import Problem, Use, Value
from twill.ir.schedule import Solution


class Run:
    """A schedule in full swing: iterations 0..`count` of which ticks [`begin`, `end`) see no start-up and no
    end."""

    def __init__(self, problem: Problem, solution: Solution) -> None:
        self.problem, self.solution, self.interval = problem, solution, solution.interval
        self.s = {op.id: start for op, start in zip(problem.operations, solution.start, strict=True)}
        self.g = {op.id: group for op, group in zip(problem.operations, solution.group, strict=True)}
        furthest = (
            max(use.distance for value in problem.values for use in (*value.uses, Use("", 0)))
            if problem.values
            else 0
        )
        last = max([self.s[op.id] + op.duration + op.issue + 5 for op in problem.operations]) + self.interval
        warm = last // self.interval + furthest + 2
        self.begin = warm * self.interval
        self.end = self.begin + (warm + 4) * self.interval
        self.count = 2 * warm + 6

    def instances(self, op: str) -> Iterator[tuple[int, int]]:
        return ((k, self.s[op] + k * self.interval) for k in range(self.count))

    def seen(self, start: int, end: int) -> range:
        return range(max(start, self.begin), min(end, self.end))

    def reads(self, value: Value) -> Iterator[tuple[int, int, int]]:
        """(group, begin, end) of every use of instance 0."""
        for use in value.uses:
            begin = self.s[use.op] + use.distance * self.interval
            yield self.g[use.op], begin, begin + use.hold


def broken(problem: Problem, solution: Solution, *, joint: bool = True) -> set[str]:
    """The names of the rules that the schedule breaks."""
    run = Run(problem, solution)
    found = {"START" for start in solution.start if start < 0}
    found |= {"PINNED" for op, start in problem.starts if run.s[op] != start}
    found |= set(_dependences(run)) | set(_units(run))
    if joint:
        found |= set(_groups(run)) | set(_concurrency(run)) | set(_registers(run)) | set(_memory(run))
    return found


def _dependences(run: Run) -> Iterator[str]:
    for e in run.problem.edges:
        delay = e.cross_delay if run.g[e.src] != run.g[e.dst] and e.cross_delay is not None else e.delay
        for k, start in run.instances(e.src):
            if run.s[e.dst] + (k + e.distance) * run.interval < start + delay:
                yield "DEPENDENCE"


def _units(run: Run) -> Iterator[str]:
    for unit in run.problem.units:
        load: Counter[int] = Counter()
        for op in run.problem.operations:
            for r in op.reservations:
                for _, start in run.instances(op.id):
                    if r.unit == unit.name:
                        load.update(
                            dict.fromkeys(run.seen(start + r.offset, start + r.offset + r.cycles), r.amount)
                        )
        period = sum(load[tick] for tick in range(run.begin, run.begin + run.interval))
        if (
            period > unit.capacity * run.interval
            if unit.aggregate
            else any(amount > unit.capacity for amount in load.values())
        ):
            yield "UNITS"


def _groups(run: Run) -> Iterator[str]:
    p, g, limits = run.problem, run.g, run.problem.limits
    if any((g[op.id] == 0) is not op.variable for op in p.operations):
        yield "VARIABLE"
    if any(g[a] != g[ops[0]] for ops in p.together for a in ops):
        yield "TOGETHER"
    if any(g[a] == g[b] for a, b in p.apart):
        yield "APART"
    widths, stated = _widths(run), run.solution.groups
    used = sorted(widths)
    if (
        len(used) > limits.groups
        or used[0] < 0
        or sorted(x.id for x in stated) != used
        or any(widths[x.id] != x.warps for x in stated)
    ):
        yield "GROUPS"
    wide, narrow = [w for w in widths.values() if w != 1], [w for w in widths.values() if w == 1]
    if sum(wide) + 4 * ((len(narrow) + 3) // 4) > limits.warps:
        yield "THREADS"


def _widths(run: Run) -> dict[int, int]:
    widths: dict[int, int] = defaultdict(int)
    for op in run.problem.operations:
        widths[run.g[op.id]] = max(widths[run.g[op.id]], op.warps)
    return widths


def _concurrency(run: Run) -> Iterator[str]:
    waits: set[str] = set()
    for e in run.problem.edges:
        if (run.g[e.src] == run.g[e.dst] and e.blocking) or (
            run.g[e.src] != run.g[e.dst] and not run.problem.operation(e.src).streaming
        ):
            waits.add(e.dst)
    for op in run.problem.operations:
        issuing = {tick for _, start in run.instances(op.id) for tick in run.seen(start, start + op.issue)}
        for v in waits - {op.id}:
            if run.g[v] == run.g[op.id] and any(start in issuing for _, start in run.instances(v)):
                yield "CONCURRENCY"


def _registers(run: Run) -> Iterator[str]:
    limits, grants, widths = run.problem.limits, _grants(run), _widths(run)
    narrow = [group for group, warps in widths.items() if warps == 1]
    total = sum(32 * warps * grants[group] for group, warps in widths.items() if warps > 1)
    if total + (len(narrow) + 3) // 4 * 128 * limits.narrow_registers > limits.registers_total:
        yield "REGISTERS"
    if any(grants[group] > limits.registers_per_thread for group in widths if group not in narrow):
        yield "REGISTERS"
    for x in run.solution.groups:
        if x.warps == widths.get(x.id) and x.registers != (
            limits.narrow_registers if x.id in narrow else grants[x.id]
        ):
            yield "REGISTERS"


def _grants(run: Run) -> dict[int, int]:
    """What every group would be granted as a wide one."""
    held: Counter[tuple[int, int]] = Counter()
    for value in run.problem.values:
        for group, first, last in _holds(run, value):
            for k in range(run.count):
                for tick in run.seen(first + k * run.interval, last + k * run.interval):
                    held[group, tick] += value.registers
    limits = run.problem.limits
    least = {
        group: limits.register_base + max(held[group, tick] for tick in range(run.begin, run.end))
        for group in _widths(run)
    }
    return {group: registers + -registers % limits.register_step for group, registers in least.items()}


def _holds(run: Run, value: Value) -> Iterator[tuple[int, int, int]]:
    home, born = run.g[value.src], run.s[value.src]
    reads = list(run.reads(value))
    away = {group for group, _, _ in reads if group != home}
    until = max([born, *(end for group, _, end in reads if group == home)])
    if away:
        until = max(until, born + run.problem.operation(value.src).latency)
    yield home, born, born + run.interval if value.resident else until
    for group in away:
        yield group, min(b for g, b, _ in reads if g == group), max(e for g, _, e in reads if g == group)


Item = tuple[str, bool, int, int, int, int, bool]
"""(value, staging, size, first, last, slots, own) of something that takes room."""


def _memory(run: Run) -> Iterator[str]:
    for memory, capacity in (("shared", run.problem.limits.shared), ("tensor", run.problem.limits.tensor)):
        wanted = [item for value in run.problem.values for item in _items(run, value, memory)]
        places = [p for p in run.solution.allocations if p.memory == memory]
        claimed = sorted((p.value, p.staging, p.size, p.slots) for p in places)
        needed = sorted((value, staging, size, slots) for value, staging, size, _, _, slots, _ in wanted)
        outside = any(p.address < 0 or p.address + p.size * p.slots > capacity for p in places)
        if (
            claimed != needed
            or outside
            or _clashes(run, wanted, {(p.value, p.staging): p.address for p in places})
        ):
            yield memory.upper()


def _clashes(run: Run, wanted: list[Item], address: dict[tuple[str, bool], int]) -> bool:
    """Bytes or columns one by one: whose alone each is, and who is on it at each tick."""
    owner: dict[int, str] = {}
    for value, staging, size, _, _, slots, own in sorted(wanted, key=lambda item: not item[-1]):
        for cell in range(address[value, staging], address[value, staging] + size * slots):
            name = f"{value} {staging}"
            if owner.get(cell, name) != name:
                return True
            if own:
                owner[cell] = name
    return _meet(run, wanted, address)


def _meet(run: Run, wanted: list[Item], address: dict[tuple[str, bool], int]) -> bool:
    on: dict[tuple[int, int], str] = {}
    for value, staging, size, first, last, slots, _ in wanted:
        for k in range(run.count):
            low, name = address[value, staging] + k % slots * size, f"{value} {staging} {k}"
            for tick in run.seen(first + k * run.interval, last + k * run.interval):
                if any(on.setdefault((cell, tick), name) != name for cell in range(low, low + size)):
                    return True
    return False


def _items(run: Run, value: Value, memory: str) -> Iterator[Item]:
    born, reads = run.s[value.src], list(run.reads(value))
    last = born + run.interval if value.resident else max([born, *(end for _, _, end in reads)])
    size = value.shared if memory == "shared" else value.tensor
    slots = -((born - last) // run.interval) + value.slots
    if size and slots:
        yield value.id, False, size, born, last, slots, last - born > run.interval or value.slots > 0
    last = max([born, *(end for group, _, end in reads if group != run.g[value.src])])
    if memory == "shared" and value.staging and last > born:
        yield (
            value.id,
            True,
            value.staging,
            born,
            last,
            -((born - last) // run.interval),
            last - born > run.interval,
        )
