"""The values of a dependence graph: tiles in registers, in shared and in tensor memory, with their uses.

An accumulator that several operations update, and a buffer that several fill, are one value each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from twill.extract.dependence.accumulators import Chain, chains
from twill.extract.dependence.body import Body
from twill.extract.dependence.fold import Folding, rearranged
from twill.extract.dependence.memory_effects import Memory, MemoryEdge, Storage
from twill.extract.dependence.nodes import Nodes
from twill.extract.dependence.tiles import in_shared, padded, tile, with_repeated_rows
from twill.ir import graph as ir
from twill.ir.graph import Tile, Use
from twill.ir.loop import Op, Tensor, Token, Value
from twill.ops.table import row

_GROWING = frozenset({"elementwise", "scan", "convert"})
"""Kinds whose results grow into the registers of an operand."""


@dataclass(frozen=True)
class Values:
    body: Body
    folding: Folding
    nodes: Nodes

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        return chains(self.body, self.folding)

    @cached_property
    def memory(self) -> tuple[tuple[MemoryEdge, ...], tuple[Storage, ...]]:
        return Memory(self.body, self.folding).walk()

    @cached_property
    def ids(self) -> Mapping[int, str]:
        """Names of values by the SSA value, or root of a buffer, that stands for them."""
        ids = {
            v.id: self._value_id(op, k)
            for op in self.nodes.ops
            for k, v in enumerate(op.results)
            if not isinstance(v.type, Token)
        }
        ids |= {s.root.id: self.nodes.ids[s.writers[-1].index] for s in self.memory[1]}
        for chain in self.chains:
            ids |= {op.results[0].id: self.nodes.ids[chain.ops[-1].index] for op in chain.ops}
        return ids

    def _value_id(self, op: Op, position: int) -> str:
        several = sum(not isinstance(v.type, Token) for v in op.results) > 1
        return f"{self.nodes.ids[op.index]}#{position}" if several else self.nodes.ids[op.index]

    def all(self) -> Iterator[ir.Value]:
        yield from (self._chain_value(chain) for chain in self.chains)
        yield from (self._stored_value(storage) for storage in self.memory[1])
        chained = {op.index for chain in self.chains for op in chain.ops}
        for op in self.nodes.ops:
            if op.index not in chained and self.folding.kinds[op.index] not in ("load", "view", "scalar"):
                yield from self._register_values(op)

    def _register_values(self, op: Op) -> Iterator[ir.Value]:
        for result in op.results:
            if isinstance(result.type, Tensor):
                made = self._result_tile(op, result)
                node, uses = self.nodes.ids[op.index], tuple(self._uses(result, made))
                stays = rearranged(self.body, result)
                yield ir.Value(self.ids[result.id], node, made, uses, writers=(node,), stays=stays)

    def _result_tile(self, op: Op, result: Value) -> Tile:
        made = tile(result.type, self.body.threads)
        assert made is not None
        return in_shared(made) if self.folding.kinds[op.index] in ("shared_store", "load") else made

    def _chain_value(self, chain: Chain) -> ir.Value:
        """One tile updated by all operations of the chain; others only read it."""
        last = chain.ops[-1]
        made = self._result_tile(last, last.results[0])
        members = tuple(self.nodes.ids[op.index] for op in chain.ops)
        updates = [Use(node, updates=True) for node in (members if chain.carried else members[1:])]
        inner = {(link.src.index, link.dst.index) for link in chain.links}
        reads = [
            Use(self.nodes.ids[reader.index], 0 if chain.carried else distance)
            for op in chain.ops
            for reader, distance in self.nodes.readers(op.results[0])
            if (op.index, reader.index) not in inner
        ]
        uses = _merged([*updates, *reads])
        return ir.Value(self.nodes.ids[last.index], members[0], made, uses, chain.carried, members)

    def _stored_value(self, storage: Storage) -> ir.Value:
        first = storage.writers[0]
        own = tile(storage.root.type, self.body.threads)
        assert own is not None
        made = self._landed(storage.root, own) if isinstance(storage.root.type, Tensor) else own
        uses = [Use(self.nodes.ids[u.op.index], u.distance, u.updates) for u in storage.uses]
        if isinstance(storage.root.type, Tensor):
            uses += self._uses(storage.root, made)
        writers = tuple(self.nodes.ids[op.index] for op in storage.writers)
        return ir.Value(
            self.ids[storage.root.id],
            self.nodes.ids[first.index],
            made,
            _merged(uses),
            storage.resident,
            writers,
        )

    def _landed(self, loaded: Value, own: Tile) -> Tile:
        """A loaded tile: in shared memory, and in the registers of those that compute with it while they
        do."""
        computed = any(self.folding.kinds[reader.index] != "mma" for reader, _ in self.nodes.readers(loaded))
        wide = any(padded(result.type) for reader in self.body.readers(loaded) for result in reader.results)
        kept = with_repeated_rows(in_shared(own), self._repeated(loaded))
        return replace(kept, registers=own.registers if computed else 0, bits=own.bits * (1 + wide))

    def _repeated(self, loaded: Value) -> int:
        maker = self.body.definer(loaded)
        return 1 if maker is None else self.body.repeated(maker)

    def _uses(self, value: Value, made: Tile) -> Iterator[Use]:
        for reader, distance in self.nodes.readers(value):
            yield Use(self.nodes.ids[reader.index], distance, keeps=not self._takes_over(reader, made))

    def _takes_over(self, reader: Op, made: Tile) -> bool:
        """The result of an elementwise operation, of a scan, of a change of layout (whose operand is in
        shared memory by then), or of a branch with elementwise operations (one side is executed) grows into
        the registers of an operand of as many elements as it goes."""
        results = [tile(v.type, self.body.threads) for v in reader.results]
        kind = self.folding.kinds[reader.index]
        growing = kind in _GROWING or (kind == "branch" and _elementwise(reader))
        grown = growing and made.place == "registers"
        return grown and any(t and t.elements == made.elements for t in results)


def _elementwise(branch: Op) -> bool:
    """Whether all that its sides compute of tiles is elementwise."""
    kinds = (row(op).kind for op in branch.inner() if not op.name.endswith(".yield"))
    return all(kind in ("elementwise", "view", "scalar") for kind in kinds)


def _merged(uses: list[Use]) -> tuple[Use, ...]:
    """One use per node and distance: it updates if any does, and needs the value while it runs if any
    does."""
    merged: dict[tuple[str, int], Use] = {}
    for use in uses:
        seen = merged.get((use.node, use.distance))
        both = (
            use
            if seen is None
            else Use(use.node, use.distance, use.updates or seen.updates, use.keeps or seen.keeps)
        )
        merged[use.node, use.distance] = both
    return tuple(merged.values())
