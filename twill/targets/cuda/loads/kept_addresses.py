"""What the loads of a loop keep in registers from one iteration to the next: addresses and offsets of threads
that copy, corners of tiles that TMA loads.

Takes an `Emitter` and a loop; gives the lines before it, and fills the emitter's tables of what is kept.
Raises TwillError for a tile that can not be copied.
"""

from collections.abc import Sequence

from twill.ir.channels import SlotTensor
from twill.ir.loop import Op, Tensor
from twill.ir.statements import Pipelined, ProducerLoad, TileLoad, walk
from twill.ops.axis_info import AxisAnalysis
from twill.ops.pointer_loads import neighbours
from twill.targets.cuda.emitter import Emitter
from twill.targets.cuda.loads.address_analysis import Analysis
from twill.targets.cuda.loads.copies import Hoisted, copies, hoisted
from twill.targets.cuda.loads.crossing import crosses
from twill.targets.cuda.loads.register_loads import LEAST_IN_FLIGHT, Kept, Units, kept_in_registers, units
from twill.targets.cuda.loads.tiled_corners import fixed_corner
from twill.targets.cuda.operations import execute
from twill.targets.cuda.registers.elements import refuse
from twill.targets.cuda.registers.fragments import linear, numbered
from twill.targets.cuda.scope import Scope, equal_loads
from twill.warp.channels import trips_of

BESIDE = 16
"""Registers of a thread that computes for the addresses that it loads from (estimate; where ptxas spills, the
program is made anew without)."""
COSTLY = 32
"""Registers beyond these for what takes a division or a load to compute of an address: a spilled one takes an
instruction to load, a remainder of 64 bits some forty to compute again. (vLLM's fused_moe of fp8 in tiles of
16 x 128 x 128, of whose weights a thread copies eight rows that wrap around: 305 instructions in the loop of
a warp, for 941.)"""


def kept_in_loop(emitter: Emitter, it: Pipelined) -> list[str]:
    """Before a loop: what its copies keep. A group that does nothing but move data may have registers for
    that, also one of few warps; one that computes too has some, but for a program that is to take few."""
    emitter.kept, emitter.kept_offsets, emitter.corners = {}, {}, {}
    inside = frozenset(op.index for op in emitter.program.op(it.op).inner())
    tiled = _fixed_corners(emitter, it, inside)
    if emitter.group.multistage and not emitter.program.lean:
        room, beyond, lines = BESIDE, COSTLY, tiled
    elif emitter.group.only_moves:
        room, beyond, lines = room_of(emitter), 0, tiled
    else:
        return tiled
    fills = (one for one in walk((it,)) if isinstance(one, ProducerLoad))
    known = dict[Sequence[str], str]()
    for fill, load in ((one, load) for one in fills for load in one.loads):
        tile = isinstance(emitter.program.op(load.ops[-1]).result.type, Tensor)
        found_before = (*emitter.kept, *emitter.kept_offsets, *emitter.tiled)
        if load.vector and tile and load.ops[-1] not in found_before:
            kept = _kept_of_load(emitter, it, fill, load, inside, (room, beyond), known)
            costly = kept.beyond if isinstance(kept, Hoisted) else 0
            room, beyond = room - (kept.registers - costly if kept else 0), beyond - costly
            lines = [*lines, *(kept.lines if kept else ())]
    return lines


def _runs_once(emitter: Emitter, it: Pipelined) -> bool:
    """Whether a loop is known to have one iteration."""
    bounds = emitter.program.op(it.op).operands[:3]
    makers = [None if one.producer is None else emitter.program.op(one.producer) for one in bounds]
    return trips_of(makers) == 1


def _kept_of_load(
    emitter: Emitter,
    loop: Pipelined,
    fill: ProducerLoad,
    load: TileLoad,
    inside: frozenset[int],
    room: tuple[int, int],
    known: dict[Sequence[str], str],
) -> Kept | Hoisted | None:
    """Keeps what the copies of a load need in every iteration, in so many registers at most, and so many
    beyond."""
    if load.along is not None:
        once = emitter.group.multistage and _runs_once(emitter, loop)
        offsets = _kept_offsets(emitter, fill, load, inside, room[0], once)
        emitter.kept_offsets[load.ops[-1]] = offsets
        return offsets
    found = _kept_of_copy(emitter, fill, load, inside, room, known)
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
    emitter: Emitter,
    it: ProducerLoad,
    load: TileLoad,
    inside: frozenset[int],
    room: tuple[int, int],
    known: dict[Sequence[str], str],
) -> Hoisted | None:
    op, tensor = emitter.program.op(load.ops[-1]), emitter.program.channel(it.channel).tensors[load.tensor]
    assert isinstance(op.result.type, Tensor)
    if of_equal_numbers(emitter, op, tensor):
        return None
    try:
        form = linear(op.result.type, 32 * emitter.group.warps)
        found = copies(tensor, load.vector, form, crosses(emitter.program.function, op, tensor, load.vector))
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem
    if found is None:
        return None
    scope, before = _in_loop_and_before(emitter, it, load, inside)
    try:
        return hoisted(scope, before.lines, op, found, inside, *room, known)
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem


def _in_loop_and_before(
    emitter: Emitter, it: ProducerLoad, load: TileLoad, inside: frozenset[int]
) -> tuple[Scope, Scope]:
    """Scopes in which all that a load needs is computed, and what of it is the same in every iteration."""
    before, scope = addressing(emitter, it, load), addressing(emitter, it, load)
    analysis = Analysis(before, inside)
    for index in load.ops[:-1]:
        one = emitter.program.op(index)
        execute(scope, one)
        if all(map(analysis.invariant, one.results)):
            execute(before, one)
    return scope, before


def _kept_offsets(
    emitter: Emitter, it: ProducerLoad, load: TileLoad, inside: frozenset[int], room: int, once: bool
) -> Kept:
    op, tensor = loaded_tile(emitter, it, load)
    if of_equal_numbers(emitter, op, tensor):
        return Kept()
    scope, before = _in_loop_and_before(emitter, it, load, inside)
    most = max(room // 2, room - 2 * LEAST_IN_FLIGHT)  # a division takes longer than what is less in flight
    found = units_of(emitter, op, tensor, load)
    return kept_in_registers(scope, before.lines, op, found, inside, most, once)


# --- what is known of a load ------------------------------------------------------------------------------


def room_of(emitter: Emitter) -> int:
    """Registers of a thread that copies for offsets and for what is in flight. A lean program leaves some for
    all variables of the group, which are not all live at the same time."""
    variables = len(emitter.group.variables) if emitter.program.lean else 0
    return emitter.group.registers - emitter.program.launch.addresses - variables


def loaded_tile(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> tuple[Op, SlotTensor]:
    """The operation that loads, and where its tile lies in a slot."""
    tensors = emitter.program.channel(it.channel).tensors
    return emitter.program.op(load.ops[-1]), tensors[load.tensor]


def of_equal_numbers(emitter: Emitter, op: Op, tensor: SlotTensor) -> bool:
    """Whether readers take a tile of equal numbers from its first element alone."""
    return tensor.encoding is None and op.result.id in equal_loads(emitter.program.function)


def units_of(emitter: Emitter, op: Op, tensor: SlotTensor, load: TileLoad) -> Units:
    """How the threads of the group load a tile through registers. Raises TwillError for one that they can
    not."""
    assert isinstance(op.result.type, Tensor)
    assert load.along is not None
    try:
        form = numbered(op.result.type, 32 * emitter.group.warps)
        found = neighbours(AxisAnalysis(emitter.program.function), op, load.along)
        return units(tensor, load.vector, load.along, form, found)
    except ValueError as problem:
        raise refuse(emitter.program, op, str(problem)) from problem


def addressing(emitter: Emitter, it: ProducerLoad, load: TileLoad) -> Scope:
    """A scope for the addresses of a load. Its threads share the tile otherwise than those of a group that
    computes share what it keeps, so index tiles that are loaded again are read where they are needed."""
    scope = emitter.scope(load.reads, at=it.at)
    scope.streaming = True
    return scope
