"""The whole body of each group: the pipelined loops and the code around them.

Takes a `NonLoopCode`, the channels and, per group, the `Pipelined` statement of every loop; gives the
statements of the group, following the structure of the function.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from twill.ir.loop import Block, Carried, Loop, Op, Value
from twill.ir.operands import ONCE, OperandLocation, Read, Register, Slot, Write
from twill.ir.statements import (
    Advance,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    For,
    If,
    InitializeCarried,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    Statement,
    StoreTile,
    StoreWait,
    TensorMemorySync,
    TileLoad,
    While,
    inner,
    walk,
)
from twill.ops.table import is_elementwise, role
from twill.warp import alternating
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import (
    ALLOC,
    EFFECTS,
    IMPLICIT,
    LOAD,
    STORES,
    Code,
    branching,
    captured,
    carries,
    cone,
    kept_carried,
    loaded,
    passed,
    selected,
    zero,
)
from twill.warp.kernel import Kernel
from twill.warp.non_loop_code import NonLoopCode, executes, writes_tensor_memory


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """What the body of one group is made from."""

    kernel: Kernel
    group: int
    non_loop: NonLoopCode
    loops: Mapping[int, tuple[Loop, Pipelined]]
    """By the index of the loop's operation."""
    overlaid: Mapping[str, tuple[str, ...]]
    """Buffers that lie in the slots of a channel, by its id."""
    finalizers: Mapping[int, int]
    """The reduction to finalize after a loop, by the id of the loop's result."""
    synchronized: tuple[int, ...] = ()
    """Groups that use tensor memory: they synchronize after each loop."""
    entered: frozenset[int] = frozenset()
    """Loops before which they synchronize too."""
    initial_stores: Mapping[int, int] = field(default_factory=dict[int, int])
    """Stores that matter only where a loop has no iteration, with that loop."""

    barriers: frozenset[int] = frozenset()
    """Barriers at which all groups synchronize."""
    between: frozenset[int] = frozenset()
    """Stores before which they do."""

    @property
    def code(self) -> Code:
        return self.kernel.code

    @property
    def channels(self) -> tuple[ChannelPlan, ...]:
        return self.kernel.channels

    @property
    def needs(self) -> frozenset[int]:
        return self.non_loop.needs[self.group]

    def kept(self, value: Value) -> bool:
        """Computed once and kept for later statements; tiles that readers rematerialize are not, except to
        begin a loop with."""
        maker = self.code.maker(value)
        again = maker is not None and self.code.rematerialized(maker)
        return value.id in self.needs and (not again or value.id in self.initial)

    @property
    def initial(self) -> frozenset[int]:
        """Values that loops begin with, or that tasks in loops read."""
        inits = {carried.init.id for loop, _ in self.loops.values() for carried in loop.carried}
        return self.non_loop.leaves[self.group] | inits | self.code.moved

    def location(self, value: Value) -> OperandLocation:
        """Where this group reads a value outside of pipelined loops."""
        load = loaded(self.code, value)
        if load is not None:
            channel = next(channel for channel in self.channels if channel.holds(load.result) is not None)
            return Slot(channel.id, 0, ONCE)
        if value.id in self.code.resident:
            return Slot(self.staging(value).id, 0, ONCE)
        return Register(self.kernel.names[value.id])

    def staging(self, value: Value) -> ChannelPlan:
        """The channel in which a tile is staged before the loops, by this group or for it."""
        own = (c for c in self.channels if self.group in (c.producer, *c.consumers))
        return next(c for c in own if c.once and c.holds(value) is not None)


def statements(body: Body) -> tuple[Statement, ...]:
    """Everything the group does."""
    top = body.code.function.body
    found = _block(body, top.blocks[0], repeated=False) if top else ()
    if body.kernel.alternating:
        found = (*alternating.first(body.kernel.alternating, body.group), *found)
    used = {inner.buffer for inner in walk(found) if isinstance(inner, StoreTile) and inner.staged}
    return (*found, *(StoreWait(buffer) for buffer in sorted(used)))


def _block(body: Body, block: Block, *, repeated: bool) -> tuple[Statement, ...]:
    found, run = list[Statement](), list[Op]()
    for op in block.ops if repeated else _sunk(body, block.ops):
        if _arithmetic(body, op):
            run.append(op)
            continue
        special = tuple(_special(body, op, repeated=repeated))
        if special:
            found += [*_computed(body, run), *special]
            run = []
    found += _computed(body, run)
    one = body.kernel.alternating
    if one and any(op.index == one.loop for op in block.ops):
        found = list(alternating.with_ends(one, body.group, found))
    return (*found, *(_ends(body, block) if repeated else ()))


def _sunk(body: Body, ops: Sequence[Op]) -> Sequence[Op]:
    """The operations with each load from tensor memory, and what is computed from it alone for each element,
    right before the first one that reads it: until then the tile takes no registers. A load stays before
    what may write tensor memory, or waits."""
    order, late = list(ops), set[int]()
    for op in ops:
        loaded_late = any(value.id in late for value in op.operands)
        if _reads_tensor_memory(op) or (loaded_late and (is_elementwise(op) or role(op) == "layout")):
            late |= {value.id for value in op.results}
    for one in [op for op in reversed(ops) if any(value.id in late for value in op.results)]:
        at = next(i for i, op in enumerate(order) if op.index == one.index)
        results = {value.id for value in one.results}
        stops = _stops if _reads_tensor_memory(one) else _uses
        end = next((i for i, op in enumerate(order) if i > at and stops(body, op, results)), at + 1)
        order[at:end] = [*order[at + 1 : end], one]
    return order


def _reads_tensor_memory(op: Op) -> bool:
    return role(op) == "tensor_memory_load" and not op.regions


def _uses(body: Body, op: Op, results: Set[int]) -> bool:
    """Whether what is computed from such a load stays in front of an operation."""
    return bool(op.regions) or any(value.id in results for value in captured(op))


def _stops(body: Body, op: Op, results: Set[int]) -> bool:
    """Whether a load of these values stays in front of an operation."""
    touched = role(op) in (
        "tensor_memory_mma",
        "tensor_memory_store",
        "tensor_memory_alloc",
        "yield",
        "return",
    )
    return touched or op.index in body.barriers or _uses(body, op, results)


def _arithmetic(body: Body, op: Op) -> bool:
    """Executed by this group as it stands."""
    if op.name in (LOAD, *EFFECTS, *IMPLICIT) or role(op) in ("for", "while") or branching(op):
        return False
    if op.name == ALLOC and (loaded(body.code, op.result) or op.result.id in body.code.resident):
        return False
    if role(op) == "tensor_memory_alloc" or writes_tensor_memory(op):
        return False
    if role(op) == "layout" and all(user.name in STORES for user in body.code.users.get(op.result.id, ())):
        return False
    return any(value.id in body.needs for value in op.results)


def _computed(body: Body, run: Sequence[Op]) -> Iterable[Statement]:
    """One statement for consecutive arithmetic. A task in a loop may compute a user of a value again, and
    then reads the value itself."""
    if not run:
        return
    leaves = body.non_loop.leaves[body.group]
    made = {value.id for op in run for value in op.results}
    executed = {op.index for op in run} | {inner.index for op in run for inner in op.inner()}
    ops, read = cone(body.code, run, lambda value: value.id not in made and body.kept(value))
    results = [value for op in run for value in op.results]
    again = {op.index for op in run if body.code.rematerialized(op)}
    users = body.code.users
    kept = [
        v
        for v in results
        if v.id in leaves or any(user.index not in executed - again for user in users.get(v.id, ()))
    ]
    writes = tuple(
        Write(value.id, Register(body.kernel.names[value.id])) for value in kept if body.kept(value)
    )
    reads = tuple(Read(value.id, body.location(value)) for value in read)
    name = f"{run[-1].name.split('.')[-1]}.{run[-1].results[0].name.lstrip('%')}"
    yield Compute(name, ops, (*reads, *body.kernel.bound(ops, ONCE)), writes)


def _special(body: Body, op: Op, *, repeated: bool) -> Iterable[Statement]:
    if op.index in body.between and (body.group in body.synchronized or not body.synchronized):
        yield TensorMemorySync()
    if op.index in body.loops:
        yield from _loop(body, op)
    elif op.name == LOAD:
        yield from _load(body, op)
    elif op.name == ALLOC:
        yield from _stage(body, op)
    elif op.index in body.initial_stores:
        return
    elif op.index in body.barriers:
        yield TensorMemorySync()
    elif body.non_loop.owner.get(op.index) == body.group:
        yield _effect(body, op)
    elif role(op) in ("for", "while"):
        if executes(op, body.group, body.non_loop, body.loops):
            yield from _repeated(body, op)
    elif role(op) == "if":
        yield from _branch(body, op, repeated=repeated)


def _repeated(body: Body, op: Op) -> Iterable[Statement]:
    """A loop that is executed as it stands, with the moves of what it carries."""
    carried = [one for one in carries(op) if one.arg.id in body.needs]
    yield from _moves(body, ((one.init, one.arg) for one in carried))
    moves = _moves(body, ((one.yielded, one.arg) for one in carried))
    again = (*_block(body, op.regions[-1].blocks[0], repeated=True), *moves)
    if role(op) == "for":
        yield For(op.index, again, _found(body, op.operands[:3]))
        return
    before = op.regions[0].blocks[0]
    handed = _moves(body, ((source, arg) for arg, source in passed(op) if arg.id in body.needs))
    condition = next(iter(_found(body, before.ops[-1].operands[:1])), None)
    yield While(op.index, (*_block(body, before, repeated=False), *handed), condition, again)


def _moves(body: Body, pairs: Iterable[tuple[Value, Value]]) -> Iterable[InitializeCarried]:
    """Each second value, which a loop carries or a branch results in, becomes the first."""
    names = body.kernel.names
    for source, target in pairs:
        if names[source.id] != names[target.id]:
            yield _initial(body, source, Register(names[target.id]))


def _initial(body: Body, source: Value, target: Register) -> InitializeCarried:
    maker = body.code.maker(source)
    plain = source.id not in body.code.carried and (maker is None or maker.name in IMPLICIT)
    location = None if plain or zero(body.code, source) else body.location(source)
    return InitializeCarried(source.id, location, target)


def _branch(body: Body, op: Op, *, repeated: bool) -> Iterable[Statement]:
    kept = [(result, sources) for result, sources in selected(op) if result.id in body.needs]
    branches = [
        (*_block(body, region.blocks[0], repeated=repeated), *_moves(body, ((s[i], r) for r, s in kept)))
        for i, region in enumerate(op.regions)
        if region.blocks
    ]
    if any(branches):
        condition = next(iter(_found(body, op.operands[:1])), None)
        yield If(op.index, condition, branches[0], branches[1] if len(branches) > 1 else ())


def _found(body: Body, values: Iterable[Value]) -> tuple[Read, ...]:
    return tuple(Read(value.id, body.location(value)) for value in values if value.id in body.needs)


def _load(body: Body, op: Op) -> Iterable[Statement]:
    channel = next((channel for channel in body.channels if channel.holds(op.result) is not None), None)
    if channel is None:
        return
    if channel.producer == body.group:
        ops, leaves = cone(body.code, [op], body.kept)
        reads = tuple(Read(value.id, body.location(value)) for value in leaves)
        yield ProducerLoad(channel.id, (TileLoad(0, ops, reads),), channel.tensors[0].loaded)
    if body.group in channel.consumers:
        yield ConsumerWait(channel.id)


def _stage(body: Body, op: Op) -> Iterable[Statement]:
    """A tile that lies in shared memory during the loops: filled by the group that reads it, or for it."""
    value = op.result
    for channel in body.channels if value.id in body.code.resident else ():
        if not channel.once or channel.holds(value) is None:
            continue
        if channel.producer == body.group:
            ops, leaves = cone(body.code, [op], body.kept)
            reads = tuple(Read(leaf.id, body.location(leaf)) for leaf in leaves)
            name = f"stage.{body.kernel.names[value.id]}"
            yield ProducerStore(name, channel.id, ops, reads, (value.id,))
        if body.group in channel.consumers:
            yield ConsumerWait(channel.id)


def _effect(body: Body, op: Op) -> Statement:
    root = [op]
    if op.name in STORES:
        root = [op, *_converted(body, op)]
    ops, leaves = cone(body.code, root, lambda value: body.kept(value) and body.code.maker(value) not in root)
    reads = tuple(Read(value.id, body.location(value)) for value in leaves)
    if op.name in STORES:
        return StoreTile(ops, reads, *body.kernel.buffers[op.index])
    bound, stored = body.kernel.bound(ops, ONCE), body.kernel.stored(ops, ONCE)
    names = body.kernel.names
    writes = tuple(Write(one.id, Register(names[one.id])) for one in op.results if one.id in body.needs)
    return Compute(op.name.split(".")[-1], ops, (*reads, *bound), writes, stores=stored)


def _converted(body: Body, op: Op) -> Iterable[Op]:
    """The layout change before a store, which writing to shared memory makes unnecessary."""
    for value in op.operands:
        maker = body.code.maker(value)
        if maker is not None and role(maker) == "layout":
            yield maker


def _loop(body: Body, op: Op) -> Iterable[Statement]:
    loop, pipelined = body.loops[op.index]
    own = body.kernel.alternating
    alternates = own is not None and own.loop == op.index
    synchronizes = body.group in body.synchronized and not alternates
    if own and alternates:
        yield from alternating.before(own, body.group)
    if synchronizes and op.index in body.entered:
        yield TensorMemorySync()
    unread = {one.register.variable for one in pipelined.zeroed if isinstance(one, InitializeCarried)}
    for carried in kept_carried(body.code, loop):
        held = body.non_loop.holders[carried.result.id] == body.group
        if held and body.kernel.names[carried.arg.id] not in unread:
            yield from _moves(body, [(carried.init, carried.arg)])
        yield from _ahead(body, pipelined, carried)
    zeroed = tuple(
        _effect(body, body.code.ops[store])
        for store, inside in body.initial_stores.items()
        if inside == op.index and body.non_loop.owner[store] == body.group
    )
    pipelined = replace(pipelined, zeroed=(*pipelined.zeroed, *zeroed))
    if any(inner(pipelined)) or zeroed:
        yield pipelined
    if own and alternates:
        yield from alternating.after(own, body.group)
    if synchronizes:
        yield TensorMemorySync()
    for carried in loop.carried:
        if carried.result.id in body.finalizers and body.non_loop.holders[carried.result.id] == body.group:
            yield FinalizeReduction(
                Register(body.kernel.names[carried.result.id]), body.finalizers[carried.result.id]
            )
    values = {value.id for inner in loop.body.walk() for value in inner.results}
    for channel in body.channels:
        if body.group in (channel.producer, *channel.consumers) and any(
            v.id in values for use in channel.sources for v in use
        ):
            yield Advance(channel.id, op.index)
    for barrier in body.kernel.dependences[op.index].barriers if op.index in body.kernel.dependences else ():
        if body.group in (barrier.signaller, barrier.waiter):
            yield Advance(barrier.id, op.index)


def _ahead(body: Body, pipelined: Pipelined, carried: Carried) -> Iterable[InitializeCarried]:
    """What loads of later iterations begin with, in variables of their own (`warp.run_ahead`)."""
    for one in pipelined.filled:
        for write in one.writes if isinstance(one, Compute) else ():
            if write.value == carried.yielded.id:
                yield _initial(body, carried.init, write.register)


def _ends(body: Body, block: Block) -> Iterable[Statement]:
    """At the end of a repeated block: slots filled in it are released, once what was staged in them has been
    stored."""
    made = {op.result.id for op in block.ops if op.name in (LOAD, ALLOC)}
    for channel in body.channels:
        if not any(value.id in made for use in channel.sources for value in use):
            continue
        if body.group in channel.consumers:
            yield from (StoreWait(buffer) for buffer in body.overlaid.get(channel.id, ()))
            yield ConsumerRelease(channel.id)
        if body.group in (channel.producer, *channel.consumers):
            yield Advance(channel.id)
