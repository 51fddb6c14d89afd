"""When and where the statements of warp programs find values: iterations of a loop, registers, slots of
channels, tensor memory.

The docstrings define each; `ir.program` says how they are executed.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias


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

    def later(self, iterations: int) -> "Iteration":
        """The one so many iterations on, in a pipelined loop."""
        on = self.offset + iterations if self.base == "first" else self.offset - iterations
        return Iteration(self.base, on)


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
