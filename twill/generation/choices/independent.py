"""Whether warpgroups store tiles by themselves, where the user leaves that open.

Takes the attempt that is best with warpgroups that stage tiles together, and a function that lowers its loops
with independent ones (`warp.independent`); gives the one that is predicted to take less time from tile to
tile, as simulated with the stores behind the loops. What was measured is text edited by hand, in the form
that is generated now (reports/h200.md, "Warpgroups that alternate in one staging buffer"): on an H200
products of fp16, 8192 x 8192 x K in tiles of 128 x 256, took 0.93 times as long with K = 1024, 0.98 with
4096, where 0.89 and 0.97 are predicted.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from twill.diagnostics import TwillError
from twill.generation.attempt import Attempt, walks
from twill.inputs import Case
from twill.ir.schedule import WARPGROUP
from twill.simulate.predict import tile_time
from twill.targets import target
from twill.warp.tiles_in_flight import TRIPS

Lowering = Callable[[Sequence[Case]], Attempt]
"""Lowers loops with independent warpgroups. Raises TwillError."""


def independent(first: Attempt, attempt: Lowering) -> Attempt:
    """The attempt, or the one with independent warpgroups, with a note that has both predictions."""
    program, machine = first.program, first.loops[0].machine
    wide = any(not group.only_moves and group.warps > WARPGROUP for group in program.groups)
    alone = program.tiles_in_flight == 1 and program.resident_blocks == 1
    if target(machine.arch).completion != "commit group" or not (wide and alone and walks(first)):
        return first
    try:
        other = attempt(first.cases)
    except TwillError:
        return first
    before, after = (tile_time(one.program, one.loops, TRIPS) for one in (first, other))
    if before <= after:
        return first
    note = (
        f"warpgroups store tiles by themselves: a tile of {TRIPS} iterations every {after:.0f} cycles"
        f" predicted, {before:.0f} together (--no-independent-warpgroups)"
    )
    return replace(other, program=replace(other.program, notes=(*other.program.notes, note)))
