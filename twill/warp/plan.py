"""What is shared by the groups of a kernel: the values between designs, plans and passes.

`designs` chooses a `Design`, which says what each group does; `planning` makes a `Plan` from it: channels,
shared memory, code outside of loops, launch. A `Draft` is the program between two passes of lowering.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twill.ir.loop import UNEQUAL, Function, Module
from twill.ir.machine import Machine
from twill.ir.program import Launch, Program
from twill.ir.schedule import Group as Granted
from twill.warp.dataflow import Code
from twill.warp.deferred_reductions import DeferredReductions
from twill.warp.independent import Independent
from twill.warp.kernel import Group, Kernel, Settings
from twill.warp.non_loop_code import NonLoopCode
from twill.warp.ordering import HandOff
from twill.warp.pipelined_loops import LoopDraft
from twill.warp.shared_memory import SharedMemoryPlan
from twill.warp.shared_slots import Which
from twill.warp.stored_tiles import stored_tiles
from twill.warp.target import Target
from twill.warp.tasks import Scheduled, Task
from twill.warp.tiles_in_flight import TilesInFlight


@dataclass(frozen=True, slots=True)
class Options:
    """What can be chosen."""

    depths: Mapping[str, int] = field(default_factory=dict[str, int])
    """Slots of channels, by name; the others get as many as shared memory allows."""
    most: int = 8
    """Slots of a channel at most."""
    settings: Settings = field(default_factory=Settings)
    most_blocks: int = 32
    """Thread blocks that an SM holds at the same time, at most."""
    blocks: int | None = None
    """Thread blocks of a launch, where that is known: no more of them share an SM than it gets. None: what
    follows from the kernel's constants."""
    room: int = 1
    """Thread blocks for which the schedules leave room on an SM: these are taken to have registers enough,
    which ptxas may deny."""
    aligned: int = 0
    """Bytes of shared memory that the limits of a part of an SM leave for alignment and barriers, which a
    layout counts as they are."""
    withheld: int = 0
    """Bytes of shared memory that the schedules do without, for what else lies there."""
    free: int = 0
    """Bytes of shared memory that slots leave free, for tiles that are put there in place of registers
    afterwards (`twill.warp.tiles_in_shared`)."""
    pairs: bool = False
    """MMAs are those of pairs of thread blocks (`twill.warp.pairs`)."""
    cluster: int = 1
    """Thread blocks that share loads (`twill.warp.multicast`), 1 or 2."""
    alternate: bool = True
    """Accumulators of persistent kernels in tensor memory alternate (`twill.warp.alternating`)."""
    dynamic: bool | None = None
    """Running thread blocks of a persistent kernel take over tiles (cluster launch control, or a counter);
    None: where tiles are of unequal length."""
    tiles: int | None = None
    """Iterations of a loop over tiles in flight; None: as many as are predicted to be fastest."""
    multistage: bool | None = None
    """The only group that computes loads too (`twill.warp.multistage`); None: where that is predicted to be
    clearly faster (`twill.generation.choices.multistage`)."""
    independent: bool | None = None
    """Warpgroups of the group that computes store tiles by themselves (`twill.warp.independent`); None: where
    that is predicted to be faster (`twill.generation.choices.independent`)."""
    by_tma: bool = True
    """A launch may have more thread blocks on an SM where TMA can load all tiles (`Program.by_tma`)."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedLoop:
    """A scheduled loop with the work of its groups, and the hand-offs of the tensor core by their ordering
    barriers."""

    scheduled: Scheduled
    tasks: tuple[Task, ...]
    hand_offs: tuple[tuple[str, HandOff], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What the groups of a kernel share, before any of their statements."""

    module: Module
    kernel: Kernel
    loops: tuple[PlannedLoop, ...]
    granted: tuple[Granted, ...]
    """The groups, with the registers that the schedules give them."""
    non_loop: NonLoopCode
    memory: SharedMemoryPlan
    deferred: tuple[DeferredReductions, ...]
    """For each loop."""
    launch: Launch
    by_tma: Launch | None = None
    """As `Program.by_tma`."""
    pairs: bool = False
    """MMAs are those of pairs of thread blocks."""
    cluster: int = 1
    """Thread blocks that share loads."""
    even: tuple[int, ...] = ()
    """As `Program.even`."""
    claiming: int | None = None
    """The loop over tiles whose tiles are claimed, by its operation."""
    alternate: bool = True
    """Accumulators may have two buffers, for every second tile."""
    synchronized: tuple[int, ...] = ()
    """Groups that use tensor memory, or all where several store to the same memory: they synchronize after
    each loop."""
    entered: frozenset[int] = frozenset()
    """Loops before which these synchronize."""
    orders_stores: bool = False
    """All groups synchronize where that orders what they store."""
    between: frozenset[int] = frozenset()
    """Stores before which they do: another group has stored to the same memory."""
    initial_stores: Mapping[int, int] = field(default_factory=dict[int, int])
    """Stores to tensor memory that matter only where a loop has no iteration, with that loop."""
    tiles: TilesInFlight | None = None
    """None where one tile is in flight."""
    reasons: tuple[str, ...] = ()
    """Why so many tiles are in flight; nothing where there is no loop over tiles."""
    independent: Independent | None = None
    """None where the warpgroups of a group stage tiles together."""


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """What a plan is made from."""

    code: Code
    target: Target
    options: Options
    names: Mapping[int, str]
    """Variables, by value id."""
    parts: tuple[PlannedLoop, ...]
    granted: tuple[Granted, ...]
    epilogue: int
    """The group that stores what no group holds."""
    tiles: TilesInFlight | None = None
    ahead: int | None = None
    """The loop over tiles in which the next tile is loaded while one is computed."""
    issuers: Mapping[int, int] = field(default_factory=dict[int, int])
    """By group: the group that issues its MMAs."""
    reserved: int = 0
    """Bytes of shared memory for the barriers of tensor memory."""
    share_slots: Which | None = None
    """Channels of one kind that share slots; None: each has slots of its own."""
    independent: Independent | None = None
    """Warpgroups that store tiles by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """A program between two passes."""

    plan: Plan
    loops: tuple[tuple[LoopDraft, ...], ...]
    """For each loop: that loop in each group."""
    program: Program | None = None
    """Once the loops are finished."""


def claims_tiles(options: Options, code: Code) -> bool:
    """Whether thread blocks claim the tiles of a kernel made persistent."""
    unequal = any(UNEQUAL in attributes for attributes in code.function.arg_attributes)
    return unequal if options.dynamic is None else options.dynamic


def most_blocks(options: Options, machine: Machine, function: Function) -> int:
    """Thread blocks of an SM that have something to do, at most: of a launch of so many, or one where a
    kernel has no more tiles than there are SMs. (With a few more, which some SMs have more of than others, a
    limit is no gain: Inductor's product of 1000 x 1111 in 288 tiles on an H200 has 0.76 of Triton's speed in
    three blocks on an SM, and 0.92 as it is.)"""
    if machine.multiprocessors is None:
        return options.most_blocks
    if options.blocks is None:
        tiles = stored_tiles(function)
        return 1 if tiles is not None and tiles <= machine.multiprocessors else options.most_blocks
    return min(options.most_blocks, -(-options.blocks // machine.multiprocessors))


def loader(parts: Sequence[PlannedLoop], granted: Sequence[Granted]) -> int:
    """The group that loads; the first one where no loop loads."""
    streaming = (task.group for part in parts for task in part.tasks if task.node.kind == "load")
    return next(streaming, granted[0].id)


def loop_drafts(plan: Plan, part: PlannedLoop, deferred: DeferredReductions) -> tuple[LoopDraft, ...]:
    """A loop in each of the groups, before the passes."""
    return tuple(
        LoopDraft(Group(plan.kernel, part.scheduled, part.tasks, group.id, part.hand_offs, deferred.tasks))
        for group in plan.granted
    )
