"""Warp programs: what every group of warps does, statement by statement, and the channels between them.

`twill.warp` makes a `Program` from a module and the joint schedules of its loops; `twill.targets` prints CUDA
from it and `twill.simulate` runs it. The docstrings here, of `ir.statements`, `ir.operands` and
`ir.channels` define each part; all of them implement exactly that.

**Execution.** A thread block starts with every `Channel` empty, every `OrderBarrier` in its initial state and
every counter 0, synchronizes once, and then each group takes its registers and runs its `WarpProgram.body`
from first to last statement. Groups run concurrently and synchronize only in ProducerLoad, ProducerStore,
ConsumerWait, ConsumerRelease, OrderBarrierWait and OrderBarrierArrive. All warps of a group execute all
statements (a group of 8 warps is two warpgroups, each with its 64 rows of every MMA).

**Iterations.** Inside a `Pipelined` loop of N iterations a statement names the iteration it works for by an
`Iteration`; N and the induction variable (lower + iteration * step) are computed by every group from the same
scalars, so all agree.

**Registers.** A `Variable` is a tile (or scalar) that a group keeps in registers, assigned many times. Where
older instances are still needed it has several *ages*: age 0 is the latest, age 1 the one before; `Move`
shifts them before the next assignment.

**Values.** Statements name TTGIR operations by `ir.loop.Op.index` and values by `ir.loop.Value.id`. An
operand of one of a statement's operations is, in this order: bound by the statement's `reads`; the result of
an earlier operation of the same statement; an argument of the function; the induction variable of an
enclosing loop; the result of an `arith.constant`; the result of a `tt.make_tensor_descriptor` (made by the
host). Results named by `writes` are kept, the others are private to the statement.

Guarantees: every location, channel, order, buffer and variable that a statement names exists; a group only
names its own variables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill.ir.channels import Buffer, Channel, DependenceBarrier, OrderBarrier, SharedMemory, TensorTile
from twill.ir.loop import Function, Module, Op, Type, Value
from twill.ir.names import value_names, values
from twill.ir.statements import Alternate, BarrierWait, Pipelined, Statement, walk


@dataclass(frozen=True, slots=True)
class Variable:
    """A tile or scalar in a group's registers."""

    id: str
    """A C identifier, unique in the group."""
    type: Type
    ages: int = 1
    """How many instances are kept."""
    buffer: str = ""
    """The buffer in shared memory that the tile lies in, where each thread alone accesses what it would hold
    in registers; empty for registers. No MMA reads or writes such a tile, and it has one instance."""
    stored: Type | None = None
    """The type that its elements have in that buffer, where they were widened from a shorter one."""


@dataclass(frozen=True, slots=True)
class Warpgroup:
    """One of the warpgroups of an independent group."""

    group: int
    """Id of the group in the program that is generated."""
    index: int
    number: int
    """How many warpgroups the group has."""


@dataclass(frozen=True, slots=True)
class WarpProgram:
    """What one group of warps does."""

    id: int
    """The schedule's group id."""
    warps: int
    first_warp: int
    """Its first warp in the thread block; a multiple of 4 where it has 4 or more."""
    registers: int
    """Per thread, granted by setmaxnreg: a multiple of 8."""
    variables: tuple[Variable, ...]
    body: tuple[Statement, ...]
    only_moves: bool = False
    """It loads and stores: no tile stays in its registers, and its threads share the elements of one
    evenly."""
    independent: bool = False
    """Its warpgroups do not wait for each other: each executes the body by itself, for its 64 rows of every
    tile. No barrier of the group is in it. Where it fills channels that share slots, a statement names that
    of warpgroup 0, and those of the others follow it. Simulators run each warpgroup
    (`twill.simulate.warpgroups`)."""
    of: "Warpgroup | None" = None
    """In a simulator: which warpgroup of an independent group it is."""

    @property
    def multistage(self) -> bool:
        """It loads what it reads in loops."""
        return any(isinstance(one, Pipelined) and one.filled for one in walk(self.body))

    def variable(self, id: str) -> Variable:
        """Raises KeyError where there is none."""
        found = next((variable for variable in self.variables if variable.id == id), None)
        if found is None:
            raise KeyError(id)
        return found


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A TMA descriptor, made by the host from the kernel's arguments. `ops` compute its shape and strides
    from them; the last is the `tt.make_tensor_descriptor`."""

    ops: tuple[int, ...]


AXES = (0, 1, 2)
"""x, y and z of a grid."""


@dataclass(frozen=True, slots=True)
class Launch:
    """`threads` of a thread block: all groups, and idle warps that fill up warpgroups. The grid is the
    caller's."""

    threads: int
    entry_registers: int
    """Per thread before setmaxnreg: registers_total / threads of all resident blocks, a multiple of 8."""
    blocks: int = 1
    """Thread blocks that an SM holds at the same time."""
    even: bool = False
    """All threads keep the registers that they begin with: there is no setmaxnreg, and narrow groups need no
    warpgroup."""
    within: bool = False
    """The first warp of the first group that computes executes the group that loads, before its own: every
    tile has a slot of its own, so loads wait for nothing."""
    addresses: int = 0
    """Registers that a thread which copies tiles takes beside offsets (`ir.machine.Copies.base`)."""
    for_copies: int = 0
    """Registers of each thread that loads that it has for copies alone: where TMA loads instead, groups that
    compute have them, up to `most`."""
    most: int = 0
    """Registers that a thread can have, a multiple of `step` (both of `ir.problem.Limits`)."""
    step: int = 0


@dataclass(frozen=True, slots=True)
class BlockPace:
    """How fast an SM is done with thread blocks of a kernel."""

    blocks: int
    """That it holds at the same time, at most."""
    alone: float
    """Machine cycles for an iteration of each loop, together, of a block that no other one is beside, with a
    part of those before its first iteration and behind its last one."""
    busy: float
    """Of these, those for which it needs the busiest unit of the SM."""
    long_loop: int | None = None
    """Iterations of a loop from which on a launch takes this form, which is not chosen otherwise; None for a
    form that is chosen by the number of thread blocks."""
    around: float = 0.0
    """Cycles of a block before its first iteration and behind its last one, where the launcher can count the
    iterations among which it then divides these; 0 elsewhere."""
    trips: int = 1
    """The iterations among which `alone` divides them."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One kernel, specialized: a program for each group of warps, and what connects them."""

    module: Module
    function: Function
    groups: tuple[WarpProgram, ...]
    channels: tuple[Channel, ...]
    orders: tuple[OrderBarrier, ...]
    buffers: tuple[Buffer, ...]
    descriptors: tuple[Descriptor, ...]
    shared: SharedMemory
    launch: Launch
    by_tma: Launch | None = None
    """In place of `launch`, where all tiles that threads could copy are loaded by TMA and that lets an SM
    hold more thread blocks: each group that loads is one warp, of its own or `within` another group."""
    tensor_memory: tuple[TensorTile, ...] = ()
    """Empty on machines without."""
    pairs: bool = False
    """Two neighbouring thread blocks along x are a cluster: the first one issues the MMAs of both, each has
    its rows of A and of the accumulator and half of B (`SlotTensor.halved`). A channel that MMAs alone read
    is full when the tiles of both blocks are there, which the first block waits for. One that threads read
    too is full in each block by itself; its MMAs wait for a dependence barrier of both blocks."""
    claiming: int | None = None
    """The loop over tiles, by its `scf.for`, whose tiles thread blocks claim while they run. By cluster
    launch control as many blocks are launched as there are tiles, each begins with its own, and a running one
    takes over those of blocks that have not started; without (`counted`), as many as the GPU holds, and each
    takes the next tile from a counter in global memory. None: tiles are a fixed stride apart."""
    cluster: int = 1
    """Thread blocks that share loads (`Channel.multicast`), neighbours along x: 1 or 2. Both execute as many
    iterations of every loop that fills such a channel."""
    order: tuple[int, int, int] = AXES
    """The axis of programs along each axis of the launch, where its extents allow that: thread blocks begin
    along x first. A program keeps its indices."""
    even: tuple[int, ...] = ()
    """Of pairs and clusters: numbers, by value id, that follow from the arguments and are even in every
    launch; of clusters, in every launch that takes the kernel with clusters."""
    parts: Mapping[int, int] = field(default_factory=dict[int, int])
    """By `Op.index`: of how many of `ir.problem.PARTS` parts of its elements a polynomial is the
    implementation, where that is any."""
    lean: bool = False
    """Fewer registers for more instructions: tiles of truth values that a group keeps while it waits are
    bits, 32 to a register, of the offsets of a thread's copies that are the same distance apart two numbers
    are kept, fewer accesses are in flight, addresses in tensor memory's loops and of groups that only move
    data are computed again, and epilogues wait for MMAs between intervals. Made by `warp.lean`."""
    exchanges: bool = True
    """Loops exchange tiles of which an older instance is kept, where that saves copies; not where ptxas
    spills with them."""
    sparing: bool = False
    """ptxas optimizes less where that takes registers (`targets.cuda.kernel.REGISTER_USAGE`): where it spills
    otherwise."""
    dependences: tuple[DependenceBarrier, ...] = ()
    synchronized: tuple[int, ...] = ()
    """Ids of the groups that execute TensorMemorySync: those that use tensor memory, else all; all, too,
    where stores are ordered by it."""
    orders_stores: bool = False
    """TensorMemorySync orders what the groups write to global memory."""
    pace: BlockPace | None = None
    """By which each launch chooses, from its number of thread blocks, how many of them an SM holds, and
    between this program and the `others`; None where an SM holds as many as it can."""
    others: tuple["Program", ...] = ()
    """The same kernel with other numbers of thread blocks on an SM, each with its `pace`: forms that some
    launches take in place of this one."""
    notes: tuple[str, ...] = ()
    """Decisions in words: what was split, which waits the order of groups needs, what sharing costs."""
    warnings: tuple[str, ...] = ()
    """What makes the kernel slow, in words."""

    @property
    def counted(self) -> bool:
        """Whether tiles are claimed from a counter: machines without tensor memory have no cluster launch
        control."""
        return self.claiming is not None and not self.tensor_memory

    @property
    def several_compute(self) -> bool:
        """Whether a group computes while another one waits."""
        return sum(not group.only_moves for group in self.groups) > 1

    _ops: Mapping[int, Op] = field(init=False, repr=False, default_factory=dict[int, Op])
    _values: Mapping[int, Value] = field(init=False, repr=False, default_factory=dict[int, Value])
    _names: Mapping[int, str] = field(init=False, repr=False, default_factory=dict[int, str])

    def __post_init__(self) -> None:
        object.__setattr__(self, "_ops", {op.index: op for op in self.function.walk()})
        object.__setattr__(self, "_values", {value.id: value for value in values(self.function)})
        object.__setattr__(self, "_names", value_names(self.function))

    def op(self, index: int) -> Op:
        """The TTGIR operation of that index. Raises KeyError where the function has none."""
        return self._ops[index]

    def value(self, id: int) -> Value:
        """Raises KeyError where the function has none."""
        return self._values[id]

    def maker(self, value: Value) -> Op | None:
        """The operation that defines a value; None for an argument."""
        return None if value.producer is None else self._ops[value.producer]

    def name(self, id: int) -> str:
        """A C identifier for a value, which no other value of the function has."""
        return self._names[id]

    @property
    def clustered(self) -> bool:
        """Whether two thread blocks are a cluster."""
        return self.pairs or self.cluster > 1

    def of_pair(self, channel: Channel) -> bool:
        """Whether a channel is full when both thread blocks of a pair have their tiles: MMAs alone read it.
        What threads read too is full in each block, and the MMAs wait for a dependence barrier besides."""
        return self.pairs and bool(channel.by_mma) and not channel.releasing

    def joint(self, barrier: DependenceBarrier) -> bool:
        """Whether MMAs of a pair wait for a dependence barrier: threads of both thread blocks arrive on the
        first one's."""
        waiter = next(group for group in self.groups if group.id == barrier.waiter)
        waits = (it for it in walk(waiter.body) if isinstance(it, BarrierWait) and it.barrier == barrier.id)
        return self.pairs and barrier.by == "threads" and any(it.issuer for it in waits)

    def shares(self, channel: Channel) -> bool:
        """Whether the blocks of a cluster load tiles of a channel for each other."""
        return self.cluster > 1 and channel.multicast

    @property
    def resident_blocks(self) -> int:
        """Thread blocks that an SM holds at the same time, at most."""
        return max(self.launch.blocks, self.by_tma.blocks if self.by_tma else 1)

    @property
    def tiles_in_flight(self) -> int:
        """Iterations of the loop over tiles that groups work on at once."""
        every = (one for group in self.groups for one in walk(group.body))
        return max((one.tiles for one in every if isinstance(one, Alternate)), default=1)

    def channel(self, id: str) -> Channel:
        """Raises KeyError where there is none."""
        found = next((channel for channel in self.channels if channel.id == id), None)
        if found is None:
            raise KeyError(id)
        return found
