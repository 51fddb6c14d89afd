"""What all loops and groups of a kernel share while their statements are made, and one group in one loop."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from twill.ir.channels import TensorTile
from twill.ir.operands import Iteration, Read, TensorMemory
from twill.ir.problem import Time
from twill.warp.alternating import Alternating
from twill.warp.channels import LOADED, ChannelPlan
from twill.warp.dataflow import Code
from twill.warp.ordering import HandOff
from twill.warp.target import Target
from twill.warp.tasks import Leaf, Scheduled, Task
from twill.warp.tensor_dependences import Dependences
from twill.warp.tensor_memory import accesses


@dataclass(frozen=True, slots=True)
class Settings:
    """How statements are arranged; times in cycles."""

    split: bool = True
    """Issue an MMA in parts where others of its group wait meanwhile."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """What all loops and groups of a kernel share while their steps are made."""

    code: Code
    target: Target
    channels: tuple[ChannelPlan, ...]
    names: Mapping[int, str]
    """Variables, by value id."""
    buffers: Mapping[int, tuple[str, int]]
    """Staging buffer and parts, by the index of a store."""
    settings: Settings
    overlaid: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Staging buffers that lie in the slots of a channel, by its id."""
    tiles: Mapping[int, TensorTile] = field(default_factory=dict[int, TensorTile])
    """In tensor memory, by the value id of the buffer."""
    dependences: Mapping[int, Dependences] = field(default_factory=dict[int, Dependences])
    """Barriers of each loop, by its operation."""
    alternating: Alternating | None = None
    """The loop whose accumulators alternate from tile to tile."""
    scales: Mapping[int, tuple[TensorTile, ...]] = field(default_factory=dict[int, tuple[TensorTile, ...]])
    """Tiles in tensor memory to which an MMA copies its scale factors, by its operation."""
    multistage: bool = False
    """The one group that computes loads too (`warp.multistage`)."""

    @cached_property
    def holding(self) -> Mapping[int, tuple[ChannelPlan, ...]]:
        """The channels whose slots hold a value, by its id."""
        found = dict[int, tuple[ChannelPlan, ...]]()
        for channel in self.channels:
            for value in dict.fromkeys(held.id for use in channel.sources for held in use):
                found[value] = (*found.get(value, ()), channel)
        return found

    @property
    def by_mbarrier(self) -> bool:
        """MMAs arrive on mbarriers when they are complete."""
        return self.target.completion == "mbarrier"

    def bound(self, ops: Iterable[int], iteration: Iteration) -> tuple[Read, ...]:
        """The buffers of tensor memory that some operations work on."""
        return tuple(
            Read(buffer, TensorMemory(self.tiles[buffer].id, iteration))
            for buffer in sorted(
                {a.buffer for index in ops for a in accesses(self.code, self.code.ops[index])}
            )
        )

    def stored(self, ops: Iterable[int], iteration: Iteration) -> tuple[TensorMemory, ...]:
        """Those that they write."""
        written = {a.buffer for index in ops for a in accesses(self.code, self.code.ops[index]) if a.writes}
        return tuple(TensorMemory(self.tiles[buffer].id, iteration) for buffer in sorted(written))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """All that the steps of one group in one loop are made from."""

    kernel: Kernel
    scheduled: Scheduled
    tasks: tuple[Task, ...]
    """Of the whole loop."""
    id: int
    hand_offs: tuple[tuple[str, HandOff], ...]
    """With the ids of their ordering barriers."""
    deferred: frozenset[str] = frozenset()
    """Tasks whose reduction is deferred."""
    flat: bool = False
    """One iteration at a time: no overlap, no ordering barriers."""
    shift: Time = 0
    """Where the group's interval begins in that of the schedule; below 0 where it begins an iteration with
    waits for slots in the interval before."""
    acquired: Mapping[str, Time] = field(default_factory=dict[str, Time])
    """When it waits for the slots of channels, by id, before the first operation that reads them."""

    @property
    def code(self) -> Code:
        return self.kernel.code

    @property
    def names(self) -> Mapping[int, str]:
        return self.kernel.names

    @property
    def own(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.group == self.id)

    @property
    def dependences(self) -> Dependences:
        return self.kernel.dependences.get(self.scheduled.loop.op.index, Dependences())

    @property
    def scale(self) -> float:
        return self.scheduled.problem.resolution.cycles_per_unit

    def when(self, time: Time) -> tuple[int, Time]:
        """Stage, and time in the group's interval."""
        return (0, time) if self.flat else divmod(time - self.shift, self.scheduled.solution.interval)

    def channel(self, leaf: Leaf) -> tuple[ChannelPlan, int] | None:
        """Where this group reads a value of another group, or one that was loaded; None for one that it has
        in registers."""
        if leaf.in_registers:
            return None
        for channel in self.kernel.holding.get(leaf.source.id, ()):
            tensor = channel.holds(leaf.source)
            if tensor is not None and (channel.filled_by in LOADED or self.id in channel.consumers):
                return channel, tensor
        return None
