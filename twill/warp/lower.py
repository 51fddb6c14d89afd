"""From loops with their joint schedules to a program for every group of warps.

Takes a module and its scheduled loops (of one function); gives a `Program` (`ir.program` says what it means).
Everything follows from the schedules: the order of statements from the start times, channels from the groups,
waits from the dependences. `designs` decides what all groups share; then the `PASSES`, in order, make the
program, each a function from `Draft` to `Draft`. Raises TwillError, with the operation and its line, for what
can not be lowered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twill.ir.loop import Module
from twill.ir.program import Program
from twill.warp import early_reads, multistage, pipelined_loops, words_apart
from twill.warp.assemble import alternated, assembled, independent_warpgroups, with_registers
from twill.warp.designs import chosen
from twill.warp.pipelined_loops import LoopDraft
from twill.warp.plan import Draft, Options, loop_drafts
from twill.warp.target import Target
from twill.warp.tasks import Scheduled


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of lowering."""

    name: str
    run: Callable[[Draft], Draft]


def lower(
    module: Module,
    loops: Sequence[Scheduled],
    target: Target,
    options: Options | None = None,
    observe: Callable[[str, Draft], None] = lambda name, draft: None,
) -> Program:
    """The program of the function that the loops are in; `observe` is called after each pass with its
    name."""
    plan = chosen(module, loops, target, options or Options())
    draft = Draft(
        plan, tuple(loop_drafts(plan, part, own) for part, own in zip(plan.loops, plan.deferred, strict=True))
    )
    for one in PASSES:
        draft = one.run(draft)
        observe(one.name, draft)
    assert draft.program is not None
    return draft.program


def _each_loop(run: Callable[[tuple[LoopDraft, ...]], tuple[LoopDraft, ...]]) -> Callable[[Draft], Draft]:
    """A pass over all groups of a loop together."""
    return lambda draft: replace(draft, loops=tuple(map(run, draft.loops)))


def _each_group(run: Callable[[LoopDraft], LoopDraft]) -> Callable[[Draft], Draft]:
    """A pass over each group of a loop by itself."""
    return _each_loop(lambda groups: tuple(map(run, groups)))


PASSES = (
    Pass("shift", _each_loop(pipelined_loops.shifted)),
    Pass("early-reads", early_reads.read_early),
    Pass("order", _each_group(pipelined_loops.in_schedule_order)),
    Pass("slice", _each_group(pipelined_loops.sliced)),
    Pass("release", _each_group(pipelined_loops.released)),
    Pass("stages", _each_loop(pipelined_loops.staged)),
    Pass("mma-waits", _each_group(pipelined_loops.awaited)),
    Pass("scheduling-fences", _each_group(pipelined_loops.fenced)),
    Pass("multistage", _each_group(multistage.with_loads)),
    Pass("assemble", assembled),
    Pass("tiles-in-flight", alternated),
    Pass("independent-warpgroups", independent_warpgroups),
    Pass("words-apart", words_apart.through_registers),
    Pass("registers", with_registers),
)
"""Lowering, in order. The target takes part in `shift`, `early-reads`, `release`, `mma-waits` and
`scheduling-fences`."""
