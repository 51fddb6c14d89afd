"""mbarriers, named barriers and the barrier of a cluster.

PTX ISA: "Parallel Synchronization and Communication Instructions": mbarrier (phases, pending counts,
tx-count), barrier.cta, barrier.cluster.
"""

from dataclasses import dataclass, field

import numpy as np

from twill.emulate.faults import Fault
from twill.emulate.machine.asynchronous import Operation
from twill.emulate.memory.clocks import ORDERED, Array, Clocks

MOST_ARRIVALS = MOST_BYTES = (1 << 20) - 1
"""Largest pending count and tx-count of an mbarrier (PTX ISA, "Contents of the mbarrier object")."""


@dataclass(slots=True)
class Mbarrier:
    expected: int
    component: int
    """Of what arrives on it asynchronously; its epochs are `epoch`s."""
    gathered: Array
    """Clock of who arrived in this phase."""
    released: Array
    """Clock of all phases that are complete."""
    writer: int
    """Event of its initialization."""
    clocks: Clocks
    visible: bool = False
    """To the async proxy."""
    epoch: int = 1
    """Of the current phase: one more than the phases completed, also by barriers that were here before."""
    phase: int = 0
    """Phases completed since the initialization."""
    pending: int = 0
    bytes: int = 0
    """Expected and not arrived (tx-count)."""
    flying: list[Operation] = field(default_factory=list[Operation])
    """Copies that will complete on it."""
    lanes: dict[int, int] = field(default_factory=dict[int, int])
    """Of warps whose lanes arrive one after the other in this phase: those that have."""
    seen: list[int] = field(default_factory=list[int])
    """Events of waits for the parity of the last complete phase, which the next complete one changes."""

    def all_arrived(self, warp: int, lanes: int, wanted: int) -> bool:
        """Lanes of a warp arrive; whether all that are wanted have, in this phase."""
        self.lanes[warp] = self.lanes.get(warp, 0) | lanes
        return not wanted & ~self.lanes[warp]

    def arrive(self, count: int) -> None:
        if count > self.pending:
            raise Fault(
                f"{count} arrivals on an mbarrier with {self.pending} of {self.expected} arrivals pending"
            )
        self.pending -= count
        self.advance()

    def expect(self, bytes: int) -> None:
        self.bytes += bytes
        self._limit()

    def complete(self, bytes: int) -> None:
        self.bytes -= bytes
        self._limit()
        self.advance()

    def _limit(self) -> None:
        if abs(self.bytes) > MOST_BYTES:
            raise Fault(f"the tx-count of an mbarrier is {self.bytes}, beyond {MOST_BYTES}")

    def advance(self) -> None:
        """Completes the phase when no arrival and no byte is pending."""
        if self.pending or self.bytes:
            return
        self.flying = [one for one in self.flying if not one.done]
        if self.flying:
            raise Fault(
                "a phase of an mbarrier completes while a copy of it, issued at PTX line"
                f" {self.flying[0].line}, is in flight",
                help="the expected bytes must be all that the copies of the phase write",
            )
        self._seen_by_all()
        self.released[:] = self.gathered
        self.released[:, self.component] = self.epoch
        self.gathered[:] = self.released
        self.lanes.clear()
        self.phase += 1
        self.epoch += 1
        self.pending = self.expected

    def _seen_by_all(self) -> None:
        """Raises Fault where nothing orders a wait for a phase by its parity before the next phase completes:
        in another run it comes too late, and sees a parity that it waits for in vain."""
        if self.clocks.relaxed or not self.seen:
            return
        late = self.clocks.late(np.array(self.seen, np.int64), self.gathered)
        if late.any():
            where = self.clocks.describe(self.seen[int(late.argmax())])
            raise Fault(
                "a phase of an mbarrier completes that nothing orders behind a wait for the one"
                f" before, by {where}: a wait that comes later never ends",
                help="what completes the phase waits for all that wait for the phase before",
            )
        self.seen.clear()

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity is complete (mbarrier.test_wait.parity)."""
        return self.phase % 2 != parity


@dataclass(slots=True)
class Named:
    """One of the 16 barriers of a CTA."""

    gathered: Array
    threads: int | None = None
    """Expected in this generation; None before the first arrival."""
    arrived: int = 0
    generation: int = 0
    released: dict[int, Array] = field(default_factory=dict[int, "Array"])
    """Clocks of generations, for those who wait to read."""
    waiting: dict[int, int] = field(default_factory=dict[int, int])
    """Warps that have not read the clock of a generation yet."""
    values: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """What was given to bar.red, by generation."""

    def arrive(self, threads: int, count: int) -> int:
        """`count` threads arrive; the generation to wait for."""
        if self.threads not in (None, threads):
            raise Fault(
                f"a barrier is used with {threads} threads while {self.threads} are expected in the same"
                " generation"
            )
        self.threads = threads
        self.arrived += count
        if self.arrived > threads:
            raise Fault(f"{self.arrived} threads have arrived at a barrier for {threads}")
        generation = self.generation
        if self.arrived == threads:
            self.released[generation] = self.gathered.copy()
            self.gathered[ORDERED:] = 0
            self.threads, self.arrived, self.generation = None, 0, generation + 1
        return generation

    def passed(self, generation: int) -> Array:
        """The clock of a generation, for one of the warps that waited."""
        clock = self.released[generation]
        self.waiting[generation] -= 1
        if not self.waiting[generation]:
            del self.waiting[generation], self.released[generation]
        return clock


@dataclass(slots=True)
class ClusterBarrier:
    gathered: Array
    expected: int
    """Warps."""
    arrived: int = 0
    generation: int = 0
    released: Array | None = None

    def advance(self) -> None:
        if self.arrived >= self.expected:
            self.released = self.gathered.copy()
            self.arrived = 0
            self.generation += 1
