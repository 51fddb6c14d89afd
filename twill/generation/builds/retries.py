"""The kernels that are tried where ptxas spills registers or serializes MMAs, in their order: with sub-tiles,
loads by the group that computes, more warps, fewer thread blocks on an SM, fewer warp groups or registers, or
in another form. Given schedules
are kept.

`retries` takes the kernel with the warnings and gives a `Retry` for each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf
from re import sub
from typing import Protocol

from twill.extract.rewrite.loads.late_loads import loaded_late
from twill.generation.choices.multistage import LATE_BY_PASSING
from twill.generation.choices.persistence import copied_in, copies_late
from twill.generation.choices.subtiles import COUNT, MORE_WARPS
from twill.generation.generate import generate
from twill.generation.generated import (
    APART,
    SEVERAL,
    Generated,
    GenerateOptions,
    ProgressCallback,
    pace_of_sm,
    source,
    warned,
)
from twill.generation.searches import Solve
from twill.inputs import Inputs
from twill.ir.loop import Tensor
from twill.ir.schedule import Result
from twill.ir.statements import Pipelined, ProducerLoad, by_threads, walk
from twill.ops.axis import axis_of
from twill.ops.table import role
from twill.simulate.predict import intervals, shared_sm
from twill.targets import target
from twill.targets.cuda.loads.register_loads import LEAST_IN_FLIGHT
from twill.warp.channels import constant_trips
from twill.warp.dataflow import read
from twill.warp.residency import registers_in_warps
from twill.warp.thread_block import registers_at_entry

FEW_BLOCKS = 2
"""Thread blocks on an SM of which one is worth more than the registers of a thread that holds tiles."""
FEWER_BLOCKS = 2
"""How many numbers of thread blocks on an SM are tried."""
LEAST_GROUPS = 2
"""Warp groups that are tried at least: one that loads, one that computes."""
TOGETHER = "the group that computes loads too"
LATE = "tiles that only code behind a loop reads are loaded behind it"
"""Why a kernel is as it is, in its notes."""
CLOSE = 1.1
"""How many times as long a kernel without warnings may take for no other one to be tried."""
ROWS = 16
"""Rows of an MMA that a warp has."""
ACROSS_WARPS = 2.0
"""How many times as long as simulated loops take that reduce or scan rows which several warps share. (On an
H200, eight warps beside one group of four that computes, predicted to be as fast: a scan of Mamba's backward
in tiles of 64 x 64 0.51 and 0.23 ms, its decays' gradient 0.41 and 0.20.)"""
DIVIDED_COLUMNS = 1.3
"""The same of other loops of tiles whose columns several warps share, beside fewer warps that hold whole
rows. (On an H200, gradients of fla's linear TTT, tiles of 64 rows: eight warps 0.73 ms, two groups of four
0.60, predicted at 4683 and 4800 cycles; of its PaTH attention 0.78 ms, and 0.50 in two thread blocks of four
warps that spill 120 bytes.)"""
FEWER = (0, 16, 32)
"""Registers below the first number that is tried, by attempt."""
LONGEST = 24.0
"""Seconds of a time limit that count: what a search for another kernel has for each loop, and by which all of
them are limited. (Causal attention with tiles of 128 x 128 and two loops was searched for 14 minutes, 60 s a
search, and spilled 40 bytes in the end.)"""
SLOWER = 2.0
"""How many times as long the loops of a kernel without spills may take, as simulated: beyond that, spilling
is taken to be better (estimate). (lmdeploy's fp4 mixture of experts on an H200: of three forms, one simulated
1.84 times as long as that which spills 240 bytes takes 0.58 of its time, one simulated 1.53 times as long,
whose groups pass tiles, 1.31.)"""


ALONE = "one group that computes and loads"
GRANTS = r"registers_(in|de)crease<\d+>"
"""Where groups get their registers, in C."""
ON_AN_SM = "thread blocks on an SM"
FEWEST_GROUPS = f"{LEAST_GROUPS} warp groups"


@dataclass(frozen=True, slots=True)
class Retry:
    """Another kernel to try."""

    what: str
    """What is tried, in words."""
    why: str
    """The note of the kernel, to which the warning is added that it avoids."""
    make: Callable[[float], Generated]
    """From the cycles, as those below, above which it is of no interest."""
    slowest: float = inf
    """Simulated cycles of an SM for an iteration of each loop, above which the warning is better."""
    close: float = CLOSE
    """How many times as long as the kernel with warnings it may take for no other one to be tried."""
    searches: bool = True
    """Its loops may have to be scheduled first."""
    counted: float = 1.0
    """How many times as long as simulated it is taken to take."""


def _loads_early(made: Generated) -> bool:
    """Whether tiles are loaded before a loop that only code behind it reads."""
    module = made.program.module
    return not made.inputs.late_loads and loaded_late(module) is not module


def _loads_apart(made: Generated) -> bool:
    """Whether a thread block has one group that computes, and others that load: without these, and with one
    iteration at a time, it has more registers, and the SM keeps its blocks. (Triton's attention tutorial with
    heads of 64 on an H200, tiles of 128 x 64: 0.386 ms, 0.497 with two groups in one thread block. So no
    other kernel is tried then where the blocks are several and few: those have fewer blocks on an SM, or
    fewer registers.)"""
    computing = [group for group in made.program.groups if not group.only_moves]
    return len(computing) == 1 and len(made.program.groups) > 1 and _may_load(made)


def starved(made: Generated) -> bool:
    """Whether threads that load tiles through registers have so few of these, in a lean program, that waits
    for their accesses take longer than an iteration: schedules count what accesses take, but not waits."""
    arrival = made.loops[0].machine.loads.arrival
    loading = [group for group in made.program.groups if group.only_moves] if made.program.lean else []
    return any(
        arrival
        * sum(_batches(made, group.warps, fill) for fill in one.steady if isinstance(fill, ProducerLoad))
        > one.interval
        for group in loading
        for one in walk(group.body)
        if isinstance(one, Pipelined)
    )


def keeps_little(made: Generated) -> bool:
    """Whether threads that copy tiles compute masks and offsets again in every iteration, beside other thread
    blocks than `FEW_BLOCKS`, since the program is lean or with more registers they would keep more: schedules
    do not count that. (FlagGems' batched product of float32 in odd sizes on an H200: five thread blocks with
    24 registers for these threads 0.435 ms, five to seven with 40 registers 0.393, four with 64, which keep
    all, 0.294.)"""
    copying = any(by_threads(group.body) for group in made.program.groups if group.only_moves)
    few = made.program.resident_blocks <= FEW_BLOCKS
    return copying and not few and (made.program.lean or _would_keep_more(made))


def paced_by_copies(made: Generated) -> float | None:
    """Machine cycles of an SM for an iteration of each loop, where threads of a lean program that copy tiles
    compute masks and offsets again for longer than an iteration takes; None where they do not. A loop that is
    known to run once has no iteration behind it that would be late. (SANA's
    _phase_c_kernel on an H200, 41 copies of a thread in an iteration of 2497 cycles: 0.211 ms, 0.186 where
    the group that computes loads too, 3185 cycles predicted. SGLang's sparse MLA prefill 0.633 and 0.561.)"""
    if not made.program.lean or not copies_late(made.program, made.loops):
        return None
    copied, alone = copied_in(made.program, made.loops), made.intervals
    alone = alone or intervals(made.program, made.loops)
    code = read(made.program.module, made.program.function)
    again = {one.loop.path for one in made.loops if constant_trips(code, one.loop) != 1}
    late = {path: max(alone[path], copied[path]) if path in again else alone[path] for path in copied}
    return shared_sm(late, made.program.resident_blocks, made.loops)


def _would_keep_more(made: Generated) -> bool:
    """Whether the groups that load are other C with as many registers as a thread may have."""
    most = made.loops[0].machine.limits.registers_per_thread
    groups = (replace(one, registers=most) if one.only_moves else one for one in made.program.groups)
    wide = source(replace(made.program, groups=tuple(groups)), made.loops)
    return sub(GRANTS, "", wide) != sub(GRANTS, "", made.cuda)


def _batches(made: Generated, warps: int, fill: ProducerLoad) -> int:
    """How often a thread waits for accesses to its part of the tiles that pass through registers."""
    tensors = made.program.channel(fill.channel).tensors
    threads = 32 * warps
    accesses = (
        tensors[one.tensor].bytes // (one.vector * threads) for one in fill.loads if one.along is not None
    )
    return sum(-(-each // LEAST_IN_FLIGHT) for each in accesses)


class _Making(Protocol):
    """Makes the kernel of changed inputs, with so many thread blocks on an SM at most, and with loads by the
    group that computes if that is wanted."""

    def __call__(
        self, changed: Inputs, most_blocks: int = ..., multistage: bool | None = ...
    ) -> Callable[[float], Generated]: ...


def retries(
    inputs: Inputs,
    options: GenerateOptions,
    made: Generated,
    before: float,
    on_progress: ProgressCallback,
    solve: Solve,
    far_too_much: bool = False,
    little: bool = False,
) -> Iterator[Retry]:
    """What is tried instead of a kernel of `before` cycles, in this order. Where it spills `far_too_much`,
    its other forms come first, which need no search; so do several groups that it has one in place of, whose
    threads have less to hold each, and which wait for each other for longer than is simulated, and the kernel
    before its group that computes loaded too. (FastVideo's sliding tile attention with heads of 64 on an
    H200: two groups 0.470 ms, one of whole tiles that loads too 0.417, predicted 0.97 times as fast.)
    Where its schedule spills `little` in the way that spills least, in few thread blocks, one for somewhat
    fewer registers comes before other warps or groups.
    Problems that were solved already are not solved again. With given schedules their kernel is tried in
    fewer thread blocks on an SM."""
    making = _maker(options, made.searched, on_progress, solve)
    if options.schedules:
        for most in dict.fromkeys((made.program.resident_blocks, made.program.launch.blocks)):
            yield from _in_fewer_blocks(made, making, SLOWER * before, most)
        return
    forms = {form: _other_form(made, form) for form in made.others}
    yield from forms.values() if far_too_much else ()
    if made.several:
        groups = partial(_with_source, made.several, made.program.warnings)
        yield Retry(SEVERAL, SEVERAL, groups, SLOWER * before, searches=False, counted=LATE_BY_PASSING)
    if made.loading_apart:
        yield _before_it_loaded(made, made.loading_apart, SLOWER * before)
    apart = _apart_open(inputs, options)
    several = made.program.resident_blocks > 1 or far_too_much
    together = _together(inputs, made, making, SLOWER * before) if apart and several else None
    if together and not together.searches:
        yield together
    if inputs.subtile is None and made.subtile == 1:
        divided = making(replace(made.inputs, subtile=COUNT), made.program.resident_blocks)
        why = f"rows are divided into {COUNT} sub-tiles"
        yield Retry(f"{COUNT} sub-tiles", why, divided, before)
    if inputs.registers is not None:
        return
    if together and together.searches:
        yield together
    fewer = _by_registers(made, making, {} if far_too_much else forms, SLOWER * before)
    if little and made.program.resident_blocks <= FEW_BLOCKS:
        yield from islice(fewer, 1)
    yield from _coarser(inputs, made, making, SLOWER * before, apart)
    yield from fewer
    if inputs.subtile is None and min(form.subtile for form in (made, *made.others)) > 1:
        whole = making(replace(made.inputs, subtile=1))
        yield Retry("whole tiles", "whole tiles", whole, SLOWER * before)
    if _loads_early(made):
        late = making(replace(made.inputs, late_loads=True))
        yield Retry("loads behind loops", LATE, late, SLOWER * before)


def _maker(
    options: GenerateOptions, searched: Sequence[Result], on_progress: ProgressCallback, solve: Solve
) -> _Making:
    limit = min(options.time_limit, LONGEST)
    unchecked = replace(options, check=False, execute=False, time_limit=limit)

    def making(
        changed: Inputs,
        most_blocks: int = options.lowering.most_blocks,
        multistage: bool | None = options.lowering.multistage,
    ) -> Callable[[float], Generated]:
        lowering = replace(options.lowering, most_blocks=most_blocks, multistage=multistage)

        def make(slowest: float) -> Generated:
            wanted = replace(unchecked, lowering=lowering)
            return generate(changed, wanted, on_progress, searched, None, solve, slowest)

        return make

    return making


def _together(inputs: Inputs, made: Generated, making: _Making, slowest: float) -> Retry | None:
    """Whole tiles, or the sub-tiles that are given, with loads by the group that computes: in a schedule that
    was lowered so before, or in one that is searched for. None where that is of no use. (Gradients of fla's
    attention with decays, tiles of 128 x 128 in eight warps: 4216 bytes are spilled beside four warps that
    load, of 200 registers per thread; none without them, of 248.)"""
    if not _loads_apart(made):
        return None
    subtile = inputs.subtile or 1
    close = SLOWER if 1 < made.program.resident_blocks <= FEW_BLOCKS else CLOSE
    for form in (made, *made.others):
        if form.subtile == subtile and form.loading is not None:
            make = partial(_with_source, form.loading, form.program.warnings)
            return Retry(TOGETHER, TOGETHER, make, slowest, close=close, searches=False)
    alone = replace(made.inputs, groups=LEAST_GROUPS, subtile=subtile, persistent=inputs.persistent)
    whole = making(alone, multistage=True)
    return Retry(TOGETHER, TOGETHER, whole, slowest, close=close)


def _before_it_loaded(made: Generated, beaten: Generated, slowest: float) -> Retry:
    """With loads in a group of their own, as it was before the group that computes loaded too. (Gradients of
    fla's linear TTT on an H200: two groups that compute 0.60 ms, one of eight warps 0.73.)"""
    make = partial(_with_source, beaten, made.program.warnings)
    counted = LATE_BY_PASSING if beaten.program.several_compute else 1.0
    return Retry(APART, APART, make, slowest, searches=False, counted=counted)


def _with_source(made: Generated, warnings: Sequence[str], slowest: float) -> Generated:
    """With its CUDA, and the warnings of the form that it was lowered beside."""
    return warned(made, *(one for one in warnings if one not in made.program.warnings))


def _coarser(
    inputs: Inputs, made: Generated, making: _Making, slowest: float, apart: bool
) -> Iterator[Retry]:
    """With fewer thread blocks on an SM, more warps, both (as many warps of an SM hold tiles then), or fewer
    warp groups: each thread has more registers, or less to hold. More warps may load, too, where it is open
    whether others do (`apart`): those take registers. (fla's backward pass of gated linear attention over
    unequal sequences on an H200: eight warps that load for themselves, 198 registers and no spills, take 0.64
    of the time of eight beside four that load, 168 registers and 360 bytes of spills.) In place of several
    groups that compute one may compute and load. (fla's chunk_dplr_bwd_o_kernel on an H200: three blocks of
    four warps 0.199 ms, one of two groups of eight 0.374, predicted at 512 and 751 cycles.)"""
    blocks = list(_in_fewer_blocks(made, making, slowest, made.program.resident_blocks))
    groups = [
        Retry(what, f"scheduled for {what}", making(replace(made.inputs, groups=count)), slowest)
        for count in _fewer_groups(inputs, made)
        for what in [f"{count} warp groups"]
    ]
    few, shared = made.program.resident_blocks <= FEW_BLOCKS, _share_rows(made)
    counted = _in_more_warps(made)
    across = counted == ACROSS_WARPS
    yield from () if few else blocks
    yield from groups if shared else ()
    apart = apart and _may_load(made)
    alone = [*_alone(inputs, made, making, slowest)] if apart else []
    yield from alone if across else ()
    if inputs.warps is None and made.subtile == 1 and made.program.module.num_warps < MORE_WARPS:
        what, wider = f"{MORE_WARPS} warps that hold tiles", replace(made.inputs, warps=MORE_WARPS)
        yield Retry(what, what, making(wider), slowest, counted=counted)
        if count := made.program.resident_blocks // 2:
            halved = f"{what}, {count} thread block{'s' if count > 1 else ''} on an SM"
            yield Retry(halved, f"{halved} at most", making(wider, count), slowest, counted=counted)
        if apart:
            loading = f"{what} and load"
            together = making(replace(wider, groups=LEAST_GROUPS), multistage=True)
            yield Retry(loading, loading, together, slowest, counted=counted)
    yield from () if across else alone
    yield from blocks if few else ()
    yield from () if shared else groups


def _apart_open(inputs: Inputs, options: GenerateOptions) -> bool:
    """Whether it is open which groups load, and how many there are."""
    return options.lowering.multistage is None and inputs.groups is None


def _may_load(made: Generated) -> bool:
    """Whether a group that computes may load too, on this machine."""
    return target(made.loops[0].machine.arch).completion == "commit group"


def _alone(inputs: Inputs, made: Generated, making: _Making, slowest: float) -> Iterator[Retry]:
    """With one group that computes and loads in place of several that compute."""
    if _may_load(made) and any(_fewer_groups(inputs, made)):
        together = making(replace(made.inputs, groups=LEAST_GROUPS), multistage=True)
        yield Retry(ALONE, ALONE, together, slowest)


def in_half_as_many(
    options: GenerateOptions, made: Generated, on_progress: ProgressCallback, solve: Solve, slowest: float
) -> Retry:
    """With half as many thread blocks on an SM."""
    making = _maker(options, made.searched, on_progress, solve)
    what = f"{made.program.resident_blocks // 2} {ON_AN_SM}"
    return Retry(what, f"{what} at most", making(made.inputs, made.program.resident_blocks // 2), slowest)


def for_registers(
    options: GenerateOptions,
    made: Generated,
    on_progress: ProgressCallback,
    solve: Solve,
    registers: int,
    slowest: float,
) -> Retry:
    """With one group that computes and loads, scheduled for so many registers, in as many thread blocks."""
    making = _maker(options, made.searched, on_progress, solve)
    blocks = made.program.resident_blocks
    what = f"{registers} registers per thread, {blocks} {ON_AN_SM}"
    inputs = replace(made.inputs, groups=LEAST_GROUPS, registers=registers)
    return Retry(what, f"scheduled for {what}", making(inputs, blocks, multistage=True), slowest)


def loading_too(
    inputs: Inputs,
    options: GenerateOptions,
    made: Generated,
    on_progress: ProgressCallback,
    solve: Solve,
    slowest: float,
) -> Retry | None:
    """With loads by the group that computes; None where that is not open."""
    if options.lowering.multistage is not None or inputs.groups is not None:
        return None
    groups = None if options.schedules else LEAST_GROUPS
    making = _maker(options, made.searched, on_progress, solve)
    alone = replace(inputs, groups=groups, subtile=made.subtile)
    return Retry(TOGETHER, TOGETHER, making(alone, multistage=True), slowest)


def _in_fewer_blocks(made: Generated, making: _Making, slowest: float, most: int) -> Iterator[Retry]:
    """In fewer thread blocks than `most` on an SM, as few as have more registers then."""
    launch, limits = made.program.launch, made.loops[0].machine.limits

    def granted(blocks: int) -> int:
        threads = launch.threads * blocks
        return (
            registers_in_warps(limits, threads // 32) if launch.even else registers_at_entry(limits, threads)
        )

    fewer = [count for count in range(most - 1, 0, -1) if granted(count) > granted(count + 1)]
    for count in fewer[:FEWER_BLOCKS]:
        what = f"{count} {ON_AN_SM}"
        yield Retry(what, f"{what} at most", making(made.inputs, count), slowest)


def _share_rows(made: Generated) -> bool:
    """Whether tiles have so few rows that more warps would divide columns: what is computed along a row then
    passes through shared memory, between barriers, which schedules do not count (`ACROSS_WARPS`)."""
    tiles = [op.result.type for op in made.program.function.walk() if role(op) in ("wgmma", "dot")]
    return any(isinstance(tile, Tensor) and tile.shape[0] < ROWS * MORE_WARPS for tile in tiles)


def _in_more_warps(made: Generated) -> float:
    """How many times as long as simulated the loops take in `MORE_WARPS` warps."""
    if not _share_rows(made):
        return 1.0
    return ACROSS_WARPS if _computes_rows(made) else DIVIDED_COLUMNS


def _computes_rows(made: Generated) -> bool:
    """Whether loops reduce or scan tiles along their rows."""
    found = (op for one in made.loops for op in one.loop.op.inner() if role(op) in ("reduce", "scan"))
    tiles = ((op, op.operands[0].type) for op in found)
    return any(isinstance(kind, Tensor) and axis_of(op) == len(kind.shape) - 1 > 0 for op, kind in tiles)


def _by_registers(
    made: Generated, making: _Making, forms: Mapping[Generated, Retry], slowest: float
) -> Iterator[Retry]:
    """Scheduled for fewer registers; of the other forms, those in `forms` as they are come first."""
    first = pace_of_sm(made.others[0]) if made.others else slowest
    for form in (made, *made.others):
        limit = first if form is made else SLOWER * pace_of_sm(form)
        other_form = "" if form is made else f"not {made.form}, "
        if form in forms:
            yield forms[form]
        for registers in _fewer_registers(form):
            what = f"{registers} registers per thread"
            other = making(replace(form.inputs, registers=registers))
            yield Retry(f"{other_form}{what}", f"{other_form}scheduled for {what}", other, limit)


def _fewer_groups(inputs: Inputs, made: Generated) -> Iterator[int]:
    """Numbers of warp groups where more than two compute: ptxas compiles all of them for the registers that
    the thread block is launched with."""
    most = max(len(one.solution.groups) for one in made.loops)
    if inputs.groups is None:
        yield from range(most - 1, LEAST_GROUPS - 1, -1)


def _fewer_registers(made: Generated) -> Iterator[int]:
    """Registers per thread to schedule for."""
    scheduled = max(group.registers for one in made.loops for group in one.solution.groups)
    yield from ((scheduled - 1) // 8 * 8 - fewer for fewer in FEWER)


def _other_form(made: Generated, form: Generated) -> Retry:
    """As it was lowered before. One of more warps is only better than spilling where it is not far slower."""
    why, itself = f"not {made.form}", partial(_itself, form)
    if form.program.module.num_warps <= made.program.module.num_warps:
        return Retry(f"it {why}", why, itself, searches=False)
    counted = _in_more_warps(made)
    slowest = SLOWER * pace_of_sm(made) / counted
    return Retry(f"it {why}", why, itself, slowest, searches=False, counted=counted)


def _itself(made: Generated, slowest: float) -> Generated:
    return made
