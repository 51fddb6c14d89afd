"""What lowering needs to know of a target machine; `twill.targets` has one `Target` for each architecture.

Everything else in `twill.warp` holds for any GPU with warp groups, TMA, mbarriers and asynchronous MMAs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from twill.ir.loop import Op, Tensor, Type
from twill.ir.program import Program
from twill.ir.statements import Statement, Statements
from twill.warp.dataflow import Code
from twill.warp.steps import Parts, Step


@dataclass(frozen=True, slots=True)
class Tiles:
    """How the threads of a group hold a tile in registers."""

    moves: Callable[[Type, Type], bool]
    """Whether elements change threads between two types."""
    scratch: Callable[[Op], int]
    """Bytes of shared memory that a group needs while it executes an operation."""
    leaves: Callable[[Tensor], bool]
    """Whether a tile is stored from the layout that it has, whatever layout the store asks for."""
    across: Callable[[Tensor], int]
    """How many warps share the rows of a tile, each with its columns."""
    by_warpgroup: Callable[[Tensor], bool] = lambda tile: False
    """Whether each warpgroup of the group that holds a tile has 64 consecutive rows of it, all columns."""


@dataclass(frozen=True, slots=True)
class Legalization:
    """How a pipelined loop is made legal."""

    waits: Callable[[Code, Parts], tuple[Statements, Statements, Statements]]
    """Prologue, steady state and epilogue with waits for MMAs. Raises TwillError where a value is overwritten
    too early."""
    straight: Callable[[Code, tuple[Step, ...]], Statements]
    """One iteration on its own, with its waits; nothing is in flight after it."""
    crossing: Callable[[Code, Parts], bool]
    """Whether the loop would have MMAs in flight across its back edge that must not be: the interval then
    begins elsewhere."""
    pending: Callable[[Code, Parts], Mapping[int, int]]
    """By position in the steady state: how many MMAs may stay in flight there, where it waits."""
    fences: Callable[[Sequence[Statement], Mapping[str, Type]], Statements]
    """A part of the loop with scheduling fences; the types are those of the group's variables."""
    kept: Callable[[Sequence[Statement]], Statements]
    """A loop's statements, in which the compiler takes no operand of an MMA for constant."""
    fenced: Literal["steady state", "all"] = "steady state"
    """The parts that get fences."""


@dataclass(frozen=True, slots=True)
class Target:
    """One GPU architecture."""

    arch: str
    """As in machine files: `sm90`."""
    name: str
    completion: Literal["commit group", "mbarrier"]
    """How an MMA completes: `ir.statements.MmaCompletion`."""
    accumulators: Literal["registers", "tensor memory"]
    """Where an accumulator lives: `ir.operands.Accumulator`."""
    tiles: Tiles
    legalization: Legalization
    source: Callable[[Program], str]
    """A program as CUDA C++. Raises TwillError, with the operation and its line, for what can not be
    generated."""
    unsupported: Callable[[Op], str | None] = lambda op: None
    """Why an operation can not be generated, whatever the schedule; None where it may be."""
