"""From user inputs to a kernel: schedule the loops, lower them to warp programs, time these on the CPU, and
generate CUDA C++.

`generate` takes `Inputs`; `files` returns the contents of the output files. Loops with a given schedule are
not solved again. Raises TwillError, with the source line, for bad input, for a loop without a schedule, and
for operations that cannot be lowered or generated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic

from twill.diagnostics import DefectError, TwillError
from twill.generation.candidates import candidates
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback, noted, warned
from twill.generation.known.given import first_made
from twill.generation.searches import Solve, solved
from twill.inputs import Inputs
from twill.ir.checked import Checked
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.ir.search import Progress

Check = Callable[[Generated], Checked | None]
"""What was run to check a kernel; None where it was not checked. Raises TwillError where it is wrong."""


def generate(
    inputs: Inputs,
    options: GenerateOptions | None = None,
    on_progress: ProgressCallback = lambda name, event: None,
    searched: Sequence[Result] = (),
    check: Check | None = None,
    solve: Solve = solved,
    slowest: float = inf,
) -> Generated:
    """The kernel in the form that is predicted to be fastest (`candidates`) of those that are right.

    Problems that are alike those of `searched` are not solved again, others by `solve`. `check` replaces the
    checks that `options` name. `slowest`: see `candidates`. Where no form is right, which is a
    defect of Twill, the loops are scheduled once more, without overlap of iterations; a warning says so.
    Where there is none with the given schedules, others are searched for, and a note says so
    (`GenerateOptions.keep_schedules`). Raises TwillError where the kernel has no form, or where that is
    wrong, too.
    """
    options = options or GenerateOptions()
    return first_made(
        options,
        inputs,
        lambda way: _generated(inputs, way, on_progress, searched, check, solve, slowest),
    )


def _generated(
    inputs: Inputs,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    searched: Sequence[Result],
    check: Check | None,
    solve: Solve,
    slowest: float,
) -> Generated:
    """The kernel, with schedules that are kept if any are given."""
    try:
        forms = candidates(inputs, options, on_progress, searched, solve, slowest)
    except DefectError as wrong:
        return _without_overlap(inputs, options, on_progress, wrong, check, solve)
    try:
        return right(forms, options, on_progress, check)
    except TwillError as wrong:
        return _without_overlap(inputs, options, on_progress, wrong, check, solve)


def _without_overlap(
    inputs: Inputs,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    wrong: TwillError,
    check: Check | None,
    solve: Solve,
) -> Generated:
    """The kernel as it is written, scheduled for one iteration at a time. Raises `wrong` where that does not
    help, or the schedule is the user's."""
    if options.schedules or options.max_in_flight == 1:
        raise wrong
    plain = replace(inputs, persistent=bool(inputs.persistent), subtile=inputs.subtile or 1)
    try:
        made = generate(plain, replace(options, max_in_flight=1), on_progress, check=check, solve=solve)
    except TwillError:
        raise wrong from None
    return warned(made, f"one iteration is in flight at a time: {wrong.message}; please report this")


def right(
    forms: Sequence[Generated],
    options: GenerateOptions,
    on_progress: ProgressCallback,
    check: Check | None = None,
) -> Generated:
    """The first form that the checks find nothing wrong with; its notes say what is wrong with those before
    it. Raises TwillError where there is none."""
    first, *others = forms
    first = replace(first, others=tuple(others))
    if not options.check:
        return first
    try:
        return replace(first, checked=check(first) if check else _checked(first, options, on_progress))
    except TwillError as wrong:
        if not others:
            raise
        return noted(right(others, options, on_progress, check), f"not {first.form}: {wrong.message}")


def _checked(made: Generated, options: GenerateOptions, on_progress: ProgressCallback) -> Checked:
    """What was run to check the kernel. Raises TwillError where it is wrong."""
    from twill.simulate.check import check

    found = check(made.program, notes(made.program, "simulator", on_progress))
    return executed(found, made, on_progress) if options.execute else found


def executed(
    checked: Checked, made: Generated, on_progress: ProgressCallback, kept: Path | None = None
) -> Checked:
    """With a run of the PTX, which nvcc has left in the folder `kept`. Raises TwillError where that is
    wrong."""
    from twill.emulate.check import check

    report = notes(made.program, "emulator", on_progress)
    run = check(made.program, made.loops, made.cuda, report, kept=kept)
    return replace(checked, runs=(*checked.runs, run))


def notes(made: Program, by: str, on_progress: ProgressCallback) -> Callable[[str], None]:
    """What a check reports, as progress of the kernel."""
    began = monotonic()
    return lambda what: on_progress(made.function.name, Progress(monotonic() - began, by, 0, "note", what))


def files(made: Generated) -> dict[str, Callable[[], str]]:
    """The output files of a kernel, by name: CUDA source, launch manifest, warp programs, simulated timeline,
    TTGIR, schedules."""
    from twill.files import write_schedule
    from twill.simulate.predict import predict
    from twill.simulate.report import trace
    from twill.warp.listing import text

    predicted = predict(made.program, made.loops)
    cycles = {path: round(found.interval, 1) for path, found in predicted.loops.items()}
    return {
        **buildable(made, cycles),
        "kernel.ttgir": lambda: made.program.module.text,
        "warps.txt": lambda: "\n".join(map(text, (made.program, *made.program.others))),
        "trace.json": lambda: trace(predicted.run, predicted.units),
        **{
            f"{path.replace('/', '.')}.schedule.json": partial(write_schedule, result)
            for path, result in made.results.items()
        },
    }


def buildable(made: Generated, cycles: Mapping[str, float] | None = None) -> dict[str, Callable[[], str]]:
    """Of the output files, those that nvcc is run on: CUDA source and launch manifest, with the simulated
    cycles of an iteration of each loop, by path."""
    from twill.launch.describe import manifest
    from twill.launch.folders import MANIFEST, SOURCE
    from twill.launch.manifest import write

    simulated = cycles or dict.fromkeys((one.loop.path for one in made.loops), 0.0)
    described = write(manifest(made.program, made.loops, simulated, made.checked))
    return {SOURCE: lambda: made.cuda, MANIFEST: lambda: described}
