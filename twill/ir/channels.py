"""What connects the groups of a thread block: channels, barriers, shared and tensor memory.

The docstrings define each; the statements of `ir.statements` use them.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from twill.ir.loop import Encoding, NvmmaShared, Type


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
    repeated: int = 1
    """Rows of the tile that are one row in the slot, the first at a multiple."""
    multicast: int | None = None
    """TMA loads the tile in two halves along this axis. Each block of a cluster (`Program.cluster`) or of a
    pair (`Program.pairs`) loads one, the first block the first half, into the slots of both blocks."""
    first_row: int | None = None
    """Where one warpgroup of an independent group fills the slot (`ir.program.WarpProgram.independent`): the
    slot holds `shape[-2]` rows of the tile that a statement names, from this one on. None: all of it."""

    @property
    def kept(self) -> tuple[int, ...]:
        """The shape of what lies in the slot."""
        return self.shape if self.repeated == 1 else (self.shape[0] // self.repeated, *self.shape[1:])

    @property
    def box(self) -> tuple[int, ...]:
        """The shape of what is loaded at once."""
        return tuple(size // (1 + (i in (self.halved, self.multicast))) for i, size in enumerate(self.shape))

    @property
    def loaded(self) -> int:
        """Bytes that TMA loads, which is what its mbarrier counts: without what pads the tile."""
        return self.bytes // (self.encoding.room if isinstance(self.encoding, NvmmaShared) else 1)

    @property
    def part(self) -> tuple[int, ...]:
        """The shape of what a thread block has of it."""
        return tuple(size // (1 + (i == self.halved)) for i, size in enumerate(self.shape))


Filling: TypeAlias = Literal["tma", "threads", "cp_async", "mma"]
"""What fills a slot, and so what arrives on its full barrier: the bytes of TMA loads, the warps that wrote
it, the completion of their asynchronous copies (cp.async), or of an MMA whose accumulator the slot is."""


def slot_owner(channel: str, sharers: tuple[str, ...]) -> str:
    """The channel that has the slots and barriers of a channel: itself, or the first that fills them."""
    return sharers[0] if sharers else channel


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
    sharers: tuple[str, ...] = ()
    """Channels of one loop that share slots and barriers: their ids, its own among them, in the order in
    which every iteration fills the slots. Empty: the slots are its own."""

    @property
    def slot_owner(self) -> str:
        """The channel that its slots and barriers belong to."""
        return slot_owner(self.id, self.sharers)

    @property
    def by_warpgroup(self) -> bool:
        """Whether warpgroups of an independent group fill the slots alternately, one group releases them, and
        there are no more slots than warpgroups.

        Each of the channels that share the slots then has one full and one empty barrier of its own, with a
        phase for each of its fills. ConsumerRelease arrives on the empty barrier of the channel that fills
        the slot next. The fill of sequence number n waits for phase n of its empty barrier, n - 1 where the
        first one finds a slot that nobody has filled; ConsumerWait for phase n of its full barrier. A barrier
        of the slot could have completed several phases since a warpgroup last waited, and their parities
        repeat.
        """
        return any(tensor.first_row is not None for tensor in self.tensors)

    @property
    def barriers(self) -> int:
        """Pairs of a full and an empty barrier that it has, or shares."""
        return len(self.sharers) if self.by_warpgroup else self.depth

    def fill(self, number: int) -> int:
        """The number of a fill among all fills of the slots, from its sequence number in this channel. Slot
        and phase follow from it, as they follow from the sequence number where the slots are its own."""
        return number * len(self.sharers) + self.sharers.index(self.id) if self.sharers else number

    @property
    def multicast(self) -> bool:
        """Whether a tile of it is loaded in halves, each of which one block of a cluster loads for both. The
        consumers of both blocks then release a slot, to the producers of both, as MMAs of a pair do."""
        return any(tensor.multicast is not None for tensor in self.tensors)

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
    """Shared memory for a tile on its way to global memory or to other threads, or in place of registers
    (`ir.program.Variable.buffer`)."""

    id: str
    offset: int
    bytes: int
    overlays: str | None = None
    """The channel in whose slots it lies, which is dead for all groups whenever the buffer is in use."""
    reason: str = ""
    """Why that is so."""
    ops: tuple[int, ...] = ()
    """The operations that exchange in it, by index, where others of the group have another buffer."""


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


BEHIND = "behind_"
"""Before the name of a scratch buffer for code behind loops, of a group that has another one."""
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
