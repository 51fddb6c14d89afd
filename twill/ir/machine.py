"""A machine: its units, its limits, and what every operation costs on it.

`costs.machine.load` makes one from a TOML file (docs/costs.md); `costs.model.costed` uses it. Guarantees:
every unit that a cost names exists, every number is positive where it divides, and every table has a source.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from twill.ir.problem import Limits, Unit

Ranges: TypeAlias = Mapping[str, tuple[float, ...]]
"""Of numbers in a table that are estimates, by key (`latency`, `rate.tmem`): the least and the most that they
may be."""

Rate: TypeAlias = float | Mapping[str, float]
"""Things per cycle, or that by element type (`f16`, `bf16`, `f32`, `f8` for all 8-bit floats, `f4` for e2m1;
`default` for the others)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of some operations. With n things to do, unit u is taken ceil(n / rate[u]) cycles, and the
    *occupancy* is the longest of these. What is counted depends on the kind: elements held by all threads
    (elementwise, atomic), bytes (loads, stores, shared memory, layout changes), 32-bit words (tensor memory),
    elements passed between lanes (reductions and scans, on top of what their elements cost), multiply-adds
    (matrix products)."""

    ops: tuple[str, ...]
    """TTGIR names, and `ffma`."""
    rate: Mapping[str, Rate]
    """By unit."""
    source: str
    """Where the numbers come from."""
    latency: int = 0
    """Cycles from the end of the occupancy to the result; of a reduction or scan, cycles of each exchange
    between lanes."""
    latency_rate: float | None = None
    """Where results come out slower than the unit is taken: things per cycle until the last one, `latency`
    included after it."""
    asynchronous: bool = False
    """Started and left alone: only its launch holds the warp, and a reader must wait for it."""
    issue: int = 0
    """Cycles that the launch of an asynchronous operation holds the warp."""
    queue: int | None = None
    """Cycles of work that an asynchronous unit takes in advance from each four warps; more of it holds them
    until the unit gets to it. None: any."""
    issue_rate: float | None = None
    """Things per cycle that pass through the warp before an asynchronous operation is launched."""
    spare_rate: float | None = None
    """Stores by TMA: bytes that it reads in a cycle's worth of shared memory that MMAs leave; for `twill
    simulate` alone. None: not known; a store then takes what a schedule counts."""
    step: float = 0.0
    """Reductions and scans: cycles from one of a thread's elements to the next, which waits for it."""
    instructions: float = 1.0
    """Warp instructions per 32 things."""
    warps: int | None = None
    """Least width of a group that can run it; None: the warps that the module's register tiles are spread
    over."""
    staging: int = 0
    """Bytes of shared memory it passes through at most at once."""
    rows: int = 1
    """Matrix products: M is rounded up to a multiple of this."""
    a_columns: int = 0
    """Matrix products: A is read from shared memory again for every so many columns of N; 0: it is not read
    from there."""
    b_rows: int = 0
    """Matrix products: B is read again for every so many rows of M."""
    between: Ranges = field(default_factory=dict[str, tuple[float, ...]])


@dataclass(frozen=True, slots=True)
class Shared:
    """The unit that stands for shared memory bandwidth."""

    unit: str
    bytes_per_cycle: float
    source: str


@dataclass(frozen=True, slots=True)
class Issue:
    """The unit that stands for issue slots: `amount` of it is taken for each cycle in which all `slots`
    schedulers issue."""

    unit: str
    slots: int
    amount: int
    source: str


@dataclass(frozen=True, slots=True)
class HandOff:
    """Passing a value to another group of warps."""

    barrier: int
    """Cycles from an arrival at a barrier to the end of a wait for it."""
    order: int
    """The same for a named barrier, by which groups order their MMAs."""
    poll: int
    """Cycles of a wait at a barrier that is complete already."""
    base: int
    """Cycles to pass a register tile, besides its bytes."""
    bytes_per_cycle: float
    """A tile is written to and read from shared memory at this rate, both ways together."""
    source: str
    between: Ranges = field(default_factory=dict[str, tuple[float, ...]])


@dataclass(frozen=True, slots=True)
class Stream:
    """Tile operations that follow each other in chunks inside one group: the consumer starts
    max(minimum, latency - its own occupancy + slack) cycles after the producer."""

    minimum: int
    slack: int
    chunk_registers: int
    """Registers per thread that one chunk takes."""
    source: str
    behind: float = 0.0
    """Slices by which a unit may be behind the instructions issued to it, where operations go row by row;
    only `twill simulate` counts it."""
    between: Ranges = field(default_factory=dict[str, tuple[float, ...]])


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads that run ahead."""

    prefetch: int
    """How many iterations ahead, where shared memory allows it."""
    arrival: int
    """Cycles from the release of a slot to the arrival of what is loaded into it next."""
    source: str
    grid: float | None = None
    """Bytes per cycle that L2 gives one SM when all SMs load from it, each tiles of its own; None: not
    measured."""
    reused: float | None = None
    """The same of tiles that several SMs load at about the same time."""


@dataclass(frozen=True, slots=True)
class Residency:
    """What one SM has for the thread blocks that are on it at the same time."""

    threads: int
    blocks: int
    """At most, however small they are."""
    shared: int
    """Bytes of shared memory."""
    reserved: int
    """Bytes of it that each thread block takes beside its own."""
    slots: int
    """Slots of a loaded channel that are enough wherever other thread blocks load at the same time."""
    long_loop: int
    """Iterations of a loop from which on its slots matter more than another thread block."""
    beside_mma: int
    """Registers of a thread that the compiler needs at a kernel's entry beside accumulator and operand of one
    instruction of a warpgroup."""
    beside_mmas: int
    """Registers that it needs beside accumulators and operands of all MMAs of a loop."""
    used: float
    """Of the registers that schedules count, what the compiler takes at most where it has to."""
    idle: float
    """Another thread block is tried from so many times the cycles of its busiest unit on that an SM takes for
    its loops: below, blocks are in each other's way."""
    fewest: float
    """The least part of a schedule's registers with which another schedule is looked for."""
    aligned: int
    """Bytes of a thread block's shared memory that schedules leave for alignment and barriers."""
    source: str


@dataclass(frozen=True, slots=True)
class Copies:
    """Registers of a thread that copies tiles from global to shared memory, beyond `limits.narrow_registers`
    and those of its offsets, and how long it takes. 0: nothing is kept for it, or it takes no time."""

    base: int = 0
    """Counters, coordinates and addresses of an iteration, in a warpgroup that copies by cp.async."""
    tile: int = 0
    """For each tile after the first, in a single warp."""
    in_flight: int = 0
    """At most, for accesses in flight of tiles that pass through registers."""
    few_in_flight: int = 0
    """Of these, so many leave room for several tiles in flight."""
    offsets: int = 0
    """For offsets of tiles that pass through registers, where registers are left."""
    spare: int = 0
    """Beyond those of the schedule, what a thread that computes keeps before `offsets` are granted."""
    pace: int = 0
    """Machine cycles from one copy of a thread to its next, with its address and its part of a wait for a
    slot, in a warpgroup that copies by cp.async and does nothing else."""
    lean_pace: int = 0
    """The same where it computes the offset and the mask of each copy again (`Program.lean`)."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Control:
    """Instructions that a warp executes in each iteration of a loop beside its operations; of which there are
    how many follows from a lowered program (`simulate.control`)."""

    unit: str
    lanes: int
    """Threads of which it executes one in a cycle."""
    loop: int
    """For the counter and the end of the loop."""
    wait: int
    """For the parity of each wait on an mbarrier."""
    slot: int
    """For slot and phase of a number, for each channel of several slots."""
    update: int
    """For the vote by which a warp skips a tile of tensor memory that it would rescale by ones."""
    source: str


@dataclass(frozen=True, slots=True)
class Contention:
    """How the tensor core's work slows down everything else on its SM (rule `contention` of
    `costs.contention`)."""

    unit: str
    """The tensor core."""
    slower: Mapping[str, float]
    """By unit: how many times as long an operation takes it while the tensor core works."""
    reductions: float
    """The same for the steps of a reduction and its exchanges between lanes, each of which waits for the one
    before it."""
    source: str
    warpgroups: float = 1.0
    """How many times as long a warpgroup computes beside another one that computes; only `twill simulate`
    counts it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One GPU, as a scheduler of one thread block sees it."""

    name: str
    arch: str
    """`sm90`, `sm100`, ..."""
    description: str
    units: Mapping[str, Unit]
    limits: Limits
    costs: Mapping[str, Cost]
    """By name of the table."""
    handover: HandOff
    stream: Stream
    loads: Loads
    shared: Shared | None = None
    issue: Issue | None = None
    contention: Contention | None = None
    """None: nothing is known of it."""
    control: Control | None = None
    """None: not counted."""
    residency: Residency | None = None
    """None: one thread block at a time."""
    copies: Copies = field(default_factory=Copies)
    between: Mapping[tuple[str, ...], tuple[float, float]] = field(
        default_factory=dict[tuple[str, ...], tuple[float, float]]
    )
    """The ranges of all estimates of costs, hand-offs, streams and units, by the keys of the file."""
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where the numbers of `units.NAME` and `limits` come from."""
    file: str = ""
    """The file it was read from."""
    clock_mhz: int | None = None
    """Only to turn cycles into seconds in reports."""
    multiprocessors: int | None = None
    """SMs of the GPU; only to predict the time of a whole grid."""

    def cost(self, op: str) -> Cost | None:
        """The cost of a TTGIR operation; None where no table has it."""
        return next((cost for cost in self.costs.values() if op in cost.ops), None)
