"""Channels: which values pass from group to group through shared memory.

Takes the tasks of the loops and the loads outside of them; gives `ChannelPlan`s (channels without addresses).
The loads of one MMA share a channel: one barrier covers all its operands. Loops that move the same tiles
between the same groups share channels: the loader runs on from one loop into the next. How tiles lie in a
slot is in `warp.slot_tensors`, how many slots a channel gets in `warp.slot_counts`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count

from twill.ir.channels import Filling, SlotTensor, slot_owner
from twill.ir.loop import Encoding, Loop, Op, TensorDesc, Value
from twill.ops.row import Role
from twill.ops.table import role
from twill.warp.dataflow import MMAS, STORES, Code
from twill.warp.slot_tensors import aligned, tensors
from twill.warp.tasks import Leaf, Scheduled, Task, staged

LOADED = frozenset[Filling]({"tma", "cp_async"})
"""Filled asynchronously from global memory: the group that loads goes on."""
BARRIERS = 16
"""Bytes of the two mbarriers of a slot, full and empty."""


def store_buffer(channel: str) -> str:
    """The slots of a channel as a buffer, where a warp starts stores from them."""
    return f"{channel}.store"


@dataclass(frozen=True, eq=False)
class ChannelPlan:
    """A channel without addresses, with the values that its slots hold wherever it is used."""

    id: str
    producer: int
    consumers: tuple[int, ...]
    tensors: tuple[SlotTensor, ...]
    filled_by: Filling
    depth: int
    sources: tuple[tuple[Value, ...], ...]
    """For each use (a loop, or a load outside of loops): the value of every tensor."""
    once: bool = False
    """Filled outside of pipelined loops: one slot, not more."""
    by_mma: tuple[int, ...] = ()
    """Groups whose MMAs read a slot in a loop."""
    by_threads: tuple[int, ...] | None = None
    """Groups whose threads do; None: all consumers release slots by threads."""
    spare: int = 0
    """Slots that only let the loads run further ahead than the schedule has them."""
    fills: int | None = None
    """How often slots of it are filled one after the other, where that is constant: more are of no use."""
    alternating: tuple[tuple[int, ...], ...] = ()
    """As `ir.channels.Channel.alternating`."""
    sharers: tuple[str, ...] = ()
    """As `ir.channels.Channel.sharers`."""

    @property
    def slot_owner(self) -> str:
        """As `ir.channels.Channel.slot_owner`."""
        return slot_owner(self.id, self.sharers)

    @property
    def bytes(self) -> int:
        """Of its slots with their barriers; nothing where these are another channel's."""
        own = self.slot_owner == self.id
        return self.stride * self.depth + BARRIERS * self.barriers if own else 0

    @property
    def by_warpgroup(self) -> bool:
        """As `ir.channels.Channel.by_warpgroup`."""
        return any(tensor.first_row is not None for tensor in self.tensors)

    @property
    def barriers(self) -> int:
        """As `ir.channels.Channel.barriers`."""
        return len(self.sharers) if self.by_warpgroup else self.depth

    @property
    def local(self) -> bool:
        """As `ir.channels.Channel.local`."""
        return self.filled_by == "threads" and self.consumers == (self.producer,) and not self.by_mma

    @property
    def stride(self) -> int:
        last = self.tensors[-1]
        return aligned(last.offset + last.bytes)

    def holds_one_of(self, values: Iterable[Value]) -> bool:
        """Whether a slot has any of these values."""
        return any(self.holds(value) is not None for value in values)

    def holds(self, value: Value) -> int | None:
        """Which tensor of a slot is this value; None where it is none."""
        return self._places.get(value.id)

    @cached_property
    def _places(self) -> Mapping[int, int]:
        """The first tensor of a slot that is a value, by its id."""
        pairs = [(held.id, i) for use in self.sources for i, held in enumerate(use)]
        return dict(reversed(pairs))


# --- channels of one loop ---------------------------------------------------------------------------------


def of_loop(
    code: Code, scheduled: Scheduled, tasks: tuple[Task, ...], multistage: bool = False
) -> tuple[ChannelPlan, ...]:
    """Channels for everything in a loop that another group reads, in the order of the text; with `multistage`
    one group loads and reads all. Raises TwillError for a carried value.

    A group that loads runs ahead into the next time that a loop inside another one is entered; one that also
    reads its tiles begins the loop with empty slots each time, so that more than one filling is of no use."""
    again = scheduled.loop.depth > 0 and not multistage
    fills = None if again else constant_trips(code, scheduled.loop)
    made = (*_load_channels(code, scheduled, tasks, multistage), *_tile_channels(code, scheduled, tasks))
    return tuple(replace(channel, fills=fills) for channel in made)


def constant_trips(code: Code, loop: Loop) -> int | None:
    """How often the body of a loop is executed from its begin to its end, once at least; None where that is
    not constant."""
    bounds = (value for value in (loop.lower, loop.upper, loop.step) if value is not None)
    return trips_of([code.maker(value) for value in bounds])


def trips_of(makers: Sequence[Op | None]) -> int | None:
    """The same of what makes its bounds and its step."""
    bounds = list(map(_constant, makers))
    if len(bounds) < 3 or None in bounds:
        return None
    begin, end, step = (bound or 0 for bound in bounds)
    return max(1, -(-(end - begin) // step)) if step > 0 else None


def _constant(maker: Op | None) -> int | None:
    found = maker.attributes.get("value") if maker is not None and role(maker) == "constant" else None
    return found if isinstance(found, int) else None


def _readers(tasks: tuple[Task, ...], value: Value) -> list[tuple[Task, Leaf]]:
    return [(task, leaf) for task in tasks for leaf in task.leaves if leaf.source.id == value.id]


def _load_channels(
    code: Code, scheduled: Scheduled, tasks: tuple[Task, ...], multistage: bool
) -> Iterable[ChannelPlan]:
    loads = [task for task in tasks if any(code.loads(code.ops[index]) for index in task.ops)]
    facts = [_load_facts(code, task, tasks, multistage) for task in loads]
    for members in _sharing([(groups, mmas, code.copied(value)) for value, groups, mmas in facts]):
        values = [facts[i][0] for i in members]
        if not facts[members[0]][1]:
            continue
        first = loads[members[0]]
        consumers = tuple(sorted(facts[members[0]][1]))
        reads = [(loads[i], _readers(tasks, facts[i][0])) for i in members]
        live = 1 if multistage else max(_slots_live(scheduled, *one) for one in reads)
        depth = 1 if multistage else max(_slots_needed(scheduled, *one) for one in reads)
        name = "_".join(code.names[value.id] for value in values)
        filled_by = "cp_async" if code.copied(values[0]) else "tma"
        releasing = _releasing(code, [reader for value in values for reader in _readers(tasks, value)])
        yield ChannelPlan(
            name,
            first.group,
            consumers,
            tensors(code, values),
            filled_by,
            depth,
            (tuple(values),),
            False,
            *releasing,
            depth - live,
        )


def _releasing(code: Code, readers: Iterable[tuple[Task, Leaf]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The groups whose MMAs are among some readers, and those whose other operations are."""
    found = [(task.group, code.ops[task.ops[-1]].name in MMAS) for task, _ in readers]
    by_mma, by_threads = ({group for group, mma in found if mma == wanted} for wanted in (True, False))
    return tuple(sorted(by_mma)), tuple(sorted(by_threads))


def _load_facts(
    code: Code, load: Task, tasks: tuple[Task, ...], multistage: bool
) -> tuple[Value, frozenset[int], frozenset[str]]:
    """The tile, the groups that read it, the MMAs that read it; of a group that loads for itself, one name
    for all: one barrier then covers all that an iteration loads, but for what it reads `_behind_mmas`."""
    value = next(code.ops[index].result for index in load.ops if code.loads(code.ops[index]))
    readers = _readers(tasks, value)
    groups = frozenset(task.group for task, _ in readers)
    if multistage:
        return value, groups, frozenset({BEHIND if _behind_mmas(code, tasks, readers) else OWN})
    return value, groups, frozenset(one.id for one, _ in readers if role(code.ops[one.ops[-1]]) in MMA_ROLES)


def _behind_mmas(code: Code, tasks: tuple[Task, ...], readers: Sequence[tuple[Task, Leaf]]) -> bool:
    """Whether what a group loads for itself is read behind the asynchronous MMAs of loaded tiles alone, as
    scales of products are: the slots of those tiles are filled again while it multiplies, unless threads
    would wait meanwhile for what passes through their registers. (A product of
    64 x 128 tiles of fp8 with scales on an H200: 0.234 ms, 0.261 with one barrier for all.)"""
    loaded = {op.result.id for task in tasks for op in map(code.ops.__getitem__, task.ops) if code.loads(op)}
    mmas = [
        task
        for task in tasks
        if role(code.ops[task.ops[-1]]) == "wgmma" and any(leaf.source.id in loaded for leaf in task.leaves)
    ]
    last = max((task.start for task in mmas), default=None)
    return last is not None and not code.through_registers and all(task.start > last for task, _ in readers)


OWN, BEHIND = "own", "behind"
"""In place of MMAs, where the one group that computes loads all tiles."""
MMA_ROLES: frozenset[Role] = frozenset({"wgmma", "tensor_memory_mma", "dot"})
"""Operations on the tensor core."""


def _sharing(facts: Sequence[tuple[frozenset[int], frozenset[str], bool]]) -> list[list[int]]:
    """Loads of one kind read by the same groups, of which each feeds an MMA that another one feeds too."""
    sets: list[list[int]] = []
    for i, (groups, mmas, kind) in enumerate(facts):
        friends = [
            s
            for s in sets
            if any(facts[j][0] == groups and facts[j][1] & mmas and facts[j][2] == kind for j in s)
        ]
        sets = [s for s in sets if s not in friends] + [sorted([i, *(j for s in friends for j in s)])]
    return sorted(sets)


def _slots_needed(scheduled: Scheduled, task: Task, readers: Sequence[tuple[Task, Leaf]]) -> int:
    """Slots that the schedule gives what a task makes; at least as many as its iterations overlap."""
    held = {value.id for value in scheduled.problem.values if value.src == task.id}
    given = [p.slots for p in scheduled.solution.allocations if p.value in held]
    return max([_slots_live(scheduled, task, readers), *given])


def _slots_live(scheduled: Scheduled, task: Task, readers: Sequence[tuple[Task, Leaf]]) -> int:
    """As many slots as iterations of a value overlap; one more where a slot would be released at the moment
    when the group that releases it waits for it to be filled again: a group waits first."""
    held = [value for value in scheduled.problem.values if value.src == task.id]
    if not held:
        return _slots_until(scheduled, task, readers)
    interval, begin = scheduled.solution.interval, scheduled.start(task.id)
    uses = [use for value in held for use in value.uses]
    spans = [(scheduled.start(use.op) + use.distance * interval - begin, use.hold) for use in uses]
    return max(
        [1, *(-(-(wait + hold) // interval) + (not wait and not hold % interval) for wait, hold in spans)]
    )


def _slots_until(scheduled: Scheduled, task: Task, readers: Sequence[tuple[Task, Leaf]]) -> int:
    """Slots of a value that the problem does not count, a scalar: one for each iteration whose readers have
    not begun when it is filled again."""
    ends = (reader.start + scheduled.problem.operation(reader.id).issue for reader, _ in readers)
    return max([1, *(-(-(end - task.start) // scheduled.solution.interval) for end in ends)])


def _tile_channels(code: Code, scheduled: Scheduled, tasks: tuple[Task, ...]) -> Iterable[ChannelPlan]:
    shared = staged(code, scheduled.graph)
    for task in tasks:
        for value in task.writes:
            readers = [
                (reader, leaf)
                for reader, leaf in _readers(tasks, value)
                if reader.group != task.group or value.id in shared
            ]
            if not readers:
                continue
            if any(leaf.distance for _, leaf in readers):
                raise code.refuse(
                    f"{value.name}, carried around the loop, would pass from group to group",
                    code.ops[task.ops[-1]],
                )
            groups = tuple(sorted({reader.group for reader, _ in readers}))
            yield ChannelPlan(
                code.names[value.id],
                task.group,
                groups,
                tensors(code, [value], _stored(code, [reader for reader, _ in readers])),
                "threads",
                _slots_needed(scheduled, task, readers),
                ((value,),),
                False,
                *_releasing(code, readers),
            )


def _stored(code: Code, readers: Iterable[Task]) -> Encoding | None:
    """The layout of the descriptor through which a reader stores a tile from its slot; None without one."""
    stores = (code.ops[reader.ops[-1]] for reader in readers)
    kinds = (store.operands[0].type for store in stores if store.name in STORES)
    return next((kind.encoding for kind in kinds if isinstance(kind, TensorDesc)), None)


# --- channels of a kernel ---------------------------------------------------------------------------------


def merged(loops: Iterable[tuple[ChannelPlan, ...]]) -> tuple[ChannelPlan, ...]:
    """Channels of several loops that move the same tiles between the same groups become one; ids made
    distinct."""
    found: list[ChannelPlan] = []
    for channels in loops:
        free = list(range(len(found)))
        for channel in channels:
            match = next((i for i in free if kind(found[i]) == kind(channel)), None)
            if match is None:
                found.append(channel)
            else:
                free.remove(match)
                other = found[match]
                found[match] = replace(
                    other,
                    depth=max(other.depth, channel.depth),
                    sources=(*other.sources, *channel.sources),
                    fills=other.fills and channel.fills and other.fills + channel.fills,
                )
    return tuple(found)


def distinct(channels: Iterable[ChannelPlan]) -> tuple[ChannelPlan, ...]:
    """The channels with ids of their own."""
    found = dict[str, ChannelPlan]()
    for channel in channels:
        names = chain([channel.id], (f"{channel.id}_{number}" for number in count(2)))
        free = next(name for name in names if name not in found)
        found[free] = replace(channel, id=free)
    return tuple(found.values())


def kind(channel: ChannelPlan) -> tuple[object, ...]:
    """What channels that could be one have in common."""
    return (
        channel.producer,
        channel.consumers,
        channel.filled_by,
        channel.once,
        channel.by_mma,
        channel.by_threads,
        tuple((t.shape, t.dtype, t.encoding) for t in channel.tensors),
    )
