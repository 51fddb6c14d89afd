"""Happens-before by vector clocks.

A component is something whose accesses are ordered among themselves: a warp; what a warp's wgmma, bulk copies
or cp.async do; what arrives on one mbarrier. A clock says, for each component, up to which epoch its accesses
happen before now. Its second row says the same of generic-proxy accesses behind which lies a proxy fence, so
that the async proxy sees them too (PTX ISA, "Causality order" and "Proxy-preserved base causality order").
Its third row says which accesses to tensor memory lie before a tcgen05.fence::before_thread_sync.

An event is what an access leaves behind in memory: component, epoch, and the instruction to name in a report.
"""

import numpy as np

from twill.emulate.faults import Fault
from twill.emulate.numeric.rounding import Array

ORDERED, FENCED, CARRIED = 0, 1, 2
"""Rows of a clock."""


def carried(clock: Array) -> Array:
    """What a relaxed arrival and wait hand on of a clock: accesses to tensor memory that lie before a
    tcgen05.fence::before_thread_sync (PTX ISA, "tcgen05 memory consistency model", patterns of different
    threads)."""
    found = np.zeros_like(clock)
    found[CARRIED] = clock[CARRIED]
    found[ORDERED] = np.minimum(clock[ORDERED], clock[CARRIED])
    return found


class Clocks:
    """The components and events of one cluster."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.names = ["the host"]
        self.relaxed = False
        """Arrivals have handed on, or waits have taken, less than all that happened before: what is causal is
        not known from then on."""
        self.count = 1
        self.component, self.epoch, self.line = (np.zeros(1024, np.int32) for _ in range(3))
        self.generic, self.atomic, self.plain = (np.zeros(1024, np.bool_) for _ in range(3))

    def add(self, name: str) -> int:
        """A new component. Raises Fault where there are too many."""
        if len(self.names) == self.capacity:
            raise Fault(f"more than {self.capacity} barriers and warps in a cluster are not supported")
        self.names.append(name)
        return len(self.names) - 1

    def clock(self) -> Array:
        return np.zeros((3, self.capacity), np.int32)

    def event(
        self,
        component: int,
        epoch: int,
        line: int,
        generic: bool = True,
        atomic: bool = False,
        plain: bool = False,
    ) -> int:
        """A number, above 0, for memory to remember. `plain` is a store that has taken place."""
        number = self.count
        if number == len(self.component):
            for name in ("component", "epoch", "line", "generic", "atomic", "plain"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self.component[number], self.epoch[number], self.line[number] = component, epoch, line
        self.generic[number], self.atomic[number], self.plain[number] = generic, atomic, plain
        self.count += 1
        return number

    def late(self, events: Array, clock: Array, proxy: bool = False) -> Array:
        """Which events do not happen before a clock; with `proxy`, or lack the proxy fence."""
        component, epoch = self.component[events], self.epoch[events]
        found = clock[ORDERED][component] < epoch
        if proxy:
            found |= self.generic[events] & (clock[FENCED][component] < epoch)
        return found

    def describe(self, event: int) -> str:
        return f"{self.names[int(self.component[event])]} at PTX line {int(self.line[event])}"
