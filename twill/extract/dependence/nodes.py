"""The nodes of a dependence graph: which operations they are, what belongs to each, and who reads whom.

Takes the body of a loop and its folding: operations that are folded away belong to a node.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from twill.extract.dependence.body import Body, Origin
from twill.extract.dependence.fold import Folding
from twill.extract.dependence.naming import names
from twill.extract.dependence.tiles import in_shared, tile
from twill.ir.graph import Tile
from twill.ir.loop import Op, Tensor, Value


@dataclass(frozen=True)
class Nodes:
    body: Body
    folding: Folding

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The operations that become nodes."""
        return tuple(op for op in self.body.ops if not self.folding.away(op))

    @cached_property
    def ids(self) -> Mapping[int, str]:
        """Node names by `Op.index`."""
        return names(self.ops)

    @cached_property
    def order(self) -> Mapping[str, int]:
        return {self.ids[op.index]: position for position, op in enumerate(self.ops)}

    @cached_property
    def users(self) -> Mapping[int, int]:
        """The node's operation that each folded one belongs to: its first user, or where it has none in its
        iteration, the last that it is made from, or its first user in the next one."""
        found, known = dict[int, int](), -1
        while known < len(found):
            known = len(found)
            for op in reversed(self.body.ops):
                if (
                    self.folding.away(op)
                    and op.index not in found
                    and (home := self._home(op, found)) is not None
                ):
                    found[op.index] = home
        return found

    def _home(self, op: Op, found: Mapping[int, int]) -> int | None:
        """The node's operation that a folded one belongs to; None where that is not known yet."""
        readers = (reader for value in op.results for reader in self.body.readers(value))
        homes = (found.get(r.index, None if self.folding.away(r) else r.index) for r in readers)
        return next((home for home in homes if home is not None), None) or self._makers.get(op.index)

    @cached_property
    def _makers(self) -> Mapping[int, int]:
        """The last node's operation that each one is made from in its iteration, through folded ones."""
        makers = dict[int, int]()
        for op in self.body.ops:
            traced = map(self.body.trace, self.body.reads(op))
            owners = [owner for value, back in traced if not back and (owner := self.body.owner(value))]
            found = (makers.get(one.index) if self.folding.away(one) else one.index for one in owners)
            last = max((index for index in found if index is not None), default=None)
            if last is not None:
                makers[op.index] = last
        return makers

    def storage_origin(self, value: Value) -> tuple[Origin, ...]:
        """Where the tile lies that a value is or views."""
        return tuple(
            o for o in self.body.origins(value, self.folding.moves_nothing) if not self.folding.away(o.op)
        )

    def tile_of(self, value: Value) -> Tile | None:
        """The tile an operand is: loaded tiles and re-arranged matrix operands are read from shared memory,
        before any broadcast."""
        own = tile(value.type, self.body.threads)
        if own is None or not isinstance(value.type, Tensor):
            return own
        if self.folding.fragment(self.body.owner(value)):
            return in_shared(own)
        origins = self.storage_origin(value)
        if len(origins) != 1 or self.folding.kinds[origins[0].op.index] not in ("load", "shared_store"):
            return own
        stored = tile(origins[0].value.type, self.body.threads)
        return in_shared(own if stored is None or stored.elements == own.elements else stored)

    def readers(self, value: Value) -> tuple[tuple[Op, int], ...]:
        """The nodes that read a result, seen through views, each with its distance."""
        return tuple(self._reader_table.get(value.id, ()))

    @cached_property
    def _reader_table(self) -> Mapping[int, list[tuple[Op, int]]]:
        table: defaultdict[int, list[tuple[Op, int]]] = defaultdict(list)
        for op in self.ops:
            for operand in () if self.folding.moves_nothing(op) else self.body.reads(op):
                for origin in self.body.origins(operand, self._within_readers):
                    table[origin.value.id].append((op, origin.distance))
        return table

    def _within_readers(self, op: Op) -> bool:
        """Its readers read what it is made from: it moves nothing, or they compute it, such as a mask."""
        return self.folding.moves_nothing(op) or self.folding.away(op)
