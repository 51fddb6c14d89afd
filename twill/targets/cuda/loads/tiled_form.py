"""A second form of a kernel, whose pointer loads are executed by TMA, and when a launch takes it.

Takes a `Program`; gives the same with channels that TMA fills, and the loads by operation; and the C of the
host that makes their tensor maps and decides by the arguments of a launch.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from twill.ir.channels import Channel
from twill.ir.loop import Scalar, Value
from twill.ir.operands import Read
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import (
    Compute,
    OrderBarrierArrive,
    OrderBarrierWait,
    ProducerLoad,
    ProducerStore,
    Statement,
    Statements,
    StoreTile,
    TileLoad,
    walk,
    with_inner,
)
from twill.ops.table import role
from twill.targets.cuda.loads.tiled_loads import ALIGNMENT, TiledLoad, tiled
from twill.targets.cuda.names import c_name, tensor_map
from twill.targets.cuda.values.polynomials import Polynomial, text
from twill.warp.channels import LOADED
from twill.warp.dataflow import Code, cheap, cone, read
from twill.warp.dead_code import without_dead_code
from twill.warp.thread_block import ONE_WARP, first_warp, variables, without_copies

COORDINATE = 1 << 30
"""What arguments may add to a coordinate, which has 32 bits with a sign: less than half of all."""
LINE, HALF_LINE, BOX = 128, 64, 8192
"""Bytes of a line of a tile from which on TMA is faster than copies, and of one from which on it is where the
tile's boxes are large. (On an H200, a product of 8192 x 8192 x 4096 in tiles of 64 x 32 x 32, six thread
blocks on an SM: 3.3 ms by copies, 8.1 ms by TMA. Weights of 128 x 64 int8 of a mixture of experts: 0.61 ms by
copies, 0.44 ms by TMA.)"""


@dataclass(frozen=True, slots=True, eq=False)
class TiledForm:
    """The kernel with TMA."""

    program: Program
    loads: Mapping[int, TiledLoad]
    """By the operation that loads."""


def tiled_form(program: Program) -> TiledForm | None:
    """The kernel with TMA in every channel whose copies all are such loads, and for such loads beside other
    copies; None where there is none, or the lines of all tiles are short."""
    loads = dict[int, TiledLoad]()
    by_channel: dict[str, list[TiledLoad | None]] = {}
    copying = {channel.id: channel for channel in program.channels if channel.filled_by == "cp_async"}
    for fill, known in _fills(program):
        if fill.channel in copying:
            found = [_tiled(program, load, copying[fill.channel], known) for load in fill.loads]
            by_channel.setdefault(fill.channel, []).extend(found)
    changed = [name for name, found in by_channel.items() if all(found)]
    for name, found in by_channel.items():
        loads |= {one.op: one for one in found if one and (name in changed or _beside(program, one))}
    if all(_short(one) for one in loads.values()):
        return None
    channels = tuple(replace(one, filled_by="tma") if one.id in changed else one for one in program.channels)
    code = read(program.module, program.function)
    bodies = (_without_pointers(program, code, group, loads) for group in program.groups)
    groups = tuple(_narrowed(program, group, channels) for group in bodies)
    made = TiledForm(_granted(_launched(replace(program, channels=channels, groups=groups))), loads)
    return _sharing_copies(made, program) if _alone(made, frozenset(changed)) else None


def launched_by_tma(program: Program) -> bool:
    """Whether the kernel with TMA is launched as the program's `by_tma` says: it may have no such form, as
    which tiles TMA can load is known only when it is printed, or one whose groups load with all warps."""
    form = tiled_form(program) if program.by_tma else None
    return form is not None and form.program.launch is program.by_tma


def _beside(program: Program, load: TiledLoad) -> bool:
    """Whether one thread starts a load while others copy the rest of a slot: of no tile that may lie outside
    of its map, and of none whose lines are short."""
    return not load.inside and not _short(load) and program.cluster == 1


def _short(load: TiledLoad) -> bool:
    """Whether threads copy the lines of a tile faster than TMA does."""
    return load.tile.width < (HALF_LINE if load.tile.box >= BOX else LINE)


# --- what a group knows -------------------------------------------------------------------------------------


Known: TypeAlias = tuple[Read, ...]
"""Numbers that a group has loaded, in variables: where tiles lie (the expert of a block of tokens)."""


def _fills(program: Program) -> Iterator[tuple[ProducerLoad, Known]]:
    """Everything that fills slots, with what is known there."""
    found = list[tuple[ProducerLoad, Known]]()

    def noted(fill: ProducerLoad, known: Known) -> ProducerLoad:
        found.append((fill, known))
        return fill

    for group in program.groups:
        _changed(program, group.body, (), noted)
    moving = {group.id for group in program.groups if group.only_moves}
    for fill, known in found:
        yield fill, known if program.channel(fill.channel).producer in moving else ()


def _changed(
    program: Program,
    body: Statements,
    known: Known,
    change: Callable[[ProducerLoad, Known], ProducerLoad],
) -> Statements:
    """The statements with what fills slots changed. What an iteration loads may be for another one."""
    made = list[Statement]()
    for one in body:
        inside = partial(_changed, program, known=known, change=change)
        made.append(change(one, known) if isinstance(one, ProducerLoad) else with_inner(one, inside))
        if isinstance(one, Compute) and one.at.cycle is None:
            numbers = (write for write in one.writes if _loaded_number(program, program.value(write.value)))
            known = (*known, *(Read(write.value, write.register) for write in numbers))
    return tuple(made)


def _loaded_number(program: Program, value: Value) -> bool:
    """Whether an integer is loaded, or follows from one that is."""
    maker = program.op(value.producer) if value.producer is not None else None
    if maker is None or not isinstance(value.type, Scalar) or not value.type.name.startswith("i"):
        return False
    return role(maker) == "pointer_load" or (
        cheap(maker) and any(_loaded_number(program, one) for one in maker.operands)
    )


# --- the groups that load -----------------------------------------------------------------------------------


def without_cluster(form: TiledForm) -> TiledForm:
    """The kernel for a launch whose thread blocks load everything themselves."""
    return TiledForm(replace(form.program, cluster=1), form.loads)


def _without_pointers(
    program: Program, code: Code, group: WarpProgram, loads: Mapping[int, TiledLoad]
) -> WarpProgram:
    """A group that no longer computes what only the pointers of its loads followed from."""
    if not group.only_moves:
        return group

    by_map = partial(_by_map, code, loads)
    body = without_dead_code(code, _changed(program, group.body, (), by_map))
    return replace(group, body=body, variables=variables(code, body))


def _by_map(code: Code, loads: Mapping[int, TiledLoad], fill: ProducerLoad, known: Known) -> ProducerLoad:
    """Loads that read what their coordinates need; as they were where one of them may lie outside of its map:
    all are copied then."""
    if maybe_outside(loads, fill):
        return fill
    own = (loads.get(one.ops[-1]) for one in fill.loads)
    pairs = zip(fill.loads, own, strict=True)
    return replace(fill, loads=tuple(_at_corner(code, one, by, known) if by else one for one, by in pairs))


def _at_corner(code: Code, load: TileLoad, own: TiledLoad, known: Known) -> TileLoad:
    """With the operations and reads of its coordinates alone."""
    load = _knowing(load, known)
    located = {one.value for one in load.reads}
    needed = {value for one in own.dimensions for value in one.coordinate.values}
    makers = [op for op in code.ops.values() if needed & {one.id for one in op.results} - located]
    ops, leaves = cone(code, makers, lambda value: value.id in located)
    needed |= {value.id for value in leaves}
    reads = tuple(one for one in load.reads if one.value in needed)
    return replace(load, ops=(*ops, load.ops[-1]), reads=reads)


def _knowing(load: TileLoad, known: Known) -> TileLoad:
    read = {one.value for one in load.reads}
    return replace(load, reads=(*load.reads, *(one for one in known if one.value not in read)))


def _tiled(program: Program, load: TileLoad, channel: Channel, known: Known) -> TiledLoad | None:
    """The load by TMA. A tile that passes through registers takes a warpgroup, and no single warp, which
    starts loads by TMA, can bring it where it may lie outside of its map."""
    tensor = channel.tensors[load.tensor]
    found = tiled(program, load, tensor) or tiled(program, _knowing(load, known), tensor)
    return None if found and found.inside and load.along is not None else found


def _launched(program: Program) -> Program:
    """As it is launched where each group that loads is one warp, of its own or within the first group that
    computes."""
    launch = program.by_tma
    if launch is None or any(group.warps > 1 for group in program.groups if group.only_moves):
        return program
    own = [group for group in program.groups if not (launch.within and group.only_moves)]
    widths = {group.id: group.warps for group in own}
    first = {group: first_warp(group, widths) for group in widths}
    groups = (
        replace(group, first_warp=first.get(group.id, 0), registers=launch.entry_registers)
        for group in program.groups
    )
    return replace(program, launch=launch, groups=tuple(groups))


def _granted(program: Program) -> Program:
    """With registers as groups need them of which those that load start TMA loads alone. (On an H200, a bf16
    product of 4096 x 4096 x 4096 in tiles of 128 x 128 x 64 that adds a matrix: with 184 registers for each
    thread ptxas waits for each load of that one before the next, with 216 all are under way.)"""
    moving = {group.id for group in program.groups if group.only_moves}
    filled = [channel.filled_by for channel in program.channels if channel.producer in moving]
    single = all(group.warps == 1 for group in program.groups if group.only_moves)
    return without_copies(program) if single and set(filled) == {"tma"} else program


def _alone(form: TiledForm, changed: Set[str]) -> bool:
    """Whether tiles that may lie outside of their map are loaded by single warps, which copy them."""
    partly = any(one.inside for one in form.loads.values())
    producers = {one.producer for one in form.program.channels if one.id in changed}
    return not partly or all(one.warps == 1 for one in form.program.groups if one.id in producers)


def _sharing_copies(form: TiledForm, before: Program) -> TiledForm:
    """With all warps that a group has, where it copies tiles that lie partly outside of their map, and the
    kernel is launched with the threads `before`: they share the copies. (On an H200, a grouped product of
    Inductor whose thread blocks walk over 16 tiles each, 5% of them of the last rows of a group: one warp
    copies such a tile in several times what MMAs take, and 0.442 ms pass in place of 0.294 without TMA.)"""
    program, warps = form.program, {group.id: group.warps for group in before.groups}
    if program.launch is not before.launch or program.cluster > 1:
        return form
    partly = {program.channel(name).producer for name in copied_partly(form)}
    groups = (
        replace(group, warps=warps[group.id]) if group.id in partly else group for group in program.groups
    )
    return TiledForm(replace(program, groups=tuple(groups)), form.loads)


def copied_partly(form: TiledForm) -> set[str]:
    """The channels whose slots warps copy where tiles lie partly outside of their maps: the owners of the
    slots."""
    fills = (one for group in form.program.groups for one in walk(group.body))
    return {
        form.program.channel(one.channel).slot_owner
        for one in fills
        if isinstance(one, ProducerLoad) and maybe_outside(form.loads, one)
    }


def maybe_outside(loads: Mapping[int, TiledLoad], fill: ProducerLoad) -> bool:
    """Whether a tile of a slot may lie partly outside of its map: threads copy all of the slot then."""
    return any(found.inside for one in fill.loads if (found := loads.get(one.ops[-1])))


def _narrowed(program: Program, group: WarpProgram, channels: tuple[Channel, ...]) -> WarpProgram:
    """One warp, where all that a group does is to start TMA loads and to copy vectors."""
    filled = [channel for channel in channels if channel.producer == group.id]
    copied = sum(tensor.bytes for one in filled if one.filled_by == "cp_async" for tensor in one.tensors)
    started = any(channel.filled_by == "tma" for channel in filled) and copied <= ONE_WARP
    busy = (ProducerStore, StoreTile, OrderBarrierWait, OrderBarrierArrive)
    statements = tuple(walk(group.body))
    writes = any(
        role(program.op(index)) in ("pointer_store", "atomic")
        for one in statements
        if isinstance(one, Compute)
        for index in one.ops
    )
    reads = any(group.id in channel.consumers for channel in channels)
    alone = started and all(one.filled_by in LOADED for one in filled) and not writes and not reads
    if not group.only_moves or not alone or any(isinstance(one, busy) for one in statements):
        return group
    return replace(group, warps=1)


# --- on the host ------------------------------------------------------------------------------------------


def encoded(form: TiledForm, map_type: Mapping[str, str]) -> list[str]:
    """Declarations of the maps, and `by_tma`: whether this launch may take the form."""
    conditions = dict.fromkeys(
        condition for load in form.loads.values() for condition in _conditions(form.program, load)
    )
    lines = [f"CUtensorMap {tensor_map(_name(form.program, load))};" for load in form.loads.values()]
    lines.append(f"bool by_tma = {' && '.join(conditions) or 'true'};")
    for load in form.loads.values():
        lines.append(f"by_tma = by_tma && !{_encode(form.program, load, map_type)};")
    return lines


def _name(program: Program, load: TiledLoad) -> str:
    return program.name(program.op(load.op).result.id)


def _conditions(program: Program, load: TiledLoad) -> list[str]:
    address = f"reinterpret_cast<uintptr_t>({c_name(program.name(load.base.id))})"
    found = [f"{address} % {ALIGNMENT} == 0"]
    for one, multiple in load.multiples:
        if one.constant is None:
            found.append(f"{_host(program, one)} > 0")
            found += [f"({_host(program, one)}) % {multiple} == 0"] if multiple > 1 else []
    found += [f"({_host(program, one)}) % {multiple} == 0" for one, multiple in load.aligned]
    for one in load.given:
        found += [f"{_host(program, one)} >= 0", f"{_host(program, one)} < {COORDINATE}"]
    return found


def _host(program: Program, polynomial: Polynomial) -> str:
    return text(polynomial, lambda value: c_name(program.name(value)), "int64_t")


def _encode(program: Program, load: TiledLoad, map_type: Mapping[str, str]) -> str:
    size, rank = load.tile.bits // 8, len(load.dimensions)
    extents = ", ".join(f"uint64_t({_host(program, one.extent)})" for one in load.dimensions)
    pitches = ", ".join(f"uint64_t(({_host(program, one.stride)}) * {size})" for one in load.dimensions[1:])
    box = ", ".join(str(one.box) for one in load.dimensions)
    kind = f"CU_TENSOR_MAP_DATA_TYPE_{map_type[load.element]}, CU_TENSOR_MAP_SWIZZLE_{load.tile.width}B"
    base = c_name(program.name(load.base.id))
    return (
        f"tensor_map<{rank}>(&{tensor_map(_name(program, load))}, {kind}, {base}, {{{extents}}},"
        f" {{{pitches}}}, {{{box}}})"
    )
