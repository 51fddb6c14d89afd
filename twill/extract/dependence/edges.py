"""The edges of a dependence graph: data, order in memory, accumulators that are updated in place, tokens.

Tokens (`!ttg.async.token`) only repeat the order of accesses to one buffer, which is derived from the
accesses themselves; a token between operations that share no buffer gives an edge of its own. The edge that
single buffering of an overwritten buffer would demand is left out: such a value is a new one in each
iteration, bounded by the capacity of its memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from twill.extract.dependence.body import Body, Origin
from twill.extract.dependence.fold import Folding, buffer
from twill.extract.dependence.memory_effects import accesses
from twill.extract.dependence.nodes import Nodes
from twill.extract.dependence.values import Values
from twill.ir.graph import Edge
from twill.ir.loop import Op, Token, Value
from twill.ops.table import row


@dataclass(frozen=True)
class Edges:
    body: Body
    folding: Folding
    nodes: Nodes
    values: Values

    def all(self) -> tuple[Edge, ...]:
        """All edges, one per pair, kind and distance, in the order of their ends."""
        merged: dict[tuple[str, str, str, int], Edge] = {}
        for edge in (
            *self._data(),
            *self._carried_scalars(),
            *self._memory(),
            *self._in_place(),
            *self._tokens(),
        ):
            merged.setdefault((edge.src, edge.dst, edge.kind, edge.distance), edge)
        at = self.nodes.order
        return tuple(sorted(merged.values(), key=lambda e: (at[e.src], at[e.dst], e.distance, e.kind)))

    def _data(self) -> Iterator[Edge]:
        """Values handed on in registers, or through views that are nodes themselves."""
        links = {
            (link.src.index, link.dst.index)
            for chain in self.values.chains
            for link in chain.links
            if row(link.src).access == "mma"
        }
        for op, value in self._read():
            stored = buffer(value)
            for origin in () if isinstance(value.type, Token) else self._origins(value):
                if not stored or self.folding.moves_nothing(origin.op):
                    accumulates = (origin.op.index, op.index) in links and row(op).access == "mma"
                    yield self._edge(origin, op, accumulates=accumulates)

    def _carried_scalars(self) -> Iterator[Edge]:
        """To the node that a folded operation belongs to from all else that it is made from, where that node
        is one of these, and no user, or uses it in the next iteration: what is computed for that alone."""
        nodes = {op.index: op for op in self.nodes.ops}
        yielded = {one.yielded.id for one in self.body.loop.carried}
        for op in self.body.ops:
            home = nodes.get(self.nodes.users.get(op.index, op.index))
            passed_on = any(result.id in yielded for result in op.results)
            if home is not None and home is not op and (passed_on or home.index <= op.index):
                yield from self._made_from(op, home)

    def _made_from(self, op: Op, home: Op) -> Iterator[Edge]:
        """To its node `home` from all else that a folded operation is made from in its iteration. What is
        folded into the same node gives edges of its own."""
        for value in self.body.reads(op):
            owner = self.body.owner(value)
            if owner is not None and self.nodes.users.get(owner.index) == home.index <= owner.index:
                continue
            for origin in self._origins(value):
                if origin.op.index != home.index and not origin.distance:
                    yield self._edge(origin, home)

    def _read(self) -> Iterator[tuple[Op, Value]]:
        """What each node reads."""
        return ((op, value) for op in self.nodes.ops for value in self.body.reads(op))

    def _origins(self, value: Value) -> tuple[Origin, ...]:
        """Where a value comes from, through folded operations."""
        return self.body.origins(value, self.folding.away)

    def _edge(self, origin: Origin, op: Op, accumulates: bool = False) -> Edge:
        stored = next(iter(self.nodes.storage_origin(origin.value)), origin)
        kind = "carried" if origin.distance else "data"
        src, dst = self.nodes.ids[origin.op.index], self.nodes.ids[op.index]
        value = self.values.ids.get(stored.value.id)
        return Edge(src, dst, kind, origin.distance, value, accumulates=accumulates)

    def _memory(self) -> Iterator[Edge]:
        """Order in shared, tensor and global memory. A buffer allocated in the loop is an SSA value: its
        edges are data."""
        for edge in self.values.memory[0]:
            fresh = edge.kind == "raw" and self.body.owner(edge.root) is not None and not edge.accumulates
            kind = ("carried" if edge.distance else "data") if fresh else edge.kind
            src, dst = self.nodes.ids[edge.src.index], self.nodes.ids[edge.dst.index]
            value = self.values.ids.get(edge.root.id)
            yield Edge(src, dst, kind, edge.distance, value, accumulates=edge.accumulates)

    def _in_place(self) -> Iterator[Edge]:
        """Every reader of an accumulator in registers comes before the operation that updates it."""
        for link in (link for chain in self.values.chains for link in chain.links):
            updated, value = self.nodes.ids[link.dst.index], link.src.results[0]
            for reader, distance in self.nodes.readers(value):
                if reader is not link.dst:
                    src, back = self.nodes.ids[reader.index], link.distance - distance
                    yield Edge(src, updated, "war", back, self.values.ids[value.id])

    def _tokens(self) -> Iterator[Edge]:
        """Tokens between operations that touch no common buffer."""
        ids, ops = self.nodes.ids, self.nodes.ops
        touched = {op.index: {a.root.id for a in accesses(self.body, self.folding, op)} for op in ops}
        taken = ((op, value) for op in ops for value in op.operands if isinstance(value.type, Token))
        for op, value in taken:
            for origin in self._origins(value):
                if not touched[origin.op.index] & touched[op.index]:
                    yield Edge(ids[origin.op.index], ids[op.index], "token", origin.distance)
