"""What operations do to buffers, and the dependences that follow.

Takes the body of a loop with its folding; gives the edges and the locations in memory of one steady-state
iteration. It walks the body a few times over and keeps, for every buffer, which operation wrote it last and
which read it since. Guarantees: a buffer that is overwritten whole starts a fresh location (renaming, no
edge), one that is accumulated into or written in part stays where it is, is ordered after every earlier
reader (war) and after the earlier writer (raw, or waw where it does not read).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from twill.diagnostics import TwillError
from twill.extract.dependence.body import Body
from twill.extract.dependence.fold import Folding, buffer
from twill.ir.graph import EdgeKind
from twill.ir.loop import MemDesc, Op, Pointer, Scalar, Tensor, TensorDesc, UnknownType, Value
from twill.ops.pointers import POINTERS
from twill.ops.row import Role
from twill.ops.table import reduction, role, row

Mode = Literal["read", "overwrite", "accumulate", "modify", "reduce"]
"""accumulate reads what it updates; modify writes a part of it; reduce commutes with its like."""

PARTIAL: frozenset[Role] = frozenset({"buffer_index", "buffer_slice"})
ADDRESSES: frozenset[Role] = POINTERS - {"descriptor"}
"""Through which the first operand is followed to the argument or descriptor that it points into."""


@dataclass(frozen=True, slots=True)
class Access:
    """One operation touches one buffer: the one of its own iteration, or of `distance` iterations ago
    (allocated in the loop)."""

    root: Value
    mode: Mode
    distance: int = 0


@dataclass(frozen=True, slots=True)
class MemoryEdge:
    src: Op
    dst: Op
    kind: EdgeKind
    distance: int
    root: Value
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class MemoryUse:
    op: Op
    distance: int
    updates: bool


@dataclass(frozen=True, slots=True)
class Storage:
    """One location in memory and all that happens to it, seen from the iteration that writes it first."""

    root: Value
    writers: tuple[Op, ...]
    uses: tuple[MemoryUse, ...]
    resident: bool


@dataclass(slots=True)
class _MemoryLocation:
    """A storage while the walk goes on; `born` is the iteration that overwrote it, None before the loop."""

    born: int | None
    writers: list[tuple[Op, int]] = field(default_factory=list[tuple[Op, int]])
    uses: list[tuple[Op, int, bool]] = field(default_factory=list[tuple[Op, int, bool]])


Instance = tuple[Op, int]
"""An operation in an iteration."""


@dataclass(slots=True)
class _State:
    """A buffer while the walk goes on."""

    location: _MemoryLocation
    writers: list[Instance] = field(default_factory=list[Instance])
    """The last write, or the last reductions whose order among themselves does not matter."""
    readers: list[Instance] = field(default_factory=list[Instance])
    """Since then."""
    before: tuple[tuple[Instance, EdgeKind], ...] = ()
    """What each of these reductions comes behind, and the edges to it."""


def _behind(op: Op, mode: Mode, state: _State) -> Iterator[tuple[Instance, EdgeKind]]:
    """What a write comes behind: the last writes, and what has read since."""
    for one in state.writers:
        yield one, "raw" if mode == "accumulate" else "waw"
    for one in state.readers:
        if one[0] is not op:
            yield one, "war"


@dataclass(slots=True)
class Memory:
    """The walk. `observed` is the iteration whose edges and locations are kept; those before and after show
    what reaches it and what it reaches. Buffers allocated in the loop are new ones in every iteration."""

    body: Body
    folding: Folding
    observed: int = 3
    edges: list[MemoryEdge] = field(default_factory=list[MemoryEdge])
    states: dict[tuple[int, int | None], _State] = field(default_factory=dict[tuple[int, int | None], _State])
    locations: list[tuple[Value, _MemoryLocation]] = field(
        default_factory=list[tuple[Value, _MemoryLocation]]
    )

    def walk(self) -> tuple[tuple[MemoryEdge, ...], tuple[Storage, ...]]:
        """Every edge into the observed iteration and every location that is written in the loop."""
        touched = [(op, accesses(self.body, self.folding, op)) for op in self.body.ops]
        for iteration in range(2 * self.observed):
            for op, found in touched:
                for access in found:
                    self._touch(op, access, iteration)
        return tuple(self.edges), tuple(self._storages())

    def _touch(self, op: Op, access: Access, iteration: int) -> None:
        root = access.root
        fresh = self.body.owner(root) is not None
        key = root.id, iteration - access.distance if fresh else None
        state = self.states.get(key)
        if state is None or access.mode == "overwrite":
            location = _MemoryLocation(iteration if fresh or access.mode == "overwrite" else None)
            self.states[key] = state = _State(location)
            self.locations.append((root, location))
        if access.mode == "read":
            self._read(op, state, iteration, root)
        else:
            self._write(op, access.mode, state, iteration, root)

    def _read(self, op: Op, state: _State, iteration: int, root: Value) -> None:
        for writer in state.writers:
            self._edge(writer, (op, iteration), "raw", root)
        state.readers.append((op, iteration))
        state.location.uses.append((op, iteration, False))

    def _write(self, op: Op, mode: Mode, state: _State, iteration: int, root: Value) -> None:
        own: Instance = (op, iteration)
        joins = (
            bool(state.writers)
            and not state.readers
            and all(self._commute(writer, op) for writer, _ in state.writers)
        )
        if not joins:
            state.before = tuple(_behind(op, mode, state))
            state.writers, state.readers = [], []
        for one, kind in state.before:
            mmas = kind == "raw" and row(op).access == "mma" and row(one[0]).access == "mma"
            self._edge(one, own, kind, root, mmas)
        if mode != "overwrite":
            state.location.uses.append((op, iteration, True))
        state.location.writers.append(own)
        state.writers = [*(one for one in state.writers if one[0] is not op), own]

    def _commute(self, one: Op, other: Op) -> bool:
        """Whether the order of two writes does not matter: reductions of one kind, and no operation reads
        what was there before."""
        kind = reduction(one)
        read = self.body.read
        return (
            kind is not None
            and kind == reduction(other)
            and not any(result.id in read for op in (one, other) for result in op.results)
        )

    def _edge(
        self, src: tuple[Op, int], dst: tuple[Op, int], kind: EdgeKind, root: Value, accumulates: bool = False
    ) -> None:
        distance = dst[1] - src[1]
        if dst[1] == self.observed and (src[0] is not dst[0] or (distance and not _global(root))):
            self.edges.append(MemoryEdge(src[0], dst[0], kind, distance, root, accumulates))

    def _storages(self) -> Iterator[Storage]:
        """Places born in the observed iteration, and those carried through it from before the loop."""
        for root, location in self.locations:
            resident = location.born is None
            if _global(root) or not location.writers or not (resident or location.born == self.observed):
                continue
            uses = {
                (op.index, 0 if resident else when - self.observed): MemoryUse(
                    op, 0 if resident else when - self.observed, updates
                )
                for op, when, updates in location.uses
                if not resident or when == self.observed
            }
            writers = {op.index: op for op, _ in location.writers}
            yield Storage(root, tuple(writers.values()), tuple(uses.values()), resident)


def accesses(body: Body, folding: Folding, op: Op) -> tuple[Access, ...]:
    """What an operation reads and writes, reads first. Raises TwillError for memory effects inside an
    `scf.if`."""
    if op.regions:
        refuse_effects(op)
    if folding.kinds[op.index] == "view" and row(op).access != "load":
        return () if folding.away(op) else tuple(_reads(body, folding, op.operands))
    match row(op).access:
        case "load":
            return tuple(_load(body, op))
        case "store":
            return tuple(Access(one, "modify") for one in _stored_roots(body, op.operands[0]))
        case "reduce":
            return (Access(global_root(body, op.operands[0]), "reduce"),)
        case "alloc":
            return (*_reads(body, folding, op.operands), Access(op.results[0], "overwrite"))
        case "store_buffer":
            *others, target = [v for v in op.operands if buffer(v)]
            return (*_reads(body, folding, others), _stored(body, folding, op, target))
        case "mma":
            return tuple(_mma(body, folding, op))
        case _:
            return tuple(_reads(body, folding, op.operands))


def refuse_effects(op: Op) -> None:
    """An operation with regions stands for one computation: nothing in it may touch memory or the tensor
    core."""
    for inner in op.inner():
        effect = role(inner) not in ("yield", "combine") and (
            role(inner) in ("for", "while") or row(inner).access != "none"
        )
        if effect:
            raise TwillError(
                f"{inner.name} inside {op.name} in the loop body cannot be scheduled",
                inner.location,
                span=len(inner.name),
                help=(
                    "a branch in a scheduled loop may compute values but not touch memory; peel it off the"
                    " loop or predicate it"
                ),
            )


def _load(body: Body, op: Op) -> Iterator[Access]:
    yield Access(global_root(body, op.operands[0]), "read")
    if isinstance(op.results[0].type, Tensor):
        yield Access(op.results[0], "overwrite")


def _mma(body: Body, folding: Folding, op: Op) -> Iterator[Access]:
    """D = A B (+ D): `useAcc` false and a true predicate make D a fresh value."""
    operands = [v for v in op.operands if isinstance(v.type, MemDesc | Tensor)]
    *_, target = operands[:3]
    yield from _reads(body, folding, tuple(v for v in operands if v is not target))
    if buffer(target):
        flags = body.flags(op)
        whole = not _partial(body, target) and all(body.always_true(v) for v in flags[1:2])
        fresh = whole and bool(flags) and body.always_false(flags[0])
        location, distance = root(body, folding, target)
        yield Access(location, "overwrite" if fresh else "accumulate", distance)


def _stored(body: Body, folding: Folding, op: Op, target: Value) -> Access:
    """A whole tile written is a fresh value, unless it was computed from what the buffer held: then it is an
    update in location."""
    location, distance = root(body, folding, target)
    contents = [v for v in op.operands if isinstance(v.type, Tensor) and v.type.dtype != Scalar("i1")]
    if any(_rescales(body, folding, v, location) for v in contents):
        return Access(location, "accumulate", distance)
    whole = not _partial(body, target) and all(body.always_true(v) for v in body.flags(op))
    return Access(location, "overwrite" if whole else "modify", distance)


def _rescales(body: Body, folding: Folding, value: Value, location: Value) -> bool:
    """`value` is an elementwise function of the tile read from `location` in this iteration."""
    origins = body.origins(value, lambda op: folding.kinds[op.index] in ("elementwise", "view", "scalar"))
    loads = [o.op for o in origins if row(o.op).access == "load_buffer" and o.distance == 0]
    return any(root(body, folding, v) == (location, 0) for op in loads for v in op.operands if buffer(v))


def _reads(body: Body, folding: Folding, values: tuple[Value, ...] | list[Value]) -> Iterator[Access]:
    for value in values:
        if buffer(value):
            location, distance = root(body, folding, value)
            yield Access(location, "read", distance)


def root(body: Body, folding: Folding, value: Value) -> tuple[Value, int]:
    """The allocation behind a view of memory, or the loaded tile where a load fills it; and how many
    iterations ago it was made."""
    distance = 0
    while True:
        value, back = body.trace(value)
        distance += back
        op = body.definer(value)
        if (
            op is None
            or row(op).access == "load"
            or not (op.operands and isinstance(op.operands[0].type, MemDesc | Tensor))
        ):
            return value, distance
        through = row(op).kind == "view" or (body.owner(value) is not None and folding.moves_nothing(op))
        if not through:
            return value, distance
        value = op.operands[0]


def _partial(body: Body, value: Value) -> bool:
    """A view of a part of its allocation."""
    while (
        (op := body.definer(body.trace(value)[0])) is not None
        and row(op).kind == "view"
        and buffer(op.operands[0])
    ):
        inner = op.operands[0].type
        if (
            role(op) in PARTIAL
            and isinstance(inner, MemDesc)
            and not (role(op) == "buffer_index" and inner.shape[0] == 1)
        ):
            return True
        value = op.operands[0]
    return False


def global_root(body: Body, value: Value) -> Value:
    """The argument or descriptor that an address is derived from."""
    while True:
        value = body.before(value)
        op = body.definer(value)
        if op is None or role(op) not in ADDRESSES:
            return value
        value = op.operands[0]


def _stored_roots(body: Body, address: Value) -> Iterator[Value]:
    """What a store may write to: for a descriptor, also the argument that it describes, which others may
    describe too."""
    root = global_root(body, address)
    yield root
    op = body.definer(root)
    if op is not None and role(op) == "descriptor":
        yield global_root(body, op.operands[0])


def _global(root: Value) -> bool:
    match root.type:
        case Pointer() | TensorDesc() | Tensor(dtype=Pointer()) | UnknownType():
            return True
        case _:
            return False
