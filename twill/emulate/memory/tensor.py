"""Tensor memory of one CTA: 128 lanes of 512 columns of 32 bits, with who wrote and who read each cell last.

Cells that were never written since their columns were allocated are poison. An access is ordered behind
another one (PTX ISA, "Memory Consistency Model for 5th generation of TensorCore operations") where the other
one is complete, as clocks say, and tcgen05.fence has ordered it; operations of tensor cores are ordered among
themselves, also before they complete, in one thread or by fences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twill.emulate.faults import Fault
from twill.emulate.memory.clocks import CARRIED, ORDERED, Array, Clocks
from twill.emulate.memory.shared import History

LANES, COLUMNS = 128, 512


@dataclass(frozen=True, slots=True)
class Cells:
    """A part of tensor memory: arrays of lanes and columns that are used as an index together."""

    lanes: Array
    columns: Array

    @property
    def index(self) -> tuple[Array, Array]:
        return self.lanes, self.columns


@dataclass(frozen=True, slots=True)
class View:
    """What an operation may see: the clock of its warp, and what its fences have ordered."""

    clock: Array
    fenced: Array | None
    """By component, the epoch that tcgen05.fence has ordered; None where fences are not checked."""
    own: int = 0
    """Component of the issuing thread's operations of tensor cores, for one of these; else 0."""

    def includes(self, component: int, epoch: int) -> bool:
        """Whether all that a component has done until an epoch is ordered before."""
        return bool(
            self.clock[ORDERED][component] >= epoch
            and (self.fenced is None or self.fenced[component] >= epoch)
        )


class TensorMemory(History):
    def __init__(self, clocks: Clocks, pipelined: set[int]) -> None:
        """`pipelined`: components of operations of tensor cores."""
        super().__init__((LANES, COLUMNS), clocks)
        self.data = np.zeros((LANES, COLUMNS), np.uint32)
        self.pipelined = pipelined
        self.owner = np.zeros(COLUMNS, np.int32)
        """PTX line of the allocation of a column; 0 where it is free."""
        self.allocated = dict[int, int]()
        """Columns by first column."""
        self.most = COLUMNS
        """Columns that the next allocation may have: not more than the one before."""
        self.relinquished = False

    # --- columns -------------------------------------------------------------------------------------------

    def free(self, count: int) -> list[int]:
        """Where `count` columns may be allocated."""
        return [at for at in range(0, COLUMNS - count + 1, 32) if not self.owner[at : at + count].any()]

    def take(self, first: int, count: int, line: int) -> None:
        self.owner[first : first + count] = line
        self.allocated[first] = count
        self.most = count
        self.writer[:, first : first + count] = 0

    def release(self, first: int, count: int, clock: Array) -> None:
        """Frees columns. Raises Fault where they are not allocated so, or in use."""
        if self.allocated.get(first) != count:
            held = ", ".join(f"{size} at {at}" for at, size in sorted(self.allocated.items())) or "none"
            raise Fault(f"{count} columns at {first} of tensor memory are freed; allocated are: {held}")
        columns = slice(first, first + count)
        for events in self._last(columns):
            late = self.clocks.late(events, clock)
            if late.any():
                event = int(events[late][0])
                raise Fault(
                    "columns of tensor memory are freed without synchronization after their use by"
                    f" {self.clocks.describe(event)}"
                )
        del self.allocated[first]
        self.owner[columns] = 0

    def _last(self, columns: slice) -> Iterator[Array]:
        """Events of the last write and of the last reads of columns."""
        yield np.abs(self.writer[:, columns])
        for slot in self.slots.values():
            yield self.readers[slot][:, columns]

    def inside(self, cells: Cells) -> None:
        """Raises Fault for cells that no allocation of the CTA has."""
        low, high = int(cells.columns.min()), int(cells.columns.max())
        if low < 0 or high >= COLUMNS or int(cells.lanes.max()) >= LANES:
            raise Fault(
                f"tensor memory is accessed out of bounds: lane {int(cells.lanes.max())}, column {high}"
            )
        if not self.owner[np.unique(cells.columns)].all():
            raise Fault(
                f"tensor memory is accessed in columns {low} to {high}, which are not all allocated",
                help="tcgen05.alloc comes first, and its columns end with tcgen05.dealloc",
            )

    # --- order ---------------------------------------------------------------------------------------------

    def late(self, events: Array, view: View) -> Array:
        """Which events are not ordered before."""
        clocks = self.clocks
        component, epoch = clocks.component[events], clocks.epoch[events]
        complete = view.clock[ORDERED][component] >= epoch
        good = complete & (view.fenced[component] >= epoch) if view.fenced is not None else complete
        if view.own:
            good |= component == view.own
            if view.fenced is not None:
                good |= self._pipelined(component) & (view.fenced[component] >= epoch)
        return ~good

    def _pipelined(self, component: Array) -> Array:
        return np.isin(component, sorted(self.pipelined))

    def _ordered(self, cells: Cells, events: Array, view: View, verb: str, after: str) -> None:
        first = events.flat[0]
        if (events == first).all():
            events = events.reshape(-1)[:1]
        late = self.late(events, view)
        if not late.any():
            return
        event = int(events[late][0])
        where = np.flatnonzero(np.abs(self.writer[cells.index]) == event) if after == "write" else [0]
        shape = np.broadcast_shapes(cells.lanes.shape, cells.columns.shape)
        position = int(where[0]) if len(where) else 0
        lane = int(np.broadcast_to(cells.lanes, shape).flat[position])
        column = int(np.broadcast_to(cells.columns, shape).flat[position])
        raise self._fault(event, view, f"lane {lane}, column {column} of tensor memory is {verb}", after)

    def _fault(self, event: int, view: View, what: str, after: str) -> Fault:
        clocks = self.clocks
        component, epoch = clocks.component[event], clocks.epoch[event]
        if view.clock[ORDERED][component] >= epoch:
            carried = view.clock[CARRIED][component] >= epoch
            missing = "after_thread_sync" if carried else "before_thread_sync"
            return Fault(
                f"{what} with no tcgen05.fence::{missing} since its {after} by {clocks.describe(event)}",
                help="tcgen05.fence::before_thread_sync, a barrier and tcgen05.fence::after_thread_sync must"
                " lie between the two",
            )
        return Fault(
            f"{what} without synchronization after its {after} by {clocks.describe(event)}",
            help="tcgen05.wait, or tcgen05.commit and a wait, must lie between the two",
        )

    def check_read(self, cells: Cells, view: View) -> Array:
        """The events that wrote cells, after a check that they are ordered before. Raises Fault."""
        self.inside(cells)
        writers = self.writer[cells.index]
        self._ordered(cells, np.abs(writers), view, "read", "write")
        return writers

    def check_write(self, cells: Cells, view: View) -> None:
        """Raises Fault where a cell's last write or a read is not ordered before."""
        self.inside(cells)
        self._ordered(cells, np.abs(self.writer[cells.index]), view, "overwritten", "write")
        for component, slot in self.slots.items():
            if view.includes(component, self.latest[component]):
                continue
            self._ordered(cells, self.readers[slot][cells.index], view, "overwritten", "read")


def block(lanes: Sequence[int] | Array, first: int, count: int) -> Cells:
    """Whole columns of some lanes: (lane, column)."""
    return Cells(np.asarray(lanes)[:, None], np.arange(first, first + count)[None, :])
