"""Branches, exits and what has no effect here (PTX ISA, "Control Flow", "Miscellaneous")."""

from functools import partial

import numpy as np

from twill.emulate.decode import Control, Decoder, Step, control, guard_of, step
from twill.emulate.faults import Fault
from twill.emulate.machine.warp import YIELD, Warp, bits
from twill.emulate.memory.clocks import Array
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.lift import get, lift
from twill.emulate.opcodes.memory import items
from twill.emulate.opcodes.windows import CVTA
from twill.emulate.ptx.syntax import Instruction


@control("bra", waits=False)
def _bra(one: Instruction, decoder: Decoder) -> Control:
    target = decoder.block(one.operands[0])
    if one.guard is None:
        return lambda warp: target
    predicate, _ = guard_of(one.guard, decoder)
    negated, index = one.negated, predicate.index

    def run(warp: Warp) -> int:
        taken = warp.where(index)
        return warp.branch(warp.mask & ~taken if negated else taken, target)

    return run


@control("brx.idx", waits=False)
def _brx(one: Instruction, decoder: Decoder) -> Control:
    """To the label of a .branchtargets that an index chooses."""
    index = decoder.source(one.operands[0], "u32")
    targets = [decoder.block(label) for label in items(one.operands[1])]

    def run(warp: Warp) -> int:
        warp.require(index.code, index.index, "the index of a branch")
        chosen = get(warp, index)
        if (chosen[warp.active] >= len(targets)).any():
            raise Fault(f"brx.idx with an index beyond its {len(targets)} targets")
        follows = warp.fragment.pc + 1
        for i, target in enumerate(targets):
            taken = bits(chosen == i) & warp.fragment.mask
            follows = warp.branch(taken, target) if taken else follows
        return follows

    return run


@control("exit", waits=False)
def _exit(one: Instruction, decoder: Decoder) -> Control:
    return lambda warp: warp.leave(warp.mask)


@control("ret", waits=False)
def _ret(one: Instruction, decoder: Decoder) -> Control:
    return lambda warp: warp.leave(warp.mask)


@step("trap", "brkpt")
def _trap(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        raise Fault(f"{one.name} is executed")

    return run


@control("nanosleep")
def _nanosleep(one: Instruction, decoder: Decoder) -> Control:
    return lambda warp: YIELD


@step(
    "prefetch", "prefetchu", "applypriority", "discard", "pmevent", "griddepcontrol", "cp.async.bulk.prefetch"
)
def _nothing(one: Instruction, decoder: Decoder) -> Step:
    """Hints, and what orders grids, of which there is one."""
    return lambda warp: None


@control("setmaxnreg")
def _setmaxnreg(one: Instruction, decoder: Decoder) -> Control:
    """The registers of a warp come from and go to the CTA's pool; an increase waits for them."""
    count, more = immediate(one.operands[0]), "inc" in one.modifiers
    if not 24 <= count <= 256 or count % 8:
        raise ValueError(f"{count} registers: a multiple of 8 from 24 to 256 is expected")

    def run(warp: Warp) -> int:
        if blocked := warp.gather(warp.alive, "setmaxnreg"):
            return blocked
        cta = warp.cta
        change = count - cta.registers[warp.index]
        if change and (change > 0) != more:
            raise Fault(
                f"setmaxnreg.{'inc' if more else 'dec'} to {count} registers of a warp that has"
                f" {cta.registers[warp.index]}"
            )
        if 32 * change > cta.free_registers:
            return warp.wait(
                lambda: 32 * change <= cta.free_registers,
                lambda: f"{change} more registers per thread, {cta.free_registers // 32} are free",
            )
        cta.free_registers -= 32 * change
        cta.registers[warp.index] = count
        cta.changes[warp.index].append(count)
        return warp.fragment.pc + 1

    return run


@step("createpolicy")
def _createpolicy(one: Instruction, decoder: Decoder) -> Step:
    """Hints for the cache, which there is not."""
    return lift(lambda: 0, decoder.target(one.operands[0], "b64"), [])


@step("isspacep")
def _isspacep(one: Instruction, decoder: Decoder) -> Step:
    window = CVTA[one.modifiers[0].partition("::")[0]] >> 48
    return lift(
        partial(_inside, window),
        decoder.target(one.operands[0], "pred"),
        [decoder.source(one.operands[1], "u64")],
    )


def _inside(window: int, address: Array) -> Array:
    return address >> np.uint64(48) == window
