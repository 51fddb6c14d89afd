"""cp.async: copies of single threads (PTX ISA, "Non-bulk copy", cp.async).

A copy writes shared memory in the generic proxy when its group, or the mbarrier that was told of it, is
waited for.
"""

from dataclasses import dataclass, field

import numpy as np

from twill.emulate.decode import Decoder, Ref, Step, step
from twill.emulate.faults import Fault
from twill.emulate.machine.asynchronous import Operation
from twill.emulate.machine.barriers import Mbarrier
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import ORDERED, Array
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.lift import get
from twill.emulate.opcodes.mbarrier import each, find
from twill.emulate.opcodes.memory import aligned, load_global, reach, selected, shared_parts, where
from twill.emulate.ptx.syntax import Instruction, Integer, Register


@dataclass(slots=True)
class Copies:
    """What a warp has in flight."""

    component: int
    epoch: int = 1
    """Of copies that are issued now."""
    open: list[Operation] = field(default_factory=list[Operation])
    committed: list[tuple[int, list[Operation]]] = field(default_factory=list[tuple[int, list[Operation]]])
    """Groups, each with its last epoch."""

    def commit(self) -> None:
        self.committed.append((self.epoch, self.open))
        self.open = []
        self.epoch += 1

    def wait(self, pending: int) -> int:
        """Completes all but the last `pending` groups; the last epoch that is complete."""
        while len(self.committed) > pending:
            _, operations = self.committed.pop(0)
            for one in operations:
                one.complete()
        return (self.committed[0][0] if self.committed else self.epoch) - 1

    def all(self) -> list[Operation]:
        return [one for _, group in self.committed for one in group] + self.open


def own(warp: Warp) -> Copies:
    if "copies" not in warp.state:
        warp.state["copies"] = Copies(warp.cta.cluster.clocks.add(f"cp.async of {warp.name}"))
    return warp.state["copies"]


@step("cp.async.ca", "cp.async.cg")
def _copy(one: Instruction, decoder: Decoder) -> Step:
    """[to], [from], bytes{, bytes that are read; the others are zero}."""
    to, source, size = (
        where(one.operands[0], decoder),
        where(one.operands[1], decoder),
        immediate(one.operands[2]),
    )
    taken = _taken(one, decoder, size)
    if size not in (4, 8, 16):
        raise ValueError(f"{size} bytes: 4, 8 or 16 are expected")

    def run(warp: Warp) -> None:
        for ref, what in (
            (to.ref, "the destination of a copy"),
            (source.ref, "the source of a copy"),
            (taken, "the size of a copy"),
        ):
            warp.require(ref.code, ref.index, what)
        target, origin = selected(warp, to.of(warp)), selected(warp, source.of(warp))
        _issue(warp, target, origin, selected(warp, get(warp, taken).astype(np.int64)), size, one.line)

    return run


def _taken(one: Instruction, decoder: Decoder, size: int) -> Ref:
    """How many bytes are read."""
    if len(one.operands) > 3 and isinstance(one.operands[3], Integer | Register):
        if isinstance(one.operands[3], Register) and one.operands[3].bits != 32:
            return decoder.constant(size, "u32")
        return decoder.source(one.operands[3], "u32")
    return decoder.constant(size, "u32")


def _issue(warp: Warp, target: Array, origin: Array, taken: Array, size: int, line: int) -> None:
    aligned(target, size)
    if (taken > size).any():
        raise Fault(f"cp.async reads {int(taken.max())} bytes of {size}")
    aligned(origin[taken > 0], size)
    mine, clocks = own(warp), warp.cta.cluster.clocks
    event = clocks.event(mine.component, mine.epoch, line, generic=warp.cta.launch.strict)
    parts = [(cta, chosen, reach(offset, size)) for cta, chosen, offset in shared_parts(warp, target)]
    for cta, _, octets in parts:
        cta.shared.inside(int(octets.min()), int(octets.max()) + 1)
        cta.shared.check_write(octets, warp.clock)
        cta.shared.mark_write(octets, event)

    def act() -> None:
        data = np.zeros((len(origin), size), np.uint8)
        for count in sorted(set(map(int, taken)) - {0}):
            chosen = taken == count
            data[chosen, :count] = load_global(warp, origin[chosen], count, line)[0]
        for cta, chosen, octets in parts:
            cta.shared.data[octets] = data[chosen]

    operation = Operation(act, line, f"cp.async of {size} bytes")
    mine.open.append(operation)
    warp.cta.cluster.pending.add(operation)


@step("cp.async.commit_group")
def _commit(one: Instruction, decoder: Decoder) -> Step:
    return lambda warp: own(warp).commit()


@step("cp.async.wait_group")
def _wait(one: Instruction, decoder: Decoder) -> Step:
    pending = immediate(one.operands[0])
    return lambda warp: _arrived(warp, own(warp).wait(pending))


@step("cp.async.wait_all")
def _wait_all(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        mine = own(warp)
        mine.commit()
        _arrived(warp, mine.wait(0))

    return run


def _arrived(warp: Warp, epoch: int) -> None:
    """The warp knows that copies up to an epoch are complete."""
    component = own(warp).component
    warp.clock[ORDERED, component] = max(int(warp.clock[ORDERED, component]), epoch)


@step("cp.async.mbarrier.arrive")
def _arrive(one: Instruction, decoder: Decoder) -> Step:
    """Arrives when all copies that the thread has issued are complete; without .noinc the arrival is added to
    those awaited."""
    at, added = where(one.operands[0], decoder), "noinc" not in one.modifiers

    def run(warp: Warp) -> None:
        mine = own(warp)
        copies, clock = mine.all(), warp.clock.copy()
        clock[ORDERED, mine.component] = mine.epoch
        mine.epoch += 1
        warp.release(clock)
        barriers = [find(warp, place) for _, place in each(warp, at)]
        for barrier in barriers:
            barrier.pending += added
        operation = Operation(lambda: _complete(copies, barriers, clock), one.line, "the arrival of cp.async")
        warp.cta.cluster.pending.add(operation)

    return run


def _complete(copies: list[Operation], barriers: list[Mbarrier], clock: Array) -> None:
    for copy in copies:
        copy.complete()
    for barrier in barriers:
        np.maximum(barrier.gathered, clock, out=barrier.gathered)
        barrier.arrive(1)
