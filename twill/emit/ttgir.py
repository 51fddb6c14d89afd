"""Annotated TTGIR: the original text with start, stage and group on every operation of the loop.

Takes the module as it was read, the loop, its graph and its schedule; gives the same text with attributes spliced in, nothing else
changed, so that it stays readable for whichever Triton version wrote it. On request it also carries the attributes that Triton's own
pipeliner (`loop.stage`, `loop.cluster`) and warp specializer (`ttg.partition`, `async_task_id`) take a schedule from.
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

Dialect = Literal["pipeline", "partition", "tasks"]
"""What Triton may be handed: stages and clusters; partitions (Blackwell); asynchronous task ids (Hopper)."""

_ANCHORS = ("tt.descriptor_load", "tt.load", "ttng.warp_group_dot", "tt.dot")
_STORES = ("tt.descriptor_store", "tt.descriptor_reduce", "tt.store", "tt.atomic_rmw")
"""What Hopper's specializer wants to see a task id on, in the loop and behind it; it finds the rest by itself."""


@dataclass(frozen=True, slots=True)
class Placement:
    """When and where an operation runs."""

    start: Time
    groups: tuple[int, ...]
    """Ascending; several for index arithmetic that more than one group computes for itself."""
    ahead: int = 0
    """Iterations that a streaming load, and what it needs, runs before the rest."""


def annotate(module: Module, loop: Loop, graph: Graph, problem: Problem, solution: Solution, extra: Iterable[Dialect] = ()) -> str:
    """The module's text with the schedule of one loop. Raises TwillError for a loop that carries a schedule already."""
    where = placements(loop, graph, problem, solution)
    wanted = tuple(sorted(set(extra)))
    texts = {loop.op.index: _loop_attributes(loop, problem, solution, where, wanted)}
    order = _order(where.values(), solution.interval)
    for op in loop.body.ops:
        texts[op.index] = _attributes(op, where[op.index], solution.interval, order, wanted)
        for inner in op.inner():
            texts[inner.index] = _inner_attributes(where[op.index], solution.interval, wanted)
    if "tasks" in wanted:
        texts |= {index: f"async_task_id = {_array(groups)}" for index, groups in _stores(loop, where).items()}
    ops = [op for op in loop.function.walk() if op.index in texts]
    _refuse_annotated(ops, module)
    return _spliced(module.text, [(op.slot.offset, op.slot.insertion(texts[op.index])) for op in ops])


_OWN = r"twill\.[a-z_]+ = (?:array<i32(?:: [-0-9, ]*)?>|[-+.0-9e]+ : [if]64)"


def bare(text: str) -> str:
    """TTGIR as it was before `annotate` (without `extra`), so that a kernel can be scheduled again; line numbers stay."""
    return re.sub(rf"{_OWN}, ", "", re.sub(rf" \{{{_OWN}(?:, {_OWN})*\}}", "", text))


def _refuse_annotated(ops: Iterable[Op], module: Module) -> None:
    marked = next((op for op in ops if "twill.start" in op.attributes or "twill.interval" in op.attributes), None)
    if marked:
        line = module.text.splitlines()[marked.location.line - 1]
        raise TwillError("the loop carries a schedule already", marked.location, text=line, help="annotate the module as it was before")


def _spliced(text: str, insertions: Sequence[tuple[int, str]]) -> str:
    pieces, last = list[str](), 0
    for offset, inserted in sorted(insertions):
        pieces += [text[last:offset], inserted]
        last = offset
    return "".join([*pieces, text[last:]])


# --- where everything runs --------------------------------------------------------------------------------------------


def placements(loop: Loop, graph: Graph, problem: Problem, solution: Solution) -> dict[int, Placement]:
    """The place of every operation of the loop body, by `Op.index`: its node's; else its first reader's; else that of the loop's begin."""
    found = _scheduled(graph, problem, solution)
    readers = _readers(loop)
    for _round in loop.ops:  # readers through the loop's arguments may be found later than those in the same iteration
        for op in reversed(loop.ops):
            near = [found[reader] for reader in sorted(readers[op.index]) if reader in found]
            if near and op.index not in found:
                found[op.index] = _first(near, solution.interval)
    last = max((found[op.index] for op in loop.ops if op.index in found), key=lambda place: place.start, default=Placement(0, (0,)))
    ends = loop.body.ops[len(loop.ops) :]  # the yield, which a loop that carries nothing may leave out
    return {op.index: found.get(op.index, Placement(0, (0,))) for op in loop.ops} | {end.index: last for end in ends}


def _scheduled(graph: Graph, problem: Problem, solution: Solution) -> dict[int, Placement]:
    """The operations that nodes of the graph stand for."""
    slots = {value.src: value.slots for value in sorted(problem.values, key=lambda value: value.slots)}
    found = dict[int, Placement]()
    for node in graph.nodes:
        v = problem.index(node.id)
        place = Placement(solution.start[v], (solution.group[v],), slots.get(node.id, 0))
        found.update((index, place) for index in node.ops)
    return found


def _readers(loop: Loop) -> dict[int, set[int]]:
    """Who reads a result of an operation, in this iteration or, through the loop's arguments, in the next."""
    maker = {result.id: op.index for op in loop.ops for result in op.results}
    for carried in loop.carried:
        if carried.yielded.id in maker:
            maker[carried.arg.id] = maker[carried.yielded.id]
    readers: dict[int, set[int]] = {op.index: set() for op in loop.ops}
    for op in loop.ops:
        for part in (op, *op.inner()):
            for value in part.operands:
                if value.id in maker:
                    readers[maker[value.id]].add(op.index)
    return readers


def _first(near: Sequence[Placement], interval: Time) -> Placement:
    """Where an operation must be that is read there: at the first of these places, for the groups of all."""
    first = min(near, key=lambda place: place.start - place.ahead * interval)
    return replace(first, groups=tuple(sorted({group for place in near for group in place.groups})))


def _stores(loop: Loop, where: Mapping[int, Placement]) -> dict[int, tuple[int, ...]]:
    """The groups whose results each store behind the loop writes, by `Op.index`."""
    made = {result.id: op.index for op in loop.ops for result in op.results}
    reaching = {c.result.id: frozenset(where[made[c.yielded.id]].groups) for c in loop.carried if c.yielded.id in made}
    stores = dict[int, tuple[int, ...]]()
    for op in loop.function.walk():
        groups = frozenset[int]().union(*(reaching.get(value.id, ()) for value in op.operands))
        if groups and op.index != loop.op.index:
            reaching |= {result.id: groups for result in op.results}
            if op.name in _STORES:
                stores[op.index] = tuple(sorted(groups))
    return stores


# --- attributes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Order:
    """Triton's numbers for a schedule: stages count from the loads that run furthest ahead, clusters order starts within an interval."""

    interval: Time
    furthest: int
    clusters: Mapping[Time, int]

    def stage(self, place: Placement) -> int:
        return place.start // self.interval + self.furthest - place.ahead

    def cluster(self, place: Placement) -> int:
        return self.clusters[place.start % self.interval]


def _order(places: Iterable[Placement], interval: Time) -> _Order:
    known = tuple(places)
    clusters = {residue: i for i, residue in enumerate(sorted({place.start % interval for place in known}))}
    return _Order(interval, max(place.ahead for place in known), clusters)


def _attributes(op: Op, place: Placement, interval: Time, order: _Order, extra: Sequence[Dialect]) -> str:
    words = _common(place, interval)
    if "pipeline" in extra and op.name != "scf.yield":
        words += [f"loop.stage = {order.stage(place)} : i32", f"loop.cluster = {order.cluster(place)} : i32"]
    if "partition" in extra:
        words.append(f"ttg.partition = {_array(place.groups)}")
    if "tasks" in extra and op.name in _ANCHORS:
        words.append(f"async_task_id = {_array(place.groups)}")
    return ", ".join(words)


def _inner_attributes(place: Placement, interval: Time, extra: Sequence[Dialect]) -> str:
    """For operations in regions of the body's: they run with the operation around them."""
    return ", ".join(_common(place, interval) + ([f"ttg.partition = {_array(place.groups)}"] if "partition" in extra else []))


def _common(place: Placement, interval: Time) -> list[str]:
    return [
        f"twill.start = {place.start} : i64",
        f"twill.stage = {place.start // interval} : i64",
        f"twill.group = {place.groups[0]} : i64",
    ]


def _loop_attributes(loop: Loop, problem: Problem, solution: Solution, where: Mapping[int, Placement], extra: Sequence[Dialect]) -> str:
    words = [
        f"twill.interval = {solution.interval} : i64",
        f"twill.length = {solution.length(problem)} : i64",
        f"twill.warps = {_array(g.warps for g in solution.groups)}",
        f"twill.registers = {_array(g.registers for g in solution.groups)}",
    ]
    if problem.resolution.cycles_per_unit != 1:
        words.append(f"twill.cycles_per_unit = {problem.resolution.cycles_per_unit:e} : f64")
    if "pipeline" in extra:
        order = _order(where.values(), solution.interval)
        words.append(f"tt.scheduled_max_stage = {max(map(order.stage, where.values()))} : i32")
    if "partition" in extra:
        words += _partition_attributes(loop, solution, where)
    if ("partition" in extra or "tasks" in extra) and "tt.warp_specialize" not in loop.op.attributes:
        words.append("tt.warp_specialize")
    return ", ".join(words)


def _partition_attributes(loop: Loop, solution: Solution, where: Mapping[int, Placement]) -> list[str]:
    """What Triton's warp specializer keeps on a loop: its partitions, which one makes each result, and their stages."""
    groups = sorted({group for place in where.values() for group in place.groups})
    maker = {result.id: op.index for op in loop.ops for result in op.results}
    outputs = (where[maker[c.yielded.id]].groups if c.yielded.id in maker else (groups[0],) for c in loop.carried)
    first = {group: min(p.start for p in where.values() if group in p.groups) // solution.interval for group in groups}
    return [
        f"ttg.partition = {_array(groups)}",
        f"ttg.partition.outputs = [{', '.join(map(_array, outputs))}]",
        f"ttg.partition.stages = [{', '.join(f'{first[group]} : i32' for group in groups)}]",
        "ttg.warp_specialize.tag = 0 : i32",
    ]


def _array(numbers: Iterable[int]) -> str:
    return f"array<i32: {', '.join(map(str, numbers))}>".replace(": >", ">")
