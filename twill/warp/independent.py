"""Warpgroups of a group that do not wait for each other where tiles are stored behind their loops.

A persistent kernel's group of several warpgroups stages a tile as one: its warpgroups synchronize and wait
together for TMA to read the staging buffer, while the tensor core stands still. Here each warpgroup writes
its own rows to a slot, and a warp of the loading group's warpgroup starts the store from the slot, waits
until TMA has read it, and releases it. The warpgroups fill the same slots alternately, which sets them apart:
one computes while the other one stages. (Measured with text edited by hand: reports/h200.md, "Warpgroups that
alternate in one staging buffer".)

`independent` says how, from the plan of the same kernel without; `handed_over` makes the program.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from twill.ir.channels import SlotTensor
from twill.ir.effects import effects, registers
from twill.ir.loop import Op, Tensor, TensorDesc, Value
from twill.ir.operands import ONCE, Read, Slot
from twill.ir.program import Program, WarpProgram
from twill.ir.schedule import WARPGROUP
from twill.ir.schedule import Group as Granted
from twill.ir.statements import (
    Advance,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    For,
    If,
    InitializeCarried,
    ProducerStore,
    Statement,
    Statements,
    StoreTile,
    StoreWait,
    While,
    inner,
    walk,
    with_inner,
)
from twill.ops.table import role
from twill.warp import thread_block
from twill.warp.channels import ChannelPlan, store_buffer
from twill.warp.dataflow import STORES, Code, pure
from twill.warp.dead_code import without_dead_code
from twill.warp.non_loop_code import home
from twill.warp.slot_tensors import bits
from twill.warp.store_warp import in_any_order, store_group, swizzled
from twill.warp.target import Tiles

ROWS = 64
"""Of a tile that a warpgroup has: those of one MMA (PTX ISA, wgmma)."""


class NotIndependentError(Exception):
    """Why warpgroups of a kernel can not be independent of each other, in words."""


@dataclass(frozen=True, slots=True, eq=False)
class Independent:
    """The group whose warpgroups are, and the warp that stores for them."""

    group: int
    storing: Granted
    stores: Mapping[int, tuple[str, ...]]
    """By the operation of a store: the channels of the warpgroups, in their order."""
    channels: tuple[ChannelPlan, ...]
    """Of all stores: all share the same slots."""


# --- the plan ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What is known of a kernel whose warpgroups are not independent."""

    code: Code
    granted: Sequence[Granted]
    owner: Mapping[int, int]
    """The group of each store outside of the scheduled loops."""
    channels: Sequence[ChannelPlan]
    scratch: frozenset[int]
    """Groups whose threads exchange values."""
    loop: Op | None
    """The loop over tiles."""
    scheduled: frozenset[int]
    """The operations of the scheduled loops."""
    synchronizes: bool
    """Groups synchronize, or wait for each other's MMAs."""
    tiles: Tiles
    names: Mapping[int, str]
    registers: int
    """Of a thread of a warp that only moves data."""


def independent(facts: Facts) -> Independent:
    """Raises NotIndependentError."""
    group, storing = _computing(facts), store_group(facts.granted, facts.registers)
    if storing is None:
        raise NotIndependentError("no warp is free beside those that load")
    if facts.loop is None:
        raise NotIndependentError("there is no loop over tiles around all loops (--persistent makes one)")
    if group.id in facts.scratch or any(one.producer == group.id for one in facts.channels):
        raise NotIndependentError("the threads of the group exchange values through shared memory")
    if facts.synchronizes:
        raise NotIndependentError("the groups wait for each other")
    number = group.warps // WARPGROUP
    stores = [_checked(facts, op, number) for op in facts.code.ops.values() if op.name in STORES]
    if not stores:
        raise NotIndependentError("nothing is stored by TMA behind the loops")
    parts = {op.index: _parts(facts, op, number) for op in stores}
    if len({part.bytes for own in parts.values() for part in own.values()}) > 1:
        raise NotIndependentError("tiles of different sizes are stored")
    sharers = tuple(name for own in parts.values() for name in own)
    channels = tuple(
        ChannelPlan(name, group.id, (storing.id,), (part,), "threads", 1, (), once=True, sharers=sharers)
        for own in parts.values()
        for name, part in own.items()
    )
    return Independent(group.id, storing, {op: tuple(own) for op, own in parts.items()}, channels)


def _computing(facts: Facts) -> Granted:
    """The one group that computes, of several warpgroups."""
    wide = [one for one in facts.granted if not thread_block.only_moves(one)]
    if len(wide) != 1:
        raise NotIndependentError("several groups compute")
    if wide[0].warps <= WARPGROUP or wide[0].warps % WARPGROUP:
        raise NotIndependentError("the group that computes is one warpgroup")
    return wide[0]


def _checked(facts: Facts, op: Op, number: int) -> Op:
    """A store that can be handed over by each warpgroup for its rows."""
    code, where = facts.code, f"the store of line {op.location.line}"
    assert facts.loop is not None
    if op.index in facts.scheduled or home(code)[op.index] != facts.loop.index:
        raise NotIndependentError(f"{where} is not right in the loop over tiles, behind the others")
    if not swizzled(op) or not in_any_order(code, op):
        raise NotIndependentError(f"{where} has no swizzle, or its array is accessed elsewhere")
    alike = [other for other in code.users[op.operands[0].id] if other.name not in STORES]
    if alike:
        raise NotIndependentError(f"{where} shares its descriptor with a load")
    kind = _held(facts, op).type
    assert isinstance(kind, Tensor)
    if _rows(op) != ROWS * number or not facts.tiles.by_warpgroup(kind):
        raise NotIndependentError(f"{where} has other than 64 consecutive rows in each warpgroup")
    return op


def _tile(op: Op) -> Value:
    return next(value for value in op.operands if isinstance(value.type, Tensor))


def _rows(op: Op) -> int:
    """Of the box of a store's descriptor."""
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    return prod(kind.shape[:-1])


def _held(facts: Facts, op: Op) -> Value:
    """The tile that is stored, as it lies in registers."""
    value = _tile(op)
    while (maker := facts.code.maker(value)) is not None and role(maker) == "layout":
        value = maker.operands[0]
    return value


def _parts(facts: Facts, op: Op, number: int) -> Mapping[str, SlotTensor]:
    """By the name of its channel: what a slot holds of each warpgroup."""
    kind, name = op.operands[0].type, facts.names[_held(facts, op).id]
    assert isinstance(kind, TensorDesc)
    if kind.shape[-2] != _rows(op):
        raise NotIndependentError(f"the store of line {op.location.line} has rows in several dimensions")
    own = (*kind.shape[:-2], kind.shape[-2] // number, kind.shape[-1])
    size = prod(own) * bits(kind.dtype) // 8
    return {
        f"{name}_rows{row}": SlotTensor(name, own, kind.dtype, kind.encoding, 0, size, first_row=row)
        for row in range(0, kind.shape[-2], own[-2])
    }


# --- the program ------------------------------------------------------------------------------------------


def handed_over(code: Code, program: Program, plan: Independent) -> Program:
    """The program whose group stages tiles as one, with independent warpgroups. Raises NotIndependentError
    where the warp that stores would need what only the others know."""
    group = next(one for one in program.groups if one.id == plan.group)
    filling = without_dead_code(code, _changed(group.body, lambda one: _filled(code, plan, one)))
    tensors = frozenset(one.id for one in group.variables if isinstance(one.type, Tensor))
    storing = without_dead_code(code, _changed(group.body, lambda one: _stored(code, plan, tensors, one)))
    if missing := _unwritten(storing):
        raise NotIndependentError(f"the warp that stores would need {', '.join(sorted(missing))}")
    own = replace(group, body=filling, variables=thread_block.variables(code, filling), independent=True)
    variables = thread_block.variables(code, storing)
    warp = WarpProgram(plan.storing.id, 1, 0, plan.storing.registers, variables, storing, only_moves=True)
    made = [*(own if one is group else one for one in program.groups), warp]
    widths = {one.id: one.warps for one in sorted(made, key=lambda one: one.id)}
    placed = (replace(one, first_warp=thread_block.first_warp(one.id, widths)) for one in made)
    return replace(program, groups=tuple(sorted(placed, key=lambda one: one.id)))


def _changed(statements: Statements, change: Callable[[Statement], Iterable[Statement]]) -> Statements:
    """Every statement, with those inside it, changed to others."""
    return tuple(
        made
        for one in statements
        for made in change(with_inner(one, lambda inside: _changed(inside, change)))
    )


def _filled(code: Code, plan: Independent, one: Statement) -> Iterator[Statement]:
    """Of the group that computes: a store becomes the filling of a slot by each warpgroup."""
    names = plan.stores.get(one.ops[-1]) if isinstance(one, StoreTile) else None
    if isinstance(one, StoreTile) and names:
        tile = _tile(code.ops[one.ops[-1]])
        ops = _behind(code, one.ops[:-1], tile)
        bound = {tile.id, *(value.id for index in ops for value in code.ops[index].operands)}
        reads = tuple(read for read in one.reads if read.value in bound)
        yield ProducerStore(f"store.{names[0]}", names[0], ops, reads, (tile.id,))
        yield Advance(names[0])
    elif not (isinstance(one, StoreWait) and _of(plan, one.buffer)):
        yield one


def _of(plan: Independent, buffer: str) -> bool:
    """Whether a buffer is the slots from which tiles are stored."""
    return any(buffer == store_buffer(name) for names in plan.stores.values() for name in names)


def _behind(code: Code, ops: Sequence[int], value: Value) -> tuple[int, ...]:
    """Those of some operations that a value follows from."""
    wanted, kept = {value.id}, list[int]()
    for index in reversed(ops):
        op = code.ops[index]
        if any(result.id in wanted for result in op.results):
            kept.append(index)
            wanted |= {operand.id for operand in op.operands}
    return tuple(reversed(kept))


def _stored(code: Code, plan: Independent, tensors: frozenset[str], one: Statement) -> Iterator[Statement]:
    """Of the warp that stores: the loops over tiles with the scalars that they need, and the stores."""
    match one:
        case For() | While() | If():
            yield from [one] if any(inner(one)) else []
        case InitializeCarried(register=register):
            yield from [] if register.variable in tensors else [one]
        case Compute(ops=ops, writes=writes) if all(pure(code.ops[index]) for index in ops):
            scalars = tuple(write for write in writes if write.register.variable not in tensors)
            yield from [replace(one, writes=scalars)] if scalars else []
        case StoreTile(ops=ops) if ops[-1] in plan.stores:
            for name in plan.stores[ops[-1]]:
                yield from _from_slot(code, one, name)
        case _:
            pass


def _from_slot(code: Code, store: StoreTile, channel: str) -> Iterator[Statement]:
    """The store of the rows of one warpgroup."""
    op, buffer = code.ops[store.ops[-1]], store_buffer(channel)
    tile = _tile(op)
    corner = {value.id for value in op.operands if value is not tile}
    ops = tuple(index for index in store.ops[:-1] if index not in _behind(code, store.ops[:-1], tile))
    bound = corner | {value.id for index in ops for value in code.ops[index].operands}
    reads = (*(read for read in store.reads if read.value in bound), Read(tile.id, Slot(channel, 0, ONCE)))
    yield ConsumerWait(channel)
    yield StoreTile((*ops, op.index), reads, buffer, waits=False, staged=False)
    yield StoreWait(buffer)
    yield ConsumerRelease(channel)
    yield Advance(channel)


def _unwritten(body: Statements) -> set[str]:
    """Variables that a body reads and never writes."""
    touched = [effects(one) for one in walk(body)]
    read = {one.variable for made in touched for one in registers(made.reads)}
    return read - {one.variable for made in touched for one in registers(made.writes)}
