"""Barriers of CTAs and clusters, and fences (PTX ISA, "Parallel Synchronization and Communication")."""

from collections.abc import Callable
from typing import Any

import numpy as np

from twill.emulate.decode import Control, Decoder, Ref, Step, control, guard_of, mask_of, step, uniform
from twill.emulate.faults import Fault
from twill.emulate.machine.barriers import Named
from twill.emulate.machine.cta import RANK_SHIFT
from twill.emulate.machine.warp import ALL, Warp
from twill.emulate.opcodes.lift import get, put
from twill.emulate.opcodes.memory import OFFSET, fence
from twill.emulate.opcodes.windows import CVTA
from twill.emulate.ptx.syntax import Instruction

# --- named barriers ----------------------------------------------------------------------------------------


def _operands(one: Instruction, decoder: Decoder, skip: int = 0) -> tuple[Ref, Ref | None]:
    """The barrier's number and the number of threads."""
    found = [decoder.source(operand, "u32") for operand in one.operands[skip : skip + 2]]
    return found[0], found[1] if len(found) > 1 else None


def _threads(warp: Warp, ref: Ref | None) -> int:
    if ref is None:
        return 32 * sum(1 for other in warp.cta.warps if other.alive)
    count = uniform(warp, ref, "the number of threads at a barrier")
    if count % 32 or not count:
        raise Fault(f"{count} threads at a barrier: a multiple of the warp's 32 is expected")
    return count


def _come(warp: Warp, number: Ref, count: Ref | None) -> tuple[Named, int]:
    """The warp arrives; the barrier and the generation."""
    barrier = warp.cta.barrier(uniform(warp, number, "a barrier's number"))
    warp.synchronize_lanes()
    warp.release(barrier.gathered)
    return barrier, barrier.arrive(_threads(warp, count), 32)


def _sync(
    number: Ref,
    count: Ref | None,
    line: int,
    done: Callable[[Warp, Named, int], None] | None = None,
    vote: Any = None,
) -> Control:
    """Arrives once and waits until the generation is complete."""
    token = ("barrier", line)

    def run(warp: Warp) -> int:
        if blocked := warp.gather(ALL, "a barrier"):
            return blocked
        held = warp.state.get(token)
        if held is None:
            barrier = warp.cta.barrier(uniform(warp, number, "a barrier's number"))
            if vote:
                barrier.values.setdefault(barrier.generation, []).append(vote(warp))
            held = warp.state[token] = _come(warp, number, count)
            held[0].waiting[held[1]] = held[0].waiting.get(held[1], 0) + 1
        barrier, generation = held
        if barrier.generation == generation:
            name = uniform(warp, number, "a barrier's number")
            return warp.wait(
                lambda: barrier.generation > generation,
                lambda: f"barrier {name}, which has {barrier.arrived} of {barrier.threads} threads",
            )
        del warp.state[token]
        warp.acquire(barrier.passed(generation))
        if done:
            done(warp, barrier, generation)
        return warp.fragment.pc + 1

    return run


@control("bar.sync", "barrier.sync", "bar.cta.sync", "barrier.cta.sync")
def _bar_sync(one: Instruction, decoder: Decoder) -> Control:
    return _sync(*_operands(one, decoder), one.line)


@control("bar.arrive", "barrier.arrive", "bar.cta.arrive", "barrier.cta.arrive")
def _bar_arrive(one: Instruction, decoder: Decoder) -> Control:
    number, count = _operands(one, decoder)

    def run(warp: Warp) -> int:
        if blocked := warp.gather(ALL, "a barrier"):
            return blocked
        _come(warp, number, count)
        return warp.fragment.pc + 1

    return run


@control("bar.red", "barrier.red", "bar.cta.red", "barrier.cta.red")
def _bar_red(one: Instruction, decoder: Decoder) -> Control:
    """Votes of all threads at a barrier."""
    mode = next(part for part in one.modifiers if part in ("popc", "and", "or"))
    number, count = (
        _operands(one, decoder, 1) if len(one.operands) == 4 else (_operands(one, decoder, 1)[0], None)
    )
    guard = guard_of(one.operands[-1], decoder)
    target = decoder.target(one.operands[0], "u32" if mode == "popc" else "pred")

    def done(warp: Warp, barrier: Named, generation: int) -> None:
        votes = barrier.values.get(generation, [])
        yes, total = sum(votes), len(votes) * 32
        put(warp, target, {"popc": yes, "and": yes == total, "or": yes > 0}[mode], warp.mask)

    def vote(warp: Warp) -> int:
        return mask_of(warp, guard).bit_count()

    return _sync(number, count, one.line, done, vote)


# --- clusters ---------------------------------------------------------------------------------------------


@control("barrier.cluster.arrive")
def _cluster_arrive(one: Instruction, decoder: Decoder) -> Control:
    relaxed = "relaxed" in one.modifiers

    def run(warp: Warp) -> int:
        if blocked := warp.gather(ALL, "barrier.cluster"):
            return blocked
        barrier = warp.cta.cluster.barrier
        if "cluster" in warp.state:
            raise Fault("barrier.cluster.arrive a second time with no wait between")
        warp.state["cluster"] = barrier.generation, warp.synchronized if relaxed else warp.divide()
        if not relaxed:
            warp.release(barrier.gathered)
        barrier.arrived += 1
        barrier.advance()
        return warp.fragment.pc + 1

    return run


@control("barrier.cluster.wait")
def _cluster_wait(one: Instruction, decoder: Decoder) -> Control:
    def run(warp: Warp) -> int:
        if blocked := warp.gather(ALL, "barrier.cluster"):
            return blocked
        barrier = warp.cta.cluster.barrier
        if "cluster" not in warp.state:
            raise Fault("barrier.cluster.wait with no arrive before")
        generation, before = warp.state["cluster"]
        if barrier.generation == generation:
            return warp.wait(
                lambda: barrier.generation > generation,
                lambda: f"the cluster's barrier, which has {barrier.arrived} of {barrier.expected} warps",
            )
        del warp.state["cluster"]
        assert barrier.released is not None
        warp.acquire(barrier.released)
        warp.synchronized = max(warp.synchronized, before)
        return warp.fragment.pc + 1

    return run


@step("mapa")
def _mapa(one: Instruction, decoder: Decoder) -> Step:
    """The address of the same variable in another CTA of the cluster."""
    dtype, shared = one.modifiers[-1], "shared::cluster" in one.modifiers
    target, a, rank = (
        decoder.target(one.operands[0], dtype),
        decoder.source(one.operands[1], dtype),
        decoder.source(one.operands[2], "u32"),
    )
    window = 0 if shared else CVTA["shared"]

    def run(warp: Warp) -> None:
        address, ranks = get(warp, a).astype(np.int64) - window, get(warp, rank).astype(np.int64)
        put(
            warp,
            target,
            (address & OFFSET) + (ranks << RANK_SHIFT) + window,
            warp.valid[a.code][a.index] & warp.valid[rank.code][rank.index],
        )

    return run


@step("getctarank")
def _getctarank(one: Instruction, decoder: Decoder) -> Step:
    dtype, window = one.modifiers[-1], 0 if "shared::cluster" in one.modifiers else CVTA["shared"]
    target, a = decoder.target(one.operands[0], "u32"), decoder.source(one.operands[1], dtype)
    return lambda warp: put(
        warp, target, get(warp, a).astype(np.int64) - window >> RANK_SHIFT, warp.valid[a.code][a.index]
    )


# --- fences -----------------------------------------------------------------------------------------------


@step("fence", "membar")
def _fence(one: Instruction, decoder: Decoder) -> Step:
    """Of threads among themselves."""
    return fence


@step("fence.proxy", "fence.mbarrier_init")
def _fence_proxy(one: Instruction, decoder: Decoder) -> Step:
    if one.modifiers[0] == "mbarrier_init":
        return _visible
    if one.modifiers[1] != "async" or "global" in one.modifiers:
        return lambda warp: None  # not of shared memory

    def run(warp: Warp) -> None:
        warp.fence_proxy()
        _visible(warp)

    return run


def _visible(warp: Warp) -> None:
    """The mbarriers that are initialized before are visible to the async proxy."""
    clocks = warp.cta.cluster.clocks
    for barrier in warp.cta.mbarriers.values():
        if not barrier.visible and not clocks.late(np.array([barrier.writer]), warp.clock)[0]:
            barrier.visible = True
