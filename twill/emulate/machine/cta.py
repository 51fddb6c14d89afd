"""CTAs and clusters, and the order in which their warps run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from twill.emulate.faults import BudgetError, Fault
from twill.emulate.machine.asynchronous import Operation, Pending, Store
from twill.emulate.machine.barriers import ClusterBarrier, Mbarrier, Named
from twill.emulate.machine.warp import ALL, Warp
from twill.emulate.memory.clocks import Array, Clocks
from twill.emulate.memory.device import Device
from twill.emulate.memory.shared import RESERVED, Shared

if TYPE_CHECKING:
    from twill.emulate.decode import Code

RANK_SHIFT = 24
"""Of a CTA's rank in addresses of the cluster's shared memory."""
REGISTERS = 65536
"""Of an SM (CUDA programming guide, compute capability 9.0)."""
LONG = 20_000
"""Blocks after which a warp lets others run; it may be polling."""
MOST_BLOCKS = 30_000_000
"""Of a cluster, before it counts as endless."""
IDLE_ROUNDS = 2000
"""Rounds in which warps only look again before this counts as a deadlock."""


@dataclass(slots=True)
class Meter:
    """Counts the instructions that warps execute, over launches."""

    most: int | None = None
    report: Callable[[int], None] = lambda executed: None
    """Called now and then with what was executed."""
    executed: int = 0

    def add(self, count: int) -> None:
        """Raises BudgetError beyond `most`."""
        self.executed += count
        self.report(self.executed)
        if self.most is not None and self.executed > self.most:
            raise BudgetError(f"more than {self.most:,} instructions of warps would be executed")


@dataclass(frozen=True, slots=True)
class Launch:
    """What all CTAs of a launch share."""

    code: "Code"
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared: int
    """Dynamic shared memory, bytes."""
    parameters: bytes
    device: Device
    symbols: Mapping[str, int]
    """Addresses of global and constant variables."""
    processors: int = 132
    waiting: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """First CTAs of the clusters that have not started."""
    strict: bool = True
    """As PTX demands and Triton omits: copies complete only on mbarriers whose initialization was fenced for
    the async proxy, tcgen05.fence orders accesses to tensor memory, a proxy fence lies between cp.async and
    what reads in the async proxy, mbarrier.inval comes before another mbarrier.init, and shared-memory
    descriptors of tcgen05 have their constant bits."""
    meter: Meter = field(default_factory=Meter)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


class Cta:
    def __init__(self, cluster: "Cluster", rank: int, index: tuple[int, int, int]) -> None:
        launch = cluster.launch
        self.cluster, self.rank, self.index, self.launch = cluster, rank, index, launch
        self.name = ",".join(map(str, index))
        self.shared = Shared(RESERVED + launch.code.shared + launch.shared, cluster.clocks)
        self.base = rank << RANK_SHIFT
        self.mbarriers = dict[int, Mbarrier]()
        self.components = dict[int, tuple[int, int]]()
        """Of mbarriers that were at an offset: component and epochs that it has had."""
        self.named = dict[int, Named]()
        self.exited = 0
        """Threads."""
        self.state = dict[Any, Any]()
        """What instruction families keep for a CTA."""
        self.visits = list[int]()
        """Events of other CTAs' arrivals and writes in its shared memory."""
        self.leaving = list[Callable[[], None]]()
        """Checks when all warps of the cluster have exited."""
        count = -(-launch.threads // 32)
        last = launch.threads - 32 * (count - 1)
        alive = [ALL] * (count - 1) + [(1 << last) - 1]
        self.warps = [
            Warp(self, i, launch.code, alive[i], cluster.clocks.add(f"warp {i} of CTA {self.name}"))
            for i in range(count)
        ]
        entry = launch.code.entry_registers(launch.threads)
        if entry * 32 * count > REGISTERS:
            raise Fault(
                f"{launch.threads} threads with {entry} registers need more than {REGISTERS} registers"
            )
        self.free_registers = 0
        """Of those that the CTA begins with: there are no others for it (PTX ISA, setmaxnreg)."""
        self.registers = [entry] * count
        """Per thread, of each warp."""
        self.changes = [list[int]() for _ in range(count)]
        """By setmaxnreg."""

    def barrier(self, number: int) -> Named:
        if number > 15:
            raise Fault(f"there is no barrier {number}: a CTA has 16")
        if number not in self.named:
            self.named[number] = Named(self.cluster.clocks.clock())
        return self.named[number]


@dataclass(slots=True)
class Adversary:
    """Chooses which warp runs next, and which of its lanes. Seed 0 lets each warp run until it waits and
    everything asynchronous happen as late as possible; others choose at random."""

    seed: int
    random: Random = field(init=False)
    apart: int | None = field(init=False)
    """Of lanes that diverged: None, they run together again where their paths join; 1, the fewer run ahead
    and the others only when nothing else can progress; -1, the more."""
    all_run: bool = field(init=False)
    """Lanes that stayed behind may run."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.apart = (None, 1, -1)[self.seed % 3]
        self.all_run = self.apart is None

    def hold_back(self) -> None:
        self.all_run = self.apart is None

    def catch_up(self) -> bool:
        """Lets all lanes run; False where they could."""
        could, self.all_run = self.all_run, True
        return not could

    def order(self, warps: Sequence[Warp]) -> Sequence[Warp]:
        return warps if self.seed == 0 else self.random.sample(list(warps), len(warps))

    def budget(self) -> int:
        return LONG if self.seed == 0 else self.random.choice((1, 3, 10, 100))

    def early(self) -> bool:
        return self.seed != 0 and self.random.random() < 0.2

    def choose(self, operations: Sequence[Operation]) -> Operation:
        return operations[-1] if self.seed == 0 else self.random.choice(operations)


class Cluster:
    """The CTAs of one cluster; without clusters, one."""

    def __init__(self, launch: Launch, origin: tuple[int, int, int], seed: int) -> None:
        self.launch = launch
        x, y, z = launch.cluster
        count = x * y * z
        warps = -(-launch.threads // 32) * count
        self.clocks = Clocks(9 * warps + 128 * count + 16)
        self.clocks.relaxed = count > 1  # a copy of one CTA completes on a barrier of another
        self.pending = Pending()
        self.adversary = Adversary(seed)
        self.barrier = ClusterBarrier(self.clocks.clock(), warps)
        places = [(i % x, i // x % y, i // (x * y)) for i in range(count)]
        self.ctas = [
            Cta(self, rank, (origin[0] + a, origin[1] + b, origin[2] + c))
            for rank, (a, b, c) in enumerate(places)
        ]
        self.current: Warp | None = None
        self.locations = dict[int, Array]()
        """Clocks at addresses, of the accesses there that synchronize."""
        self.blocks = 0
        """Executed."""
        self.refused = False
        """A request for the work of another cluster failed."""
        for cta in self.ctas:
            for warp in cta.warps:
                warp.start()

    def run(self) -> None:
        """Until every warp has exited. Raises Fault for a deadlock."""
        warps = [warp for cta in self.ctas for warp in cta.warps]
        idle = 0
        while warps:
            moved, solid = self._round(warps)
            warps = [warp for warp in warps if warp.alive]
            idle = 0 if solid else idle + 1
            if moved and not idle:
                self.adversary.hold_back()
            elif warps and (self._complete() or self.adversary.catch_up()):
                idle = 0
            elif warps and (not moved or idle > IDLE_ROUNDS):
                raise self._deadlock(warps)
        self.current = None
        self.pending.tidy()
        for one in self.pending.operations:
            if isinstance(one, Store) and not one.reads:
                one.complete()
                continue
            raise Fault(
                f"a CTA exits while {one.what}, issued here, uses its shared memory",
                line=one.line,
                help="wait for it",
            )
        for cta in self.ctas:
            self._left(cta)
            self._whole_warpgroups(cta)
            for check in cta.leaving:
                check()

    def _whole_warpgroups(self, cta: Cta) -> None:
        """Raises Fault where not all warps of a warpgroup execute the same setmaxnreg (PTX ISA)."""
        for first in range(0, len(cta.warps), 4):
            changes = cta.changes[first : first + 4]
            if any(one != changes[0] for one in changes):
                raise Fault(
                    f"warps {first} to {first + len(changes) - 1} of CTA {cta.name}, a warpgroup, do not"
                    " execute the same setmaxnreg"
                )

    def _left(self, cta: Cta) -> None:
        """Raises Fault where a CTA may exit, and its shared memory be gone, before another one's accesses."""
        known = np.maximum.reduce([warp.clock for warp in cta.warps])
        events = np.array(cta.visits, np.int64)
        if len(late := events[self.clocks.late(events, known)]):
            raise Fault(
                f"CTA {cta.name} may exit before its shared memory is accessed by"
                f" {self.clocks.describe(int(late[0]))}",
                line=int(self.clocks.line[late[0]]),
                help="it waits for the other CTA, or for what arrives last",
            )

    def _round(self, warps: Sequence[Warp]) -> tuple[bool, bool]:
        moved = solid = False
        for warp in self.adversary.order(warps):
            self.current = warp
            made = warp.run(self.adversary.budget())
            moved, solid = moved | made.moved, solid | (made.solid and made.blocks < LONG)
            self.blocks += made.blocks
            self.launch.meter.add(made.instructions)
            if self.blocks > MOST_BLOCKS:
                raise Fault(
                    f"{self.blocks} basic blocks were executed and the kernel does not end",
                    help="a loop may poll in vain",
                )
            if self.adversary.early() and self._complete():  # a warp that was blocked before may run now
                moved = solid = True
        return moved, solid

    def _complete(self) -> bool:
        """Completes one operation in flight, if there is one."""
        self.pending.tidy()
        if not self.pending.operations:
            return False
        self.adversary.choose(self.pending.operations).complete()
        return True

    def _deadlock(self, warps: Sequence[Warp]) -> Fault:
        waits = dict[str, list[str]]()
        for warp in warps:
            for one in warp.fragments:
                line = warp.code.line(one.pc)
                waits.setdefault(
                    f"PTX line {line}, for {one.waiting.what() if one.waiting else 'nothing'}", []
                ).append(f"{warp.index}")
        shown = "; ".join(
            f"warp{'s' * (len(who) > 1)} {', '.join(who)} at {what}" for what, who in waits.items()
        )
        self.current = warps[0]
        return Fault(f"deadlock: no warp can progress: {shown}")

    def cta_at(self, address: int) -> Cta:
        rank = address >> RANK_SHIFT
        if rank >= len(self.ctas):
            raise Fault(
                f"the address {address:#x} is in no CTA's shared memory: the cluster has {len(self.ctas)}"
            )
        return self.ctas[rank]
