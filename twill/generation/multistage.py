"""Whether the group that computes loads too, where the user leaves that open.

Takes the attempt that is best with a group that loads, and a function that lowers its loops without one
(`warp.multistage`); gives the one that an SM is predicted to be done with sooner. Loads that other warps
issue cost a thread block warps, registers and waits; loads that the group itself issues, some of its time.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from twill.diagnostics import TwillError
from twill.generation.attempts import Attempt, short, walks
from twill.inputs import Case
from twill.simulate.predict import block_time, busy
from twill.targets import target

CLEARLY = 1.04
"""How many times as long a kernel with a group that loads has to take. (On an H200, predicted and measured:
vLLM's maxsim 1.38 and 1.28, Mamba's _chunk_scan_bwd_dcb_kernel in tiles of 64 x 32 1.25 and 1.45, fla's
chunk_gla_fwd_A_kernel_intra_sub_inter 1.05 and 1.30; Mamba's _bmm_chunk_bwd_kernel 1.00 and 1.11, vLLM's AWQ
product with 16 rows 1.00 and 1.06, Mamba's _chunk_state_bwd_dx_kernel 1.00 and 0.97.)"""


def multistage(first: Attempt, attempt: Callable[[Sequence[Case]], Attempt]) -> Attempt:
    """The attempt, or the one whose group that computes loads too, with a note that has both predictions."""
    machine = first.loops[0].machine
    if machine.residency is None or target(machine.arch).completion != "commit group" or walks(first):
        return first
    try:
        other = attempt(first.cases)
    except TwillError:
        return first
    trips = short(first)
    before, after = _time(first, trips), _time(other, trips)
    if before < CLEARLY * after:
        return first
    what = f"a thread block of {trips} iterations" if trips else "an iteration"
    cycles = f"every {after:.0f} cycles predicted, {before:.0f} otherwise"
    note = f"the group that computes loads too: {what} {cycles}"
    return replace(other, program=replace(other.program, notes=(*other.program.notes, note)))


def _time(one: Attempt, trips: int) -> float:
    """Predicted machine cycles of an SM for a thread block whose loops have so many iterations, until a unit
    is always busy; for an iteration of each loop where that is not known, or not few."""
    if not trips:
        return one.of_sm()
    least = trips * sum(map(busy, one.loops))
    return max(least, block_time(one.program, one.loops, trips) / one.program.resident_blocks)
