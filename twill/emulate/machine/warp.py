"""A warp: 32 lanes, their registers, and the places in the code that groups of its lanes have reached.

Registers of one size are the rows of one array, a column for each lane; `views` gives rows by type. `valid`
has a bit for each lane whose value is defined; an undefined value may be moved and computed with, and is an
error where it matters (`require`).

Lanes that diverged are fragments. The fragment with the lowest program counter runs first, so that lanes
reconverge where their paths join; a fragment that waits lets the others run. PTX promises no more than that
each lane progresses: where the adversary keeps lanes apart, fragments become one only where they wait at the
same place, as instructions that all lanes execute together make them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twill.emulate.faults import Fault
from twill.emulate.memory.clocks import FENCED, ORDERED, Array

if TYPE_CHECKING:
    from twill.emulate.decode import Code
    from twill.emulate.machine.cta import Cta

ALL = 0xFFFFFFFF
LANES = np.arange(32)

BLOCKED, APART, YIELD = -1, -2, -3
"""What a control instruction gives instead of the next block: it waits; the fragments were changed; others
may go first."""

CODES: Mapping[int, int] = {1: 0, 16: 1, 32: 2, 64: 3, 128: 4}
"""Position in `valid` by the size of a register."""

_SIZES: Mapping[str, int] = {
    "pred": 1,
    **dict.fromkeys(("u8", "s8", "b8", "u16", "s16", "b16", "f16", "bf16"), 16),
    **dict.fromkeys(("u32", "s32", "b32", "f32", "f16x2", "bf16x2", "bytes"), 32),
    **dict.fromkeys(("u64", "s64", "b64", "f64", "f32x2"), 64),
    "b128": 128,
}
_KINDS: Mapping[str, str] = {
    "pred": "bool",
    **dict.fromkeys(("u8", "b8", "u16", "b16", "bf16"), "uint16"),
    **dict.fromkeys(("s8", "s16"), "int16"),
    **dict.fromkeys(("u32", "b32"), "uint32"),
    "f16": "float16",
    "s32": "int32",
    "f32": "float32",
    "f16x2": "float16",
    "bf16x2": "uint16",
    "bytes": "uint8",
    **dict.fromkeys(("u64", "b64", "b128"), "uint64"),
    "s64": "int64",
    "f64": "float64",
    "f32x2": "float32",
}


def size(type: str) -> int:
    """Bits of the registers that hold a type. Raises KeyError."""
    return _SIZES[type]


_MASKS = dict[int, Array]()


def lanes(mask: int) -> Array:
    """A mask as 32 truth values."""
    found = _MASKS.get(mask)
    if found is None:
        if len(_MASKS) > 65536:
            _MASKS.clear()
        found = _MASKS[mask] = np.unpackbits(
            np.frombuffer(mask.to_bytes(4, "little"), np.uint8), bitorder="little"
        ).view(np.bool_)
        found.flags.writeable = False
    return found


def bits(values: Array) -> int:
    """32 truth values as a mask."""
    return int.from_bytes(np.packbits(values, bitorder="little").tobytes(), "little")


class Rows(dict[int, Array]):
    """Rows of a register file, seen as a type; each made when first asked for, as a warp uses few."""

    def __init__(self, file: Array) -> None:
        super().__init__()
        self.file = file

    def __missing__(self, index: int) -> Array:
        row = self[index] = self.file[index]
        return row


class Views(dict[str, Rows]):
    """Rows of the register file by type."""

    def __init__(self, files: Mapping[int, Array]) -> None:
        super().__init__()
        self.files = files

    def __missing__(self, type: str) -> Rows:
        rows = self[type] = Rows(self.files[_SIZES[type]].view(_KINDS[type]))
        return rows


@dataclass(frozen=True, slots=True)
class Progress:
    """What a warp has done in its turn."""

    moved: bool
    """It executed something."""
    solid: bool
    """That was more than polling."""
    blocks: int
    instructions: int


@dataclass(slots=True)
class Wait:
    """Why a fragment cannot progress."""

    ready: Callable[[], bool]
    what: Callable[[], str]
    """Describes what is missing when it is called."""


@dataclass(slots=True, eq=False)
class Fragment:
    """Lanes at one place."""

    pc: int
    """Of a block."""
    mask: int
    waiting: Wait | None = None
    gathers: bool = False
    """It waits for the other lanes."""
    returns: tuple[int, ...] = ()
    """Blocks to return to, innermost last."""


class Warp:
    """`component` is the warp's own in its clock."""

    def __init__(self, cta: "Cta", index: int, code: "Code", alive: int, component: int) -> None:
        self.cta, self.index, self.code, self.component = cta, index, code, component
        self.files: dict[int, Array] = {}
        for bits, kind in ((1, np.bool_), (16, np.uint16), (32, np.uint32), (64, np.uint64)):
            self.files[bits] = np.zeros((code.counts.get(bits, 0), 32), kind)
        self.files[128] = np.zeros((code.counts.get(128, 0), 64), np.uint64)
        self.views = Views(self.files)
        self.valid: list[list[int]] = [[0] * code.counts.get(bits, 0) for bits in CODES]
        self.alive = alive
        self.fragments = [Fragment(0, alive)]
        self.fragment = self.fragments[0]
        self.mask, self.full = alive, alive == ALL
        self.clock = cta.cluster.clocks.clock()
        self.clock[ORDERED, component] = 1
        self.events = dict[int, tuple[int, int]]()
        self.synchronized = 0
        """Epoch in which all lanes were last ordered among themselves."""
        self.strong = False
        """The current access synchronizes."""
        self.together = 0
        """Lanes that have accessed shared memory since, the whole warp at once."""
        self.instructions = 0
        """Executed, with those of blocks that waited."""
        self.step: Callable[[Warp], None] | None = None
        """The current step of a block."""
        self.state = dict[Any, Any]()
        """What instruction families keep for a warp: groups of copies, accumulators in flight."""

    def start(self) -> None:
        """Gives the rows that hold no registers their values, which are defined."""
        for size, index, value in self.code.rows:
            self.files[size][index] = value(self)
            self.valid[CODES[size]][index] = ALL

    # --- lanes ---------------------------------------------------------------------------------------------

    @property
    def active(self) -> Array:
        return lanes(self.mask)

    def only(self, mask: int) -> None:
        self.mask, self.full = mask, mask == ALL

    def where(self, index: int) -> int:
        """The active lanes that have a predicate set. Raises Fault where it is undefined."""
        if self.mask & ~self.valid[0][index]:
            raise Fault("a branch or guard depends on a value that was never written")
        return bits(self.files[1][index]) & self.mask

    def require(self, code: int, index: int, what: str) -> None:
        """Raises Fault where an active lane's register is undefined."""
        if self.mask & ~self.valid[code][index]:
            raise Fault(f"{what} depends on a value that was never written, or that has not arrived")

    # --- order ---------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return int(self.clock[ORDERED, self.component])

    def release(self, into: Array) -> None:
        """What this warp has seen and done happens before what acquires `into`."""
        np.maximum(into, self.seen(), out=into)
        self.clock[ORDERED, self.component] += 1

    def seen(self) -> Array:
        """What happens before now for the active lanes. Where lanes are missing, accesses that the whole warp
        made since its lanes were last synchronized are left out: nothing orders those of the missing
        lanes."""
        if not self.together & ~self.mask:
            return self.clock
        found = self.clock.copy()
        found[ORDERED, self.component] = self.synchronized
        found[FENCED, self.component] = min(self.synchronized, int(found[FENCED, self.component]))
        return found

    def synchronize_lanes(self) -> None:
        """All lanes are ordered: bar.warp.sync, or a barrier of the CTA."""
        self.synchronized = self.divide()
        self.together = 0

    def divide(self) -> int:
        """The epoch that ends here: what the warp does next is in another one."""
        ended = self.epoch
        self.clock[ORDERED, self.component] += 1
        return ended

    def acquire(self, other: Array) -> None:
        own = int(self.clock[ORDERED, self.component])
        np.maximum(self.clock, other, out=self.clock)
        self.clock[ORDERED, self.component] = own

    def fence_proxy(self) -> None:
        """All generic accesses that happen before are visible to the async proxy."""
        self.clock[FENCED] = self.clock[ORDERED]
        self.clock[ORDERED, self.component] += 1

    def event(self, line: int, atomic: bool = False) -> int:
        """The event of a generic access of this warp, now."""
        epoch = self.epoch
        self.together |= 0 if self.alive & ~self.mask else self.mask
        held = self.events.get(line)
        if held is None or held[0] != epoch:
            held = self.events[line] = (
                epoch,
                self.cta.cluster.clocks.event(self.component, epoch, line, True, atomic, True),
            )
        return held[1]

    @property
    def at(self) -> int:
        """Position of the current step in its block."""
        steps = self.code.blocks[self.fragment.pc].steps
        return next((i for i, step in enumerate(steps) if step is self.step), len(steps))

    @property
    def name(self) -> str:
        return f"warp {self.index} of CTA {self.cta.name}"

    # --- control -------------------------------------------------------------------------------------------

    def wait(self, ready: Callable[[], bool], what: Callable[[], str]) -> int:
        self.fragment.waiting = Wait(ready, what)
        return BLOCKED

    def gather(self, wanted: int, what: str) -> int:
        """Waits until all lanes of `wanted` are at this instruction; BLOCKED, or 0 where they are."""
        fragment = self.fragment

        def missing() -> int:
            return wanted & self.alive & ~fragment.mask

        if not missing():
            return 0
        blocked = self.wait(
            lambda: not missing(), lambda: f"{what}, where lanes {missing():#x} of the warp have not arrived"
        )
        fragment.gathers = True
        return blocked

    def branch(self, taken: int, target: int) -> int:
        """Lanes `taken` go to the block `target`, the others on."""
        if taken == self.mask:
            return target
        if not taken:
            return self.fragment.pc + 1
        self.fragments.append(Fragment(target, taken, returns=self.fragment.returns))
        self.fragment.mask &= ~taken
        self.fragment.pc += 1
        return APART

    def leave(self, mask: int) -> int:
        """Lanes exit."""
        self.alive &= ~mask
        self.fragment.mask &= ~mask
        self.fragment.pc += 1
        return APART

    def settle(self) -> None:
        """Fragments at one place become one; those without lanes go."""
        apart = self.cta.cluster.adversary.apart
        found = dict[Any, Fragment]()
        for one in self.fragments:
            if not one.mask:
                continue
            joins = apart is None or one.waiting is not None
            other = found.setdefault((one.pc, one.returns) if joins else one.mask, one)
            if other is not one:
                other.mask |= one.mask
                other.waiting, other.gathers = None, False
        self.fragments = sorted(
            found.values(), key=lambda one: one.pc if apart is None else apart * one.mask.bit_count()
        )

    def choose(self) -> Fragment | None:
        adversary = self.cta.cluster.adversary
        for one in self.fragments:
            if one.waiting is None or one.waiting.ready():
                return one
            if not one.gathers and not adversary.all_run:
                break
        return None

    def run(self, most: int) -> "Progress":
        """Runs at most `most` blocks, or until all fragments wait or one polls in vain."""
        moved, solid, budget, before = False, False, most, self.instructions
        while budget > 0:
            fragment = self.choose()
            if fragment is None:
                break
            fragment.waiting, fragment.gathers = None, False
            self.fragment = fragment
            self.only(fragment.mask)
            apart = len(self.fragments)
            budget, how = self._advance(fragment, budget)
            joined = len(self.fragments) < apart
            moved |= joined or how != BLOCKED
            solid |= joined or how not in (BLOCKED, YIELD)
            if how == YIELD:
                break
        return Progress(moved, solid, most - budget, self.instructions - before)

    def _advance(self, fragment: Fragment, budget: int) -> tuple[int, int]:
        """Runs one fragment until it waits, diverges or reconverges with others."""
        blocks, first = self.code.blocks, True
        while budget > 0:
            block = blocks[fragment.pc]
            self.instructions += len(block.lines)
            for step in block.steps:
                self.step = step
                step(self)
            self.step = None
            follows = block.end(self)
            if follows < 0:
                if follows == YIELD:
                    fragment.pc += 1
                if follows != BLOCKED or len(self.fragments) > 1:
                    self.settle()
                return budget - 1, follows if first or follows != BLOCKED else 0
            first = False
            fragment.pc = follows
            budget -= 1
            if len(self.fragments) > 1:
                self.settle()
                break
        return budget, 0


@dataclass(slots=True)
class Block:
    """Instructions that are executed one after the other, and what comes behind them."""

    steps: "Sequence[Callable[[Warp], None]]"
    end: "Callable[[Warp], int]"
    lines: Sequence[int] = field(default_factory=tuple)
    """Index of the instruction of each step, and of the end."""
