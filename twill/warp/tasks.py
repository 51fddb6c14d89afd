"""What each scheduled operation of a loop executes, reads and keeps.

Takes a loop with its graph, problem and solution (`Scheduled`); gives one `Task` per graph node: the TTGIR
operations it executes (views and scalars of other nodes rematerialized), the values it reads from locations,
with their distance, and those it keeps for readers.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from twill.diagnostics import TwillError
from twill.ir.graph import Graph, Node
from twill.ir.loop import Loop, Op, Token, Value
from twill.ir.machine import Machine
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.ops.table import lookup, role
from twill.warp.dataflow import (
    ALLOC,
    EFFECTS,
    IMPLICIT,
    LOAD,
    MMAS,
    NOTHING,
    TENSOR_MEMORY,
    Code,
    addressing,
    cheap,
    cone,
    loaded,
    pure,
)


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """A loop with its joint schedule."""

    loop: Loop
    graph: Graph
    problem: Problem
    solution: Solution
    machine: Machine

    def start(self, node: str) -> Time:
        return self.solution.start[self.problem.index(node)]

    def group(self, node: str) -> int:
        return self.solution.group[self.problem.index(node)]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """A value that a task reads from a location."""

    value: Value
    """As the operation names it."""
    source: Value
    """What the location holds: the loaded tile, the result of the iteration `distance` before, or a value
    from outside of the loop."""
    distance: int | None
    """Iterations back; None for a value from outside."""
    in_registers: bool = False
    """A task of the same group has read it from its slot."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One graph node, ready to become statements; or, without operations, a read of a tile from its slot."""

    node: Node
    group: int
    start: Time
    ops: tuple[int, ...]
    leaves: tuple[Leaf, ...]
    writes: tuple[Value, ...]
    ahead: bool = False
    """Only loads of later iterations need it, which have it computed beside them (`warp.run_ahead`)."""

    @property
    def id(self) -> str:
        return self.node.id


def root(code: Code, node: Node) -> Op:
    """The operation that a node is named after: the last of that name."""
    return next(code.ops[index] for index in reversed(node.ops) if code.ops[index].name == node.op)


def staged(code: Code, graph: Graph) -> frozenset[int]:
    """The values, by id, that a node of their own writes to shared memory, where all readers find them."""
    return frozenset(code.ops[node.ops[-1]].result.id for node in graph.nodes if node.kind == "shared_store")


def tasks(code: Code, scheduled: Scheduled) -> tuple[Task, ...]:
    """The tasks of a loop, in the order of its nodes. Raises TwillError where an operation or a carried value
    is not supported."""
    for refusal in refusals(code, scheduled.graph):
        raise refusal
    cones = _cones(code, scheduled.loop, scheduled.graph)
    read = {leaf.source.id for _, leaves in cones.values() for leaf in _leaves(code, scheduled.loop, leaves)}
    read |= {carried.yielded.id for carried in scheduled.loop.carried}

    def task(node: Node) -> Task:
        ops, leaves = cones[node.id]
        own = [
            value
            for index in node.ops
            for value in code.ops[index].results
            if value.id in read and loaded(code, value) is None and not isinstance(value.type, Token)
        ]
        start, group = scheduled.start(node.id), scheduled.group(node.id)
        return Task(node, group, start, ops, _leaves(code, scheduled.loop, leaves), tuple(own))

    return tuple(task(node) for node in scheduled.graph.nodes)


def located(code: Code, loop: Loop, graph: Graph) -> Mapping[str, tuple[Value, ...]]:
    """By node: the values that its task reads from locations, as its operations name them."""
    return {node: values for node, (_, values) in _cones(code, loop, graph).items()}


def refusals(code: Code, graph: Graph) -> Iterator[TwillError]:
    """Operations of a loop that can not be generated, however it is scheduled."""
    for node in graph.nodes:
        for op in _executed(code, node):
            if not (pure(op) or op.name in EFFECTS | MMAS | TENSOR_MEMORY | {LOAD}):
                yield code.refuse(f"{op.name} in a loop can not be generated", op)
            if role(op) in ("atomic", "atomic_exchange") and any(one.id in code.users for one in op.results):
                yield code.refuse(f"{op.name} in a loop whose result is used can not be generated", op)


def _executed(code: Code, node: Node) -> list[Op]:
    """The operations of a node that do something."""
    own = [code.ops[index] for index in node.ops]
    return [
        op
        for op in own
        if not (
            op.name in NOTHING
            or role(op) == "constant"
            or (role(op) == "tensor_memory_alloc" and not op.operands)
            or (op.name == ALLOC and op.operands and loaded(code, op.result))
        )
    ]


def _cones(code: Code, loop: Loop, graph: Graph) -> Mapping[str, tuple[tuple[int, ...], tuple[Value, ...]]]:
    located, again = _located(code, loop, graph), _indexing(code, loop)
    yielded = frozenset(carry.yielded.id for carry in loop.carried)

    def for_copies(value: Value) -> bool:
        return value.id not in again and located(value)

    return {
        node.id: _cone(code, node, for_copies if _copies(code, node) else located, yielded)
        for node in graph.nodes
    }


def _copies(code: Code, node: Node) -> bool:
    """Threads execute its load, each with the addresses and conditions of its own elements."""
    return any(index in code.copies for index in node.ops)


def _indexing(code: Code, loop: Loop) -> frozenset[int]:
    """Tiles of indices, conditions or pointers, by value id, that follow from the number of the iteration
    alone, beside what is fixed before the loop: a load rematerializes them, whatever else reads them."""
    ops = tuple(loop.body.walk())
    changing = {value.id for op in ops for value in op.results} | {carry.arg.id for carry in loop.carried}
    fixed = set[int]()
    for op in ops:
        if (cheap(op) or addressing(op)) and all(v.id in fixed or v.id not in changing for v in op.operands):
            fixed |= {value.id for value in op.results}
    return frozenset(value.id for op in ops if addressing(op) for value in op.results if value.id in fixed)


def _cone(
    code: Code, node: Node, located: Callable[[Value], bool], yielded: Set[int]
) -> tuple[tuple[int, ...], tuple[Value, ...]]:
    """What a node executes, and what it reads for that: all that it leaves to the next iteration, too."""
    executed = _executed(code, node)
    inside = {value.id for op in executed for value in op.results}
    carried = [op for op in executed if any(value.id in yielded for value in op.results)]
    roots = [op for op in executed if not cheap(op) or op is executed[-1] or op in carried]
    return cone(code, roots, lambda value: value.id not in inside and located(value))


def _located(code: Code, loop: Loop, graph: Graph) -> Callable[[Value], bool]:
    """Whether a reader reads a value from a location, instead of rematerializing it."""
    shared = staged(code, graph)
    carried = {carry.arg.id for carry in loop.carried}
    inside = {op.index for op in loop.body.walk()}
    roots = {root(code, node).index for node in graph.nodes}

    def located(value: Value) -> bool:
        maker = code.maker(value)
        if maker is None:
            return value.id in carried or value.id in code.carried
        if loaded(code, value) is not None or value.id in shared | code.resident:
            return True
        if role(maker) == "tensor_memory_alloc":
            return True
        if maker.index not in inside:
            shown = role(maker) in ("broadcast", "expand")
            return not (shown or code.rematerialized(maker)) and maker.name not in IMPLICIT
        found = lookup(maker.name)
        view = role(maker) == "layout" or (found is not None and found.kind == "view")
        folded = role(maker) == "constant" or (view and maker.index not in roots)
        if folded or maker.index in code.reloaded:
            return False
        return not cheap(maker) and (maker.index in roots or not addressing(maker))

    return located


def _leaves(code: Code, loop: Loop, values: tuple[Value, ...]) -> tuple[Leaf, ...]:
    carried = {carry.arg.id: carry.yielded for carry in loop.carried}
    inside = {op.index for op in loop.body.walk()}
    return tuple(_leaf(code, loop, value, carried, inside) for value in values)


def _leaf(code: Code, loop: Loop, value: Value, carried: Mapping[int, Value], inside: set[int]) -> Leaf:
    if value.id in carried:
        source = carried[value.id]
        maker = code.maker(source)
        if maker is None or maker.index not in inside or loaded(code, source):
            raise code.refuse(
                f"{source.name} is carried to the next iteration without being computed in the loop", loop.op
            )
        return Leaf(value, source, 1)
    source = value
    load = loaded(code, value)
    if load is not None:
        source = load.result
    maker = code.maker(source)
    return Leaf(value, source, 0 if maker is not None and maker.index in inside else None)
