"""Whether a kernel is made persistent where the user leaves that open.

A thread block that walks over programs of the grid loads the next tile while it stores one, or alternates
between several tiles (`warp.tiles_in_flight`). Thread blocks that share an SM instead hide each other's
waits inside of loops, but they start together and have the same length: they fill their pipelines and store
their tiles at the same time. On an H200 (8192 x 8192 x 4096, tiles of 128 x 128 x 64, medians of 9 in random
order) two tiles in flight take 0.742 ms where two thread blocks take 0.838, and 0.407 where they take 0.438
in fp8.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from operator import mul

from twill.ir.loop import Function, Op, Tensor, shares
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import Pipelined, ProducerLoad, walk
from twill.ops.table import role
from twill.simulate.predict import of_sm, predict, time_of_sm
from twill.targets import target
from twill.targets.cuda.loads.tiled_form import tiled_form
from twill.warp import tiles_in_flight
from twill.warp.channels import LOADED, constant_trips
from twill.warp.copies import with_copies
from twill.warp.dataflow import Code, read
from twill.warp.non_loop_code import closed
from twill.warp.tasks import Scheduled

SHORT = 8
"""A loop of fewer iterations, where that is known, waits for its loads rather than for its operations, which
more thread blocks hide better (chunks of linear attention with loops of two iterations: 0.112 ms persistent,
0.108 with two thread blocks)."""

CLEARLY = 1.02
"""How many times as long a tile of TRIPS iterations takes in a grid, at least, where a kernel is made
persistent. Longer loops gain less, and what ptxas makes of another program differs by as much: attention
backward, 1.018 predicted, takes 27.7 million SM cycles persistent and 27.0 as a grid on an H200."""

ALTERNATING = 1.25
"""How many times as long a tile takes in groups that divide its work, at least, where groups alternate
instead of which each computes a whole tile. (On an H200, predicted and measured gains: fla's
parallel_simple_gla_fwd_kernel in tiles of 64 rows 1.65 and 1.66, Triton's attention tutorial in tiles of
64 x 128 1.34 and 1.21.)"""

BESIDE_ENDS = 1.08
"""How many times as long tiles in flight may take, each with its begin and end, as thread blocks that wait
for a unit and whose begins and ends are free. (On an H200, predicted so, and measured of tiles in flight by
thread blocks: vLLM's fused MoE in fp8 in tiles of 64 x 128 0.90 and 0.89, Triton's attention tutorial in
tiles of 64 x 128 1.03 and 0.88; vLLM's grouped gradients of weights 1.13 and 1.31, fla's transformed queries
of PaTH 1.24 and 1.22.)"""
KEPT_UP = 1.02
"""Simulated cycles of an iteration by scheduled ones, at most."""


def open_to_it(made: Program, loops: Sequence[Scheduled]) -> bool:
    """Whether the programs of a kernel's grid may follow one another in a thread block, and gain by it: none
    waits for another one, and no loop is known to be short."""
    code = read(made.module, made.function)
    trips = [constant_trips(code, one.loop) for one in loops]
    return (
        target(loops[0].machine.arch).completion == "commit group"
        and tiles_in_flight.tile_loop(code, loops) is None
        and not _communicates(made.function)
        and all(count is None or count >= SHORT for count in trips)
    )


def hidden_better(made: Program, loops: Sequence[Scheduled], walking: "Lowered | None" = None) -> bool:
    """Whether several thread blocks that share an SM hide what tiles in flight do not (see `faster`). A tile
    in flight has the slots of all these blocks: where loops wait for loads alone, it does not. `walking`: the
    persistent kernel, if it is known. (On an H200, a bf16 product of 4096 x 4096 x 4096 in tiles of
    64 x 128 x 128: 0.283 ms in two thread blocks of two slots, predicted 872 cycles of an iteration for 768
    scheduled; 0.226 persistent, with four.)"""
    if made.resident_blocks == 1:
        return False
    if gathers(made, loops) or _through_registers(made, loops) or copies_late(made, loops):
        return True
    return not _keeps_up(made, loops) and not _keeps_up(*(walking or _with_all_slots(made, loops)))


def _with_all_slots(made: Program, loops: Sequence[Scheduled]) -> "Lowered":
    """A thread block whose loads run as far ahead as those of all that share an SM; as it is where groups
    that compute load."""
    moving = {group.id for group in made.groups if group.only_moves}
    channels = (
        replace(one, depth=made.resident_blocks * one.depth)
        if one.filled_by in LOADED and one.producer in moving
        else one
        for one in made.channels
    )
    return replace(made, channels=tuple(channels)), loops


def _through_registers(made: Program, loops: Sequence[Scheduled]) -> bool:
    """Whether threads load a tile through registers, each with as many accesses at a time as it has registers
    for: tiles in flight share the threads of one thread block."""
    return bool(with_copies(read(made.module, made.function), loops).through_registers)


def copies_late(made: Program, loops: Sequence[Scheduled]) -> bool:
    """Whether the threads that copy the tiles of a loop take longer than its schedule, and no launch has TMA
    load them: tiles in flight share the threads of one thread block. (On an H200, a bf16 product in tiles of
    128 x 128 x 32: 0.240 ms persistent, 0.209 not.)"""
    return bool(late_copies(made, loops))


def late_copies(made: Program, loops: Sequence[Scheduled]) -> Mapping[str, float]:
    """Of the loops whose copies are late, by their paths: machine cycles in which threads copy the tiles of
    an iteration."""
    form = tiled_form(made)
    taken = copied_in(form.program, loops, frozenset(form.loads)) if form else copied_in(made, loops)
    late = (one for one in loops if taken[one.loop.path] > KEPT_UP * _scheduled(one))
    return {one.loop.path: taken[one.loop.path] for one in late}


def copied_in(
    made: Program, loops: Sequence[Scheduled], by_tma: Set[int] = frozenset()
) -> Mapping[str, float]:
    """Machine cycles in which the threads of groups that only load copy the tiles of an iteration of each
    loop, by its path, but for the loads that are started `by_tma`. In a lean program they compute offsets and
    masks of most masked copies again; in any, offsets of tiles that lie where an iteration loads. (On an
    H200, vLLM's grouped gradients of weights gathers one of its two tiles, eight copies of a thread: an
    iteration takes 832 cycles as a grid, 938 with two tiles in flight.)"""
    moving = [group for group in made.groups if group.only_moves and group.warps > 1]
    inside = [(group, one) for group in moving for one in walk(group.body) if isinstance(one, Pipelined)]
    copies, found = loops[0].machine.copies, {one.loop.path: 0.0 for one in loops}
    masked = {op.index for op in made.function.walk() if role(op) == "pointer_load" and op.operands[1:]}
    anew = (masked if made.lean else set[int]()) | {op.index for op in gathered(made, loops)}
    for group, one in inside:
        counted = [(op, count) for op, count in _copies(made, group, one) if op not in by_tma]
        again = sum(count for op, count in counted if op in anew)
        plain = sum(count for _, count in counted) - again
        found[one.path] = max(found[one.path], float(again * copies.lean_pace + plain * copies.pace))
    return found


def _copies(program: Program, group: WarpProgram, loop: Pipelined) -> list[tuple[int, int]]:
    """The loads of an iteration that threads make by copies, as numbers of operations, each with the copies
    of a thread of a group."""
    return [
        (
            load.ops[-1],
            -(-program.channel(one.channel).tensors[load.tensor].bytes // (load.vector * 32 * group.warps)),
        )
        for one in loop.steady
        if isinstance(one, ProducerLoad) and program.channel(one.channel).filled_by == "cp_async"
        for load in one.loads
        if load.vector
    ]


def _communicates(function: Function) -> bool:
    """Whether a program may wait for what another one writes: it uses the result of an atomic operation, or
    loops for as long as a condition holds."""
    ops = tuple(function.walk())
    used = {value.id for op in ops for value in op.operands}
    return any(
        role(op) == "while"
        or (role(op) in ("atomic", "atomic_exchange") and any(value.id in used for value in op.results))
        for op in ops
    )


Lowered = tuple[Program, Sequence[Scheduled]]


def faster(plain: Lowered, walking: Lowered) -> str | None:
    """Why a kernel is made persistent, in words: the prediction; None where it is not predicted to be clearly
    faster.

    Nor where several thread blocks share an SM, and it would have fewer tiles at a time, which hide waits
    that no prediction knows; fewer threads that copy tiles from places which are loaded (the tiles in flight
    share those of one thread block); or arithmetic beside no MMA: tiles in flight alternate at the tensor
    core, where thread blocks overlap the arithmetic of one with the MMAs of another. (On an H200, weights
    unpacked from 4 bits: 0.424 ms persistent, 0.315 not; blocks of fp8 scaled in registers: 0.392 and 0.319.)

    Programs that may return early are made persistent only where one thread block alone has an SM, and gets
    several tiles in flight: a grid gives its programs to the SMs as these are done, a walk gives every SM as
    many. (On an H200, fused MoE: 0.395 ms persistent, 0.478 not; one tile in flight in fp8: 0.455 and 0.444;
    `bmm_chunk` of Mamba, whose SMs hold two thread blocks: 0.0346 and 0.0311.)
    """
    alone, persistent = _as_grid(*plain), _persistent(*walking)
    blocks = plain[0].resident_blocks
    fewer = walking[0].tiles_in_flight < blocks
    uneven = kept_as_grid(*plain, blocks, walking[0].tiles_in_flight)
    if CLEARLY * persistent >= alone or fewer or uneven or hidden_better(*plain, walking):
        return None
    return (
        f"made persistent: a tile of {tiles_in_flight.TRIPS} iterations every {persistent:.0f} cycles"
        f" predicted, {alone:.0f} as a grid of programs (--no-persistent)"
    )


def alternating_faster(several: Lowered, alone: Lowered | None = None) -> bool:
    """Whether tiles whose iterations alternate, in groups that compute each a whole tile, are predicted to
    follow each other clearly faster than those of groups that divide the work of one; without `alone`,
    whether they might."""
    made, loops = several
    if made.tiles_in_flight > 1:
        return False
    least = tiles_in_flight.busy(loops) if alone is None else _persistent(*alone)
    return (alone is None or alone[0].tiles_in_flight > 1) and ALTERNATING * least <= _persistent(*several)


def as_busy(plain: Lowered, walking: Lowered) -> bool:
    """Whether tiles are predicted to follow each other as fast as thread blocks that share an SM execute
    their loops, were their begins and ends free; where several tiles are in flight, as blocks that wait for
    its busiest unit at times: the loops of these tiles follow one another too, as long as they are simulated,
    or threads copy for them. (Not so in gemlite's product with weights of 5 bits by 16 rows: 47195 cycles of
    a tile and 36864.)"""
    several = walking[0].tiles_in_flight > 1
    needed = BESIDE_ENDS * time_of_sm(*plain, {}) if several else KEPT_UP * of_sm(*plain)
    taken = _on_time(*walking) + _late(*walking, late_copies(*walking) if several else None)
    return taken <= tiles_in_flight.TRIPS * needed


def kept_as_grid(made: Program, loops: Sequence[Scheduled], blocks: int, tiles: int) -> bool:
    """Whether a program may leave out a loop, and walking over programs does not make up for that: an SM
    holds several thread blocks as it is, or has one tile in flight then."""
    inside = {one.loop.op.index for one in loops}
    branches = (op for op in made.function.walk() if role(op) == "if")
    early = any(op.index in inside for branch in branches for op in branch.inner())
    return early and (blocks > 1 or tiles == 1)


def _persistent(made: Program, loops: Sequence[Scheduled]) -> float:
    """Predicted machine cycles from tile to tile on an SM, for loops of TRIPS iterations. Where one tile is
    in flight, nothing hides that its loops take longer than scheduled."""
    late = _late(made, loops) if made.tiles_in_flight == 1 else 0.0
    return _on_time(made, loops) + late


def _on_time(made: Program, loops: Sequence[Scheduled]) -> float:
    """The same of loops that take as long as scheduled."""
    return tiles_in_flight.cycles(read(made.module, made.function), loops, made.tiles_in_flight)


def _as_grid(made: Program, loops: Sequence[Scheduled]) -> float:
    """The same of thread blocks that share an SM: their begin and end overlap each other's, and nobody's
    loop."""
    busy = tiles_in_flight.busy(loops)
    alone = tiles_in_flight.cycles(read(made.module, made.function), loops, 1) + _late(made, loops)
    return busy + (alone - busy + loops[0].machine.loads.arrival) / made.resident_blocks


def _late(made: Program, loops: Sequence[Scheduled], copied: Mapping[str, float] | None = None) -> float:
    """Machine cycles by which TRIPS iterations of each loop, or their `shares` of these, take longer than
    scheduled, as simulated, or as threads copy (`copied`, by path)."""
    simulated, least = predict(made, loops).loops, copied or {}
    taken = ((one, max(simulated[one.loop.path].interval, least.get(one.loop.path, 0.0))) for one in loops)
    over = [max(0.0, interval - _scheduled(one)) for one, interval in taken]
    return tiles_in_flight.TRIPS * sum(map(mul, shares([one.loop for one in loops]), over))


def _keeps_up(made: Program, loops: Sequence[Scheduled]) -> bool:
    """Whether one tile alone keeps its loops at their intervals, as simulated."""
    simulated = predict(made, loops).loops
    return all(simulated[one.loop.path].interval <= KEPT_UP * _scheduled(one) for one in loops)


def _scheduled(one: Scheduled) -> float:
    """Machine cycles of an iteration of a loop by its schedule."""
    return one.solution.interval * one.problem.resolution.cycles_per_unit


def gathers(made: Program, loops: Sequence[Scheduled]) -> bool:
    """Whether threads copy tiles from places that are loaded."""
    code = with_copies(read(made.module, made.function), loops)
    return bool(code.reloaded) or any(_gathered(code, loops))


def gathered(made: Program, loops: Sequence[Scheduled]) -> Iterator[Op]:
    """The loads of tiles that lie where an iteration loads."""
    return _gathered(with_copies(read(made.module, made.function), loops), loops)


def _gathered(code: Code, loops: Sequence[Scheduled]) -> Iterator[Op]:
    for one in loops:
        for op in one.loop.op.inner():
            tile = role(op) == "pointer_load" and isinstance(op.result.type, Tensor)
            if tile and _placed_by_load(code, one, op):
                yield op


def _placed_by_load(code: Code, one: Scheduled, load: Op) -> bool:
    """Whether an iteration loads where a tile lies."""
    behind = closed(code, load.operands[:1], ())
    makers = (op for op in one.loop.op.inner() if role(op) == "pointer_load")
    return any(value.id in behind for op in makers for value in op.results)
