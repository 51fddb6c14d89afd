"""Shared memory of one CTA, with who wrote and who read each byte last.

Bytes that were never written are poison. Every access is checked against the last writer and, for writes,
against the last reader of each component; a check fails unless vector clocks order the two. Offsets are those
of the shared window, without the CTA's rank.
"""

from typing import Any, TypeAlias

import numpy as np

from twill.emulate.faults import Fault
from twill.emulate.memory.clocks import FENCED, ORDERED, Array, Clocks

RESERVED = 1024
"""Bytes at the start of the window that belong to the system (CUDA programming guide, compute capability
9.x)."""


Place: TypeAlias = Array | slice
"""Offsets of bytes."""


class History:
    """Who wrote and who read each cell of an array last."""

    def __init__(self, shape: tuple[int, ...], clocks: Clocks) -> None:
        self.clocks = clocks
        self.writer = np.zeros(shape, np.int32)
        """Event of the last write; 0 for none, negative where what was written is poison."""
        self.readers = np.zeros((8, *shape), np.int32)
        """Event of each component's last read."""
        self.slots = dict[int, int]()
        """Row of `readers` by component."""
        self.latest = dict[int, int]()
        """Epoch of each component's last read of all."""

    def mark_read(self, at: Any, component: int, event: int) -> None:
        slot = self.slots.get(component)
        if slot is None:
            slot = self.slots[component] = len(self.slots)
            if slot == len(self.readers):
                self.readers = np.concatenate([self.readers, np.zeros_like(self.readers)])
        self.readers[slot][at] = event
        self.latest[component] = max(self.latest.get(component, 0), int(self.clocks.epoch[event]))

    def mark_write(self, at: Any, event: int | Array) -> None:
        self.writer[at] = event


class Shared(History):
    def __init__(self, size: int, clocks: Clocks) -> None:
        """`size` includes the reserved part."""
        room = -(-size // 16) * 16
        super().__init__((room,), clocks)
        self.size = size
        self.data = np.zeros(room, np.uint8)
        self.objects = np.zeros(room, np.bool_)
        """Bytes of mbarriers, which are no data."""

    # --- where ---------------------------------------------------------------------------------------------

    def inside(self, first: int, last: int) -> None:
        """Raises Fault unless all of the bytes first..last-1 are the kernel's."""
        if first < RESERVED or last > self.size:
            what = f"{first - RESERVED:#x}..{last - RESERVED:#x}"
            raise Fault(f"shared memory is accessed out of bounds: bytes {what} of {self.size - RESERVED:#x}")

    # --- checks --------------------------------------------------------------------------------------------

    def check_read(self, at: Place, clock: Array, proxy: bool = False, atomic: bool = False) -> Array:
        """The events that wrote bytes, after a check that they happen before `clock`. Raises Fault for a race
        or a missing proxy fence. Accesses that synchronize (`atomic`) do not race with each other."""
        writers = self.writer[at]
        late = self.clocks.late(np.abs(writers), clock, proxy)
        if atomic:
            late &= ~self.clocks.atomic[np.abs(writers)]
        if late.any():
            raise self._late_write(*self._first(at, np.abs(writers), late), clock, "read", "reads")
        return writers

    def _first(self, at: Place, events: Array, late: Array) -> tuple[int, int]:
        """The first event that comes too late, and its byte."""
        position = int(np.flatnonzero(late)[0])
        byte = at.start + position if isinstance(at, slice) else int(np.ravel(at)[position])
        return int(np.ravel(events)[position]), byte - RESERVED

    def _late_write(self, event: int, offset: int, clock: Array, verb: str, does: str) -> Fault:
        clocks = self.clocks
        component, epoch = clocks.component[event], clocks.epoch[event]
        if clock[ORDERED][component] >= epoch > clock[FENCED][component]:
            return Fault(
                f"the async proxy {does} byte {offset:#x} of shared memory, written without a proxy fence"
                f" since by {clocks.describe(event)}",
                help=f"fence.proxy.async between the writes and what {does} them asynchronously",
            )
        return Fault(
            f"byte {offset:#x} of shared memory is {verb} without synchronization after its write by"
            f" {clocks.describe(event)}",
            help="a barrier, a wait or a completed group must lie between the two",
        )

    def check_write(
        self,
        at: Place,
        clock: Array,
        atomic: bool = False,
        data: Array | None = None,
        proxy: bool = False,
    ) -> None:
        """Raises Fault where a byte's last write or a read does not happen before, or where an mbarrier lies;
        with `proxy`, or where the write lacks a proxy fence. A store of `data` is harmless where the bytes
        hold it already: compilers let several warps store the same."""
        if self.objects[at].any():
            raise Fault("data is written over an mbarrier", help="mbarrier.inval comes first")
        writers = np.abs(self.writer[at])
        late = self.clocks.late(writers, clock, proxy)
        changes = (
            np.ones(late.shape, np.bool_)
            if data is None
            else ~self.clocks.plain[writers] | (self.data[at] != data)
        )
        if atomic:
            late &= ~self.clocks.atomic[writers]
        if (late & changes).any():
            first = self._first(at, writers, late & changes)
            raise self._late_write(*first, clock, "overwritten", "overwrites")
        for component, slot in self.slots.items():
            if self.latest[component] <= clock[ORDERED][component]:
                continue
            self._check_readers(at, component, self.readers[slot][at], clock, atomic, changes)

    def _check_readers(
        self, at: Place, component: int, events: Array, clock: Array, atomic: bool, changes: Array
    ) -> None:
        late = (self.clocks.epoch[events] > clock[ORDERED][component]) & changes
        if not late.any() or (atomic and self.clocks.atomic[events[late]].all()):
            return
        event, offset = self._first(at, events, late)
        raise Fault(
            f"byte {offset:#x} of shared memory is overwritten without synchronization after it is read by"
            f" {self.clocks.describe(event)}",
            help="a barrier, a wait or a completed group must lie between the two",
        )
