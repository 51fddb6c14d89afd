"""Mbarriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier")."""

import numpy as np

from twill.emulate.decode import Control, Decoder, Ref, Step, control, step
from twill.emulate.faults import Fault
from twill.emulate.machine.barriers import MOST_ARRIVALS, Mbarrier
from twill.emulate.machine.cta import Cta
from twill.emulate.machine.warp import LANES, YIELD, Warp
from twill.emulate.memory.clocks import carried
from twill.emulate.opcodes.lift import get, put
from twill.emulate.opcodes.memory import OFFSET, Where, where
from twill.emulate.ptx.syntax import Instruction, Sink


def each(warp: Warp, at: Where) -> list[tuple[int, int]]:
    """The active lanes with their shared addresses."""
    warp.require(at.ref.code, at.ref.index, "the address of an mbarrier")
    found, mask = at.of(warp), warp.mask
    places = [(int(lane), int(found[lane]) & (1 << 48) - 1) for lane in LANES if mask >> int(lane) & 1]
    if wrong := [place for _, place in places if place % 8]:
        raise Fault(f"the mbarrier at {wrong[0]:#x} is not at a multiple of 8")
    return places


def find(warp: Warp, place: int) -> Mbarrier:
    """The mbarrier at a shared address. Raises Fault where there is none, or its initialization does not
    happen before."""
    cta = warp.cta.cluster.cta_at(place)
    offset = place & OFFSET
    barrier = cta.mbarriers.get(offset)
    if barrier is None:
        cta.shared.inside(offset, offset + 8)
        raise Fault(f"there is no initialized mbarrier at byte {offset - 1024:#x} of shared memory")
    if cta.cluster.clocks.late(np.array([barrier.writer]), warp.clock)[0]:
        raise Fault(
            "an mbarrier is used without synchronization after its initialization by"
            f" {cta.cluster.clocks.describe(barrier.writer)}",
            help="a barrier of the CTA or cluster must lie between the two",
        )
    return barrier


def find_async(warp: Warp, place: int) -> Mbarrier:
    """The mbarrier that a copy completes on. Raises Fault where its initialization is not visible to the
    async proxy."""
    barrier = find(warp, place)
    if warp.cta.launch.strict and not barrier.visible:
        raise Fault(
            "a copy completes on an mbarrier with no fence since its initialization",
            help="fence.mbarrier_init.release.cluster, or fence.proxy.async, comes behind mbarrier.init",
        )
    return barrier


def initialize(warp: Warp, cta: Cta, offset: int, count: int, line: int) -> None:
    """A new mbarrier. What arrives on barriers at this offset is one component, whose epochs go on."""
    if not 1 <= count <= MOST_ARRIVALS:
        raise Fault(f"an mbarrier for {count} arrivals: 1 to {MOST_ARRIVALS} are expected")
    cta.shared.inside(offset, offset + 8)
    if offset in cta.mbarriers:
        if warp.cta.launch.strict:
            raise Fault("an mbarrier is initialized where one is", help="mbarrier.inval comes first")
        invalidate(warp, cta, offset, line)
    octets = np.arange(offset, offset + 8)
    cta.shared.check_write(octets, warp.clock)
    event = warp.event(line)
    cta.shared.mark_write(octets, event)
    cta.shared.objects[octets] = True
    clocks = cta.cluster.clocks
    component, epoch = cta.components.get(offset) or (
        clocks.add(f"copies that arrive on the mbarrier at {offset - 1024:#x}"),
        1,
    )
    cta.components[offset] = (component, epoch)
    cta.mbarriers[offset] = Mbarrier(
        count, component, clocks.clock(), clocks.clock(), event, clocks, False, epoch, 0, count
    )


@step("mbarrier.init")
def _init(one: Instruction, decoder: Decoder) -> Step:
    at, count, line = where(one.operands[0], decoder), decoder.source(one.operands[1], "u32"), one.line

    def run(warp: Warp) -> None:
        warp.require(count.code, count.index, "the count of an mbarrier")
        for lane, place in each(warp, at):
            initialize(
                warp, warp.cta.cluster.cta_at(place), place & OFFSET, int(get(warp, count)[lane]), line
            )

    return run


@step("mbarrier.inval")
def _inval(one: Instruction, decoder: Decoder) -> Step:
    at = where(one.operands[0], decoder)

    def run(warp: Warp) -> None:
        for _, place in each(warp, at):
            invalidate(warp, warp.cta.cluster.cta_at(place), place & OFFSET, one.line)

    return run


def invalidate(warp: Warp, cta: Cta, offset: int, line: int) -> None:
    barrier = find(warp, cta.base + offset)
    barrier.flying = [copy for copy in barrier.flying if not copy.done]
    if barrier.flying:
        raise Fault(
            f"an mbarrier is invalidated while a copy issued at PTX line {barrier.flying[0].line} is to"
            " complete on it"
        )
    cta.components[offset] = (barrier.component, barrier.epoch)
    cta.shared.objects[offset : offset + 8] = False
    cta.shared.mark_write(slice(offset, offset + 8), -warp.event(line))
    del cta.mbarriers[offset]


def visit(warp: Warp, cta: Cta, event: int) -> None:
    """Notes an access to the shared memory of another CTA, which must not be gone by then."""
    if cta is not warp.cta:
        cta.visits.append(event)


@step("mbarrier.arrive", "mbarrier.arrive_drop")
def _arrive(one: Instruction, decoder: Decoder) -> Step:
    """.expect_tx first adds to the expected bytes; .arrive_drop also lowers the count of later phases."""
    modifiers, (target, place, *more) = one.modifiers, one.operands
    at, state = where(place, decoder), None if isinstance(target, Sink) else decoder.target(target, "b64")
    amount = decoder.source(more[0], "u32") if more else decoder.constant(1, "u32")
    expect, drop, relaxed = "expect_tx" in modifiers, modifiers[0] == "arrive_drop", "relaxed" in modifiers

    def run(warp: Warp) -> None:
        warp.require(amount.code, amount.index, "the count of an arrival")
        tokens, clock = np.zeros(32, np.uint64), warp.seen().copy()
        warp.cta.cluster.clocks.relaxed |= relaxed
        handed = carried(clock) if relaxed else clock
        alone = not relaxed and bool(warp.together & ~warp.mask)
        places = each(warp, at)
        for lane, place in places:
            barrier = find(warp, place)
            visit(warp, warp.cta.cluster.cta_at(place), warp.event(one.line))
            tokens[lane] = barrier.phase
            np.maximum(barrier.gathered, handed, out=barrier.gathered)
            if alone and barrier.all_arrived(warp.component, 1 << lane, warp.together):
                np.maximum(barrier.gathered, warp.clock, out=barrier.gathered)
        if not relaxed:
            warp.release(clock)
        for lane, place in places:
            barrier, value = find(warp, place), int(get(warp, amount)[lane])
            if expect:
                barrier.expect(value)
            barrier.expected -= drop
            barrier.arrive(1 if expect else value)
        if state is not None:
            put(warp, state, tokens, warp.mask)

    return run


@step("mbarrier.expect_tx", "mbarrier.complete_tx")
def _transactions(one: Instruction, decoder: Decoder) -> Step:
    at, amount = where(one.operands[0], decoder), decoder.source(one.operands[1], "u32")

    def run(warp: Warp) -> None:
        warp.require(amount.code, amount.index, "a number of bytes")
        for lane, place in each(warp, at):
            barrier, value = find(warp, place), int(get(warp, amount)[lane])
            barrier.expect(value) if one.modifiers[0] == "expect_tx" else barrier.complete(value)

    return run


def _wanted(warp: Warp, at: Where, phase: Ref) -> list[tuple[int, int, int]]:
    """The active lanes with the place of an mbarrier and the phase, or its parity, that each waits for."""
    wanted = get(warp, phase)
    return [(lane, place, int(wanted[lane])) for lane, place in each(warp, at)]


@control("mbarrier.try_wait", "mbarrier.test_wait")
def _wait(one: Instruction, decoder: Decoder) -> Control:
    """try_wait suspends until the phase is complete or a time limit passes (PTX ISA, mbarrier.try_wait): here
    each instruction of a warp gives up the first time, and waits from then on. test_wait says what is now."""
    target, modifiers = decoder.target(one.operands[0], "pred"), one.modifiers
    parity, tries, relaxed = (word in modifiers for word in ("parity", "try_wait", "relaxed"))
    at, phase = where(one.operands[1], decoder), decoder.source(one.operands[2], "u32" if parity else "u64")

    def run(warp: Warp) -> int:
        warp.require(phase.code, phase.index, "the phase to wait for")
        waits, found = _wanted(warp, at, phase), np.zeros(32, np.bool_)
        phases = {(place, wanted) for _, place, wanted in waits}
        for place, _ in phases:
            find(warp, place)
        complete = {one for one in phases if _complete(warp, *one, parity)}
        for lane, place, wanted in waits:
            found[lane] = (place, wanted) in complete
        tried = warp.state.setdefault("tried", set[int]())
        if tries and not found.any() and one.line in tried:
            return warp.wait(
                lambda: any(_complete(warp, *one, parity) for one in phases),
                lambda: _described(warp, waits[0][1]),
            )
        clocks = warp.cta.cluster.clocks
        clocks.relaxed |= relaxed
        for place in {place for place, _ in complete}:
            released = find(warp, place).released
            warp.acquire(carried(released) if relaxed else released)
            if parity and not clocks.relaxed:
                find(warp, place).seen.append(warp.event(one.line))
        tried.add(one.line)
        put(warp, target, found, warp.mask)
        return warp.fragment.pc + 1 if found.any() else YIELD

    return run


def _complete(warp: Warp, place: int, wanted: int, parity: bool) -> bool:
    barrier = warp.cta.cluster.cta_at(place).mbarriers.get(place & OFFSET)
    return barrier is None or (barrier.passed(wanted & 1) if parity else barrier.phase > wanted)


def _described(warp: Warp, place: int) -> str:
    barrier = find(warp, place)
    pending = f"{barrier.pending} of {barrier.expected} arrivals pending" + (
        f" and {barrier.bytes} bytes" if barrier.bytes else ""
    )
    return f"phase {barrier.phase} of the mbarrier at byte {(place & OFFSET) - 1024:#x}, with {pending}"


@step("mbarrier.pending_count")
def _pending(one: Instruction, decoder: Decoder) -> Step:
    raise ValueError("states of mbarriers hold no count here")
