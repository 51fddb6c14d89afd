"""Loop -> dependence graph.

Takes a module, one of its schedulable loops and the names of the simplifications allowed; gives the `Graph`.
Data flow comes from SSA values, followed round the loop through its carried arguments; order in memory from
`extract.memory`. Guarantees: an operation that cannot be scheduled is refused with its line.

Tokens (`!ttg.async.token`) only repeat the order of accesses to one buffer, which is derived from the
accesses themselves; a token between operations that share no buffer gives an edge of its own. The edge that
single buffering of an overwritten buffer would demand is left out: such a value is a new one in each
iteration, bounded by the capacity of its memory.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from twill.diagnostics import TwillError
from twill.extract.dependence import simplify
from twill.extract.dependence.accumulators import Chain, chains
from twill.extract.dependence.body import Body, Origin
from twill.extract.dependence.fold import Folding, buffer, fold
from twill.extract.dependence.frequency import most_iterations
from twill.extract.dependence.memory_effects import Memory, MemoryEdge, Storage, accesses, root
from twill.extract.dependence.naming import names
from twill.extract.dependence.tiles import in_shared, padded, tile
from twill.extract.dependence.work import works
from twill.extract.reader.signature import check
from twill.ir import graph as ir
from twill.ir.graph import Edge, Graph, Invariant, Node, Tile, Use
from twill.ir.loop import Loop, Module, Op, Tensor, Token, Value
from twill.ir.problem import Source
from twill.ops.mma import copied_scales
from twill.ops.table import lookup, role, row

_GROWING = frozenset({"elementwise", "scan", "convert"})
"""Kinds whose results grow into the registers of an operand."""
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
    builder = Builder(body, fold(body, rules))
    return simplify.simplify(builder.graph(), rules)


@dataclass(frozen=True)
class Builder:
    """Assembles the graph of one body; every step is a pure function of the body and its folding."""

    body: Body
    folding: Folding

    def graph(self) -> Graph:
        body, loop = self.body, self.body.loop
        nodes = tuple(self._node(op) for op in self.nodes)
        source = next(iter(loop.op.sources), loop.location)
        edges = self._edges()
        return Graph(
            name=loop.path,
            nodes=tuple(
                replace(node, streaming=self._streams(op, edges))
                for node, op in zip(nodes, self.nodes, strict=True)
            ),
            edges=edges,
            values=tuple(sorted(self._values(), key=lambda v: self.order[v.node])),
            invariants=tuple(self._invariants()),
            warps=body.module.num_warps,
            target=body.module.target,
            rules=self.folding.rules,
            source=Source(source.file, loop.function.name, source.line, loop.path),
        )

    # --- nodes ---------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> tuple[Op, ...]:
        """The operations that become nodes."""
        return tuple(op for op in self.body.ops if not self.folding.away(op))

    @cached_property
    def ids(self) -> Mapping[int, str]:
        """Node names by `Op.index`."""
        return names(self.nodes)

    @cached_property
    def order(self) -> Mapping[str, int]:
        return {self.ids[op.index]: position for position, op in enumerate(self.nodes)}

    def _node(self, op: Op) -> Node:
        then, otherwise = works(self.body, self.folding, op, self.tile_of)
        members = tuple(
            sorted([op.index, *(index for index, user in self._users.items() if user == op.index)])
        )
        return Node(
            self.ids[op.index],
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

    @cached_property
    def _users(self) -> Mapping[int, int]:
        """The node's operation that each folded one belongs to: its first user, or where it has none in its
        iteration, the last that it is made from."""
        users: dict[int, int] = {}
        for op in reversed(self.body.ops):
            if not self.folding.away(op):
                continue
            readers = [reader for value in op.results for reader in self.body.readers(value)]
            homes = [users.get(r.index, None if self.folding.away(r) else r.index) for r in readers]
            home = next((home for home in homes if home is not None), None) or self._makers.get(op.index)
            if home is not None:
                users[op.index] = home
        return users

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

    def _streams(self, op: Op, edges: tuple[Edge, ...]) -> bool:
        """A load whose address needs no result of the loop, and whose memory nothing in the loop writes."""
        if self.folding.kinds[op.index] != "load":
            return False
        written = any(e.dst == self.ids[op.index] and e.kind in ("raw", "token") for e in edges)
        return not written and not any(self.body.origins(v, self.folding.index_code) for v in op.operands)

    # --- tiles ---------------------------------------------------------------------------------------------

    def _storage_origin(self, value: Value) -> tuple[Origin, ...]:
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
        origins = self._storage_origin(value)
        if len(origins) != 1 or self.folding.kinds[origins[0].op.index] not in ("load", "shared_store"):
            return own
        stored = tile(origins[0].value.type, self.body.threads)
        return in_shared(own if stored is None or stored.elements == own.elements else stored)

    # --- edges ---------------------------------------------------------------------------------------------

    def _edges(self) -> tuple[Edge, ...]:
        """All edges, one per pair, kind and distance, in the order of their ends."""
        merged: dict[tuple[str, str, str, int], Edge] = {}
        for edge in (
            *self._data(),
            *self._carried_scalars(),
            *self._memory(),
            *self._in_place(),
            *self._tokens(),
        ):
            key = edge.src, edge.dst, edge.kind, edge.distance
            merged.setdefault(key, edge)
        return tuple(
            sorted(merged.values(), key=lambda e: (self.order[e.src], self.order[e.dst], e.distance, e.kind))
        )

    def _data(self) -> Iterator[Edge]:
        """Values handed on in registers, or through views that are nodes themselves."""
        links = {
            (link.src.index, link.dst.index)
            for chain in self.chains
            for link in chain.links
            if row(link.src).access == "mma"
        }
        for op in self.nodes:
            for value in self.body.reads(op):
                if isinstance(value.type, Token):
                    continue
                for origin in self.body.origins(value, self.folding.away):
                    if buffer(value) and not self.folding.moves_nothing(origin.op):
                        continue
                    accumulates = (origin.op.index, op.index) in links and row(op).access == "mma"
                    yield self._edge(origin, op, accumulates=accumulates)

    def _carried_scalars(self) -> Iterator[Edge]:
        """To the node that a folded operation belongs to from all else that it is made from, where that node
        is one of these, and no user: what is computed for the next iteration alone."""
        nodes = {op.index: op for op in self.nodes}
        for op in self.body.ops:
            home = nodes.get(self._users.get(op.index, op.index))
            if home is None or home.index > op.index:
                continue
            for value in self.body.reads(op):
                owner = self.body.owner(value)
                if owner is not None and self._users.get(owner.index) == home.index <= owner.index:
                    continue  # a folded operation of the same node, whose own turn gives these edges
                for origin in self.body.origins(value, self.folding.away):
                    if origin.op.index != home.index and not origin.distance:
                        yield self._edge(origin, home)

    def _edge(self, origin: Origin, op: Op, accumulates: bool = False) -> Edge:
        stored = next(iter(self._storage_origin(origin.value)), origin)
        kind = "carried" if origin.distance else "data"
        value = self.value_ids.get(stored.value.id)
        return Edge(
            self.ids[origin.op.index],
            self.ids[op.index],
            kind,
            origin.distance,
            value,
            accumulates=accumulates,
        )

    @cached_property
    def _walk(self) -> tuple[tuple[MemoryEdge, ...], tuple[Storage, ...]]:
        return Memory(self.body, self.folding).walk()

    def _memory(self) -> Iterator[Edge]:
        """Order in shared, tensor and global memory. A buffer allocated in the loop is an SSA value: its
        edges are data."""
        for edge in self._walk[0]:
            fresh = edge.kind == "raw" and self.body.owner(edge.root) is not None and not edge.accumulates
            kind = ("carried" if edge.distance else "data") if fresh else edge.kind
            src, dst = self.ids[edge.src.index], self.ids[edge.dst.index]
            yield Edge(
                src, dst, kind, edge.distance, self.value_ids.get(edge.root.id), accumulates=edge.accumulates
            )

    def _in_place(self) -> Iterator[Edge]:
        """Every reader of an accumulator in registers comes before the operation that updates it."""
        for chain in self.chains:
            for link in chain.links:
                for reader, distance in self._readers(link.src.results[0]):
                    if reader is not link.dst:
                        src, dst = self.ids[reader.index], self.ids[link.dst.index]
                        yield Edge(
                            src, dst, "war", link.distance - distance, self.value_ids[link.src.results[0].id]
                        )

    def _tokens(self) -> Iterator[Edge]:
        """Tokens between operations that touch no common buffer."""
        touched = {op.index: {a.root.id for a in accesses(self.body, self.folding, op)} for op in self.nodes}
        for op in self.nodes:
            for value in op.operands:
                if isinstance(value.type, Token):
                    for o in self.body.origins(value, self.folding.away):
                        if not touched[o.op.index] & touched[op.index]:
                            yield Edge(self.ids[o.op.index], self.ids[op.index], "token", o.distance)

    # --- values --------------------------------------------------------------------------------------------

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        return chains(self.body, self.folding)

    @cached_property
    def value_ids(self) -> Mapping[int, str]:
        """Names of values by the SSA value, or root of a buffer, that stands for them."""
        ids = {
            v.id: self._value_id(op, k)
            for op in self.nodes
            for k, v in enumerate(op.results)
            if not isinstance(v.type, Token)
        }
        ids |= {s.root.id: self.ids[s.writers[-1].index] for s in self._walk[1]}
        for chain in self.chains:
            ids |= {op.results[0].id: self.ids[chain.ops[-1].index] for op in chain.ops}
        return ids

    def _value_id(self, op: Op, position: int) -> str:
        several = sum(not isinstance(v.type, Token) for v in op.results) > 1
        return f"{self.ids[op.index]}#{position}" if several else self.ids[op.index]

    def _values(self) -> Iterator[ir.Value]:
        yield from (self._chain_value(chain) for chain in self.chains)
        yield from (self._stored_value(storage) for storage in self._walk[1])
        chained = {op.index for chain in self.chains for op in chain.ops}
        for op in self.nodes:
            if op.index not in chained and self.folding.kinds[op.index] not in ("load", "view", "scalar"):
                yield from self._register_values(op)

    def _register_values(self, op: Op) -> Iterator[ir.Value]:
        for result in op.results:
            if isinstance(result.type, Tensor):
                made = self._result_tile(op, result)
                node = self.ids[op.index]
                yield ir.Value(
                    self.value_ids[result.id], node, made, tuple(self._uses(result, made)), writers=(node,)
                )

    def _result_tile(self, op: Op, result: Value) -> Tile:
        made = tile(result.type, self.body.threads)
        assert made is not None
        return in_shared(made) if self.folding.kinds[op.index] in ("shared_store", "load") else made

    def _chain_value(self, chain: Chain) -> ir.Value:
        """One tile updated by all operations of the chain; others only read it."""
        last = chain.ops[-1]
        made = self._result_tile(last, last.results[0])
        members = tuple(self.ids[op.index] for op in chain.ops)
        updates = [Use(node, updates=True) for node in (members if chain.carried else members[1:])]
        inner = {(link.src.index, link.dst.index) for link in chain.links}
        readers = [
            (op, r, d)
            for op in chain.ops
            for r, d in self._readers(op.results[0])
            if (op.index, r.index) not in inner
        ]
        reads = [
            Use(self.ids[reader.index], 0 if chain.carried else distance) for _, reader, distance in readers
        ]
        return ir.Value(
            self.ids[last.index], members[0], made, _merged([*updates, *reads]), chain.carried, members
        )

    def _stored_value(self, storage: Storage) -> ir.Value:
        first = storage.writers[0]
        own = tile(storage.root.type, self.body.threads)
        assert own is not None
        made = self._landed(storage.root, own) if isinstance(storage.root.type, Tensor) else own
        uses = [Use(self.ids[u.op.index], u.distance, u.updates) for u in storage.uses]
        if isinstance(storage.root.type, Tensor):
            uses += self._uses(storage.root, made)
        writers = tuple(self.ids[op.index] for op in storage.writers)
        return ir.Value(
            self.value_ids[storage.root.id],
            self.ids[first.index],
            made,
            _merged(uses),
            storage.resident,
            writers,
        )

    def _landed(self, loaded: Value, own: Tile) -> Tile:
        """A loaded tile: in shared memory, and in the registers of those that compute with it while they
        do."""
        computed = any(self.folding.kinds[reader.index] != "mma" for reader, _ in self._readers(loaded))
        wide = any(padded(result.type) for reader in self.body.readers(loaded) for result in reader.results)
        return replace(in_shared(own), registers=own.registers if computed else 0, bits=own.bits * (1 + wide))

    def _uses(self, value: Value, made: Tile) -> Iterator[Use]:
        for reader, distance in self._readers(value):
            yield Use(self.ids[reader.index], distance, keeps=not self._takes_over(reader, made))

    def _takes_over(self, reader: Op, made: Tile) -> bool:
        """The result of an elementwise operation, of a scan, of a change of layout (whose operand is in
        shared memory by then), or of a branch with elementwise operations (one side is executed) grows into
        the registers of an operand of as many elements as it goes."""
        results = [tile(v.type, self.body.threads) for v in reader.results]
        kind = self.folding.kinds[reader.index]
        growing = kind in _GROWING or (kind == "branch" and _elementwise(reader))
        grown = growing and made.place == "registers"
        return grown and any(t and t.elements == made.elements for t in results)

    def _readers(self, value: Value) -> tuple[tuple[Op, int], ...]:
        """The nodes that read a result, seen through views, each with its distance."""
        return tuple(self._reader_table.get(value.id, ()))

    @cached_property
    def _reader_table(self) -> Mapping[int, list[tuple[Op, int]]]:
        table: defaultdict[int, list[tuple[Op, int]]] = defaultdict(list)
        for op in self.nodes:
            for operand in () if self.folding.moves_nothing(op) else self.body.reads(op):
                for origin in self.body.origins(operand, self._within_readers):
                    table[origin.value.id].append((op, origin.distance))
        return table

    def _within_readers(self, op: Op) -> bool:
        """Its readers read what it is made from: it moves nothing, or they compute it, such as a mask."""
        return self.folding.moves_nothing(op) or self.folding.away(op)

    # --- from outside the loop -----------------------------------------------------------------------------

    def _invariants(self) -> Iterator[Invariant]:
        """Tiles from outside that the loop reads: buffers it does not write, and register tiles that are not
        cheap to make again."""
        written = {storage.root.id for storage in self._walk[1]}
        found: dict[int, tuple[Value, list[str]]] = {}
        for op in self.nodes:
            for value in self.body.reads(op):
                outer, _ = root(self.body, self.folding, value) if buffer(value) else self.body.trace(value)
                if self.body.owner(outer) is None and outer.id not in written and self._takes_room(outer):
                    users = found.setdefault(outer.id, (outer, []))[1]
                    users.append(self.ids[op.index])
        for outer, users in found.values():
            held = tile(outer.type, self.body.threads)
            if held:
                yield Invariant(outer.name.removeprefix("%"), held, tuple(dict.fromkeys(users)))
        yield from self._copies_of_scales()

    def _copies_of_scales(self) -> Iterator[Invariant]:
        """In tensor memory, of each block-scaled MMA."""
        for op in self.nodes:
            for value, columns in copied_scales(op) if role(op) == "tensor_memory_mma" else ():
                lying = tile(value.type, self.body.threads)
                assert lying
                copy, node = replace(lying, place="tensor", columns=columns), self.ids[op.index]
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
