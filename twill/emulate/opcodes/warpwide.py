"""What the lanes of a warp do together (PTX ISA, shfl.sync, vote.sync, match.sync, redux.sync, elect.sync,
activemask)."""

from collections.abc import Callable, Mapping

import numpy as np

from twill.emulate.decode import Control, Decoder, Ref, Step, control, guard_of, mask_of, step, uniform
from twill.emulate.faults import Fault
from twill.emulate.machine.warp import LANES, Warp, bits, lanes
from twill.emulate.memory.clocks import Array
from twill.emulate.opcodes.integer import type_of
from twill.emulate.opcodes.lift import get, put
from twill.emulate.ptx.syntax import Instruction, Operand, Pair, Sink


def together(warp: Warp, members: Ref, what: str) -> int:
    """The lanes of a membermask, all of which are here; or BLOCKED."""
    wanted = uniform(warp, members, "a membermask") & 0xFFFFFFFF
    if warp.mask & ~wanted:
        raise Fault(
            f"lanes {warp.mask & ~wanted:#x} execute {what} with the membermask {wanted:#x}, which leaves"
            " them out"
        )
    return warp.gather(wanted, what) or wanted


def halves(operand: Operand) -> tuple[Operand, Operand]:
    """A result and a predicate, which may be wanted or not."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


# --- shuffles ---------------------------------------------------------------------------------------------


def sources(mode: str, b: Array, c: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether it lies in the segment."""
    lane, step = LANES, (b & 31).astype(np.int64)
    clamp, segment = (c & 31).astype(np.int64), (c >> np.uint32(8) & 31).astype(np.int64)
    low, high = lane & segment, lane & segment | clamp & ~segment
    match mode:
        case "up":
            j = lane - step
            inside = j >= high
        case "down":
            j = lane + step
            inside = j <= high
        case "bfly":
            j = lane ^ step
            inside = j <= high
        case _:
            j = low | step & ~segment
            inside = j <= high
    return np.where(inside, j, lane), inside


@control("shfl.sync")
def _shfl(one: Instruction, decoder: Decoder) -> Control:
    mode = one.modifiers[1]
    first, second = halves(one.operands[0])
    target, inside = decoder.target(first, "b32"), decoder.target(second, "pred")
    a, b, c, members = (decoder.source(operand, "u32") for operand in one.operands[1:5])

    def run(warp: Warp) -> int:
        wanted = together(warp, members, "shfl.sync")
        if wanted < 0:
            return wanted
        lane, within = sources(mode, get(warp, b), get(warp, c))
        known = warp.valid[a.code][a.index] & wanted
        put(warp, target, get(warp, a)[lane], bits(lanes(known)[lane]))
        put(warp, inside, within, warp.mask)
        return warp.fragment.pc + 1

    return run


# --- votes and reductions ---------------------------------------------------------------------------------

_VOTES: Mapping[str, Callable[[int, int], int]] = {
    "all": lambda yes, wanted: yes == wanted,
    "any": lambda yes, wanted: yes != 0,
    "uni": lambda yes, wanted: yes in (0, wanted),
    "ballot": lambda yes, wanted: yes,
}


@control("vote.sync")
def _vote(one: Instruction, decoder: Decoder) -> Control:
    mode = one.modifiers[1]
    fn, target = _VOTES[mode], decoder.target(one.operands[0], "b32" if mode == "ballot" else "pred")
    guard, members = guard_of(one.operands[1], decoder), decoder.source(one.operands[2], "u32")

    def run(warp: Warp) -> int:
        wanted = together(warp, members, "vote.sync")
        if wanted < 0:
            return wanted
        warp.require(0, guard[0].index, "a vote")
        put(warp, target, fn(mask_of(warp, guard), wanted & warp.alive), warp.mask)
        return warp.fragment.pc + 1

    return run


_REDUCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "add": lambda a: a.sum(dtype=np.int64) & 0xFFFFFFFF,
    "min": np.min,
    "max": np.max,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}


@control("redux.sync")
def _redux(one: Instruction, decoder: Decoder) -> Control:
    dtype, fn = type_of(one), _REDUCTIONS[one.modifiers[1]]
    if dtype == "f32":
        fn = _real_redux(one)
    target, source = decoder.target(one.operands[0], dtype), decoder.source(one.operands[1], dtype)
    members = decoder.source(one.operands[2], "u32")

    def run(warp: Warp) -> int:
        wanted = together(warp, members, "redux.sync")
        if wanted < 0:
            return wanted
        value = np.asarray(fn(get(warp, source)[warp.active]))
        put(
            warp,
            target,
            value.astype(np.uint32).view(get(warp, target).dtype) if dtype != "f32" else value,
            warp.mask if _known(warp, source) else 0,
        )
        return warp.fragment.pc + 1

    return run


def _known(warp: Warp, ref: Ref) -> bool:
    return not warp.mask & ~warp.valid[ref.code][ref.index]


def _real_redux(one: Instruction) -> Callable[[Array], Array]:
    """min and max of f32 (sm_100a), of magnitudes with .abs."""
    plain, nan = (np.fmin, np.minimum) if "min" in one.modifiers else (np.fmax, np.maximum)
    fn = nan if "NaN" in one.modifiers else plain
    return lambda a: fn.reduce(np.abs(a) if "abs" in one.modifiers else a)


@control("match.any", "match.all")
def _match(one: Instruction, decoder: Decoder) -> Control:
    dtype, every = type_of(one), one.modifiers[0] == "all"
    first, second = halves(one.operands[0])
    target, same = decoder.target(first, "b32"), decoder.target(second, "pred")
    source, members = decoder.source(one.operands[1], dtype), decoder.source(one.operands[2], "u32")

    def run(warp: Warp) -> int:
        wanted = together(warp, members, "match.sync")
        if wanted < 0:
            return wanted
        values = get(warp, source)
        equal = values[:, None] == values[None, :]
        found = np.array([bits(equal[lane]) & wanted for lane in range(32)], np.uint32)
        if every:
            full = bool((found[warp.active] == wanted).all())
            put(warp, target, wanted if full else 0, warp.mask)
            put(warp, same, full, warp.mask)
        else:
            put(warp, target, found, warp.mask)
        return warp.fragment.pc + 1

    return run


@control("elect.sync")
def _elect(one: Instruction, decoder: Decoder) -> Control:
    """The lowest lane is elected."""
    first, second = halves(one.operands[0])
    target, elected = decoder.target(first, "b32"), decoder.target(second, "pred")
    members = decoder.source(one.operands[1], "u32")

    def run(warp: Warp) -> int:
        wanted = together(warp, members, "elect.sync")
        if wanted < 0:
            return wanted
        lowest = (wanted & -wanted).bit_length() - 1
        put(warp, target, lowest, warp.mask)
        put(warp, elected, lowest == LANES, warp.mask)
        return warp.fragment.pc + 1

    return run


@step("activemask")
def _activemask(one: Instruction, decoder: Decoder) -> Step:
    target = decoder.target(one.operands[0], "b32")
    return lambda warp: put(warp, target, warp.mask, warp.mask)


@control("bar.warp.sync")
def _warp_sync(one: Instruction, decoder: Decoder) -> Control:
    members = decoder.source(one.operands[0], "u32")

    def run(warp: Warp) -> int:
        wanted = together(warp, members, "bar.warp.sync")
        if wanted < 0:
            return wanted
        if not warp.alive & ~warp.mask:
            warp.synchronize_lanes()
        return warp.fragment.pc + 1

    return run
