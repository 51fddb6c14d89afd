"""Orders of the operations of one iteration: every operation after those whose results it reads."""

from collections import defaultdict
from collections.abc import Sequence

from twill.ir.problem import Problem


def successors(problem: Problem) -> tuple[list[list[int]], list[int]]:
    """The readers of each operation in one iteration, and how many it waits for."""
    after: list[list[int]] = [[] for _ in problem.operations]
    missing = [0] * len(problem.operations)
    for edge in problem.edges:
        if edge.distance == 0:
            after[problem.index(edge.src)].append(problem.index(edge.dst))
            missing[problem.index(edge.dst)] += 1
    return after, missing


def depth_first(problem: Problem) -> list[int]:
    """An order of one iteration in which results are used soon."""
    after, missing = successors(problem)
    ready, order = [op for op, count in enumerate(missing) if not count][::-1], list[int]()
    while ready:
        order.append(ready.pop())
        for other in reversed(after[order[-1]]):
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return order


def fewest_registers(problem: Problem) -> list[int]:
    """An order of one iteration: of the operations whose operands are there, the one after which the fewest
    registers are live, as far as one step ahead shows."""
    after, missing = successors(problem)
    index = {op.id: i for i, op in enumerate(problem.operations)}
    made, freed = defaultdict[int, int](int), defaultdict[int, int](int)
    waiting = defaultdict[int, list[tuple[int, set[int]]]](list)
    for value in problem.values:
        last = max((use.distance for use in value.uses), default=0)
        if value.registers and value.uses and not value.resident:
            made[index[value.src]] += value.registers
            readers = {index[use.op] for use in value.uses if use.distance == last}
            for reader in readers:
                waiting[reader].append((value.registers, readers))
            if len(readers) == 1:
                freed[min(readers)] += value.registers

    ready, order = [op for op, count in enumerate(missing) if not count], list[int]()
    while ready:
        op = min(ready, key=lambda op: (made[op] - freed[op], op))
        ready.remove(op)
        order.append(op)
        for registers, readers in waiting[op]:
            readers.discard(op)
            if len(readers) == 1:
                freed[min(readers)] += registers
        for other in after[op]:
            missing[other] -= 1
            ready += [other] if not missing[other] else []
    return order


def results_first(problem: Problem) -> list[int]:
    """An order of one iteration: for each result that nothing else reads, in the order of the program, all
    that it needs and is not there yet, the operand first that takes the most registers beyond those it
    leaves (Sethi, Ullman 1970)."""
    count = len(problem.operations)
    made, before, read = [0] * count, [list[int]() for _ in range(count)], set[int]()
    for value in problem.values:
        if not value.resident:
            made[problem.index(value.src)] += value.registers
    after, _ = successors(problem)
    for op, readers in enumerate(after):
        for reader in readers:
            before[reader].append(op)
            read.add(op)
    taken = _taken(made, before, depth_first(problem))
    order = dict[int, None]()
    for result in (op for op in range(count) if op not in read):
        waiting = [(result, False)]
        while waiting:
            op, opened = waiting.pop()
            if opened:
                order[op] = None
            elif op not in order:
                waiting.append((op, True))
                operands = sorted(dict.fromkeys(before[op]), key=lambda one: (made[one] - taken[one], one))
                waiting += [(one, False) for one in reversed(operands)]
    return list(order)


def _taken(made: Sequence[int], before: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """Registers that each operation takes at a time with all that it needs, if nothing were needed twice."""
    taken = [0] * len(made)
    for op in order:
        held = most = 0
        for one in sorted(dict.fromkeys(before[op]), key=lambda one: made[one] - taken[one]):
            most, held = max(most, held + taken[one]), held + made[one]
        taken[op] = max(most, held, made[op])
    return taken


def longest_first(problem: Problem) -> list[int]:
    """The operations with the longest rest of the iteration behind them first."""
    after: list[list[tuple[int, int]]] = [[] for _ in problem.operations]
    for edge in problem.edges:
        if edge.distance == 0:
            after[problem.index(edge.src)].append((problem.index(edge.dst), edge.delay))
    rest = [op.latency for op in problem.operations]
    for op in reversed(depth_first(problem)):
        rest[op] = max([rest[op], *(delay + rest[other] for other, delay in after[op])])
    return sorted(range(len(rest)), key=lambda op: (-rest[op], op))
