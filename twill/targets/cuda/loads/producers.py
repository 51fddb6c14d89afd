"""How a slot of a channel is filled: by TMA, by copies of threads, by stores of threads.

Takes an `Emitter` and a statement that fills; gives lines of C++. Raises TwillError for a tile that can not
be copied.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from re import search

from twill.ir.channels import Channel, SlotTensor
from twill.ir.loop import NvmmaShared, Op, Tensor, Value
from twill.ir.operands import Iteration
from twill.ir.statements import Compute, Pipelined, ProducerLoad, ProducerStore, Statements, TileLoad, walk
from twill.ops.axis_info import AxisAnalysis, element_bytes
from twill.ops.pointer_loads import bounds_of_copies
from twill.ops.table import role
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
from twill.targets.cuda.loads.address_analysis import Analysis
from twill.targets.cuda.loads.copies import copied as copied_in_loop
from twill.targets.cuda.loads.crossing import crosses
from twill.targets.cuda.loads.kept_addresses import (
    addressing,
    loaded_tile,
    of_equal_numbers,
    room_of,
    units_of,
)
from twill.targets.cuda.loads.register_loads import Kept, Loading, loaded, loading, started, stored
from twill.targets.cuda.loads.row_numbers import Passed, Rows, of_lane, own_element, passed, rows, told_apart
from twill.targets.cuda.loads.tile_copies import Places, copied, copy, copy_places, filling_text, masked
from twill.targets.cuda.loads.tiled_corners import NOTHING_FIXED
from twill.targets.cuda.loads.tiled_form import TiledForm, copied_partly
from twill.targets.cuda.loads.tiled_loads import TiledLoad
from twill.targets.cuda.loops.barriers import fenced_by_producer, fences
from twill.targets.cuda.names import channel as channel_name
from twill.targets.cuda.names import tensor_map, threads_copied
from twill.targets.cuda.operations import execute
from twill.targets.cuda.registers.elements import refuse, sequence
from twill.targets.cuda.registers.fragments import linear, numbered
from twill.targets.cuda.registers.register_tiles import Point
from twill.targets.cuda.scope import Form, Scope
from twill.targets.cuda.shared.local_channels import reused_behind_a_wait
from twill.targets.cuda.shared.shared_tiles import UNROLL, Shared, addressed, boxed
from twill.targets.cuda.shared.through_shared import write_tile
from twill.warp.dataflow import EFFECTS, into_shared
from twill.warp.skipped import skipped
from twill.warp.slot_tensors import bits

AT_ONCE = 8
"""Slots whose numbers of rows registers hold at once, at most."""


def producer_load(emitter: Emitter, it: ProducerLoad) -> list[str]:
    """One warp waits for an empty slot and starts the loads; or all threads start copies. In a group that
    reads the slot too, for an iteration that there is."""
    return for_a_slot(emitter, it, [*_every(emitter, it), *emitter.following(it)])


def for_a_slot(emitter: Emitter, it: ProducerLoad | Compute, lines: list[str]) -> list[str]:
    """What fills a slot that its own group reads too, or is computed beside it: where there are both its
    iteration and the one that has released the slot."""
    if not it.slots:
        return lines
    released = it.at.iteration.later(-it.slots)
    conditions = emitter.exists(it.at.iteration)
    conditions += emitter.exists(released) if released.base == "newest" else []
    return [f"if ({' && '.join(conditions)}) {{", *indented(lines), "}"] if conditions else lines


def numbers_ahead(emitter: Emitter, body: Statements) -> list[str]:
    """At the beginning of an iteration of a group that computes too: the numbers of the rows that it copies
    in the middle, so that it does not wait for them there. Each belongs to one slot of an iteration."""
    declared, lines = list[str](), list[str]()
    for place, it in enumerate(body):
        if not isinstance(it, ProducerLoad) or not it.slots or _computed_by(it, body[:place]):
            continue
        if emitter.program.channel(it.channel).filled_by != "cp_async":
            continue
        numbers, _ = _filled(emitter, it, emitter.positions.of(it.channel, it.at.iteration))
        names = _names(numbers)
        if names and not any(f"{name} = 0;" in declared for name in names):
            declared += [f"{name} = 0;" for name in names]
            own = [one.removeprefix(f"const {of_lane(one).partition(' ')[0]} ") for one in numbers]
            conditions = emitter.exists(it.at.iteration)
            head = f"if ({' && '.join(conditions)}) {{" if conditions else "{"
            lines += [head, *indented(own), "}"]
            emitter.ahead.add(it.channel)
    return [*declared, *lines]


def numbers_carried(emitter: Emitter, it: Pipelined) -> list[str]:
    """Before a loop of a group that only loads: the numbers of the rows that the steady state copies first.
    From then on each iteration loads those of the next one before it waits for its slot, or it would wait for
    them in front of its copies. Not where an iteration may store such numbers, or leave out its copies."""
    program, lines = emitter.program, list[str]()
    writes = any(op.name in EFFECTS for op in program.op(it.op).inner())
    if not emitter.group.only_moves or program.lean or writes or skipped(program, it):
        return lines
    fills = [one for one in it.steady if isinstance(one, ProducerLoad)]
    for fill in fills:
        alone = [one.channel for one in fills].count(fill.channel) == 1
        copied = program.channel(fill.channel).filled_by == "cp_async" and fill.at.iteration.base == "newest"
        first = Iteration("first", emitter.least - fill.at.iteration.offset)
        if not alone or not copied:
            continue
        if names := _copied_with(*_filled(emitter, fill, emitter.positions.of(fill.channel, first))):
            ending = emitter.carried[fill.channel] = f"_next{len(emitter.carried)}_"
            lines += [*(f"{name}{ending} = 0;" for name in names), *_numbers_of(emitter, fill, first)]
    return lines


def _numbers_of(emitter: Emitter, fill: ProducerLoad, iteration: Iteration) -> list[str]:
    """Loads the numbers of the rows of an iteration, if there is one, for when it copies them."""
    later = replace(fill, at=replace(fill.at, iteration=iteration))
    numbers, lines = _filled(emitter, later, emitter.positions.of(fill.channel, iteration))
    own = (name.split()[-1] for name in _copied_with(numbers, lines))
    lines = [*numbers, *(f"{name}{emitter.carried[fill.channel]} = {name};" for name in own)]
    conditions = emitter.exists(iteration)
    return [f"if ({' && '.join(conditions)}) {{" if conditions else "{", *indented(lines), "}"]


def _carried(emitter: Emitter, it: ProducerLoad, numbers: Sequence[str], lines: Sequence[str]) -> list[str]:
    """What the iteration before has loaded, in place of the loads of these numbers."""
    ending = emitter.carried[it.channel]
    return [f"const {name} = {name.split()[-1]}{ending};" for name in _copied_with(numbers, lines)]


def _copied_with(numbers: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Types and names of what lanes load that copies have, beside what only other numbers follow from."""
    text = "\n".join(lines)
    return [name for name in _names(numbers) if search(rf"\b{name.split()[-1]}\b", text)]


def _names(numbers: Sequence[str]) -> list[str]:
    """Types and names of what lanes load."""
    return [name for one in numbers if (name := of_lane(one))]


def _computed_by(load: ProducerLoad, others: Statements) -> bool:
    """Whether others compute, for each load, numbers that it reads."""
    written = {w.register for one in others if isinstance(one, Compute) and one.slots for w in one.writes}
    return any(read.location in written for read in load.reads)


def first_loads(emitter: Emitter, it: Pipelined, computed: Callable[[Compute], list[str]]) -> list[str]:
    """Before a loop: the first loads of a group that reads what it loads, to all slots, with what is
    `computed` beside them. The numbers of rows are loaded for all of these at once: each would be waited for
    behind the copies of the slot before."""
    most = max((one.slots for one in it.filled), default=0)
    begun, lines = list[str](), list[str]()
    for number, one in enumerate(it.filled):
        before, first, last = list[str](), list[str](), list[str]()
        if isinstance(one, Compute):
            own = [*computed(one), *emitter.following(one)]
        else:
            if 1 < one.slots <= AT_ONCE and not _computed_by(one, it.filled):
                before, first, last = _numbers_at_once(emitter, one, f"first{number}")
            begun += before
            emitter.ahead |= {one.channel} if before else set()
            emitter.unused |= {one.channel} if _never_filled(emitter, it, one) else set()
            own = [*first, *_every(emitter, one), *last, *emitter.following(one)]
            emitter.ahead -= {one.channel}
            emitter.unused -= {one.channel}
        whole = one.slots == most and not first
        head = f"if (i < {one.slots}) {{" if one.slots < most else "{"
        lines += own if whole else [head, *indented(own), "}"]
    head = ["#pragma unroll 1", f"for (int32_t i = 0; i < min(n, {most}); ++i) {{"]
    return [*begun, *head, *indented(lines), "}"] if lines else []


def _never_filled(emitter: Emitter, loop: Pipelined, load: ProducerLoad) -> bool:
    """Whether the first loads of a loop fill each slot for the first time, so that no thread has to look
    whether it is empty: the loop is executed once, and nothing else fills the channel. Warps that issue
    copies by TMA keep their lanes together by looking."""
    channel = emitter.program.channel(load.channel)
    others = tuple(one for one in emitter.group.body if one is not loop)
    again = (one for one in (*loop.filled, *walk(others)) if isinstance(one, ProducerLoad | ProducerStore))
    return (
        channel.filled_by == "cp_async"
        and not channel.sharers
        and load.slots <= channel.depth
        and [one for one in again if one.channel == load.channel] == [load]
    )


def _numbers_at_once(
    emitter: Emitter, it: ProducerLoad, suffix: str
) -> tuple[list[str], list[str], list[str]]:
    """The numbers of the rows of all slots; before each slot is filled, those of its rows; behind that, the
    next ones in their place. Empty where lanes load none."""
    if emitter.program.channel(it.channel).filled_by != "cp_async":
        return [], [], []
    numbers, _ = _filled(emitter, it, emitter.positions.of(it.channel, it.at.iteration))
    names = {line: name for line in numbers if (name := of_lane(line))}
    if not names:
        return [], [], []
    declared, loads, first, last = list[str](), list[str](), list[str](), list[str]()
    for line in numbers:
        if line not in names:
            loads.append(line)
            continue
        kind, _, name = names[line].partition(" ")
        declared.append(f"{kind} {name}_{suffix}_[{it.slots}] = {{}};")
        if any(search(rf"\b{name}\b", other.partition(" = ")[2]) for other in numbers):
            loads += [line, f"{name}_{suffix}_[i] = {name};"]
        else:
            loads.append(f"{name}_{suffix}_[i] = {line.partition(' = ')[2]}")
        first.append(f"const {kind} {name} = {name}_{suffix}_[0];")
        last.append(f"{name}_{suffix}_[i_] = {name}_{suffix}_[i_ + 1];")
    whole = [UNROLL, f"for (int32_t i = 0; i < {it.slots}; ++i) if (i < n) {{", *indented(loads), "}"]
    moved = [UNROLL, f"for (int i_ = 0; i_ < {it.slots - 1}; ++i_) {{", *indented(last), "}"]
    return [*declared, *whole], first, moved


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
    full = f"{channel_name(it.channel)}.full({n})"
    several, arrive = emitter.group.warps > 1, f"mbarrier_arrive({full});"
    if several and _shares_copies(emitter, it.channel):
        start.append(f"else if (thread.lane == 0) {arrive}")
    elif several:
        return [head, f"{ISSUER} {{", *indented([acquire, *start]), "}"]
    if not inside:
        return [head, acquire, *start]
    numbers, lines = _filled(emitter, it, n)
    copied = [*numbers, *lines, f"cp_async_arrive_too({full});", "__syncwarp();"]
    copied.append(f"if (thread.{'lane == 0' if several else 'leader'}) {arrive}")
    copied += [f"{before} = {emitter.program.channel(it.channel).depth};"] if fenced else []
    other = ["} else {", *indented(copied), "}"]
    chosen = ["bool inside_ = true;", *inside, "if (inside_) {", *indented(start), *other]
    return [head, acquire, "{", *indented(chosen), "}"]


def _shares_copies(emitter: Emitter, channel: str) -> bool:
    """Whether each warp of the group arrives for a slot, as all of them copy it where TMA can not load it."""
    owner = emitter.program.channel(channel).slot_owner
    return owner in copied_partly(TiledForm(emitter.program, emitter.tiled))


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
    scope = addressing(emitter, it, load)
    for index in load.ops[:-1]:
        execute(scope, emitter.program.op(index))
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
    head = emitter.comment(it.at, it.loads[-1].ops, f"copy {it.channel}")
    acquire = [] if it.channel in emitter.unused else [f"{channel_name(it.channel)}.producer_acquire({n});"]
    numbers, lines = _filled(emitter, it, n)
    if it.channel in emitter.ahead:
        numbers = []
    elif it.channel in emitter.carried:
        numbers = [
            *_carried(emitter, it, numbers, lines),
            *_numbers_of(emitter, it, it.at.iteration.later(1)),
        ]
    full = f"{channel_name(it.channel)}.full({n})"
    if all(load.along is None for load in it.loads):
        lines = [*acquire, *lines, f"{channel_name(it.channel)}.producer_commit({n});"]
    elif any(load.along is None for load in it.loads):
        lines = [*acquire, *lines, f"cp_async_arrive_behind_writes({full});"]
    else:
        fence = ["fence_async_shared();"] if fences(emitter.program.channel(it.channel)) else []
        lines = [*acquire, *lines, *fence, f"mbarrier_arrive({full});"]
    lines += started_early(emitter, it, it.at.iteration.later(1))
    return [head, "{", *indented([*numbers, *lines]), "}"] if numbers else [head, *lines]


def started_early(emitter: Emitter, it: ProducerLoad, iteration: Iteration) -> list[str]:
    """Those of the loads of an iteration, if there is one, that are started before their slot is empty."""
    early = [load for load in it.loads if load.ops[-1] in emitter.early]
    if not early:
        return []
    later = replace(it, at=replace(it.at, iteration=iteration))
    lines = [
        line
        for load in early
        for line in started(_loading(emitter, later, load, "0"), emitter.early[load.ops[-1]])
    ]
    conditions = emitter.exists(iteration)
    return [f"if ({' && '.join(conditions)}) {{", *indented(lines), "}"] if conditions else lines


def _filled(emitter: Emitter, it: ProducerLoad, n: str) -> tuple[list[str], list[str]]:
    """The loads of a slot, behind the numbers that they need and may load before the slot is empty.
    Asynchronous ones are started before threads wait for what they load."""
    started = [load for load in it.loads if _started(emitter, it, load)]
    lines = [line for load in started for line in _start(emitter, it, load, n)]
    others = [load for load in it.loads if load not in started]
    passing = [load for load in others if load.along is not None]
    numbers = dict[str, None]()
    for load in (one for one in others if one.along is None):
        own, made = told_apart(numbers, load.tensor, *_copies(emitter, it, load, n))
        numbers |= dict.fromkeys(own)
        lines += made
    used = sum(one.registers for one in (*emitter.kept.values(), *emitter.kept_offsets.values()))
    room = room_of(emitter) - used
    equal = [load for load in passing if of_equal_numbers(emitter, *loaded_tile(emitter, it, load))]
    lines += [line for load in equal for line in _first_stored(emitter, it, load, n)]
    tiles = {one.ops[-1]: _loading(emitter, it, one, n) for one in passing if one not in equal}
    for index, name in emitter.early.items():
        lines += stored(tiles.pop(index), name) if index in tiles else []
    return list(numbers), [*lines, *loaded(list(tiles.values()), room)]


def _started(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> bool:
    """Whether TMA loads a tile beside copies of threads."""
    return emitter.program.channel(it.channel).filled_by == "cp_async" and load.ops[-1] in emitter.tiled


def _start(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> list[str]:
    """One thread makes the slot's phase wait for the tile too, before it arrives for its copies."""
    channel, (_, tensor) = channel_name(it.channel), loaded_tile(emitter, it, load)
    expect = f"mbarrier_expect({channel}.full({n}), {tensor.bytes});"
    return ["if (thread.leader) {", *indented([expect, *_tile(emitter, it, load)]), "}"]


def _copies(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> tuple[list[str], list[str]]:
    """The copies of a tile, and what may stand before the wait for its slot: the numbers of its rows. Raises
    TwillError where a thread would need addresses that other threads have."""
    scope = addressing(emitter, it, load)
    op, tensor = loaded_tile(emitter, it, load)
    slot = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
    try:
        ops = [emitter.program.op(index) for index in load.ops[:-1]]
        numbers = passed(AxisAnalysis(emitter.program.function), ops, _rows(emitter, load, op, tensor))
        known = emitter.numbers.get(it.channel, {})
        for one in ops:
            if one.results and one.results[0].id in known:
                scope.values[one.result.id] = known[one.result.id]
                continue
            execute(scope, one)
            if numbers:
                numbers.executed(scope, one)
        lines = _copied(emitter, scope, load, tensor, slot, numbers, emitter.wanted.get(it.channel))
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem
    own = numbers.needed(lines) if numbers else []
    ahead = bool(own) and all(line.startswith("const ") for line in scope.lines)
    inside = [*scope.lines, *([] if ahead else own), *lines]
    return [*scope.lines, *own] if ahead else [], ["{", *indented(inside), "}"]


def _rows(emitter: Emitter, load: TileLoad, op: Op, tensor: SlotTensor) -> Rows | None:
    """Which rows the threads of the group copy, where lanes can pass the numbers of these on."""
    if not isinstance(op.result.type, Tensor) or of_equal_numbers(emitter, op, tensor):
        return None
    if (kept := emitter.kept.get(op.index)) is not None:
        found = kept.copies
        if found.point.layout.axes != (0, 1):
            places = _places(emitter, load, op, tensor)
            return own_element(found.point, places.tile.columns, places.all, found.count)
        shared = not found.guard and not found.crossing
        return rows(found.point, found.axis, found.per, found.count) if shared else None
    places = _places(emitter, load, op, tensor)
    if places.one.layout.axes != (0, 1):
        return own_element(places.one, places.tile.columns, places.all, places.count)
    return None if places.crossing else rows(places.one, places.axis, places.per, places.count)


def _places(emitter: Emitter, load: TileLoad, op: Op, tensor: SlotTensor) -> Places:
    assert isinstance(op.result.type, Tensor)
    form = linear(op.result.type, 32 * emitter.group.warps)
    return copy_places(tensor, load.vector, form, crosses(emitter.program.function, op, tensor, load.vector))


def _copied(
    emitter: Emitter,
    scope: Scope,
    load: TileLoad,
    tensor: SlotTensor,
    slot: str,
    numbers: Passed | None,
    wanted: int | None,
) -> list[str]:
    op = emitter.program.op(load.ops[-1])
    if of_equal_numbers(emitter, op, tensor):
        return [_first_copy(emitter, scope, op, load.vector, slot)]
    if (kept := emitter.kept.get(op.index)) is not None:
        return copied_in_loop(scope, op, kept, slot, numbers, wanted)
    if not isinstance(op.result.type, Tensor):
        return [_number_copied(scope, op, load.vector, slot)]
    pointers = scope.elements(op.operands[0])
    places = _places(emitter, load, op, tensor)
    mask = _mask(scope, op, places)
    other = filling_text(emitter.program.function, op)
    return copied(slot, places, pointers, mask, other, *([numbers.used] if numbers else []))


def _mask(scope: Scope, op: Op, places: Places) -> tuple[str, str]:
    """Of a copy (`masked`)."""
    function, (pointers, *masks) = scope.program.function, op.operands
    bounds = bounds_of_copies(AxisAnalysis(function), op, places.vector)
    if not bounds:
        return scope.elements(masks[0])(places.one) if masks else "", ""
    conditions = Analysis(scope, frozenset(), bounds=bounds).conditions(masks[0])
    return masked(conditions, places.one, element_bytes(pointers.type))


def _loading(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> Loading:
    """A load through registers. Raises TwillError where a thread would need addresses that other threads
    have."""
    scope, (op, tensor) = _computed(emitter, it, load), loaded_tile(emitter, it, load)
    slot = plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
    own = emitter.kept_offsets.get(op.index, Kept())
    try:
        return loading(scope, op, units_of(emitter, op, tensor, load), own, slot)
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem


def _first_stored(emitter: Emitter, it: ProducerLoad, load: TileLoad, n: str) -> list[str]:
    """The first element of a tile of equal numbers, which are not wide enough for a copy."""
    scope, (op, tensor) = _computed(emitter, it, load), loaded_tile(emitter, it, load)
    assert isinstance(op.result.type, Tensor)
    first = Point(numbered(op.result.type, 32 * emitter.group.warps), "0", ("0", "0"))
    pointer, *mask = (scope.elements(value)(first) for value in op.operands[:2])
    size, slot = bits(tensor.dtype) // 8, plus(f"{channel_name(it.channel)}.slot({n})", tensor.offset)
    read = f"load_global<{size}>({', '.join((pointer, *mask, *(['0'] if mask else [])))})"
    stored = f"if (thread.index == 0) shared_at<uint{8 * size}_t>({slot}) = {read};"
    return ["{", *indented([*scope.lines, stored]), "}"]


def _first_copy(emitter: Emitter, scope: Scope, op: Op, vector: int, slot: str) -> str:
    """The copy of the first elements of a tile, by one thread."""
    assert isinstance(op.result.type, Tensor)
    first = Point(linear(op.result.type, 32 * emitter.group.warps), "0", ("0", "0"))
    pointer, *mask = (scope.elements(value)(first) for value in op.operands[:2])
    return f"if (thread.index == 0) {copy(vector, slot, pointer, ''.join(mask), '')}"


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
    fence = ["fence_async_shared();"] if fences(channel) else []
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
