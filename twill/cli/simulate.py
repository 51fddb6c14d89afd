"""`twill simulate`: run warp programs on the CPU."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from twill.cli import worker
from twill.cli.options import (
    Command,
    CommandOptions,
    Folder,
    Option,
    Pair,
    generate_options,
    input_options,
    inputs,
    program_options,
    what_if_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twill.cli.output import Contents
    from twill.generation.generated import Generated
    from twill.ir.program import Program
    from twill.simulate.predict import Predicted
    from twill.warp.tasks import Scheduled


def _triple(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int, int]:
    parts = value.split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r} is not of the form X,Y,Z", ctx, param)
    x, y, z = [*map(int, parts), *([0 if param.name == "pid" else 1] * (3 - len(parts)))]
    return x, y, z


@click.command(cls=Command, short_help="Run warp programs on the CPU: values, hazards, cycles.")
@click.argument("spec")
@input_options
@what_if_options
@program_options
@click.option(
    "--arg",
    "numbers",
    multiple=True,
    type=Pair("NAME=VALUE", float),
    help="Value of a scalar argument; repeatable.",
)
@click.option(
    "--grid",
    callback=_triple,
    default="3,2",
    metavar="X,Y,Z",
    show_default=True,
    help="Size of the launch grid.",
)
@click.option(
    "--pid",
    callback=_triple,
    default="0,0",
    metavar="X,Y,Z",
    show_default=True,
    help="Program of the grid to simulate.",
)
@click.option(
    "--trips",
    type=click.IntRange(min=12),
    default=32,
    show_default=True,
    metavar="N",
    help="Loop iterations in the timed run.",
)
@click.option(
    "--ranges",
    is_flag=True,
    help="Also predict with the estimates of the machine file at either end of their ranges.",
)
@click.option(
    "--out", type=Folder(), metavar="DIR", help="Output folder for warps.txt, trace.json and drawings."
)
def simulate(spec: str, out: Path | None, **options: Option) -> None:
    """Schedule the loops of SPEC, lower them to one program per warp group, and run the programs without a
    GPU.

    Compares values with a direct execution of the TTGIR on random tensors; checks every interleaving of the
    groups for small trip counts, adversarial and random ones for larger trip counts; and predicts cycles per
    iteration. With --out, writes warps.txt (the program of each group), trace.json (the timeline for Perfetto
    or chrome://tracing), and simulated.svg, .png and report.html (the simulated run below the schedule).

    \b
    twill simulate kernel.ttgir --arch sm90
    """
    from twill.cli.output import say_replaced, write_all
    from twill.generation.generate import generate
    from twill.simulate.report import trace
    from twill.warp.listing import text

    generated = worker.watched(
        lambda on_progress: generate(
            inputs(spec, options), replace(generate_options(options), check=False), on_progress
        )
    )
    say_replaced(generated)
    made = generated.program
    _values(made, options)
    _interleavings(made)
    predicted = _times(made, generated.loops, options["trips"])
    if options["ranges"]:
        _ranges(made, generated.loops)
    if out:
        files = {"warps.txt": lambda: text(made), "trace.json": lambda: trace(predicted.run, predicted.units)}
        for path in write_all(out, {**files, **_drawings(generated, predicted)}):
            click.echo(f"wrote {path}", err=True)


_LAUNCH = ("numbers", "grid", "pid")
"""Options that choose what is executed."""


def _values(made: "Program", options: CommandOptions) -> None:
    from twill.diagnostics import TwillError
    from twill.simulate.check import Trial
    from twill.simulate.compare import scalars, wrong
    from twill.simulate.launches import compared_first

    grid = {
        f"{what}.{axis}": value
        for what in ("grid", "pid")
        for axis, value in zip("xyz", options[what], strict=True)
    }
    asked = click.get_current_context().get_parameter_source
    free = all(asked(name) is ParameterSource.DEFAULT for name in _LAUNCH)
    first = Trial(scalars(made.function, dict(options["numbers"])), grid, (), ())
    run = compared_first(made, first, others=free)
    differs = wrong(made.function, run.compared)
    if differs is not None:
        raise TwillError(
            f"the warp programs compute a wrong {differs.argument}: relative error {differs.error:.1e}",
            help="please report this",
        )
    if not run.values:
        raise TwillError(
            f"no value was compared: with {first.shown} this program of the grid writes nothing finite",
            help="choose arguments for which it does (--arg NAME=VALUE, --grid, --pid)",
        )
    if run.because:
        click.echo(
            f"arguments      {run.trial.shown}; {_placed(run.trial.grid)} (with the default arguments"
            f" {run.because})"
        )
    shown = ", ".join(f"{one.argument} {one.error:.1e}" for one in run.compared if one.changed)
    click.echo(f"values         relative errors {shown}")
    for what in run.undefined:
        click.echo(f"note: {what}, where Triton defines no result; both executions take the same", err=True)


def _placed(grid: "Mapping[str, int]") -> str:
    pid, size = (", ".join(str(grid[f"{what}.{axis}"]) for axis in "xyz") for what in ("pid", "grid"))
    return f"program ({pid}) of a grid of ({size})"


def _interleavings(made: "Program") -> None:
    from twill.simulate.check import FEW
    from twill.simulate.explore import adversaries, explore_counts, same

    explored = explore_counts(made, range(7), FEW if made.pairs else None)
    runs = sum(adversaries(made, same(trips)) for trips in (16, 33))
    states = sum(one.states for one in explored)
    click.echo(
        f"interleavings  {_explored([one.complete for one in explored])} ({states} states), {runs}"
        " adversarial and random runs: no hazard"
    )


def _explored(complete: "Sequence[bool]") -> str:
    """Of which trip counts, from 0, every interleaving was explored."""
    if all(complete):
        return f"every interleaving of 0 to {len(complete) - 1} iterations"
    whole, last = complete.index(False), len(complete) - 1
    every = f"every interleaving of 0 to {whole - 1} iterations, " if whole > 1 else ""
    return f"{every}some of {f'{whole} to {last}' if whole < last else last} iterations"


def _times(made: "Program", loops: "Sequence[Scheduled]", trips: int) -> "Predicted":
    from twill.simulate.predict import predict
    from twill.simulate.report import lines

    predicted = predict(made, loops, trips)
    for one in loops:
        interval = round(one.solution.interval * one.problem.resolution.cycles_per_unit)
        click.echo("\n".join(lines(one.loop.path, predicted.loops[one.loop.path], interval)))
    return predicted


def _ranges(made: "Program", loops: "Sequence[Scheduled]") -> None:
    from twill.simulate.predict import allowed

    if not loops[0].machine.between:
        click.echo(f"estimates: none with a range in {loops[0].machine.file}")
        return
    for path, (least, most) in allowed(made, loops).items():
        click.echo(f"{path}: {least:.0f} to {most:.0f} cycles per iteration, as far as estimates allow")


def _drawings(made: "Generated", predicted: "Predicted") -> "Contents":
    """For each loop, the schedule above the simulated run, and a report with both."""
    from twill.cli.output import context, prefixes_of
    from twill.report.page import Run, page
    from twill.report.scene import png, stacked, svg
    from twill.report.simulated import draw
    from twill.report.timeline import draw as scheduled

    files = dict[str, Callable[[], str | bytes]]()
    prefixes = prefixes_of([one.loop.path for one in made.loops])
    for case, one, prefix in zip(made.cases, made.loops, prefixes, strict=True):
        steady = predicted.loops[one.loop.path]
        run = Run(tuple(event for event in predicted.events if event.loop == one.loop.op.index), steady)
        both = stacked(
            scheduled(one.problem, one.solution), draw(one.problem, one.solution, run.events, steady)
        )
        files |= {f"{prefix}simulated.svg": partial(svg, both), f"{prefix}simulated.png": partial(png, both)}
        files[f"{prefix}report.html"] = partial(
            page, made.results[one.loop.path], context(case, run, made.cuda)
        )
    return files
