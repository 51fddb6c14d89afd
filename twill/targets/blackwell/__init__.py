"""Blackwell (sm_100a): tcgen05.mma on accumulators in tensor memory, completed by mbarriers.

`TARGET` is what lowering and generation use. Tiles in registers lie exactly as TTGIR lays them out: a row of
128 in one thread, as tensor memory is read.
"""

from collections.abc import Mapping

from twill.ir.loop import Tensor
from twill.ir.program import Program
from twill.targets.blackwell.scheduling_fences import fenced
from twill.targets.blackwell.tcgen05 import TcgenPrinter, unsupported
from twill.targets.cuda import kernel
from twill.targets.cuda.mmas.tensor_memory import leaves, row_groups
from twill.targets.cuda.registers.fragments import holding, moves, scratch
from twill.warp.dataflow import Code
from twill.warp.steps import Parts, Step
from twill.warp.target import Legalization, Statements, Target, Tiles


def source(program: Program) -> str:
    """The CUDA file of a program."""
    return kernel.source(program, kernel.TensorCore(lambda program: [], TcgenPrinter, float_pairs=True))


def _statements(code: Code, parts: Parts) -> tuple[Statements, Statements, Statements]:
    """Barriers stand where they are needed already."""
    prologue, steady, epilogue = (
        tuple(step.statement for step in steps) for steps in (parts.prologue, parts.steady, parts.epilogue)
    )
    return prologue, steady, epilogue


def _straight(code: Code, steps: tuple[Step, ...]) -> Statements:
    return tuple(step.statement for step in steps)


def _nothing_crosses(code: Code, parts: Parts) -> bool:
    """MMAs may be in flight wherever an interval begins."""
    return False


def _no_waits(code: Code, parts: Parts) -> Mapping[int, int]:
    return {}


def _across(tile: Tensor) -> int:
    """How many warpgroups share the rows of a tile; as if there were one for a tile in another layout."""
    return row_groups(holding(tile)) or 1


TARGET = Target(
    arch="sm100",
    name="Blackwell",
    completion="mbarrier",
    accumulators="tensor memory",
    tiles=Tiles(moves, scratch, leaves, _across),
    legalization=Legalization(_statements, _straight, _nothing_crosses, _no_waits, fenced, tuple, "all"),
    source=source,
    unsupported=unsupported,
)
