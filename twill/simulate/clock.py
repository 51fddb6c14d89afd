"""The state of a timed run (`timed`): its model, its warpgroups, when units are free, what has happened."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from twill.ir.loop import Tensor
from twill.ir.problem import Problem
from twill.ir.program import Program, Warpgroup
from twill.ir.schedule import WARPGROUP
from twill.ops.mma import depth
from twill.simulate.actions import Action
from twill.simulate.passing import LoopStore, Passing, loop_stores, passing, slot_stores
from twill.simulate.protocol import Protocol, State
from twill.simulate.times import Costs, Event, Paces, Storing, Transfer
from twill.warp.dataflow import MMAS, STORES, stored_tile
from twill.warp.tasks import Scheduled


@dataclass(slots=True)
class Group:
    """One warpgroup of a group, or a narrow group."""

    id: int
    member: int
    """Which of the group's warpgroups."""
    members: int
    """Warpgroups that wait for each other."""
    actions: list[Action]
    done: int = 0
    now: float = 0.0
    in_flight: list[float] = field(default_factory=list[float])
    """When the MMAs in flight complete."""
    left: float = 1.0
    """The part of the operation that is still to be done."""
    began: float = 0.0
    """When it was begun."""
    complete: float = 0.0
    """When the results of all operations so far are there."""
    mixed: set[int] = field(default_factory=set[int])
    """Actions that were executed between the instructions of an MMA before them."""

    reading: float = 0.0
    """Until when TMA reads what the group has started to store."""
    staged: Callable[[], float] | None = None
    """Until when TMA reads what the group has staged in a loop, as far as MMAs are known now."""
    of: Warpgroup | None = None
    """Which warpgroup of an independent group it is."""
    met: int = 0
    """Synchronizations of all groups at which it has arrived."""

    @property
    def parts(self) -> int:
        """Warpgroups among which its tiles are divided."""
        return self.of.number if self.of else self.members

    @property
    def track(self) -> str:
        group, place = (self.of.group, self.of.index) if self.of else (self.id, self.member)
        first = WARPGROUP * place
        return f"group {group}" + (f" warps {first}-{first + WARPGROUP - 1}" if self.parts > 1 else "")


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What a run follows from."""

    protocol: Protocol
    problems: Mapping[int | None, Problem]
    intervals: Mapping[int | None, float]
    costs: Costs
    paces: Paces
    k: Mapping[int, int]
    """K of MMAs, by operation."""
    nodes: Mapping[int, str]
    """The operation of the problem that a TTGIR operation belongs to."""
    passing: Mapping[str, Passing]
    """Register tiles that pass from group to group, by channel."""
    slot_stores: Mapping[str, LoopStore]
    """Tiles of the loops that another warp stores from slots, by channel."""
    loop_stores: Mapping[int, LoopStore]
    """Tiles that are stored in the loops, by operation."""
    stores: Storing | None
    """Of tiles outside of the loops; None: they take no time."""
    tiles: Mapping[int, Tensor]
    """That are stored by TMA, by operation."""
    orders_stores: bool
    """Where groups synchronize, they wait for what others have stored."""

    @staticmethod
    def of(
        program: Program, loops: Sequence[Scheduled], costs: Costs, paces: Paces, stores: Storing | None
    ) -> "Model":
        mmas = [op for op in program.function.walk() if op.name in MMAS]
        stored = loop_stores(program, loops)
        return Model(
            Protocol.of(program),
            {one.loop.op.index: one.problem for one in loops},
            {
                one.loop.op.index: one.solution.interval * one.problem.resolution.cycles_per_unit
                for one in loops
            },
            costs,
            paces,
            {op.index: depth(op) for op in mmas},
            {index: node.id for one in loops for node in one.graph.nodes for index in node.ops},
            passing(program, loops),
            slot_stores(program, stored),
            stored,
            stores,
            {op.index: stored_tile(op) for op in program.function.walk() if op.name in STORES},
            program.orders_stores and len(program.groups) > 1,
        )

    def scale(self, action: Action) -> float:
        """Cycles of a unit of time in the action's loop."""
        problem = self.problems.get(action.loop)
        return problem.resolution.cycles_per_unit if problem else 1.0


@dataclass(frozen=True, slots=True)
class Working:
    """When the tensor core works on an MMA, or a part of one; cycles."""

    begin: float
    end: float
    shared: float
    """The part of the cycles of shared memory that it takes meanwhile."""


@dataclass(slots=True)
class Units:
    """When the units are free, and when the tensor core works."""

    free: dict[str, float] = field(default_factory=dict[str, float])
    mmas: list[Working] = field(default_factory=list[Working])
    latest: dict[str, int] = field(default_factory=dict[str, int])
    """Where the latest event of a unit is."""

    def working(self, time: float) -> Working | None:
        """What the tensor core works on then."""
        recent = reversed(self.mmas[-RECENT:])
        return next((one for one in recent if one.begin <= time < one.end), None)


@dataclass(slots=True)
class Barriers:
    """When slots became full and empty, and ordering barriers signalled."""

    full: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    empty: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    signalled: dict[str, float] = field(default_factory=dict[str, float])
    arrived: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """By dependence barrier and sequence number."""
    met: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """When the last group arrived at a synchronization of all (`SYNC`), by number."""


@dataclass(slots=True)
class Clock:
    """A run: its model, where it stands, and what happened."""

    model: Model
    state: State
    units: Units = field(default_factory=Units)
    barriers: Barriers = field(default_factory=Barriers)
    ended: dict[tuple[int | None, str, int, int], float] = field(
        default_factory=dict[tuple[int | None, str, int, int], float]
    )
    """By loop, operation, iteration and warpgroup."""
    passed: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    """How many of a group's warpgroups have executed its action of that number."""
    events: list[Event] = field(default_factory=list[Event])
    transfers: list[Transfer] = field(default_factory=list[Transfer])
    came: dict[tuple[int, int], dict[int, float]] = field(
        default_factory=dict[tuple[int, int], dict[int, float]]
    )
    """When warpgroups of a group came to its action of that number, where they synchronize."""
    steps: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """When each warpgroup executed the latest step of an operation, by track."""


SYNC = "all groups"
"""Names, among barriers, what they synchronize at."""
RECENT = 8
"""MMAs, the latest, of which one may work now."""


def arrive(arrived: dict[tuple[str, int], float], phase: tuple[str, int], time: float) -> None:
    """A phase is complete when the last arrival is in."""
    arrived[phase] = max(time, arrived.get(phase, 0.0))
