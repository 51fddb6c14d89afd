"""Loop -> dependence graph.

Takes a module, one of its schedulable loops and the names of the simplifications allowed; gives the `Graph`.
Data flow comes from SSA values, followed round the loop through its carried arguments; order in memory from
`dependence.memory_effects`. Guarantees: an operation that cannot be scheduled is refused with its line.
"""

from dataclasses import dataclass, replace

from twill.diagnostics import TwillError
from twill.extract.dependence import simplify
from twill.extract.dependence.body import Body
from twill.extract.dependence.edges import Edges
from twill.extract.dependence.fold import Folding, fold
from twill.extract.dependence.frequency import most_iterations
from twill.extract.dependence.invariants import Invariants
from twill.extract.dependence.nodes import Nodes
from twill.extract.dependence.values import Values
from twill.extract.dependence.work import works
from twill.extract.reader.signature import check
from twill.ir.graph import Edge, Graph, Node
from twill.ir.loop import Loop, Module, Op
from twill.ir.problem import Source

FEW = 4
"""Iterations at the beginning or the end of a loop that the costs of its steady state leave out, at most."""


def graph(module: Module, loop: Loop, rules: tuple[str, ...] = simplify.ALL_RULES) -> Graph:
    """The dependence graph of `loop`. Raises TwillError for a loop or an operation that cannot be
    scheduled."""
    if loop.refusal:
        raise TwillError(
            f"loop {loop.path} cannot be scheduled: {loop.refusal.reason}", loop.refusal.location
        )
    for op in loop.ops:
        check(op)
    body = Body(module, loop)
    folding = fold(body, rules)
    builder = Builder(body, folding, Nodes(body, folding))
    return simplify.simplify(builder.graph(), rules)


@dataclass(frozen=True)
class Builder:
    """Assembles the graph of one body; every step is a pure function of the body and its folding."""

    body: Body
    folding: Folding
    nodes: Nodes

    def graph(self) -> Graph:
        body, loop = self.body, self.body.loop
        values = Values(body, self.folding, self.nodes)
        nodes = tuple(self._node(op) for op in self.nodes.ops)
        source = next(iter(loop.op.sources), loop.location)
        edges = Edges(body, self.folding, self.nodes, values).all()
        return Graph(
            name=loop.path,
            nodes=tuple(
                replace(node, streaming=self._streams(op, edges))
                for node, op in zip(nodes, self.nodes.ops, strict=True)
            ),
            edges=edges,
            values=tuple(sorted(values.all(), key=lambda v: self.nodes.order[v.node])),
            invariants=tuple(Invariants(body, self.folding, self.nodes, values).all()),
            warps=body.module.num_warps,
            target=body.module.target,
            rules=self.folding.rules,
            source=Source(source.file, loop.function.name, source.line, loop.path),
        )

    def _node(self, op: Op) -> Node:
        then, otherwise = works(self.body, self.folding, op, self.nodes.tile_of)
        members = tuple(
            sorted([op.index, *(index for index, user in self.nodes.users.items() if user == op.index)])
        )
        return Node(
            self.nodes.ids[op.index],
            self.folding.kinds[op.index],
            op.name,
            then,
            otherwise,
            self._seldom(op),
            members,
            location=op.location,
        )

    def _seldom(self, op: Op) -> tuple[bool, bool]:
        if self.folding.kinds[op.index] != "branch":
            return False, False
        holds, fails = most_iterations(self.body.loop.function, self.body.loop.op, op.operands[0])
        return holds is not None and holds <= FEW, fails is not None and fails <= FEW

    def _streams(self, op: Op, edges: tuple[Edge, ...]) -> bool:
        """A load whose address needs no result of the loop, and whose memory nothing in the loop writes."""
        if self.folding.kinds[op.index] != "load":
            return False
        written = any(e.dst == self.nodes.ids[op.index] and e.kind in ("raw", "token") for e in edges)
        return not written and not any(self.body.origins(v, self.folding.index_code) for v in op.operands)
