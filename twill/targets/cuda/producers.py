"""How a slot of a channel is filled: by TMA, by copies of threads, by stores of threads.

Takes an `Emitter` and a statement that fills; gives lines of C++. Raises TwillError for a tile that can not
be copied.
"""

from dataclasses import replace

from twill.ir.channels import Channel, SlotTensor
from twill.ir.loop import NvmmaShared, Op, Tensor, Value
from twill.ir.statements import Pipelined, ProducerLoad, ProducerStore, TileLoad, walk
from twill.ops.table import role
from twill.targets.cuda.address_analysis import Analysis
from twill.targets.cuda.barriers import fenced_by_producer
from twill.targets.cuda.copies import Hoisted, copies, hoisted
from twill.targets.cuda.copies import copied as copied_in_loop
from twill.targets.cuda.elements import refuse, sequence
from twill.targets.cuda.emitter import (
    FIRST,
    ISSUER,
    PAIR_RANK,
    Emitter,
    box_coordinates,
    indented,
    map_pointer,
)
from twill.targets.cuda.expressions import atom, bare, plus, times
from twill.targets.cuda.fragments import linear, numbered
from twill.targets.cuda.local_channels import reused_behind_a_wait
from twill.targets.cuda.names import channel as channel_name
from twill.targets.cuda.names import tensor_map, threads_copied
from twill.targets.cuda.operations import execute
from twill.targets.cuda.register_loads import Kept, Loading, Units, kept_in_registers, loaded, loading, units
from twill.targets.cuda.register_tiles import Point
from twill.targets.cuda.scope import Form, Scope, equal_loads
from twill.targets.cuda.shared_tiles import Shared, addressed, boxed, copied, copy, filling_text
from twill.targets.cuda.through_shared import write_tile
from twill.targets.cuda.tiled_corners import NOTHING_FIXED, fixed_corner
from twill.targets.cuda.tiled_loads import TiledLoad
from twill.warp.dataflow import into_shared
from twill.warp.slot_tensors import bits


def producer_load(emitter: Emitter, it: ProducerLoad) -> list[str]:
    """One warp waits for an empty slot and starts the loads; or all threads start copies. In a group that
    reads the slot too, for an iteration that there is."""
    if not it.slots:
        return _every(emitter, it)
    released = replace(it.at.iteration, offset=it.at.iteration.offset + it.slots)
    conditions = emitter.exists(it.at.iteration)
    conditions += emitter.exists(released) if released.base == "newest" else []
    lines = _every(emitter, it)
    return [f"if ({' && '.join(conditions)}) {{", *indented(lines), "}"] if conditions else lines


def first_loads(emitter: Emitter, it: Pipelined) -> list[str]:
    """Before a loop: the first loads of a group that reads what it loads, to all slots."""
    most = max((one.slots for one in it.filled), default=0)
    lines = list[str]()
    for one in it.filled:
        own = _every(emitter, one)
        lines += own if one.slots == most else [f"if (i < {one.slots}) {{", *indented(own), "}"]
    head = ["#pragma unroll 1", f"for (int32_t i = 0; i < min(n, {most}); ++i) {{"]
    return [*head, *indented(lines), "}"] if lines else []


def _every(emitter: Emitter, it: ProducerLoad) -> list[str]:
    """The load of an iteration that there is."""
    n = emitter.positions.of(it.channel, it.at.iteration)
    if emitter.program.channel(it.channel).filled_by == "cp_async":
        return _copied_by_threads(emitter, it, n)
    lines = [line for load in it.loads for line in _tile(emitter, it, load)]
    inside = _inside(emitter, it)
    tensors = emitter.program.channel(it.channel).tensors
    expected = it.bytes or sum(tensors[load.tensor].loaded for load in it.loads)
    expect = f"mbarrier_arrive_expect({channel_name(it.channel)}.full({n}), {expected});"
    if emitter.of_pair(it.channel):
        expect = f"if ({FIRST}) {expect.replace(str(expected), str(2 * expected))}"
    head = emitter.comment(it.at, it.loads[-1].ops, f"load {it.channel}")
    before = threads_copied(emitter.program.channel(it.channel).slot_owner)
    fenced = fenced_by_producer(emitter, it.channel)
    fence = [f"if ({before}) fence_async_shared(), --{before};"] if fenced else []
    start = ["if (thread.leader) {", *indented([*fence, expect, *lines]), "}"]
    acquire = f"{channel_name(it.channel)}.producer_acquire({n});"
    if not inside:
        several = emitter.group.warps > 1 and not emitter.group.only_moves
        return (
            [head, f"{ISSUER} {{", *indented([acquire, *start]), "}"] if several else [head, acquire, *start]
        )
    full = f"{channel_name(it.channel)}.full({n})"
    copied = [*_filled(emitter, it, n), f"cp_async_arrive_too({full});", "__syncwarp();"]
    copied.append(f"if (thread.leader) mbarrier_arrive({full});")
    copied += [f"{before} = {emitter.program.channel(it.channel).depth};"] if fenced else []
    other = ["} else {", *indented(copied), "}"]
    chosen = ["bool inside_ = true;", *inside, "if (inside_) {", *indented(start), *other]
    return [head, acquire, "{", *indented(chosen), "}"]


def _inside(emitter: Emitter, it: ProducerLoad) -> list[str]:
    """Whether all tiles of a slot are such as tensor maps describe; nothing where they always are."""
    lines = list[str]()
    for load in it.loads:
        own = emitter.tiled.get(load.ops[-1])
        if own is None or not own.inside:
            continue
        scope = emitter.scope(load.reads, at=it.at)
        fixed = emitter.corners.get(load.ops[-1], NOTHING_FIXED)
        holds = [f"{fixed.text(scope, one)} >= {many}" for one, many in own.inside]
        lines += ["{", *indented([*scope.lines, f"inside_ = inside_ && {' && '.join(holds)};"]), "}"]
    return lines


def _corner(emitter: Emitter, scope: Scope, load: TiledLoad) -> list[str]:
    """Of a tile in the tensor map of a pointer load: coordinates, outermost first."""
    fixed = emitter.corners.get(load.op, NOTHING_FIXED)
    return [f"int32_t({fixed.text(scope, one.coordinate)})" for one in reversed(load.dimensions)]


def _computed(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> Scope:
    """A scope in which all that a load needs is computed."""
    scope = _addressing(emitter, it, load)
    for index in load.ops[:-1]:
        execute(scope, emitter.program.op(index))
    return scope


def _addressing(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> Scope:
    """A scope for the addresses of a load. Its threads share the tile otherwise than those of a group that
    computes share what it keeps, so index tiles that are loaded again are read where they are needed."""
    scope = emitter.scope(load.reads, at=it.at)
    scope.streaming = True
    return scope


def _tile(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> list[str]:
    op = emitter.program.op(load.ops[-1])
    tensor = emitter.program.channel(it.channel).tensors[load.tensor]
    n = emitter.positions.of(it.channel, it.at.iteration)
    own = emitter.tiled.get(op.index)
    scope = emitter.scope(load.reads, at=it.at) if own else _computed(emitter, it, load)
    if role(op) == "pointer_load" and own is None:
        return _bulk(emitter, it, scope, op, tensor)
    corner = _corner(emitter, scope, own) if own else [scope.scalar(value) for value in op.operands[1:]]
    if tensor.halved is not None:
        half = times(PAIR_RANK, tensor.part[tensor.halved])
        corner[tensor.halved] = f"{atom(corner[tensor.halved])} + {half}"
    if isinstance(tensor.encoding, NvmmaShared) and not own:
        corner[-1] = times(corner[-1], tensor.encoding.room)
    name = f"&{tensor_map(emitter.program.name(op.result.id))}" if own else map_pointer(scope, op)
    try:
        address = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
        tile = boxed(address, tensor.part, tensor.dtype, tensor.encoding)
    except ValueError as problem:
        raise refuse(emitter.program, op, f"{op.result.name} {problem}") from problem
    full, of_pair = f"{channel_name(it.channel)}.full({n})", emitter.of_pair(it.channel)
    full = f"of_first({full})" if of_pair else full
    if tensor.multicast is not None:
        scope.lines += _halves(emitter, tile, tensor, corner, name, full)
        return ["{", *indented(scope.lines), "}"]
    for box in range(tile.boxes):
        at = box_coordinates(corner, box * tile.width * 8 // tile.bits)
        into = plus(tile.address, box * tile.box)
        scope.lines.append(f"{'tma_load_pair' if of_pair else 'tma_load'}({into}, {name}, {full}, {at});")
    return ["{", *indented(scope.lines), "}"]


LOAD_BOX = {
    (False, False): "tma_load",
    (True, False): "tma_load_multicast",
    (True, True): "tma_load_multicast_pair",
}
"""What loads a box, by whether it arrives in both blocks of a cluster and whether they are a pair."""


def _halves(
    emitter: Emitter, tile: Shared, tensor: SlotTensor, corner: list[str], name: str, full: str
) -> list[str]:
    """The loads of a tile in two halves: of a cluster or a pair each block loads one, for both."""
    axis, program = tensor.multicast, emitter.program
    assert axis is not None
    lines, shared = list[str](), program.clustered
    load_box = LOAD_BOX[shared, program.pairs]
    moves = axis + len(corner) - len(tensor.shape)
    for half in (PAIR_RANK,) if shared else ("0", "1"):
        part, skipped = times(half, tensor.box[axis]), times(half, tile.box // 2)
        moved = [plus(atom(one), part) if i == moves else one for i, one in enumerate(corner)]
        for box in range(tile.boxes):
            at = box_coordinates(moved, box * tile.width * 8 // tile.bits)
            into = plus(plus(tile.address, box * tile.box), skipped)
            lines.append(f"{load_box}({into}, {name}, {full}, {at});")
    return lines


def _bulk(emitter: Emitter, it: ProducerLoad, scope: Scope, op: Op, tensor: SlotTensor) -> list[str]:
    """A vector by one bulk copy, from where its first pointer points."""
    assert isinstance(op.result.type, Tensor)
    channel, n = channel_name(it.channel), emitter.positions.of(it.channel, it.at.iteration)
    first = Point(linear(op.result.type, 32 * emitter.group.warps), "0", ("0", "0"))
    pointer = bare(scope.elements(op.operands[0])(first))
    into = plus(f"{channel}.slot({n})", tensor.offset)
    scope.lines.append(f"bulk_load({into}, {pointer}, {tensor.bytes}, {channel}.full({n}));")
    return ["{", *indented(scope.lines), "}"]


def _copied_by_threads(emitter: Emitter, it: ProducerLoad, n: str) -> list[str]:
    """Asynchronous copies by every thread of the group."""
    head = [
        emitter.comment(it.at, it.loads[-1].ops, f"copy {it.channel}"),
        f"{channel_name(it.channel)}.producer_acquire({n});",
    ]
    lines = _filled(emitter, it, n)
    if all(load.along is None for load in it.loads):
        return [*head, *lines, f"{channel_name(it.channel)}.producer_commit({n});"]
    copied = ["cp_async_wait();"] if any(load.along is None for load in it.loads) else []
    arrive = f"mbarrier_arrive({channel_name(it.channel)}.full({n}));"
    return [*head, *lines, *copied, "fence_async_shared();", arrive]


def _filled(emitter: Emitter, it: ProducerLoad, n: str) -> list[str]:
    """The loads of a slot. Asynchronous ones are started before threads wait for what they load."""
    started = [load for load in it.loads if _started(emitter, it, load)]
    lines = [line for load in started for line in _start(emitter, it, load, n)]
    others = [load for load in it.loads if load not in started]
    passing = [load for load in others if load.along is not None]
    lines += [line for load in others if load.along is None for line in _copies(emitter, it, load, n)]
    used = sum(one.registers for one in (*emitter.kept.values(), *emitter.kept_offsets.values()))
    room = _room(emitter) - used
    equal = [load for load in passing if _equal(emitter, *_loaded(emitter, it, load))]
    lines += [line for load in equal for line in _first_stored(emitter, it, load, n)]
    return [*lines, *loaded([_loading(emitter, it, one, n) for one in passing if one not in equal], room)]


def _started(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> bool:
    """Whether TMA loads a tile beside copies of threads."""
    return emitter.program.channel(it.channel).filled_by == "cp_async" and load.ops[-1] in emitter.tiled


def _start(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> list[str]:
    """One thread makes the slot's phase wait for the tile too, before it arrives for its copies."""
    channel, (_, tensor) = channel_name(it.channel), _loaded(emitter, it, load)
    expect = f"mbarrier_expect({channel}.full({n}), {tensor.bytes});"
    return ["if (thread.leader) {", *indented([expect, *_tile(emitter, it, load)]), "}"]


def _room(emitter: Emitter) -> int:
    """Registers of a thread that copies for offsets and for what is in flight. A lean program leaves some for
    all variables of the group, which are not all live at the same time."""
    variables = len(emitter.group.variables) if emitter.program.lean else 0
    return emitter.group.registers - emitter.program.launch.addresses - variables


def _loaded(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> tuple[Op, SlotTensor]:
    """The operation that loads, and where its tile lies in a slot."""
    tensors = emitter.program.channel(it.channel).tensors
    return emitter.program.op(load.ops[-1]), tensors[load.tensor]


def _copies(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> list[str]:
    """Raises TwillError where a thread would need addresses that other threads have."""
    scope = _addressing(emitter, it, load)
    op, tensor = emitter.program.op(load.ops[-1]), emitter.program.channel(it.channel).tensors[load.tensor]
    for index in load.ops[:-1]:
        execute(scope, emitter.program.op(index))
    slot = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
    try:
        lines = _copied(emitter, scope, load, tensor, slot)
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem
    return ["{", *indented([*scope.lines, *lines]), "}"]


def _copied(emitter: Emitter, scope: Scope, load: TileLoad, tensor: SlotTensor, slot: str) -> list[str]:
    op = emitter.program.op(load.ops[-1])
    if _equal(emitter, op, tensor):
        return [_first_copy(emitter, scope, op, load.vector, slot)]
    if (kept := emitter.kept.get(op.index)) is not None:
        return [*copied_in_loop(scope, op, kept, slot)]
    if not isinstance(op.result.type, Tensor):
        return [_number_copied(scope, op, load.vector, slot)]
    pointers = scope.elements(op.operands[0])
    mask = scope.elements(op.operands[1]) if len(op.operands) > 1 else None
    form = linear(op.result.type, 32 * emitter.group.warps)
    other = filling_text(emitter.program.function, op)
    return [*copied(slot, tensor, load.vector, form, pointers, mask, other)]


def _units(emitter: Emitter, op: Op, tensor: SlotTensor, load: TileLoad) -> Units:
    """How the threads of the group load a tile through registers. Raises TwillError for one that they can
    not."""
    assert isinstance(op.result.type, Tensor)
    assert load.along is not None
    try:
        return units(tensor, load.vector, load.along, numbered(op.result.type, 32 * emitter.group.warps))
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem


def _loading(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> Loading:
    """A load through registers."""
    scope, (op, tensor) = _computed(emitter, it, load), _loaded(emitter, it, load)
    slot = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
    own = emitter.kept_offsets.get(op.index, Kept())
    return loading(scope, op, _units(emitter, op, tensor, load), own, slot)


def _first_stored(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> list[str]:
    """The first element of a tile of equal numbers, which are not wide enough for a copy."""
    scope, (op, tensor) = _computed(emitter, it, load), _loaded(emitter, it, load)
    assert isinstance(op.result.type, Tensor)
    first = Point(numbered(op.result.type, 32 * emitter.group.warps), "0", ("0", "0"))
    pointer, *mask = (scope.elements(value)(first) for value in op.operands[:2])
    size, slot = bits(tensor.dtype) // 8, plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
    read = f"load_global<{size}>({', '.join((pointer, *mask, *(['0'] if mask else [])))})"
    stored = f"if (thread.index == 0) shared_at<uint{8 * size}_t>({slot}) = {read};"
    return ["{", *indented([*scope.lines, stored]), "}"]


def _equal(emitter: Emitter, op: Op, tensor: SlotTensor) -> bool:
    """Whether readers take a tile of equal numbers from its first element alone."""
    return tensor.encoding is None and op.result.id in equal_loads(emitter.program.function)


def _first_copy(emitter: Emitter, scope: Scope, op: Op, vector: int, slot: str) -> str:
    """The copy of the first elements of a tile, by one thread."""
    assert isinstance(op.result.type, Tensor)
    first = Point(linear(op.result.type, 32 * emitter.group.warps), "0", ("0", "0"))
    pointer, *mask = (scope.elements(value)(first) for value in op.operands[:2])
    return f"if (thread.index == 0) {copy(vector, slot, pointer, ''.join(mask), '')}"


def kept_in_loop(emitter: Emitter, it: Pipelined) -> list[str]:
    """Before a loop: what its copies keep. Only a warpgroup that does nothing but move data has
    registers for that."""
    emitter.kept, emitter.kept_offsets, emitter.corners = {}, {}, {}
    inside = frozenset(op.index for op in emitter.program.op(it.op).inner())
    tiled = _fixed_corners(emitter, it, inside)
    if not emitter.group.only_moves or emitter.group.warps < 4:
        return tiled
    room, lines = _room(emitter), tiled
    fills = (one for one in walk((it,)) if isinstance(one, ProducerLoad))
    for fill, load in ((one, load) for one in fills for load in one.loads):
        tile = isinstance(emitter.program.op(load.ops[-1]).result.type, Tensor)
        found_before = (*emitter.kept, *emitter.kept_offsets, *emitter.tiled)
        if load.vector and tile and load.ops[-1] not in found_before:
            kept = _kept_of_load(emitter, fill, load, inside, room)
            room -= kept.registers if kept else 0
            lines = [*lines, *(kept.lines if kept else ())]
    return lines


def _kept_of_load(
    emitter: Emitter, fill: ProducerLoad, load: TileLoad, inside: frozenset[int], room: int
) -> Kept | Hoisted | None:
    """Keeps what the copies of a load need in every iteration, in at most `room` registers."""
    if load.along is not None:
        offsets = emitter.kept_offsets[load.ops[-1]] = _kept_offsets(emitter, fill, load, inside, room)
        return offsets
    found = _kept_of_copy(emitter, fill, load, inside, room)
    if found is not None:
        emitter.kept[load.ops[-1]] = found
    return found


def _fixed_corners(emitter: Emitter, it: Pipelined, inside: frozenset[int]) -> list[str]:
    """What of the coordinates of loads by TMA is the same in every iteration."""
    block = emitter.program.op(it.op).regions[0].blocks[0]
    results = (value.id for index in inside for value in emitter.program.op(index).results)
    moving = frozenset([*(arg.id for arg in block.args), *results])
    lines = list[str]()
    filled = [one for one in walk((it,)) if isinstance(one, ProducerLoad)]
    for one in filled:
        for load in one.loads:
            index = load.ops[-1]
            if index in emitter.tiled and index not in emitter.corners:
                scope = emitter.scope(load.reads, at=one.at)
                emitter.corners[index] = fixed_corner(scope, emitter.tiled[index], moving)
                lines += emitter.corners[index].lines(scope)
    return lines


def _kept_of_copy(
    emitter: Emitter, it: ProducerLoad, load: TileLoad, inside: frozenset[int], room: int
) -> Hoisted | None:
    op, tensor = emitter.program.op(load.ops[-1]), emitter.program.channel(it.channel).tensors[load.tensor]
    assert isinstance(op.result.type, Tensor)
    if _equal(emitter, op, tensor):
        return None
    try:
        found = copies(tensor, load.vector, linear(op.result.type, 32 * emitter.group.warps))
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem
    if found is None:
        return None
    scope, before = _in_loop_and_before(emitter, it, load, inside)
    try:
        return hoisted(scope, before.lines, op, found, inside, room)
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem


def _in_loop_and_before(
    emitter: Emitter, it: ProducerLoad, load: TileLoad, inside: frozenset[int]
) -> tuple[Scope, Scope]:
    """Scopes in which all that a load needs is computed, and what of it is the same in every iteration."""
    before, scope = _addressing(emitter, it, load), _addressing(emitter, it, load)
    analysis = Analysis(before, inside)
    for index in load.ops[:-1]:
        one = emitter.program.op(index)
        execute(scope, one)
        if all(map(analysis.invariant, one.results)):
            execute(before, one)
    return scope, before


def _kept_offsets(
    emitter: Emitter, it: ProducerLoad, load: TileLoad, inside: frozenset[int], room: int
) -> Kept:
    op, tensor = _loaded(emitter, it, load)
    if _equal(emitter, op, tensor):
        return Kept()
    scope, before = _in_loop_and_before(emitter, it, load, inside)
    return kept_in_registers(scope, before.lines, op, _units(emitter, op, tensor, load), inside, room // 2)


def producer_store(emitter: Emitter, it: ProducerStore) -> list[str]:
    """All threads wait for an empty slot, write what they compute there, and arrive; each warpgroup of an
    independent group by itself, its rows."""
    n, scope = sequence(it.channel, it.at.iteration), emitter.scope(it.reads, at=it.at, ops=it.ops)
    ops, channel = [emitter.program.op(index) for index in it.ops], emitter.program.channel(it.channel)
    at = list[str]()
    if channel.by_warpgroup:
        own = plus("thread.warpgroup", channel.fill(0))
        at, n = [f"const auto at_ = {channel_name(channel.id)}.position({n}, {own});"], "at_"
    tiles = zip(it.values, channel.tensors, strict=True)
    relaid = into_shared(ops, [value for value, tensor in tiles if tensor.encoding is not None])
    for op in ops:
        if op.index in relaid:
            scope.values[op.result.id] = _as_computed(scope, op.operands[0])
        else:
            execute(scope, op)
    for value, tensor in zip(it.values, channel.tensors, strict=True):
        address = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
        if tensor.first_row is not None:
            address = f"{address} - {times('thread.warpgroup', _row_bytes(tensor))}"
        try:
            write_tile(scope, value, tensor, channel, address)
        except ValueError as problem:
            raise refuse(emitter.program, emitter.program.op(it.ops[-1]), str(problem)) from problem
    when = "" if it.at.cycle is None else f"cycle {it.at.cycle}, stage {it.at.stage}: "
    head = f"// {when}store {it.node} to {it.channel}"
    acquire, commit = _producing(emitter, channel, n)
    # MMAs and TMA read what has an encoding, through the async proxy; threads read the rest
    fence = ["fence_async_shared();"] if any(one.encoding is not None for one in channel.tensors) else []
    lines = [*acquire, "{", *indented(scope.lines), "}", *fence, *commit]
    return [head, "{", *indented([*at, *lines]), "}"] if at else [head, *lines]


def _row_bytes(tensor: SlotTensor) -> int:
    """Bytes of a box of a slot that holds the rows of one warpgroup: threads count their rows from the first
    one of the group."""
    return addressed("", tensor).box


def _as_computed(scope: Scope, value: Value) -> Form:
    """A tile in the layout that it was computed in; one in a slot is read in it."""
    if value.id in scope.loads and isinstance(value.type, Tensor):
        return scope.converted(value, value.type)
    return scope.in_registers(value)


def _producing(emitter: Emitter, channel: Channel, n: str) -> tuple[list[str], list[str]]:
    """What stands before and after the writes of threads to slot n."""
    if not channel.local:
        name = channel_name(channel.id)
        return [f"{name}.producer_acquire({n});"], [f"{name}.producer_commit({n});"]
    ordered = reused_behind_a_wait(emitter.group, emitter.program.channels, channel)
    return ([] if ordered else [emitter.scope().group_barrier()]), []


def _number_copied(scope: Scope, op: Op, size: int, slot: str) -> str:
    """The copy of a number to a slot, by one thread."""
    pointer, *masks = (bare(scope.scalar(value)) for value in op.operands[:2])
    return f"if (thread.leader) cp_async<{size}>({', '.join((slot, pointer, *masks))});"
