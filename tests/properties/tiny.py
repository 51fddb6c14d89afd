"""Random tiny problems, small enough for the oracle and drawn so that every rule decides some of them.

Takes a `random.Random`; gives a `Problem` of two to five operations. The same generator state gives the same
problem.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value

T = TypeVar("T")


def tiny_problem(random: Random, most: int = 5) -> Problem:
    """A loop of two to `most` operations with a random choice of all the features of a problem."""
    units = (Unit("TC"), Unit("SFU"), Unit("ALU", 2), Unit("ISSUE", random.randint(1, 3), aggregate=True))[
        : random.randint(1, 4)
    ]
    ops = tuple(_operation(random, i, units) for i in range(random.randint(2, most)))
    edges = tuple(_edges(random, ops))
    values = tuple(value for op in ops if random.random() < 0.7 for value in [_value(random, op, ops, edges)])
    together, apart = _ties(random, ops)
    starts = ((ops[-1].id, random.randint(0, 4)),) if random.random() < 0.08 else ()
    return Problem(
        "tiny",
        "toy",
        units,
        ops,
        edges,
        values,
        _limits(random, ops, values),
        together=together,
        apart=apart,
        starts=starts,
    )


def _chance(random: Random, probability: float, yes: T, no: T) -> T:
    return yes if random.random() < probability else no


def _operation(random: Random, index: int, units: Sequence[Unit]) -> Operation:
    variable = index == 0 and random.random() < 0.4
    count = random.choice((0, 1, 1, 1, 1, 2))
    reservations = tuple(_reservation(random, random.choice(units)) for _ in range(count))
    return Operation(
        f"o{index}",
        "load" if variable else "compute",
        reservations,
        latency=random.randint(0, 4),
        issue=random.choice((0, 0, 1, 1, 2, 3)),
        warps=random.choice((1, 1, 4, 4, 4, 8)),
        variable=variable,
        streaming=variable and random.random() < 0.5,
    )


def _reservation(random: Random, unit: Unit) -> Reservation:
    offset = _chance(random, 0.1, random.randint(1, 2), 0)
    return Reservation(
        unit.name, random.choice((1, 1, 1, 2, 3)), offset, _chance(random, 0.3, unit.capacity, 1)
    )


def _edges(random: Random, ops: Sequence[Operation]) -> list[Edge]:
    """Forward within an iteration, any way between iterations."""
    edges: list[Edge] = []
    for i, src in enumerate(ops):
        for j, dst in enumerate(ops):
            if i < j and random.random() < 0.45:
                edges.append(_edge(random, src, dst, _chance(random, 0.15, 1, 0)))
            if (i > j and random.random() < 0.2) or (i == j and random.random() < 0.15):
                edges.append(_edge(random, src, dst, random.choice((1, 1, 1, 2))))
    return edges


def _edge(random: Random, src: Operation, dst: Operation, distance: int) -> Edge:
    delay = 0 if src.streaming else random.randint(0, max(1, src.latency))
    cross = random.choice((None, None, delay, delay + 1, delay + 2, max(0, delay - 1)))
    return Edge(
        src.id,
        dst.id,
        delay,
        distance,
        None if src.streaming else cross,
        random.random() < 0.3,
        "carried" if distance else "data",
    )


def _value(random: Random, op: Operation, ops: Sequence[Operation], edges: Sequence[Edge]) -> Value:
    readers = [(edge.dst, edge.distance) for edge in edges if edge.src == op.id and random.random() < 0.85]
    if random.random() < 0.03:
        readers.append((random.choice(ops).id, 1))
    uses = tuple(
        Use(reader, distance, random.choice((0, 0, 1, 2))) for reader, distance in dict.fromkeys(readers)
    )
    resident = random.random() < 0.1
    return Value(
        f"v{op.id}",
        op.id,
        uses,
        registers=random.choice((0, 2, 4, 4, 8)),
        shared=random.choice((0, 0, 0, 1, 2)),
        tensor=random.choice((0, 0, 0, 1, 2, 3)),
        staging=random.choice((0, 0, 1)),
        resident=resident,
        slots=0 if resident else _chance(random, 0.1, random.randint(1, 2), 0),
    )


def _limits(random: Random, ops: Sequence[Operation], values: Sequence[Value]) -> Limits:
    """Mostly enough for any one thing and not for all at once."""
    base = random.choice((0, 0, 1, 2))
    per_thread = base + _between(random, [value.registers for value in values]) + random.choice((0, 0, 8))
    loads = any(op.variable for op in ops)
    return Limits(
        groups=random.choice((1, 2, 2, 3, 4)) + loads,
        warps=max(op.warps for op in ops) + random.choice((0, 4, 4, 8, 8, 16)),
        registers_per_thread=per_thread,
        registers_total=32 * random.choice((8, 12, 16, 32)) * max(8, per_thread),
        register_step=random.choice((1, 1, 4, 8)),
        register_base=base,
        narrow_registers=random.choice((0, 1, 8)),
        shared=_between(
            random, [size for value in values for size in (value.shared * (1 + value.slots), value.staging)]
        ),
        tensor=_between(random, [value.tensor * (1 + value.slots) for value in values]),
    )


def _between(random: Random, sizes: Sequence[int]) -> int:
    """From the largest to a bit more than all together."""
    return random.randint(max(sizes, default=0), sum(sizes) + 1)


def _ties(
    random: Random, ops: Sequence[Operation]
) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, str], ...]]:
    a, b = sorted(random.sample([op.id for op in ops], 2))
    return _chance(random, 0.1, ((a, b),), ()), _chance(random, 0.1, ((a, b),), ())
