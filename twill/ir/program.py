"""Warp programs: what every group of warps does, statement by statement, and the channels between them.

`twill.warp` makes a `Program` from a module and the joint schedules of its loops; `twill.targets` prints CUDA
from it and `twill.simulate` runs it. The docstrings define each statement; all of them implement exactly
that.

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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from twill.ir.loop import Encoding, Function, Module, Op, Type, Value
from twill.ir.names import value_names, values

# --- when and where ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Iteration:
    """Which iteration of the enclosing pipelined loop: `first` is `offset` itself (0 is the first), `newest`
    is i - offset with i the loop counter of the steady state, `last` is N - 1 - offset. `once`: outside of
    pipelined loops; `offset` is 0."""

    base: Literal["first", "newest", "last", "once"]
    offset: int = 0

    def number(self, newest: int, total: int) -> int:
        """Its number in a loop of `total` iterations whose steady state is at i = `newest`; 0 outside of
        pipelined loops."""
        match self.base:
            case "first":
                return self.offset
            case "newest":
                return newest - self.offset
            case "last":
                return total - 1 - self.offset
            case "once":
                return 0


ONCE = Iteration("once")


@dataclass(frozen=True, slots=True)
class At:
    """When a statement stands in the schedule, for comments and reports."""

    iteration: Iteration = ONCE
    cycle: int | None = None
    """Machine cycles from the beginning of an interval; None outside of pipelined loops."""
    stage: int = 0
    """Intervals after the one in which its iteration began."""


@dataclass(frozen=True, slots=True)
class Register:
    """An instance of a variable of the executing group."""

    variable: str
    age: int = 0


@dataclass(frozen=True, slots=True)
class Slot:
    """Tensor number `tensor` of one slot of a channel.

    The slot's *sequence number* is the executing group's counter of the channel plus the iteration (0 for
    `once`); counters start at 0 and grow by `Advance`. Slot index = sequence number mod depth, phase =
    (sequence number div depth) mod 2.
    """

    channel: str
    tensor: int
    iteration: Iteration


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """Tile `tile` of the thread block's tensor memory (a `TensorTile`); of its buffers, the one whose number
    is that of the iteration mod `TensorTile.buffers`. MMAs read and write it; threads load it into registers
    and store it from there."""

    tile: str
    iteration: Iteration = ONCE


OperandLocation: TypeAlias = Register | Slot | TensorMemory
"""Where a statement finds a value: in registers of its group, in a channel's slot, or in tensor memory."""
Accumulator: TypeAlias = Register | TensorMemory
"""Where an MMA leaves its result."""


@dataclass(frozen=True, slots=True)
class Read:
    """TTGIR value `value` is read from `location`. A value of register type in a `Slot` is loaded from shared
    memory into the layout of its type (between the group's ConsumerWait and its ConsumerRelease of that
    slot), except by an MMA, whose operand it is in shared memory."""

    value: int
    location: OperandLocation


@dataclass(frozen=True, slots=True)
class Write:
    """TTGIR value `value` is kept in `register`."""

    value: int
    register: Register


# --- statements: computing --------------------------------------------------------------------------------

SLICES = 8
"""How many slices a tile operation has: the finest division of it."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Execute `ops` in order, synchronously: arithmetic, reductions, layout changes, pointer loads and
    stores, atomics, whole `scf.if`.

    Operations that write global memory are executed once (by this group alone).

    A long one may be executed in several statements, in order of `begin`, with others between them: each
    executes the slices `begin` to `end` of the elements that a thread holds (columns of the tile). A
    reduction's result is complete with the last of them."""

    node: str
    """The graph node it belongs to; for code outside of loops the name of its last operation."""
    ops: tuple[int, ...]
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    at: At = At()
    begin: int = 0
    """In slices of 1 / SLICES."""
    end: int = SLICES
    deferred: bool = False
    """Each thread keeps the reduction of its own elements; what is computed from it is deferred too, until a
    `FinalizeReduction`."""
    stores: tuple[TensorMemory, ...] = ()
    """Tiles of tensor memory that it writes. Those that it reads or writes are bound by `reads`; what it has
    read and written is complete with the statement."""


@dataclass(frozen=True, slots=True)
class InitializeCarried:
    """`register` = the value (an argument or constant where `source` is None): the initial value of a carried
    variable, or, in a loop, of an accumulator that begins every iteration with the same."""

    value: int
    source: OperandLocation | None
    register: Register
    at: At = At()


@dataclass(frozen=True, slots=True)
class Move:
    """variable[age] = variable[age - 1]: an older instance is kept, just before age 0 is assigned. Both are
    complete, none is in use by an asynchronous MMA."""

    variable: str
    age: int
    at: At = At()


@dataclass(frozen=True, slots=True)
class FinalizeReduction:
    """Combine the deferred results of the threads that share a row, in `register`, by the reduction `op`;
    each thread then has the whole result."""

    register: Register
    op: int
    at: At = At()


@dataclass(frozen=True, slots=True)
class SchedulingFence:
    """What computes `registers` stays before the fence, what reads them after it: the compiler's scheduler
    moves no arithmetic across it. No effect on values."""

    registers: tuple[Register, ...]
    at: At = At()


# --- statements: tensor core ------------------------------------------------------------------------------

Accumulate: TypeAlias = Literal["always", "never", "not_first"]
"""Whether the first step of an MMA adds to its accumulator; `not_first`: except in iteration 0, whose initial
value is zero."""


@dataclass(frozen=True, slots=True)
class SlotPhase:
    """A slot of a channel in the state `full` (readable by consumers) or `empty` (writable by the
    producer)."""

    channel: str
    iteration: Iteration
    state: Literal["full", "empty"]


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """An MMA is complete when a later `MmaWait` of its group says so (wgmma)."""


@dataclass(frozen=True, slots=True)
class BarrierPhase:
    """The phase of a `DependenceBarrier` that an iteration's arrival completes."""

    barrier: str
    iteration: Iteration


@dataclass(frozen=True, slots=True)
class MbarrierArrival:
    """The completion of an MMA, and of all earlier ones of its group, arrives on mbarriers (tcgen05.commit):
    on the empty barriers of slots that it was the last to read, and on dependence barriers."""

    slots: tuple[SlotPhase, ...]
    barriers: tuple[BarrierPhase, ...] = ()


MmaCompletion: TypeAlias = CommitGroup | MbarrierArrival
"""How other statements learn that an MMA is complete."""


@dataclass(frozen=True, slots=True)
class MmaIssue:
    """Start elements `begin` to `end` of K of an asynchronous MMA into `accumulator`, and close them as one
    commit group.

    The last of `ops` is the `ttng.warp_group_dot`, those before it reinterpret its operands (transpositions
    of shared memory, the accumulator layout taken as that of A) and move nothing. It starts the reading of
    its operands and the update of its accumulator; both are complete after a later `MmaWait`. MMAs of one
    group execute in order, so an MMA may be issued on an accumulator that an earlier one still updates. An
    MMA that is not issued at once is issued in several statements, in order of K; `accumulate` concerns the
    part with begin = 0, later parts always add. The registers it reads are written by completed statements.
    """

    node: str
    ops: tuple[int, ...]
    reads: tuple[Read, ...]
    accumulator: Accumulator
    accumulate: Accumulate
    begin: int
    end: int
    at: At = At()
    completion: MmaCompletion = CommitGroup()
    scales: tuple[TensorMemory, ...] = ()
    """Tiles of tensor memory to which it first copies the scale factors that it reads in shared memory, in
    their order. No other MMA uses them; copies and MMAs of one group are executed in order."""


@dataclass(frozen=True, slots=True)
class MmaWait:
    """Wait until at most `pending` of this group's latest commit groups are in flight; older ones are then
    complete."""

    pending: int
    at: At = At()
    early: bool = False
    """Sooner than anything depends on it: for the registers that the MMAs read."""


# --- statements: channels ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileLoad:
    """One load into tensor `tensor` of a slot: a `tt.descriptor_load`, or a `tt.load` by asynchronous copies.
    `ops` compute its coordinates or pointers; the load itself is the last."""

    tensor: int
    ops: tuple[int, ...]
    reads: tuple[Read, ...] = ()
    vector: int = 0
    """Bytes of each copy; 0 for TMA."""


@dataclass(frozen=True, slots=True)
class ProducerLoad:
    """Fill a slot from global memory: wait until it is empty (producer_acquire), expect `bytes` on its full
    barrier, start the loads by TMA; or start them by copies of all threads (producer_commit). Asynchronous
    from there: the slot is full when everything has arrived."""

    channel: str
    loads: tuple[TileLoad, ...]
    bytes: int
    at: At = At()

    @property
    def reads(self) -> tuple[Read, ...]:
        """Of all its loads, in their order."""
        return tuple(read for load in self.loads for read in load.reads)


@dataclass(frozen=True, slots=True)
class ProducerStore:
    """Fill a slot by threads: wait until it is empty (producer_acquire), execute `ops`, write `values` into
    the slot's tensors in order, make them visible to the asynchronous proxy, arrive on its full barrier
    (producer_commit). Synchronous. `ops` may be empty: the values are then read."""

    node: str
    """The graph node it belongs to."""
    channel: str
    ops: tuple[int, ...]
    reads: tuple[Read, ...]
    values: tuple[int, ...]
    """TTGIR values, one for each tensor."""
    at: At = At()


@dataclass(frozen=True, slots=True)
class ConsumerWait:
    """Wait until the slot of `at.iteration` is full. The group may then read it until its ConsumerRelease, or
    until the completion of an MMA releases it; where its MMAs alone read it, the warp that issues them waits.
    """

    channel: str
    at: At = At()


@dataclass(frozen=True, slots=True)
class ConsumerRelease:
    """This group reads the slot of `at.iteration` no more: arrive on its empty barrier. A slot is empty when
    every consuming group has done so since it was last filled, and before it is first filled. Does nothing
    where the iteration is negative (a release later than the first iteration of the steady state, for an
    iteration that does not exist)."""

    channel: str
    at: At = At()


@dataclass(frozen=True, slots=True)
class Advance:
    """The group's counter of `channel` grows by the trip count N of the pipelined loop at operation `loop`,
    by 1 where that is None."""

    channel: str
    loop: int | None = None


# --- statements: order of groups --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrderBarrierWait:
    """Wait for one signal of `order` and consume it. Signals and waits of an ordering barrier alternate."""

    order: str
    at: At = At()


@dataclass(frozen=True, slots=True)
class OrderBarrierArrive:
    """Signal `order` without waiting."""

    order: str
    at: At = At()


# --- statements: tensor memory -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BarrierArrive:
    """Every warp of the group has read and written what the iteration of `at` has to do with: one arrival of
    each on the dependence barrier. On one that MMAs arrive on: one when all MMAs of the group are complete.
    """

    barrier: str
    at: At = At()


@dataclass(frozen=True, slots=True)
class BarrierWait:
    """Wait for the arrivals of iteration `awaited` on a dependence barrier: of the last iteration where that
    one would come after it. Does nothing where it would come before the first."""

    barrier: str
    awaited: Iteration
    at: At = At()
    issuer: bool = False
    """Only the warp that issues the group's MMAs waits."""


@dataclass(frozen=True, slots=True)
class TensorMemorySync:
    """All groups that use tensor memory synchronize; whatever any of them has done to it before is complete:
    MMAs, loads, stores. In a kernel without tensor memory, a barrier of its source: all groups synchronize,
    and what they have written to global memory is complete."""

    at: At = At()
    half: Literal["both", "arrive", "wait"] = "both"
    """A simulator has two halves: a group arrives, and waits for the others."""


# --- statements: results ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoreTile:
    """Write a register tile to global memory by TMA, in `parts` equal parts of its columns. For each: wait
    until an earlier store has read `buffer`, write the part there (the layout in which the tile lies in
    registers does not matter), make it visible, start the store (or reduction) and commit it.

    The last of `ops` is the `tt.descriptor_store` or `tt.descriptor_reduce`; those before compute coordinates
    and tile. A tile that is not `staged` is read from a `Slot` of the channel that `buffer` overlays, where
    it lies as the descriptor has it: the store starts from there."""

    ops: tuple[int, ...]
    reads: tuple[Read, ...]
    buffer: str
    parts: int = 1
    at: At = At()
    waits: bool = True
    """False where no store of the group can precede: the first part then waits for none."""
    staged: bool = True


@dataclass(frozen=True, slots=True)
class StoreWait:
    """Wait until the stores started from `buffer` have read it: it may be overwritten, or released by a
    ConsumerRelease."""

    buffer: str
    at: At = At()


# --- statements: structure --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pipelined:
    """A scheduled loop of N iterations. With s = `stages`: if N >= s - 1, the prologue, then `steady` for i =
    s - 1 .. N - 1, then the epilogue; otherwise `short` for every iteration, one after the other, whose
    statements name theirs as `newest` 0. All groups have the loop, and with the same N and s.

    Afterwards nothing asynchronous of the MMAs of the loop is in flight in this group.
    """

    op: int
    """The `scf.for`."""
    path: str
    stages: int
    interval: int
    """I, in machine cycles."""
    prologue: tuple["Statement", ...]
    steady: tuple["Statement", ...]
    epilogue: tuple["Statement", ...]
    short: tuple["Statement", ...]
    """Empty where s - 1 <= 1: nothing is to be done for N = 0."""
    bounds: tuple[Read, ...] = ()
    """Where lower bound, upper bound and step are, for those that are no arguments or constants."""
    zeroed: tuple["Statement", ...] = ()
    """Initial values of accumulators that MMAs write without reading (`not_first`): executed where N = 0,
    needless otherwise."""
    predicated: bool = False
    """`short` is the steady state once more, executed for i = 0 .. N + s - 2: statements for iterations that
    there are not do nothing, moves are always executed."""


@dataclass(frozen=True, slots=True)
class For:
    """An `scf.for` outside of pipelined loops (tiles of a persistent kernel), executed as it stands; `body`
    ends with the moves of carried values."""

    op: int
    body: tuple["Statement", ...]
    bounds: tuple[Read, ...] = ()


@dataclass(frozen=True, slots=True)
class While:
    """An `scf.while` outside of pipelined loops, executed as it stands: `before` computes the condition;
    where it holds, `body` follows, and then the same again. Both end with the moves of carried values."""

    op: int
    before: tuple["Statement", ...]
    condition: Read | None
    """Where the condition is; None for an argument or constant."""
    body: tuple["Statement", ...]


@dataclass(frozen=True, slots=True)
class If:
    """An `scf.if` without results whose branches hold statements of their own."""

    op: int
    condition: Read | None
    """Where the condition is; None for an argument or constant."""
    then: tuple["Statement", ...]
    otherwise: tuple["Statement", ...] = ()


@dataclass(frozen=True, slots=True)
class Alternate:
    """One of several tiles in flight: in iteration t of the `For` at operation `loop` (the first is 0), `own`
    where t mod `tiles` is `index`, `other` otherwise."""

    loop: int
    tiles: int
    index: int
    own: tuple["Statement", ...]
    other: tuple["Statement", ...]
    """What the group does of a tile of another copy of it: the trip counts of its loops, and the counters of
    channels whose slots alternate."""


Statement: TypeAlias = (
    Compute
    | InitializeCarried
    | Move
    | FinalizeReduction
    | SchedulingFence
    | MmaIssue
    | MmaWait
    | ProducerLoad
    | ProducerStore
    | ConsumerWait
    | ConsumerRelease
    | Advance
    | OrderBarrierWait
    | OrderBarrierArrive
    | BarrierArrive
    | BarrierWait
    | TensorMemorySync
    | StoreTile
    | StoreWait
    | Pipelined
    | For
    | While
    | If
    | Alternate
)

# --- channels, orders, shared memory -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlotTensor:
    """A tile in each slot of a channel."""

    name: str
    shape: tuple[int, ...]
    dtype: Type
    encoding: Encoding | None
    """Of the tile in shared memory."""
    offset: int
    """Bytes from the beginning of the slot; a multiple of 1024."""
    bytes: int
    """That it takes there."""
    halved: int | None = None
    """Of a pair of thread blocks each has half of the tile along this axis, the first one the first half."""

    @property
    def part(self) -> tuple[int, ...]:
        """The shape of what a thread block has of it."""
        return tuple(size // (1 + (i == self.halved)) for i, size in enumerate(self.shape))


Filling: TypeAlias = Literal["tma", "threads", "cp_async", "mma"]
"""What fills a slot, and so what arrives on its full barrier: the bytes of TMA loads, the warps that wrote
it, the completion of their asynchronous copies (cp.async), or of an MMA whose accumulator the slot is."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A multi-buffered channel of `depth` slots, each with a full and an empty barrier (CUTLASS: a pipeline
    of `depth` stages).

    Full barrier: one phase per fill (ProducerLoad: one arrival that expects the bytes; ProducerStore: the
    arrivals of the producing group's warps). Empty barrier: one phase per round of ConsumerRelease by all
    `consumers` (of one tile). The fill of sequence number n waits for the empty phase of parity
    ((n div depth) + 1) mod 2, ConsumerWait for the full phase of parity (n div depth) mod 2; so the first
    round of fills does not wait.
    """

    id: str
    producer: int
    """Group id."""
    consumers: tuple[int, ...]
    """Group ids, ascending."""
    depth: int
    tensors: tuple[SlotTensor, ...]
    filled_by: Filling
    offset: int
    """Of slot 0 in shared memory, bytes."""
    stride: int
    """Bytes from slot to slot."""
    by_mma: tuple[int, ...] = ()
    """Groups whose MMAs read a slot, where their completion releases it (`MbarrierArrival`): one arrival of
    each on the empty barrier."""
    by_threads: tuple[int, ...] | None = None
    """Groups that execute ConsumerRelease; None: all `consumers`."""
    alternating: tuple[tuple[int, ...], ...] = ()
    """Where several tiles are in flight: the consumers of each, which all release slots by threads. Every
    slot is of one tile, and the consumers of that one alone wait for it and release it."""

    @property
    def releasing(self) -> tuple[int, ...]:
        """Groups that execute ConsumerRelease for a slot; of several tiles in flight, those of the first."""
        if self.alternating:
            return self.alternating[0]
        return self.consumers if self.by_threads is None else self.by_threads

    def sharing(self, group: int) -> tuple[int, ...]:
        """Groups that read the same slots as a group."""
        return next((one for one in self.alternating if group in one), self.consumers)

    def only_mma(self, group: int) -> bool:
        """Whether the MMAs of a group read the slots, and its threads do not: only the warp that issues them
        waits for a slot."""
        return group in self.by_mma and group not in self.releasing

    @property
    def local(self) -> bool:
        """Whether the threads of one group fill the slots and that group alone reads them, but for MMAs that
        arrive on the empty barriers: a group barrier can then stand for the full and empty barriers."""
        return self.filled_by == "threads" and self.consumers == (self.producer,) and not self.by_mma


@dataclass(frozen=True, slots=True)
class DependenceBarrier:
    """`depth` mbarriers that order accesses to tensor memory: a later one waits until an earlier one is
    complete. One phase per iteration of a pipelined loop.

    The sequence number of an iteration is the group's counter of the barrier plus the iteration; mbarrier =
    sequence number mod depth, phase = (sequence number div depth) mod 2. Iteration n + depth arrives only
    after the wait for iteration n is over.
    """

    id: str
    signaller: int
    """Group id."""
    waiter: int
    """Group id; may be the signaller."""
    by: Literal["mma", "threads"]
    """What arrives: the completion of an MMA (once), or all warps of the signaller."""
    depth: int
    reason: str = ""
    """Which accesses it orders, in words."""


@dataclass(frozen=True, slots=True)
class OrderBarrier:
    """A hand-off of the tensor core from group `signaller` to group `waiter` (a named barrier of both groups'
    threads)."""

    id: str
    barrier: int
    """Number of the named barrier, 1 to 15, of its own."""
    signaller: int
    waiter: int
    signalled: bool
    """Whether one signal is given before the groups start. One is then left when they end."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Shared memory for a tile on its way to global memory."""

    id: str
    offset: int
    bytes: int
    overlays: str | None = None
    """The channel in whose slots it lies, which is dead for all groups whenever the buffer is in use."""
    reason: str = ""
    """Why that is so."""


@dataclass(frozen=True, slots=True)
class TensorTile:
    """A tile in tensor memory."""

    id: str
    column: int
    """Of its first buffer."""
    columns: int
    """Of 32 bits, of one buffer."""
    buffers: int = 1
    counter: str = ""
    """The dependence barrier whose counter numbers the buffers, instead of the iteration; empty for none."""


CLAIMS = 128
"""Bytes of shared memory behind those, for the responses of cluster launch control and their mbarriers."""
DRAINS = 128
"""Bytes of shared memory behind the barriers, for kernels with tensor memory: its address, and one mbarrier
for each group that waits for all of its MMAs."""


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The thread block's shared memory; offsets from a 1024-byte aligned base."""

    bytes: int
    """Everything, barriers included."""
    barriers: int
    """Offset of the barriers: for each channel, in order, `depth` full ones, then `depth` empty ones, 8 bytes
    each; then those of each `DependenceBarrier`."""
    limit: int
    """What the machine grants."""


# --- groups and programs ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A tile or scalar in a group's registers."""

    id: str
    """A C identifier, unique in the group."""
    type: Type
    ages: int = 1
    """How many instances are kept."""


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
    hold more thread blocks: each group that loads is one warp."""
    tensor_memory: tuple[TensorTile, ...] = ()
    """Empty on machines without."""
    pairs: bool = False
    """Two neighbouring thread blocks along x are a cluster: the first one issues the MMAs of both, each has
    its rows of A and of the accumulator and half of B (`SlotTensor.halved`). A channel that MMAs read is
    full when the tiles of both blocks are there, which the first block waits for."""
    claiming: int | None = None
    """The loop over tiles, by its `scf.for`, whose tiles thread blocks claim while they run (cluster launch
    control): as many blocks are launched as there are tiles, each begins with its own, and a running one
    takes over those of blocks that have not started. None: tiles are a fixed stride apart."""
    even: tuple[int, ...] = ()
    """Of pairs: numbers, by value id, that follow from the arguments and are even in every launch."""
    dependences: tuple[DependenceBarrier, ...] = ()
    synchronized: tuple[int, ...] = ()
    """Ids of the groups that execute TensorMemorySync: those that use tensor memory, else all."""
    notes: tuple[str, ...] = ()
    """Decisions in words: what was split, which waits the order of groups needs, what sharing costs."""
    warnings: tuple[str, ...] = ()
    """What makes the kernel slow, in words."""
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

    def name(self, id: int) -> str:
        """A C identifier for a value, which no other value of the function has."""
        return self._names[id]

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


def inner(statement: Statement) -> tuple[tuple[Statement, ...], ...]:
    """The lists of statements inside one, in the order of the text; () for a simple one."""
    match statement:
        case Pipelined():
            return statement.prologue, statement.steady, statement.epilogue, statement.short
        case For():
            return (statement.body,)
        case While():
            return statement.before, statement.body
        case If():
            return statement.then, statement.otherwise
        case Alternate():
            return statement.own, statement.other
        case _:
            return ()


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement at any depth, outer before inner."""
    for statement in statements:
        yield statement
        for part in inner(statement):
            yield from walk(part)
