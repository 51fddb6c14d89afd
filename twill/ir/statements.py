"""The statements of warp programs.

The docstrings define each statement; `ir.program` says how a program executes them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from twill.ir.operands import (
    Accumulator,
    At,
    Iteration,
    OperandLocation,
    Read,
    Register,
    Slot,
    TensorMemory,
    Write,
)

# --- computing --------------------------------------------------------------------------------------------

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
    by_rows: bool = False
    """The slices go through the elements that a thread holds row by row, not column by column."""
    deferred: bool = False
    """Each thread keeps the reduction of its own elements; what is computed from it is deferred too, until a
    `FinalizeReduction`."""
    stores: tuple[TensorMemory, ...] = ()
    """Tiles of tensor memory that it writes. Those that it reads or writes are bound by `reads`; what it has
    read and written is complete with the statement."""
    slots: int = 0
    """Of the channel for whose loads it computes numbers beside them, by `ProducerLoad.slots` and under the
    same conditions; 0 for all others."""


@dataclass(frozen=True, slots=True)
class InitializeCarried:
    """`register` = the value (an argument or constant where `source` is None): the initial value of a carried
    variable, or, in a loop, of an accumulator that begins every iteration with the same."""

    value: int
    source: OperandLocation | None
    register: Register
    at: At = At()


@dataclass(frozen=True, slots=True)
class LocalLoad:
    """`register` = the tile `value`, which threads read from a slot in a statement of its own: before the
    wait for an MMA behind which an operation needs it."""

    value: int
    source: Slot
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


# --- tensor core ------------------------------------------------------------------------------------------

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


# --- channels ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TileLoad:
    """One load into tensor `tensor` of a slot: a `tt.descriptor_load`, or a `tt.load` by asynchronous copies
    or through registers. `ops` compute its coordinates or pointers; the load itself is the last."""

    tensor: int
    ops: tuple[int, ...]
    reads: tuple[Read, ...] = ()
    vector: int = 0
    """Bytes of each copy, or of each access to global memory; 0 for TMA."""
    along: int | None = None
    """The dimension along which consecutive threads read, where the tile passes through their registers."""
    early: bool = False
    """It is started an iteration before its slot is empty (`warp.words_apart`)."""


@dataclass(frozen=True, slots=True)
class ProducerLoad:
    """Fill a slot from global memory: wait until it is empty (producer_acquire), expect `bytes` (of its
    tiles, without what pads them) on its full barrier, start the loads by TMA; or start them by copies of all
    threads (producer_commit). Asynchronous from there: the slot is full when everything has arrived. Loads
    through registers have arrived when they are written to the slot.

    A group that reads what it loads has the load behind its ConsumerRelease of the same slot, of the
    iteration `slots` before. It does nothing where its own iteration is N or later, or that one negative."""

    channel: str
    loads: tuple[TileLoad, ...]
    bytes: int
    at: At = At()
    slots: int = 0
    """Of the channel, in a group that reads it too; 0 in one that loads for others."""

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


# --- order of groups --------------------------------------------------------------------------------------


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


# --- tensor memory ----------------------------------------------------------------------------------------


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


# --- results ----------------------------------------------------------------------------------------------


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
    """Wait until the stores started from `buffer`, and all others of the group, have read what they store: it
    may be overwritten, or released by a ConsumerRelease."""

    buffer: str
    at: At = At()


# --- structure --------------------------------------------------------------------------------------------


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
    filled: tuple["ProducerLoad | Compute", ...] = ()
    """By a group that reads what it loads, before all else: for i = 0, 1 .. each load of iteration i that
    there is, if its channel has more than i slots; and what is computed for the loads of a channel."""
    predicated: bool = False
    """`short` is the steady state once more, executed for i = 0, 1 .. until the latest of its statements has
    been for iteration N - 1 (`ir.effects.drained_after`): statements for iterations that there are not do
    nothing, moves are always executed."""


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
    | LocalLoad
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


Statements: TypeAlias = tuple[Statement, ...]


def inner(statement: Statement) -> tuple[Statements, ...]:
    """The lists of statements inside one, in the order of the text; () for a simple one."""
    match statement:
        case Pipelined():
            steady = statement.prologue, statement.steady, statement.epilogue, statement.short
            return statement.filled, *steady
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


def with_inner(statement: Statement, change: Callable[[Statements], Statements]) -> Statement:
    """The statement with each list of `inner` changed; a simple one as it is."""
    match statement:
        case Pipelined(filled=filled, prologue=prologue, steady=steady, epilogue=epilogue, short=short):
            return replace(
                statement,
                filled=tuple(one for one in change(filled) if isinstance(one, ProducerLoad | Compute)),
                prologue=change(prologue),
                steady=change(steady),
                epilogue=change(epilogue),
                short=change(short),
            )
        case For(body=body):
            return replace(statement, body=change(body))
        case While(before=before, body=body):
            return replace(statement, before=change(before), body=change(body))
        case If(then=then, otherwise=otherwise):
            return replace(statement, then=change(then), otherwise=change(otherwise))
        case Alternate(own=own, other=other):
            return replace(statement, own=change(own), other=change(other))
        case _:
            return statement


def walk(statements: Statements) -> Iterator[Statement]:
    """Every statement at any depth, outer before inner."""
    for statement in statements:
        yield statement
        for part in inner(statement):
            yield from walk(part)


def by_threads(statements: Statements) -> bool:
    """Whether threads load any tile that these statements load, by copies or through registers."""
    return any(load.vector for load in _tile_loads(statements))


def through_registers(statements: Statements) -> bool:
    """Whether tiles that any of these statements loads pass through registers of the threads that load."""
    return any(load.along is not None for load in _tile_loads(statements))


def _tile_loads(statements: Statements) -> Iterator[TileLoad]:
    for one in walk(statements):
        if isinstance(one, ProducerLoad):
            yield from one.loads
