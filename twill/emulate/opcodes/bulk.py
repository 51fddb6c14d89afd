"""Bulk copies of bytes (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy",
cp.async.bulk, cp.reduce.async.bulk).

A copy is issued by a thread. What it will read or write in shared memory is checked and noted then; the bytes
move when it completes. Loads complete on an mbarrier, stores and reductions in the bulk groups of the thread.
"""

from collections.abc import Callable
from dataclasses import dataclass

from twill.emulate.decode import Decoder, Step, step
from twill.emulate.faults import Fault
from twill.emulate.machine.asynchronous import Groups, Operation, Store
from twill.emulate.machine.barriers import Mbarrier
from twill.emulate.machine.cta import Cta
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import ORDERED, Array
from twill.emulate.opcodes.atomic import FUNCTIONS, joined
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.lift import get
from twill.emulate.opcodes.mbarrier import find_async
from twill.emulate.opcodes.memory import OFFSET, Where, where
from twill.emulate.opcodes.windows import CVTA
from twill.emulate.ptx.syntax import Instruction

# --- groups of a thread ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Thread:
    """The bulk groups of one thread, and the component of its copies."""

    groups: Groups
    component: int


def thread(warp: Warp, lane: int) -> Thread:
    known: dict[int, Thread] = warp.state.setdefault("bulk", {})
    if lane not in known:
        known[lane] = Thread(
            Groups(), warp.cta.cluster.clocks.add(f"bulk copies of lane {lane} of {warp.name}")
        )
    return known[lane]


@step("cp.async.bulk.commit_group")
def _commit(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        for lane in warp.active.nonzero()[0]:
            if int(lane) in warp.state.get("bulk", {}):
                thread(warp, int(lane)).groups.commit()

    return run


@step("cp.async.bulk.wait_group")
def _wait(one: Instruction, decoder: Decoder) -> Step:
    """With .read, the copies of a group have read shared memory; without, they are carried out."""
    pending, only_read = immediate(one.operands[0]), "read" in one.modifiers

    def run(warp: Warp) -> None:
        for lane in warp.active.nonzero()[0]:
            if int(lane) in warp.state.get("bulk", {}):
                own = thread(warp, int(lane))
                warp.clock[ORDERED, own.component] = max(
                    warp.clock[ORDERED, own.component],
                    own.groups.read(pending) if only_read else own.groups.wait(pending),
                )

    return run


# --- the parts of an instruction --------------------------------------------------------------------------


def one_lane(warp: Warp, run: Callable[[int], None]) -> None:
    """For each active lane on its own."""
    for lane in warp.active.nonzero()[0]:
        run(int(lane))


def lane_value(warp: Warp, at: Where, lane: int, what: str) -> int:
    warp.require(at.ref.code, at.ref.index, what)
    return int(at.of(warp)[lane])


def shared_address(warp: Warp, address: int) -> tuple[Cta, int]:
    """CTA and offset of a shared address, or of a generic one of shared memory."""
    inside = address - CVTA["shared"] if address >> 48 else address
    return warp.cta.cluster.cta_at(inside), inside & OFFSET


def arriving(warp: Warp, barrier: Mbarrier, line: int) -> int:
    """The event of bytes that arrive with an mbarrier's phase."""
    return warp.cta.cluster.clocks.event(barrier.component, barrier.epoch, line, generic=False)


def launched(warp: Warp, barrier: Mbarrier, operation: Operation) -> None:
    barrier.flying.append(operation)
    warp.cta.cluster.pending.add(operation)


def destination(cta: Cta, first: int, bytes: int, clock: Array, event: int, align: int) -> slice:
    """Notes that bytes of shared memory will be written. Raises Fault where the bytes are in use."""
    if first % align:
        raise Fault(f"a copy's place {first - 1024:#x} in shared memory is not a multiple of {align}")
    cta.shared.inside(first, first + bytes)
    place = slice(first, first + bytes)
    cta.shared.check_write(place, clock, proxy=cta.launch.strict)
    cta.shared.mark_write(place, event)
    return place


def origin(
    warp: Warp, cta: Cta, first: int, bytes: int, component: int, epoch: int, line: int, align: int
) -> slice:
    """Notes that bytes of shared memory will be read."""
    if first % align:
        raise Fault(f"a copy's place {first - 1024:#x} in shared memory is not a multiple of {align}")
    cta.shared.inside(first, first + bytes)
    place = slice(first, first + bytes)
    if (cta.shared.check_read(place, warp.seen(), proxy=True) <= 0).any():
        raise Fault("a copy reads shared memory that was never written")
    event = cta.cluster.clocks.event(component, epoch, line, generic=False)
    cta.shared.mark_read(place, component, event)
    return place


def stored(warp: Warp, own: Thread, operation: Store) -> None:
    own.groups.open.append(operation)
    warp.cta.cluster.pending.add(operation)


# --- bytes ------------------------------------------------------------------------------------------------


@step("cp.async.bulk")
def _bulk(one: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk.TO.FROM: with an mbarrier into shared memory, with bulk groups out of it."""
    to = one.modifiers[2]
    return _plain_load(one, decoder) if to.startswith("shared") else _plain_store(one, decoder, None)


@step("cp.reduce.async.bulk")
def _reduce(one: Instruction, decoder: Decoder) -> Step:
    return _plain_store(one, decoder, reduction(one))


def reduction(one: Instruction) -> str:
    """The name of what a reduction does to each element."""
    return next(part for part in one.modifiers if part in FUNCTIONS)


def _plain_load(one: Instruction, decoder: Decoder) -> Step:
    to, source, bar = (
        where(one.operands[0], decoder),
        where(one.operands[1], decoder),
        where(one.operands[3], decoder),
    )
    size, line, remote = (
        decoder.source(one.operands[2], "u32"),
        one.line,
        one.modifiers[3].startswith("shared"),
    )

    def issue(warp: Warp, lane: int) -> None:
        count = int(get(warp, size)[lane])
        cta, first = shared_address(warp, lane_value(warp, to, lane, "the destination of a copy"))
        at = lane_value(warp, source, lane, "the source of a copy")
        barrier = find_async(warp, lane_value(warp, bar, lane, "the address of an mbarrier") & (1 << 48) - 1)
        _multiple(count, at)
        place = destination(cta, first, count, warp.seen(), arriving(warp, barrier, line), 16)
        other, offset = shared_address(warp, at) if remote else (cta, 0)
        if remote:
            origin(warp, other, offset, count, barrier.component, barrier.epoch, line, 16)

        def act() -> None:
            held = (
                other.shared.data[offset : offset + count]
                if remote
                else warp.cta.launch.device.read(at, count)
            )
            cta.shared.data[place] = held
            barrier.complete(count)

        launched(warp, barrier, Operation(act, line, f"a copy of {count} bytes"))

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


def _multiple(bytes: int, at: int) -> None:
    if bytes % 16 or at % 16:
        raise Fault(f"a bulk copy of {bytes} bytes at {at:#x}: multiples of 16 are expected")


def _plain_store(one: Instruction, decoder: Decoder, reduce: str | None) -> Step:
    to, source, size = (
        where(one.operands[0], decoder),
        where(one.operands[1], decoder),
        decoder.source(one.operands[2], "u32"),
    )
    if "mbarrier::complete_tx::bytes" in one.modifiers:
        raise ValueError("a reduction into shared memory")
    line, kind = one.line, one.modifiers[-1]

    def issue(warp: Warp, lane: int) -> None:
        count, at = int(get(warp, size)[lane]), lane_value(warp, to, lane, "the destination of a copy")
        cta, first = shared_address(warp, lane_value(warp, source, lane, "the source of a copy"))
        own = thread(warp, lane)
        _multiple(count, at)
        place = origin(warp, cta, first, count, own.component, own.groups.count + 1, line, 16)

        def write(data: Array) -> None:
            device = warp.cta.launch.device
            device.write(at, joined(reduce, kind, device.read(at, count), data) if reduce else data)

        stored(
            warp, own, Store(lambda: cta.shared.data[place].copy(), write, line, f"a store of {count} bytes")
        )

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))
