"""A generated kernel's PTX, executed once before the kernel is handed over.

Takes a program, its loops and the CUDA that was generated from it; compiles this with nvcc for PTX alone,
calls its launcher, and executes one small problem beside the TTGIR. Follows `twill.simulate.check`, which has
executed the warp programs: this finds what the generator, the runtime headers or nvcc add to them. Raises
TwillError where the kernel computes wrong values or does what it must not do.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic

from twill.diagnostics import TwillError
from twill.emulate.build import Build, Request, architecture, run, walks, wrong
from twill.emulate.faults import HazardError
from twill.emulate.host import compiled, linked
from twill.emulate.machine.cta import Meter
from twill.ir.checked import CheckedRun
from twill.ir.program import Program
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.launch.folders import SOURCE
from twill.simulate.check import (
    GRIDS,
    WIDER,
    Grid,
    Trial,
    by_use,
    comparable,
    on_a_grid_apart,
    own_grid,
    trials,
)
from twill.simulate.divisors import with_programs
from twill.targets import target
from twill.warp.tasks import Scheduled

BUDGET = 150_000
"""Instructions of warps that are executed at most. The examples need 4,700 (GEMM) to 43,000 (attention's
backward pass) for four iterations; one core executes 8,000 to 25,000 in a second, MMAs and all."""
TRIALS = 3
"""That are executed at most, until the kernel writes something."""
EVERY = 1.0
"""Seconds between two reports of progress."""

Report = Callable[[str], None]
"""Called with what is done next."""


def check(
    program: Program,
    loops: Sequence[Scheduled],
    cuda: str,
    report: Report,
    budget: int = BUDGET,
    kept: Path | None = None,
) -> CheckedRun:
    """What was run: one program of the grid, of a kernel that walks over the grid all of it. Nothing is
    compared where more than `budget` instructions would be executed, where the emulator or the reference
    lacks something, or where the kernel writes nothing in several trials. The PTX is the one that nvcc has
    left in the folder `kept`; it is compiled here where there is none."""
    meter = Meter(budget, _progress(report, budget))
    if kept is None:
        report("compiling the kernel to PTX")
    build, runs = _build(program, loops, cuda, kept), list[CheckedRun]()

    def rebuilt(shorter: Program) -> Build:
        return _build(shorter, loops, target(loops[0].machine.arch).source(shorter), None)

    for trial in chosen(program):
        runs.append(_run(build, trial, meter, report, program, rebuilt))
        if runs[-1].values:
            return runs[-1]
    return runs[0]


def _run(
    build: Build,
    trial: Trial,
    meter: Meter,
    report: Report,
    program: Program,
    rebuilt: Callable[[Program], Build] | None = None,
) -> CheckedRun:
    """One trial; where its values can not be compared, and the program has loops of constant trip counts, one
    of what is `rebuilt` of it with fewer iterations (`simulate.check.comparable`)."""
    shown = trial.shown
    report(f"executing the PTX, {shown}")
    try:
        found = on_a_grid_apart(
            program,
            trial,
            _first(program, trial),
            lambda grid: run(build, _request(program, trial, grid), meter),
            lambda found: wrong(build, found) is None,
        )
    except HazardError as problem:
        raise _refusal(problem) from problem
    except TwillError as problem:  # the budget, an instruction that is not known, or what the reference lacks
        return CheckedRun("emulator", shown, trial.trips, 0, 0.0, problem.message)
    different = wrong(build, found)
    if (
        different
        and rebuilt
        and (shorter := comparable(program, trial, lambda found: wrong(build, found) is not None))
    ):
        report("compiling the kernel with fewer iterations")
        return _run(rebuilt(shorter.program), shorter.trial, meter, report, shorter.program)
    if different:
        raise TwillError(
            f"the generated kernel's PTX computes a wrong {different.argument}: relative error"
            f" {different.error:.1e} with {shown}",
            help=_HELP,
        )
    worst, values = max((one.error for one in found), default=0.0), sum(one.values for one in found)
    nothing = "" if values else "the kernel writes nothing with the arguments tried"
    return CheckedRun("emulator", shown, trial.trips, values, float(f"{worst:.0e}"), nothing)


def _first(program: Program, trial: Trial) -> Grid:
    """The grid to begin with: the first of GRIDS, unless the trial is one of a program further on."""
    own = own_grid(program, trial)
    return own if max(own) > max(GRIDS[0]) else GRIDS[0]


def _refusal(problem: HazardError) -> TwillError:
    """Without the folder, which is gone."""
    where = problem.location
    folder = "" if where is None else f"{Path(where.file).parent}/"
    return TwillError(
        f"the generated kernel is wrong: {problem.message.replace(folder, '')}",
        None if where is None else replace(where, file=Path(where.file).name),
        text=problem.text,
        span=problem.span,
        help=_HELP,
    )


_HELP = (
    "this is a defect in Twill: please report it with the TTGIR; --no-check writes the kernel nevertheless"
)


def chosen(program: Program) -> list[Trial]:
    """Of the small problems, those with most iterations, so that buffers are used again; where a loop can run
    for several tiles, first the smallest with several iterations of each."""
    return by_use(trials(program))[:TRIALS]


def _request(program: Program, trial: Trial, grid: Grid) -> Request:
    """All programs of the grid of a kernel that walks over it; of another kernel one alone, or the two of
    a cluster, in a grid that is no larger than that needs, or than its loops (`check.WIDER`)."""
    if walks(program.function):
        return Request(trial.numbers, grid)
    x, y, z = (trial.grid[f"pid.{axis}"] for axis in "xyz")
    wide = trial.grid["grid.x"] if trial.grid["grid.x"] in WIDER else 0
    if not program.clustered:
        return Request(trial.numbers, _least(program, trial, (max(x + 1, wide), y + 1, z + 1)), ((x, y, z),))
    first = x // 2 * 2
    programs = ((first, y, z), (first + 1, y, z))
    return Request(trial.numbers, _least(program, trial, (max(first + 2, wide), y + 1, z + 1)), programs)


def _least(program: Program, trial: Trial, grid: Grid) -> Grid:
    """The grid, or the first with more programs in which no divisor is 0."""
    sizes = dict(zip(("grid.x", "grid.y", "grid.z"), grid, strict=True))
    found = with_programs(program.function, trial.numbers, {**trial.grid, **sizes})
    return (found["grid.x"], found["grid.y"], found["grid.z"])


def _build(program: Program, loops: Sequence[Scheduled], cuda: str, kept: Path | None) -> Build:
    described = manifest(program, loops, dict.fromkeys((one.loop.path for one in loops), 0.0))
    with tempfile.TemporaryDirectory() as made:
        if kept is not None:
            return Build(described, program.function, linked(kept, Path(made)))
        source = Path(made) / SOURCE
        source.write_text(cuda, encoding="utf-8")
        host = compiled(source, Path(made), [RUNTIME], architecture(program.module))
        return Build(described, program.function, host)


def _progress(report: Report, budget: int) -> Callable[[int], None]:
    """Reports what part of the budget is used, now and then."""
    last = monotonic()

    def progress(executed: int) -> None:
        nonlocal last
        if monotonic() - last >= EVERY:
            last = monotonic()
            report(f"executing the PTX, {executed:,} instructions of at most {budget:,}")

    return progress
