"""A kernel whose launches choose how many of its thread blocks an SM holds, by the number of these.

How many are best where all SMs are busy all the time is known when a kernel is made; the grid of a launch is
not. Few blocks leave the SM to each other, and want slots that hide the arrival of loads without others
beside them; where a few are left over behind whole waves, fewer or more on an SM take fewer waves. Takes a
kernel that was built without warnings; gives it with its `BlockPace`, and where another form with the same
schedules is predicted to be clearly faster for some launches with that form too, built and checked.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

from twill.diagnostics import TwillError
from twill.generation.builds.checked_build import check_beside_build, known_to_warn, warnings
from twill.generation.builds.more_blocks import loaded
from twill.generation.generate import right
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback, noted, source
from twill.ir.loop import GRID, Loop
from twill.ir.machine import Machine
from twill.ir.program import BlockPace, Program
from twill.simulate.predict import TRIPS, busy, intervals, shared
from twill.simulate.waves import CLEARLY, fastest, launch_time
from twill.targets import target
from twill.targets.cuda.host.host_trips import loops as host_loops
from twill.targets.cuda.loads.tiled_form import launched_by_tma
from twill.warp.channels import constant_trips
from twill.warp.dataflow import Code, read
from twill.warp.lower import lower
from twill.warp.plan import Options as Lowering
from twill.warp.residency import persistent
from twill.warp.stored_tiles import stored_tiles
from twill.warp.tasks import Scheduled
from twill.warp.validate import validate

PER_SM = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
"""Thread blocks of a launch for each SM that are looked at: of more, what is left over is little."""
BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Numbers of thread blocks on an SM that other forms are made for."""
GAIN = 1.15
"""How many times as long a launch has to take at least, for some number of blocks, for the choice to be worth
it (estimate: a second form doubles the code)."""
AROUND = 2.5
"""How many times as long as a load takes to arrive a thread block takes before its first iteration and behind
its last one, which other blocks hide. (On an H200, products of tiles of 128 x 128, two thread blocks of three
slots beside one of seven: 1.06 times the time with 64 iterations, 0.86 with 16, which is 3.4 for that tile;
smaller ones are stored sooner.)"""
TRIES = 2
"""Other forms that are built at most, until one has no warnings."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    program: Program
    pace: BlockPace


def with_choice(made: Generated, options: GenerateOptions, on_progress: ProgressCallback) -> Generated:
    """The kernel, with a choice for each launch where that is predicted to be worth it."""
    if not _open(made, options.lowering):
        return made
    per_sm = _per_sm(made)
    first = _Form(made.program, _pace(made, made.program))
    before = [launch_time(first.pace, one, first.pace.blocks) for one in per_sm]
    long = _for_long_loops(made, first.pace, options.lowering)
    if long and _is_right(made, long.program, options, on_progress):
        return _choosing(made, first, (long,), before, per_sm)
    others = sorted(_worth_it(made, first, options.lowering, per_sm), key=lambda one: one[0])
    for _, other in others[:TRIES]:
        if _is_right(made, other.program, options, on_progress):
            return _choosing(made, first, (other,), before, per_sm)
    if _most_gained(before, _times([first.pace], per_sm)) < GAIN:
        return made
    return _choosing(made, first, (), before, per_sm)


def _open(made: Generated, lowering: Lowering) -> bool:
    """Whether the user has not decided, and a launch has a thread block for each program."""
    program, machine = made.program, made.loops[0].machine
    decided = lowering != replace(Lowering(), dynamic=lowering.dynamic, alternate=lowering.alternate)
    walks = any(GRID in attributes for attributes in program.function.arg_attributes)
    several = program.tiles_in_flight > 1 or program.clustered or program.claiming is not None
    if decided or walks or several or machine.residency is None or made.cases[0].module is None:
        return False
    return not persistent(read(program.module, program.function), made.loops, nested=False)


def _per_sm(made: Generated) -> Sequence[float]:
    """Thread blocks of a launch for each SM, which may follow from the kernel."""
    tiles, sms = stored_tiles(made.program.function), made.loops[0].machine.multiprocessors
    return (tiles / sms,) if tiles is not None and sms else PER_SM


def _pace(made: Generated, program: Program) -> BlockPace:
    loops, machine = made.loops, made.loops[0].machine
    found = made.intervals if program is made.program and made.intervals else intervals(program, loops)
    code = read(program.module, program.function)
    trips = max(_trips(code, one.loop) for one in loops)
    alone = shared(loops, [found[one.loop.path] for one in loops])
    least = shared(loops, list(map(busy, loops)))
    around = AROUND * machine.loads.arrival
    alone = max(alone, _waiting(program, machine, least)) + around / trips
    counted = around if _counted(code, program, loops) else 0.0
    return BlockPace(program.resident_blocks, alone, least, around=counted, trips=trips)


def _counted(code: Code, program: Program, loops: Sequence[Scheduled]) -> bool:
    """Whether the launcher can count all iterations of a block, which are not constant. (SGLang's split-K
    product, two iterations, 4096 blocks on an H200: 0.86 of Triton's speed in two blocks on an SM, which are
    faster than five with 32 iterations.)"""
    known = [constant_trips(code, one.loop) for one in loops]
    followed = set(host_loops(program)) >= {one.loop.op.index for one in loops}
    return None in known and followed and not persistent(code, loops)


def _trips(code: Code, loop: Loop) -> int:
    """Iterations of a loop, at most where that is all that is known: parts of a sum, of which each block has
    one, are short."""
    return constant_trips(code, loop) or min(loop.most_trips or TRIPS, TRIPS)


def _waiting(program: Program, machine: Machine, computing: float) -> float:
    """Cycles of an iteration of a block that waits for its loads: until a slot that was read is full again a
    load arrives, at the pace of L2, and then it is read. (On an H200 products of tiles of 128 x 128 by 64 in
    one block on an SM, three slots: 805 cycles, 677 with seven; 789 and 640 predicted.)"""
    rate = machine.loads.reused
    filled = [one for one in loaded(program) if one.depth > 1]
    times = ((machine.loads.arrival + one.stride / rate + computing) / one.depth for one in filled if rate)
    return max(times, default=0.0)


def _for_long_loops(made: Generated, first: BlockPace, lowering: Lowering) -> _Form | None:
    """The form for launches of long loops, where slots matter more than the blocks that TMA makes room for,
    as where the iterations are known when a kernel is made (`warp.residency.tiles_and_vectors`). (On an H200,
    Dion's and NanoGPT's symmetric products, 64 iterations: one block of seven slots in place of two of three
    0.94 to 1.02 and 0.93 to 1.04 of Triton's speed; one block of three 0.88.) Not where a block by itself
    takes about as long with more slots: it waits for something else than its loads. (vLLM's weights of
    4 bits, 64 iterations: 1.25 of Triton's speed so, 1.40 in three blocks.)"""
    program, machine = made.program, made.loops[0].machine
    code = read(program.module, program.function)
    known = [constant_trips(code, one.loop) for one in made.loops]
    if program.by_tma is None or machine.residency is None or None not in known or not host_loops(program):
        return None
    other = _lowered(made, replace(lowering, by_tma=False))
    if other is None or other.resident_blocks >= program.resident_blocks:
        return None
    pace = _pace(made, other)
    if other.shared.bytes <= program.shared.bytes or CLEARLY * pace.alone > first.alone:
        return None
    return _Form(other, replace(pace, long_loop=machine.residency.long_loop))


def _times(paces: Sequence[BlockPace], per_sm: Sequence[float]) -> list[float]:
    """Predicted cycles of the launches."""
    return [fastest(paces, one)[0] for one in per_sm]


def _most_gained(before: Sequence[float], after: Sequence[float]) -> float:
    return max(one / other for one, other in zip(before, after, strict=True))


def _worth_it(
    made: Generated, first: _Form, lowering: Lowering, per_sm: Sequence[float]
) -> Iterator[tuple[float, _Form]]:
    """Other forms that are worth it beside fewer blocks of the first one, each with the logarithm of what
    launches take with it."""
    before = _times([first.pace], per_sm)

    def worth_it(pace: BlockPace) -> bool:
        return _most_gained(before, _times([first.pace, pace], per_sm)) >= GAIN

    for multistage in (None, True):
        for form in _forms(made, first.pace, replace(lowering, multistage=multistage), worth_it):
            yield sum(map(log, _times([first.pace, form.pace], per_sm))), form


def _forms(
    made: Generated, first: BlockPace, lowering: Lowering, worth_it: Callable[[BlockPace], bool]
) -> Iterator[_Form]:
    """The schedules in other numbers of thread blocks on an SM, fewest first: these take least by themselves,
    and what would not be worth it by that is not tried."""
    alone = first.busy
    for blocks in BLOCKS:
        if not worth_it(BlockPace(blocks, alone, first.busy)):
            continue
        room = blocks if lowering.multistage else lowering.room
        program = _lowered(made, replace(lowering, most_blocks=blocks, room=room))
        if program is None or program.resident_blocks < blocks:
            return
        if _computing(program) == _computing(made.program):
            pace = _pace(made, program)
            alone = pace.alone
            if worth_it(pace):
                yield _Form(program, pace)


def _computing(program: Program) -> list[int]:
    """Warps of the groups that compute: where they are less than a warpgroup, others compute copies."""
    return [group.warps for group in program.groups if not group.only_moves]


def _lowered(made: Generated, lowering: Lowering) -> Program | None:
    """Another program of the same schedules; None where there is none."""
    machine, module = made.loops[0].machine, made.cases[0].module
    assert module is not None
    for by_tma in (True, False) if lowering.by_tma else (False,):
        wanted = replace(lowering, by_tma=by_tma)
        try:
            program = lower(module, made.loops, target(machine.arch), wanted)
            validate(program, machine.limits)
        except TwillError:
            return None
        if not program.by_tma or launched_by_tma(program):
            return program
    return None


def _is_right(
    made: Generated, program: Program, options: GenerateOptions, on_progress: ProgressCallback
) -> bool:
    """Whether another form is built without warnings, and computes what it should."""
    try:
        with TemporaryDirectory() as name:
            folder = Path(name)
            other = replace(made, program=program, cuda=source(program, made.loops), checked=None)
            if known_to_warn(other, folder):
                return False
            right((other,), options, on_progress, lambda one: check_beside_build(one, folder, on_progress))
            return not warnings(other, folder)
    except TwillError:
        return False


def _choosing(
    made: Generated, first: _Form, others: Sequence[_Form], before: Sequence[float], per_sm: Sequence[float]
) -> Generated:
    """The kernel with these forms, and a note of what a launch chooses."""
    with_paces = tuple(replace(one.program, pace=one.pace) for one in others)
    program = replace(made.program, pace=first.pace, others=with_paces)
    return noted(
        replace(made, program=program), _note([first.pace, *(one.pace for one in others)], before, per_sm)
    )


def _note(paces: Sequence[BlockPace], before: Sequence[float], per_sm: Sequence[float]) -> str:
    """What a launch chooses, in words."""
    chosen = [one for one in paces if one.long_loop is None]
    most, at = max((old / fastest(chosen, one)[0], one) for old, one in zip(before, per_sm, strict=True))
    note = f"{' or '.join(str(one.blocks) for one in chosen)} thread blocks on an SM"
    if most > 1:
        note += (
            f", or fewer, by the size of a launch: {most:.2f} times as fast predicted with {at:g} for each"
        )
    for one in (one for one in paces if one.long_loop):
        note += f"; {one.blocks} with more slots where a loop has {one.long_loop} iterations or more"
    return note
