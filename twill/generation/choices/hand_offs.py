"""Schedules that count what hand-offs cost the groups that execute them, where MMAs complete on mbarriers.

A schedule overlaps the operations of a group and lets an MMA begin when its operands are there. A program
executes a group's operations one behind the other, a warp of its own issues the MMAs, and each wait takes
time even where it is over. `with_hand_offs` states the problem in which all of that is so: its intervals are
longer, but programs keep them.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from twill.ir.graph import Graph
from twill.ir.machine import Machine
from twill.ir.problem import Edge, Operation, Problem, Time, Use, Value


def with_hand_offs(problem: Problem, graph: Graph, machine: Machine) -> Problem | None:
    """The problem with MMAs in a group of their own, operations of a group one behind the other, tiles of
    registers that stay in their group, and the costs of barriers (`[handover]`) where the first two need
    them; None where no group computes beside MMAs into tensor memory."""
    mmas = {node.id for node in graph.nodes if node.kind == "mma"}
    computing = [op.id for op in problem.operations if op.warps > 1 and op.id not in mmas]
    if not mmas or not computing or not any(value.tensor for value in problem.values):
        return None
    waits = _waits(problem, mmas, computing)
    polls = {op: number * machine.handover.poll for op, number in waits.items()}
    ordered = [op.id for op in problem.operations if op.id in mmas]
    tiles = _tiles(problem, graph, mmas)
    return replace(
        problem,
        operations=tuple(_waiting(op, polls.get(op.id, 0)) for op in problem.operations),
        edges=tuple(_in_order(edge, polls, computing) for edge in problem.edges),
        values=tuple(_until_released(v, problem, mmas, polls, machine) for v in problem.values),
        together=(*problem.together, *([tuple(ordered)] if len(ordered) > 1 else []), *tiles),
        apart=(*problem.apart, *((mma, op) for mma in ordered for op in computing)),
    )


def _waits(problem: Problem, mmas: Collection[str], computing: Collection[str]) -> Counter[str]:
    """How often each operation waits whatever the groups are: for results of MMAs, for tiles that are loaded,
    and for MMAs that have read what it overwrites."""
    sources = {op.id for op in problem.operations if op.variable} | set(mmas)
    found = Counter(dst for _, dst in {(e.src, e.dst) for e in problem.edges if e.src in sources})
    read = {v.src for v in problem.values if v.tensor or v.shared if any(u.op in mmas for u in v.uses)}
    found.update(read - {e.dst for e in problem.edges if e.src in mmas})
    return Counter({op: found[op] for op in computing if found[op]})


def _tiles(problem: Problem, graph: Graph, mmas: Collection[str]) -> list[tuple[str, ...]]:
    """What makes and what reads a tile of registers. (Vectors of rows pass between groups; tiles would take
    shared memory for longer than they save.)"""
    large = {value.id for value in graph.values if sum(size > 1 for size in value.tile.shape) > 1}
    made = [value for value in problem.values if value.id in large and value.staging]
    users = [dict.fromkeys([v.src, *(use.op for use in v.uses if use.op not in mmas)]) for v in made]
    return [tuple(one) for one in users if len(one) > 1]


def _waiting(op: Operation, poll: Time) -> Operation:
    return replace(op, issue=op.issue + poll, latency=op.latency + poll) if poll else op


def _in_order(edge: Edge, polls: Mapping[str, Time], computing: Collection[str]) -> Edge:
    """Where both ends compute, the second begins when the first has been issued."""
    poll = polls.get(edge.src, 0)
    delay, crossing = edge.delay + poll, edge.crossing + poll
    blocking = edge.blocking or (edge.src in computing and edge.dst in computing)
    return replace(edge, delay=delay, cross_delay=crossing if crossing != delay else None, blocking=blocking)


def _until_released(
    value: Value, problem: Problem, mmas: Collection[str], polls: Mapping[str, Time], machine: Machine
) -> Value:
    """Its storage is free when the release by its readers has arrived; MMAs release by themselves."""

    def released(use: Use) -> Use:
        if use.op in mmas:
            return use
        reading = problem.operation(use.op).issue + polls.get(use.op, 0)
        hold = use.hold if value.tensor else max(use.hold, reading)
        return replace(use, hold=hold + machine.handover.barrier)

    vector = value.staging and value.registers <= 1
    return replace(value, uses=tuple(map(released, value.uses))) if value.tensor or vector else value
