"""Several tiles in flight: copies of the groups that compute, on alternate iterations of a loop over tiles.

A persistent kernel loops over tiles. With one tile in flight the tensor core stands still while a tile is
stored and the next one begins. With n of them every group that computes has n copies; copy j has the tiles j,
j + n, j + 2 n and so on, and stores one while the next copy has the tensor core, which goes from copy to copy
by ordering barriers (CUTLASS: ping-pong). That is a modulo schedule of the outer loop: the operations of a
tile are its prologue, its pipelined loops and its epilogue, the copies are the resources.

`decide` says how many tiles a kernel has in flight, `channels` what its channels then are, and `alternated`
makes the program from that of one tile. The groups that load are not copied: they load tiles in order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from math import prod
from operator import mul
from typing import Any

from twill.ir.channels import OrderBarrier
from twill.ir.loop import GRID, MANY, Op, Tensor, shares
from twill.ir.program import Program, WarpProgram
from twill.ir.schedule import Group as Granted
from twill.ir.statements import (
    Advance,
    Alternate,
    Compute,
    ConsumerWait,
    For,
    If,
    InitializeCarried,
    MmaIssue,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    Statement,
    Statements,
    While,
    walk,
)
from twill.ops.table import role
from twill.warp import thread_block
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import EFFECTS, STORES, Code, carries
from twill.warp.dead_code import without_dead_code
from twill.warp.non_loop_code import closed, home
from twill.warp.slot_tensors import bits
from twill.warp.store_warp import ACCESSES, pointer
from twill.warp.tasks import Scheduled

MOST = 4
"""Tiles in flight at most, unless given."""
TRIPS = MANY
"""Iterations of a loop, for predictions."""


@dataclass(frozen=True, slots=True, eq=False)
class TilesInFlight:
    """How many iterations of a loop over tiles are in flight."""

    loop: int
    """The operation."""
    copies: Mapping[int, tuple[Granted, ...]]
    """Of each group that is copied, by id: itself, then the others."""
    carried: frozenset[str]
    """Variables that the loop carries: scalars."""
    note: str
    """The reason, in words."""

    @property
    def number(self) -> int:
        return len(next(iter(self.copies.values())))

    @property
    def added(self) -> tuple[Granted, ...]:
        """The groups that one tile in flight does not have."""
        return tuple(one for own in self.copies.values() for one in own[1:])

    def copied(self, groups: Iterable[int], index: int) -> tuple[int, ...]:
        """Copy `index` of some groups; of those that have one."""
        return tuple(
            sorted(self.copies[group][index].id if group in self.copies else group for group in groups)
        )


# --- how many ---------------------------------------------------------------------------------------------


def tile_loop(code: Code, loops: Sequence[Scheduled]) -> Op | None:
    """The loop in which all scheduled loops are; None where there is none, or another one is around or
    between: its tiles would begin anew, or be many."""
    homes = home(code)
    around = {homes[one.loop.op.index] for one in loops}
    found = around.pop() if len(around) == 1 else None
    if found is None or homes[found] is not None or role(code.ops[found]) != "for":
        return None
    return code.ops[found]


def serial(code: Code, loops: Sequence[Scheduled], loop: Op, *, given: bool) -> str | None:
    """Why the tiles of a loop can not be in flight together; None where they can. What two tiles write must
    not meet: programs of a grid do not, nor stores by TMA, which are not ordered among each other either;
    for other stores the user says so (`given`)."""
    inside = {inner.index for inner in loop.inner()}
    results = {value.id for one in loops for value in one.loop.op.results}
    for one in carries(loop):
        behind = closed(code, [one.yielded], results)
        if isinstance(one.arg.type, Tensor) or behind & results:
            return f"{one.arg.name} is carried from tile to tile"
    outside = next((op for op in code.ops.values() if op.name in EFFECTS and op.index not in inside), None)
    if outside is not None:
        return f"line {outside.location.line} stores outside of the loop over tiles"
    if any(GRID in attributes for attributes in code.function.arg_attributes):
        return None
    writing = [op for op in code.ops.values() if op.name in EFFECTS]
    plain = next((op for op in writing if op.name not in STORES and role(op) != "atomic"), None)
    if plain is not None and not given:
        return (
            f"the tiles store through pointers (line {plain.location.line}); --tiles-in-flight 2 says that"
            " they store to different addresses"
        )
    return _read_again(code, writing)


def _read_again(code: Code, writing: Sequence[Op]) -> str | None:
    """Why an iteration may read what another one writes."""
    written = {found.id if (found := pointer(code, op)) else None for op in writing}
    for op in code.ops.values():
        found = pointer(code, op) if role(op) in ACCESSES and op.name not in EFFECTS else None
        if role(op) in ACCESSES and op.name not in EFFECTS and (found is None or found.id in written):
            return f"line {op.location.line} may read what another tile stores"
    return None


def copies(granted: Sequence[Granted], loader: int, number: int) -> Mapping[int, tuple[Granted, ...]]:
    """`number` copies of every group but those that load."""
    free, found = 1 + max(group.id for group in granted), dict[int, tuple[Granted, ...]]()
    for group in granted:
        if group.id == loader or thread_block.only_moves(group):
            continue
        found[group.id] = (group, *(replace(group, id=free + i) for i in range(number - 1)))
        free += number - 1
    return found


def cycles(code: Code, loops: Sequence[Scheduled], number: int) -> float:
    """Predicted machine cycles from tile to tile, for loops of TRIPS iterations, or their `shares` of these:
    what a tile takes divided by the tiles in flight, but no less than its loops occupy the tensor core. A
    tile takes its loops from the first start to the last end, and its stores outside of them pass shared
    memory twice."""
    alone, machine = 0.0, loops[0].machine
    for one, share in zip(loops, shares([one.loop for one in loops]), strict=True):
        unit = one.problem.resolution.cycles_per_unit
        length = max(one.start(op.id) + op.issue for op in one.problem.operations)
        alone += unit * ((share * TRIPS - 1) * one.solution.interval + max(length, one.solution.interval))
    inside = {op.index for one in loops for op in one.loop.op.inner()}
    stored = sum(
        prod(value.type.shape) * bits(value.type.dtype) // 8
        for op in code.ops.values()
        if op.name in EFFECTS and op.index not in inside
        for value in op.operands
        if isinstance(value.type, Tensor)
    )
    alone += 2 * stored / machine.shared.bytes_per_cycle if machine.shared else 0.0
    order = machine.handover.order if number > 1 else 0
    return max(busy(loops) + order, alone / number) if number > 1 else alone


def busy(loops: Sequence[Scheduled]) -> float:
    """Machine cycles for which the loops of a tile occupy the tensor core, with TRIPS iterations each, or
    their `shares` of these."""
    cycles = [one.problem.resolution.cycles_per_unit * one.solution.interval for one in loops]
    return TRIPS * sum(map(mul, shares([one.loop for one in loops]), cycles))


# --- channels ---------------------------------------------------------------------------------------------


def channels(code: Code, plans: Sequence[ChannelPlan], tiles: TilesInFlight) -> tuple[ChannelPlan, ...]:
    """The channels of a kernel: those that the loading group fills in the loop have all copies as consumers,
    those of copied groups are copied. Loads once a tile have a slot for each tile."""
    inside = {inner.index for inner in code.ops[tiles.loop].inner()}
    found = list[ChannelPlan]()
    for plan in plans:
        sets = tuple(tiles.copied(plan.consumers, i) for i in range(tiles.number))
        union = tuple(sorted({group for one in sets for group in one}))
        if plan.producer in tiles.copies:
            own = [tiles.copies[plan.producer][i].id for i in range(tiles.number)]
            found += [
                replace(plan, id=private(plan.id, i), producer=own[i], consumers=sets[i])
                for i in range(tiles.number)
            ]
        elif all(value.producer in inside for use in plan.sources for value in use):
            depth = max(plan.depth, tiles.number) if plan.once else plan.depth
            found.append(replace(plan, consumers=union, alternating=sets, depth=depth))
        else:
            found.append(replace(plan, consumers=union))
    return tuple(found)


def loaded_ahead(code: Code, plans: Sequence[ChannelPlan], loop: int) -> tuple[ChannelPlan, ...] | None:
    """The channels of a kernel with one tile in flight, those of loads once a tile with a slot for the next
    one; None where there are none."""
    inside = {inner.index for inner in code.ops[loop].inner()}
    once = {
        plan.id
        for plan in plans
        if plan.once and all(value.producer in inside for use in plan.sources for value in use)
    }
    found = tuple(replace(plan, depth=max(plan.depth, 2)) if plan.id in once else plan for plan in plans)
    return found if once else None


def private(name: str, index: int) -> str:
    """The channel or ordering barrier of copy `index`."""
    return f"{name}_tile{index}" if index else name


def level(plans: Sequence[ChannelPlan]) -> bool:
    """Whether all copies of a channel have as many slots."""
    depths = dict[tuple[object, ...], int]()
    return all(
        depths.setdefault(tuple(id(use) for use in plan.sources), plan.depth) == plan.depth for plan in plans
    )


def refused(plans: Sequence[ChannelPlan], tiles: TilesInFlight) -> str | None:
    """Why channels do not allow several tiles in flight; None where they do."""
    for plan in plans:
        if plan.producer in tiles.copies and not set(plan.consumers) <= set(tiles.copies):
            return f"{plan.id} goes to a group that only moves data"
    return None


# --- the program ------------------------------------------------------------------------------------------


def alternated(code: Code, program: Program, tiles: TilesInFlight) -> Program:
    """The program of one tile in flight, with copies of its groups."""
    made = list[WarpProgram]()
    for group in program.groups:
        if group.id not in tiles.copies:
            made.append(group)
            continue
        own = tiles.copies[group.id]
        made += [
            replace(group, id=one.id, body=_body(code, program, group, tiles, i)) for i, one in enumerate(own)
        ]
    widths = {group.id: group.warps for group in sorted(made, key=lambda group: group.id)}
    placed = (replace(one, first_warp=thread_block.first_warp(one.id, widths)) for one in made)
    groups = tuple(sorted(placed, key=lambda group: group.id))
    return replace(program, groups=groups, orders=_orders(program, tiles))


def _orders(program: Program, tiles: TilesInFlight) -> tuple[OrderBarrier, ...]:
    """Those within a tile, for each copy; then those between the copies: the first may begin."""
    number, copies = tiles.number, tiles.copies
    within = [
        replace(
            order,
            id=private(order.id, i),
            signaller=copies[order.signaller][i].id,
            waiter=copies[order.waiter][i].id,
        )
        for order in program.orders
        for i in range(number)
    ]
    between = [
        OrderBarrier(_order(one.id), 0, own[i - 1].id, one.id, i == 0)
        for group in program.groups
        for own in [copies.get(group.id, ())]
        for i, one in enumerate(own)
        if _in_order(group.body, _shared(program))
    ]
    return tuple(replace(order, barrier=1 + i) for i, order in enumerate([*within, *between]))


def _order(group: int) -> str:
    """The hand-off of the tensor core to a group, for its next tile."""
    return f"tile_of_{group}"


def _shared(program: Program) -> set[str]:
    """The channels whose slots all copies of a group read, each those of its tiles."""
    return {one.id for one in program.channels if one.alternating}


def _in_order(statements: Statements, shared: set[str]) -> bool:
    """Whether there is something in them that the copies of a group do one after the other: they issue MMAs,
    or wait in a loop for slots of shared channels. Full slots are told apart by the parity of their phases: a
    copy that waits for a slot when the one before it has waited for all of its own cannot mistake an earlier
    phase for its own."""
    return any(_is_ordered(one, shared) for one in walk(statements))


def _is_ordered(statement: Statement, shared: set[str]) -> bool:
    inside = walk((statement,)) if isinstance(statement, Pipelined) else (statement,)
    waits = any(isinstance(one, ConsumerWait) and one.channel in shared for one in inside)
    return isinstance(statement, MmaIssue) or (isinstance(statement, Pipelined) and waits)


def _body(code: Code, program: Program, group: WarpProgram, tiles: TilesInFlight, index: int) -> Statements:
    """What copy `index` of a group does."""
    own = tiles.copies[group.id]
    names = _names(program, tiles, index)
    order = (_order(own[index].id), _order(own[(index + 1) % len(own)].id))
    tile = next(one for one in group.body if isinstance(one, For) and one.op == tiles.loop)
    shared = _shared(program)
    mine = _handed_on(tile.body, shared, *order) if _in_order(tile.body, shared) else tile.body
    tensors = {one.id for one in group.variables if isinstance(one.type, Tensor)}
    other = without_dead_code(code, tuple(_skipped(tile.body, shared, tensors)), tiles.carried)
    both = Alternate(tiles.loop, tiles.number, index, mine, other)
    alternating = replace(tile, body=(both,))
    return tuple(_renamed(alternating if one is tile else one, names) for one in group.body)


def _names(program: Program, tiles: TilesInFlight, index: int) -> Mapping[str, str]:
    """The channels, ordering barriers and buffers of copy `index`, by those of the first."""
    if index == 0:
        return {}
    own = [one.id for one in program.channels if one.producer in tiles.copies]
    found = {name: private(name, index) for name in (*own, *(one.id for one in program.orders))}
    staged = {f"staging{group}": f"staging{own[index].id}" for group, own in tiles.copies.items()}
    return found | staged


def _renamed(thing: Any, names: Mapping[str, str]) -> Any:
    """A statement, or a part of one, with other channels, ordering barriers and buffers."""
    if not names:
        return thing
    if isinstance(thing, tuple):
        return tuple(_renamed(one, names) for one in thing)  # pyright: ignore[reportUnknownVariableType]
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    changed = {
        one.name: names.get(value, value)
        if one.name in ("channel", "order", "buffer")
        else _renamed(value, names)
        for one in fields(thing)
        for value in [getattr(thing, one.name)]
    }
    return replace(thing, **changed)


def _handed_on(body: Statements, shared: set[str], mine: str, following: str) -> Statements:
    """The copy before is waited for before the first MMA of a tile, and the next one goes on behind the
    last."""
    ordered = [i for i, one in enumerate(body) if _in_order((one,), shared)]
    first, last = ordered[0], ordered[-1]
    end = _ending(body[last], shared, OrderBarrierArrive(following))
    return (*body[:first], OrderBarrierWait(mine), *body[first:last], *end, *body[last + 1 :])


def _ending(statement: Statement, shared: set[str], arrive: Statement) -> Statements:
    """A statement with the last MMAs of a tile, and the hand-off: in the epilogue of a loop before the MMAs
    are waited for, where the loop has no other way out."""
    if not isinstance(statement, Pipelined) or statement.stages > 2:
        return statement, arrive
    epilogue = statement.epilogue
    ordered = [
        i
        for i, one in enumerate(epilogue)
        if isinstance(one, MmaIssue) or (isinstance(one, ConsumerWait) and one.channel in shared)
    ]
    behind = max(ordered, default=-1) + 1
    none = (*statement.zeroed, *((arrive,) if statement.stages == 2 else ()))
    return (replace(statement, epilogue=(*epilogue[:behind], arrive, *epilogue[behind:]), zeroed=none),)


def _skipped(body: Statements, shared: set[str], tensors: set[str]) -> Iterator[Statement]:
    """What of a tile matters to the tiles after it: trip counts, and the counters of shared channels, with
    the scalars that they follow from."""
    for one in body:
        match one:
            case Pipelined():
                yield replace(one, prologue=(), steady=(), epilogue=(), short=(), zeroed=())
            case Advance(channel=channel):
                yield from [one] if channel in shared else []
            case Compute(writes=writes):
                scalars = tuple(write for write in writes if write.register.variable not in tensors)
                yield from [replace(one, writes=scalars)] if scalars else []
            case InitializeCarried(register=register):
                yield from [] if register.variable in tensors else [one]
            case For(body=inside):
                kept = tuple(_skipped(inside, shared, tensors))
                yield from [replace(one, body=kept)] if kept else []
            case While(before=before, body=inside):
                again = tuple(_skipped(inside, shared, tensors))
                yield replace(one, before=tuple(_skipped(before, shared, tensors)), body=again)
            case If(then=then, otherwise=otherwise):
                kept, left = (tuple(_skipped(side, shared, tensors)) for side in (then, otherwise))
                yield from [replace(one, then=kept, otherwise=left)] if kept or left else []
            case _:
                pass
