"""Hopper (sm_90a): wgmma on accumulators in registers, completed by commit groups.

`TARGET` is what lowering and generation use.
"""

from twill.ir.program import Program
from twill.targets.cuda import kernel
from twill.targets.cuda.mmas.tensor_memory import leaves
from twill.targets.cuda.registers.fragments import layout, moves, rows_by_warpgroup, scratch
from twill.targets.hopper.kept_operands import kept
from twill.targets.hopper.mma_waits import crossing, pending, straight, with_waits
from twill.targets.hopper.scheduling_fences import fenced
from twill.targets.hopper.wgmma import WgmmaPrinter, instructions, unsupported
from twill.warp.target import Legalization, Target, Tiles


def source(program: Program) -> str:
    """The CUDA file of a program."""
    return kernel.source(program, kernel.TensorCore(instructions, WgmmaPrinter))


TARGET = Target(
    arch="sm90",
    name="Hopper",
    completion="commit group",
    accumulators="registers",
    tiles=Tiles(moves, scratch, leaves, lambda tile: layout(tile).across, rows_by_warpgroup),
    legalization=Legalization(with_waits, straight, crossing, pending, fenced, kept),
    source=source,
    unsupported=unsupported,
)
