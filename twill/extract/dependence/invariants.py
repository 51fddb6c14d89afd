"""The tiles from outside of a loop that it reads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from twill.extract.dependence.body import Body
from twill.extract.dependence.fold import Folding, buffer
from twill.extract.dependence.memory_effects import root
from twill.extract.dependence.nodes import Nodes
from twill.extract.dependence.tiles import tile
from twill.extract.dependence.values import Values
from twill.ir.graph import Invariant
from twill.ir.loop import Op, Tensor, Value
from twill.ops.mma import copied_scales
from twill.ops.table import lookup, role


@dataclass(frozen=True)
class Invariants:
    body: Body
    folding: Folding
    nodes: Nodes
    values: Values

    def all(self) -> Iterator[Invariant]:
        """Tiles from outside that the loop reads: buffers it does not write, and register tiles that are not
        cheap to make again."""
        written = {storage.root.id for storage in self.values.memory[1]}
        found: dict[int, tuple[Value, list[str]]] = {}
        for op, node in self._readers():
            for value in self.body.reads(op):
                outer, _ = root(self.body, self.folding, value) if buffer(value) else self.body.trace(value)
                if self.body.owner(outer) is None and outer.id not in written and self._takes_room(outer):
                    users = found.setdefault(outer.id, (outer, []))[1]
                    users.append(node)
        for outer, users in found.values():
            held = tile(outer.type, self.body.threads)
            if held:
                yield Invariant(outer.name.removeprefix("%"), held, tuple(dict.fromkeys(users)))
        yield from self._copies_of_scales()

    def _readers(self) -> Iterator[tuple[Op, str]]:
        """The operations that read what is outside, with their nodes; folded reads of buffers too."""
        for op in self.body.ops:
            away = self.folding.away(op)
            if not away or role(op) == "buffer_load":
                yield op, self.nodes.ids[self.nodes.users[op.index] if away else op.index]

    def _copies_of_scales(self) -> Iterator[Invariant]:
        """In tensor memory, of each block-scaled MMA."""
        for op in self.nodes.ops:
            for value, columns in copied_scales(op) if role(op) == "tensor_memory_mma" else ():
                lying = tile(value.type, self.body.threads)
                assert lying
                copy, node = replace(lying, place="tensor", columns=columns), self.nodes.ids[op.index]
                yield Invariant(f"{node}.{value.name.removeprefix('%')}", copy, (node,))

    def _takes_room(self, value: Value) -> bool:
        if buffer(value):
            return True
        return isinstance(value.type, Tensor) and not self._remade(value)

    def _remade(self, value: Value) -> bool:
        """Computed from scalars and constants alone: a splat, a range of indices, a row of offsets."""
        waiting, seen = [value], {value.id}
        while waiting:
            current = waiting.pop()
            op = self.body.definer(current)
            known = lookup(op.name) if op is not None and not op.regions else None
            if op is None or known is None or known.kind not in ("view", "elementwise", "scalar"):
                if isinstance(current.type, Tensor):
                    return False
                continue
            waiting.extend(v for v in op.operands if v.id not in seen)
            seen |= {v.id for v in op.operands}
        return True
