"""Why a partition has no schedule: few operations whose groups alone exclude one.

Takes a `Problem` and the labels of a partition without a schedule at some interval; gives the operations that
matter. Of the others only the rules that hold in any group are kept: when they may start, which units they
take, what they keep in the memories. So where no schedule is left, none has these operations in these groups,
wherever the others are: one refutation speaks of thousands of partitions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from twill.engine.partitions import Labels, under
from twill.ir.problem import Edge, Operation, Problem, Value

Refuted = Callable[[Sequence[int]], bool]
"""Whether no schedule is left with just these operations in their groups."""

ELSEWHERE = -1
"""Label of the operations whose groups are left open."""


HOME = -1
"""A node beside the operations, from which distances are counted."""


def fewer(ops: Sequence[int], refuted: Refuted) -> list[int]:
    """What is left of `ops`, which are refuted, when halves, quarters, ... of them that are not needed are
    left out."""
    kept, size = list(ops), len(ops)
    while size > 1:
        size = -(-size // 2)
        for begin in reversed(range(0, len(kept), size)):
            rest = kept[:begin] + kept[begin + size :]
            if refuted(rest):
                kept = rest
    return kept


def more(problem: Problem, ops: Sequence[int], refuted: Refuted) -> list[int]:
    """`ops` and those nearest to them in the dependence graph, twice as many each time until they are
    refuted; all where none are."""
    near = _by_distance(problem, ops)
    size = len(ops)
    while size < len(near) and not refuted(near[:size]):
        size *= 2
    return near[:size]


def _by_distance(problem: Problem, ops: Sequence[int]) -> list[int]:
    import networkx as nx  # a tenth of a second, and few searches come here

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from((HOME, *range(len(problem.operations))))
    graph.add_edges_from((problem.index(edge.src), problem.index(edge.dst)) for edge in problem.edges)
    graph.add_edges_from((HOME, op) for op in ops)
    hops = nx.single_source_shortest_path_length(graph, HOME)
    return sorted(groupable(problem), key=lambda op: (hops.get(op, len(graph)), op))


def groupable(problem: Problem) -> list[int]:
    """Operations whose group is to be decided: all but loads."""
    return [i for i, op in enumerate(problem.operations) if not op.variable]


def loose(problem: Problem, labels: Labels, kept: Sequence[int]) -> Problem:
    """A problem that every schedule solves in which the operations `kept` are grouped as in `labels`,
    wherever the others are.

    The others are in a group of one warp of their own, which is free of charge: there they neither wait nor
    make others wait, and hold no registers.
    """
    known = {op.id for i, op in enumerate(problem.operations) if op.variable or i in kept}
    mine = tuple(
        label if op.id in known else ELSEWHERE for op, label in zip(problem.operations, labels, strict=True)
    )
    relaxed = replace(_anywhere(problem, known, len(set(mine))), together=(), apart=())
    return under(relaxed, mine)


def narrow_anywhere(problem: Problem) -> Problem:
    """A problem that every schedule solves, whatever the groups of operations of one warp that are no loads:
    they are together in one that is free of charge, as in `loose`."""
    known = {op.id for op in problem.operations if op.variable or op.warps > 1}
    others = tuple(op.id for op in problem.operations if op.id not in known)
    if not others:
        return problem
    relaxed = _anywhere(problem, known, problem.limits.groups + 1)
    kept = (tuple(op for op in ops if op in known) for ops in problem.together)
    wide = (op.id for op in problem.operations if op.warps > 1 and not op.variable)
    return replace(
        relaxed,
        together=(*(ops for ops in kept if len(ops) > 1), others),
        apart=(
            *(pair for pair in problem.apart if set(pair) <= known),
            *((others[0], op) for op in wide),
        ),
    )


def _anywhere(problem: Problem, known: set[str], groups: int) -> Problem:
    """The problem with all operations but the known ones in any group, and a narrow warpgroup for them."""
    limits = problem.limits
    narrow = min(
        limits.narrow_registers, limits.register_base
    )  # a wide group of which little is kept may look narrow
    return replace(
        problem,
        operations=tuple(op if op.id in known else _elsewhere(op) for op in problem.operations),
        edges=(*(_open(edge, known) for edge in problem.edges), *_certain_waits(problem, known)),
        values=tuple(part for value in problem.values for part in _split(value, known)),
        limits=replace(
            limits,
            groups=groups,
            warps=limits.warps + 4,
            narrow_registers=narrow,
            registers_total=limits.registers_total + 128 * narrow,
        ),
    )


def _elsewhere(op: Operation) -> Operation:
    """In a group unknown it keeps nobody from waiting, and (as what streams) makes nobody wait."""
    return replace(op, issue=0, warps=1, streaming=True)


def _open(edge: Edge, known: set[str]) -> Edge:
    """The delay that holds whatever the groups."""
    if {edge.src, edge.dst} <= known:
        return edge
    return replace(edge, delay=min(edge.delay, edge.crossing), cross_delay=None, blocking=False)


def _certain_waits(problem: Problem, known: set[str]) -> Sequence[Edge]:
    """Who has a blocking edge from an operation elsewhere waits in any case: for the result in one group, at
    a barrier between two."""
    inside = {
        edge.dst for edge in problem.edges if edge.blocking and edge.dst in known and edge.src not in known
    }
    return [Edge(op, op, 0, 1, blocking=True, kind="order") for op in sorted(inside)]


def _split(value: Value, known: set[str]) -> Sequence[Value]:
    """Its storage in memories, which does not depend on groups, and what known groups hold of it."""
    uses = tuple(use for use in value.uses if use.op in known)
    staging = value.staging if value.src in known else 0
    held = replace(value, id=f"{value.id} held", uses=uses, shared=0, tensor=0, slots=0, staging=staging)
    return replace(value, registers=0, staging=0), held
