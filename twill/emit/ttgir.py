"""Annotated TTGIR: the original text with start, stage and group on every operation of the loop.

Takes the module as read, the loop, its graph and its schedule; returns the same text with attributes
inserted. Nothing else changes, so the Triton version that wrote the text can still parse it. Optionally adds
the attributes from which Triton's own pipeliner (`loop.stage`, `loop.cluster`) and warp specializer
(`ttg.partition`, `async_task_id`) take a schedule.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from twill.diagnostics import TwillError
from twill.ir.graph import Graph
from twill.ir.loop import Loop, Module, Op
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.ops.table import names, role

Dialect = Literal["pipeline", "partition", "tasks"]
"""Triton's own schedule attributes: stages and clusters; partitions (Blackwell); asynchronous task ids
(Hopper)."""

_ANCHORS = names("tma_load", "pointer_load", "wgmma", "dot")
_STORES = names("tma_store", "tma_reduce", "pointer_store", "atomic")
"""The stores that Hopper's warp specializer needs a task id on, in and after the loop; it derives all
others."""


_AHEAD = 2
"""Iterations by which Triton's own schedules let loads run ahead (num_stages = 3)."""


@dataclass(frozen=True, slots=True)
class Placement:
    """When and where an operation runs."""

    start: Time
    groups: tuple[int, ...]
    """Ascending; several for index arithmetic that more than one group computes for itself."""
    ahead: int = 0
    """Iterations that a streaming load, and what it needs, runs before the rest."""


def annotate(
    module: Module,
    loop: Loop,
    graph: Graph,
    problem: Problem,
    solution: Solution,
    extra: Iterable[Dialect] = (),
) -> str:
    """The module's text with the schedule of one loop. Raises TwillError for a loop that carries a schedule
    already."""
    where = placements(loop, graph, problem, solution)
    wanted = tuple(sorted(set(extra)))
    texts = {loop.op.index: _loop_attributes(loop, problem, solution, where, wanted)}
    order = _order(where.values(), solution.interval)
    for op in loop.body.ops:
        texts[op.index] = _attributes(op, where[op.index], solution.interval, order, wanted)
        for inner in op.inner():
            texts[inner.index] = _inner_attributes(where[op.index], solution.interval, wanted)
    if "tasks" in wanted:
        texts |= {
            index: f"async_task_id = {_array(groups)}" for index, groups in _stores(loop, where).items()
        }
    ops = [op for op in loop.function.walk() if op.index in texts and role(op) != "barrier"]  # takes none
    _refuse_annotated(ops, module)
    return _spliced(module.text, [(op.slot.offset, op.slot.insertion(texts[op.index])) for op in ops])


_OWN = r"twill\.[a-z_]+ = (?:array<i32(?:: [-0-9, ]*)?>|[-+.0-9e]+ : [if]64)"


def bare(text: str) -> str:
    """TTGIR without the attributes that `annotate` adds (except `extra`); line numbers do not change."""
    return re.sub(rf"{_OWN}, ", "", re.sub(rf" \{{{_OWN}(?:, {_OWN})*\}}", "", text))


def _refuse_annotated(ops: Iterable[Op], module: Module) -> None:
    marked = next(
        (op for op in ops if "twill.start" in op.attributes or "twill.interval" in op.attributes), None
    )
    if marked:
        line = module.text.splitlines()[marked.location.line - 1]
        raise TwillError(
            "the loop already has a schedule", marked.location, text=line, help="annotate the original module"
        )


def _spliced(text: str, insertions: Sequence[tuple[int, str]]) -> str:
    pieces, last = list[str](), 0
    for offset, inserted in sorted(insertions):
        pieces += [text[last:offset], inserted]
        last = offset
    return "".join([*pieces, text[last:]])


# --- start and group of every operation -------------------------------------------------------------------


def placements(loop: Loop, graph: Graph, problem: Problem, solution: Solution) -> dict[int, Placement]:
    """The placement of every operation of the loop body, by `Op.index`: its node's, else its first reader's,
    else time 0."""
    readers = _readers(loop)
    inside = _readers(loop, carried=False)
    found = _before_readers(_scheduled(graph, problem, solution), inside, graph, solution.interval)
    waiting, before = [op for op in reversed(loop.ops) if op.index not in found], -1
    while len(found) > before:  # a reader through the loop's arguments may be found in a later round
        before = len(found)
        for op in waiting:
            near = [found[reader] for reader in sorted(readers[op.index]) if reader in found]
            if near:
                found[op.index] = _first(near, solution.interval)
        waiting = [op for op in waiting if op.index not in found]
    last = max(
        (found[op.index] for op in loop.ops if op.index in found),
        key=lambda placement: placement.start,
        default=Placement(0, (0,)),
    )
    ends = loop.body.ops[len(loop.ops) :]  # the yield, which a loop that carries nothing may leave out
    return {op.index: found.get(op.index, Placement(0, (0,))) for op in loop.ops} | {
        end.index: last for end in ends
    }


def _scheduled(graph: Graph, problem: Problem, solution: Solution) -> dict[int, Placement]:
    """The operations that nodes of the graph stand for."""
    slots = _ahead(problem)
    found = dict[int, Placement]()
    for node in graph.nodes:
        v = problem.index(node.id)
        placement = Placement(solution.start[v], (solution.group[v],), slots.get(node.id, 0))
        found.update((index, placement) for index in node.ops)
    return found


def _ahead(problem: Problem) -> dict[str, int]:
    """How many iterations each load runs ahead: by its slots beyond those in use, and by `_AHEAD` if all
    loads then fit shared memory. (A GEMM whose loads are one iteration ahead has 0.67 of the speed of
    Triton's schedule on an H200.)"""
    least = {value.src: value.slots for value in sorted(problem.values, key=lambda value: value.slots)}
    ahead = {src: max(slots, _AHEAD) if slots else 0 for src, slots in least.items()}
    wanted = sum(value.shared * (1 + ahead[value.src]) for value in problem.values)
    return ahead if wanted <= problem.limits.shared else least


def _before_readers(
    found: Mapping[int, Placement], readers: Mapping[int, set[int]], graph: Graph, interval: Time
) -> dict[int, Placement]:
    """With what is part of one node and read by others too (a buffer of two dots) at the first of them."""
    moved = dict(found)
    for index in sorted((index for node in graph.nodes for index in node.ops[:-1]), reverse=True):
        near = [moved[reader] for reader in sorted(readers[index]) if reader in moved]
        moved[index] = replace(_first([moved[index], *near], interval), groups=found[index].groups)
    return moved


def _readers(loop: Loop, *, carried: bool = True) -> dict[int, set[int]]:
    """Who reads a result of an operation, in this iteration or, `carried` through the loop's arguments, in
    the next."""
    maker = {result.id: op.index for op in loop.ops for result in op.results}
    for one in loop.carried if carried else ():
        if one.yielded.id in maker:
            maker[one.arg.id] = maker[one.yielded.id]
    readers: dict[int, set[int]] = {op.index: set() for op in loop.ops}
    for op in loop.ops:
        read = (value.id for part in (op, *op.inner()) for value in part.operands)
        for value in read:
            if value in maker:
                readers[maker[value]].add(op.index)
    return readers


def _first(near: Sequence[Placement], interval: Time) -> Placement:
    """The placement of an operation with readers at these placements: the first start, the groups of all
    readers."""
    first = min(near, key=lambda placement: placement.start - placement.ahead * interval)
    return replace(first, groups=tuple(sorted({group for placement in near for group in placement.groups})))


def _stores(loop: Loop, where: Mapping[int, Placement]) -> dict[int, tuple[int, ...]]:
    """The groups whose results each store after the loop writes, by `Op.index`."""
    made = {result.id: op.index for op in loop.ops for result in op.results}
    reaching = {
        c.result.id: frozenset(where[made[c.yielded.id]].groups) for c in loop.carried if c.yielded.id in made
    }
    stores = dict[int, tuple[int, ...]]()
    for op in loop.function.walk():
        groups = frozenset[int]().union(*(reaching.get(value.id, ()) for value in op.operands))
        if groups and op.index != loop.op.index:
            reaching |= {result.id: groups for result in op.results}
            if op.name in _STORES:
                stores[op.index] = tuple(sorted(groups))
    return stores


# --- attributes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Order:
    """Triton's numbering of a schedule: stage 0 is that of the furthest prefetched load; clusters order
    starts within an interval, and put loads that run ahead behind everything else. These refill the slot that
    the iteration before has read, and Triton waits for its MMAs behind those of this iteration alone."""

    interval: Time
    furthest: int
    clusters: Mapping[tuple[bool, Time], int]

    def stage(self, placement: Placement) -> int:
        return placement.start // self.interval + self.furthest - placement.ahead

    def cluster(self, placement: Placement) -> int:
        return self.clusters[_point(placement, self.interval)]


def _order(all_placements: Iterable[Placement], interval: Time) -> _Order:
    known = tuple(all_placements)
    points = sorted({_point(placement, interval) for placement in known})
    clusters = {point: i for i, point in enumerate(points)}
    return _Order(interval, max(placement.ahead for placement in known), clusters)


def _point(placement: Placement, interval: Time) -> tuple[bool, Time]:
    """In an interval, by which placements are ordered."""
    return placement.ahead > 0, placement.start % interval


def _attributes(op: Op, placement: Placement, interval: Time, order: _Order, extra: Sequence[Dialect]) -> str:
    attributes = _common(placement, interval)
    if "pipeline" in extra and role(op) != "yield":
        attributes += [
            f"loop.stage = {order.stage(placement)} : i32",
            f"loop.cluster = {order.cluster(placement)} : i32",
        ]
    if "partition" in extra:
        attributes.append(f"ttg.partition = {_array(placement.groups)}")
    if "tasks" in extra and op.name in _ANCHORS:
        attributes.append(f"async_task_id = {_array(placement.groups)}")
    return ", ".join(attributes)


def _inner_attributes(placement: Placement, interval: Time, extra: Sequence[Dialect]) -> str:
    """For operations in nested regions: they run with the operation around them."""
    return ", ".join(
        _common(placement, interval)
        + ([f"ttg.partition = {_array(placement.groups)}"] if "partition" in extra else [])
    )


def _common(placement: Placement, interval: Time) -> list[str]:
    return [
        f"twill.start = {placement.start} : i64",
        f"twill.stage = {placement.start // interval} : i64",
        f"twill.group = {placement.groups[0]} : i64",
    ]


def _loop_attributes(
    loop: Loop, problem: Problem, solution: Solution, where: Mapping[int, Placement], extra: Sequence[Dialect]
) -> str:
    attributes = [
        f"twill.interval = {solution.interval} : i64",
        f"twill.length = {solution.length(problem)} : i64",
        f"twill.warps = {_array(g.warps for g in solution.groups)}",
        f"twill.registers = {_array(g.registers for g in solution.groups)}",
    ]
    if problem.resolution.cycles_per_unit != 1:
        attributes.append(f"twill.cycles_per_unit = {problem.resolution.cycles_per_unit:e} : f64")
    if "pipeline" in extra:
        order = _order(where.values(), solution.interval)
        attributes.append(f"tt.scheduled_max_stage = {max(map(order.stage, where.values()))} : i32")
    if "partition" in extra:
        attributes += _partition_attributes(loop, solution, where)
    if ("partition" in extra or "tasks" in extra) and "tt.warp_specialize" not in loop.op.attributes:
        attributes.append("tt.warp_specialize")
    return ", ".join(attributes)


def _partition_attributes(loop: Loop, solution: Solution, where: Mapping[int, Placement]) -> list[str]:
    """The attributes of Triton's warp specializer on a loop: partitions, the partition of each result, and
    their stages."""
    groups = sorted({group for placement in where.values() for group in placement.groups})
    maker = {result.id: op.index for op in loop.ops for result in op.results}
    outputs = (
        where[maker[c.yielded.id]].groups if c.yielded.id in maker else (groups[0],) for c in loop.carried
    )
    first = {
        group: min(p.start for p in where.values() if group in p.groups) // solution.interval
        for group in groups
    }
    return [
        f"ttg.partition = {_array(groups)}",
        f"ttg.partition.outputs = [{', '.join(map(_array, outputs))}]",
        f"ttg.partition.stages = [{', '.join(f'{first[group]} : i32' for group in groups)}]",
        "ttg.warp_specialize.tag = 0 : i32",
    ]


def _array(numbers: Iterable[int]) -> str:
    return f"array<i32: {', '.join(map(str, numbers))}>".replace(": >", ">")
