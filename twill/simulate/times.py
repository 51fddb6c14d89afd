"""What a timed run of a warp program (`timed`) takes and gives: costs, paces, events; cycles."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from twill.ir.machine import Machine
from twill.ir.problem import Operation
from twill.warp.dataflow import LOAD, MMAS


@dataclass(frozen=True, slots=True)
class Costs:
    """What the problem does not say; cycles."""

    barrier: int
    """From an arrival to the end of a wait for it."""
    order: int
    """The same of an ordering barrier."""
    poll: int
    """Of a wait that is over already."""
    load: int
    """From the end of a load's occupancy of TMA to its arrival."""
    launch: int
    """Issuing an MMA at least."""
    ahead: int
    """How far the issue of an MMA runs ahead of the tensor core."""
    beside: float
    """How many times as long a warpgroup computes beside another one that does."""
    stored: int = 0
    """Until what threads have stored to global memory is there for loads of other groups."""
    shared: str = ""
    """The unit that models the bandwidth of shared memory."""
    slots: str = ""
    """The unit whose reservations are cycles in which instructions are issued."""
    behind: float = 0.0
    """Slices by which a unit may be behind the instructions issued to it, where operations go row by row."""

    @staticmethod
    def of(machine: Machine) -> "Costs":
        """What a machine file says; 0 for what it lacks."""
        costs = (machine.cost(name) for name in sorted(MMAS))
        mma, load = next((cost for cost in costs if cost), None), machine.cost(LOAD)
        one = machine.handover
        launch, ahead = (mma.issue, mma.queue or 0) if mma else (0, 0)
        return Costs(
            one.barrier,
            one.order,
            one.poll,
            load.latency if load else 0,
            launch,
            ahead,
            machine.contention.warpgroups if machine.contention else 1.0,
            machine.loads.arrival,
            machine.shared.unit if machine.shared else "",
            machine.issue.unit if machine.issue else "",
            machine.stream.behind,
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """An operation beside an idle tensor core, and beside one that works; cycles."""

    idle: Operation
    busy: Operation


@dataclass(frozen=True, slots=True)
class Storing:
    """What tiles take that TMA stores behind the loops."""

    written: float
    """Bytes per cycle that threads write to shared memory."""
    read: float
    """Bytes per cycle that TMA reads there."""
    latency: float
    """Cycles from the end of that until they are known to be read."""


Paces = Mapping[tuple[int | None, str], Pace]
"""By loop and operation; one that is not there goes as the problem says."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time; cycles."""

    track: str
    """`group 1`, `group 1 warps 4-7` (of eight), or a unit."""
    name: str
    begin: float
    end: float
    iteration: int
    waited: float = 0.0
    """How long its group stood still before it."""
    loop: int | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """A group fills a slot, or waits until one is full; cycles."""

    channel: str
    number: int
    """Of the tile, counted from the start of the kernel."""
    track: str
    kind: Literal["fill", "wait"]
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Run:
    """What happened."""

    events: tuple[Event, ...]
    """By time."""
    transfers: tuple[Transfer, ...] = ()
    full: Mapping[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """When each tile of each channel had arrived."""
    empty: Mapping[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """When its last reader had released its slot."""
