"""Loads through registers that are started an iteration before their slot is empty.

A group that computes and loads (`warp.multistage`) would wait for them in the middle of every iteration: it
writes to a slot what it reads. Where a thread has registers for all such tiles of a slot, it reads those of
the next iteration behind the stores of this one, and MMAs and copies take the time that the accesses need.
(On an H200, vLLM's LoRA of experts, one tile: 64 to 59 us; a product of odd sizes, both operands: 37 to 34
us, and 42 with one of them early, whose accesses then no longer overlap those of the other.) A group that
loads for others does so with words that it would wait for in every iteration (`warp.words_apart`): those of
the first one stand before the prologue. Takes an `Emitter` and a loop; gives C.
"""

from collections.abc import Iterator, Sequence

from twill.ir.effects import effects
from twill.ir.operands import Iteration, Register
from twill.ir.statements import Pipelined, ProducerLoad, Statement, TileLoad, walk
from twill.targets.cuda.emitter import Emitter
from twill.targets.cuda.loads.kept_addresses import loaded_tile, of_equal_numbers, units_of
from twill.targets.cuda.loads.producers import started_early
from twill.targets.cuda.loads.register_loads import Units
from twill.targets.cuda.names import c_name
from twill.warp.dataflow import EFFECTS
from twill.warp.skipped import skipped

ROOM = 32
"""Registers of a thread that holds such tiles beside what it computes with (estimate; where ptxas spills, the
program is made anew without)."""


def begun_early(emitter: Emitter, it: Pipelined) -> list[str]:
    """Before the steady state, or before the prologue in a group that loads for others: the accesses for the
    first load there of each channel. From then on the emitter knows which loads are started early."""
    writes = any(op.name in EFFECTS for op in emitter.program.op(it.op).inner())
    any_tile = emitter.group.multistage and not emitter.program.lean and not writes
    lines, room = list[str](), ROOM
    for fill in _fills(emitter, it):
        loads = (load for load in fill.loads if load.early or any_tile)
        passing = {load: found for load in loads if (found := _passing(emitter, fill, load))}
        registers = sum(found.grid.count * found.loads for found in passing.values())
        if registers > room or not all(_fixed(it, load) for load in passing):
            continue
        room -= registers
        for load, found in passing.items():
            op = emitter.program.op(load.ops[-1])
            name = f"next_{c_name(emitter.program.name(op.result.id))}"
            emitter.early = {**emitter.early, op.index: name}
            lines.append(f"uint32_t {name}[{found.grid.count}][{found.loads}];")
        lines += _first(emitter, fill)
    return lines


def _passing(emitter: Emitter, fill: ProducerLoad, load: TileLoad) -> Units | None:
    """How threads load a tile through registers; None where they do not, or only its first element."""
    op, tensor = loaded_tile(emitter, fill, load)
    if load.along is None or of_equal_numbers(emitter, op, tensor):
        return None
    return units_of(emitter, op, tensor, load)


def _fills(emitter: Emitter, it: Pipelined) -> Iterator[ProducerLoad]:
    """The loads of channels that have one in an iteration, none of which may depend on a branch that some
    iterations take."""
    program, multistage = emitter.program, emitter.group.multistage
    if multistage and skipped(program, it):
        return
    steady = [one for one in it.steady if isinstance(one, ProducerLoad)]
    for fill in steady:
        alone = [one.channel for one in steady].count(fill.channel) == 1
        if (
            alone
            and (fill.slots or not multistage)
            and fill.at.iteration.base == "newest"
            and program.channel(fill.channel).filled_by == "cp_async"
        ):
            yield fill


def _fixed(it: Pipelined, load: TileLoad) -> bool:
    """Whether what the addresses follow from is in registers, the same in all iterations."""
    parts: Sequence[Statement] = (*it.prologue, *it.steady)
    written = {write for one in walk(parts) for write in effects(one).writes}
    return all(isinstance(read.location, Register) and read.location not in written for read in load.reads)


def _first(emitter: Emitter, fill: ProducerLoad) -> list[str]:
    """The accesses of the first iteration; in a group that reads what it loads, of the first that the steady
    state loads: that of its first interval, or the first whose slot another one has released."""
    if not emitter.group.multistage:
        return started_early(emitter, fill, Iteration("first"))
    loaded, released = fill.at.iteration, fill.at.iteration.later(-fill.slots)
    begin = max(emitter.least, released.offset)
    return started_early(emitter, fill, Iteration("first", begin - loaded.offset))
