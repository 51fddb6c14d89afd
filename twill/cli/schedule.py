"""`twill schedule`: from a kernel or a graph to a verified schedule, its files and its drawings."""

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from twill.cli import worker
from twill.cli.options import (
    COUNTED,
    Command,
    CommandOptions,
    Folder,
    Option,
    Seconds,
    input_options,
    inputs,
    prepared,
    what_if_options,
)
from twill.cli.output import drawings, folder_of, text_files, write_all
from twill.emit.ttgir import Dialect
from twill.files import write_schedule
from twill.files.schedule import timeless
from twill.inputs import Case, Inputs, cost_notes
from twill.ir.problem import Problem
from twill.ir.schedule import Result, Status
from twill.ir.search import Engine, Options

if TYPE_CHECKING:
    from twill.generation.choices.subtiles import Told
    from twill.pipeline import Begun

PACKAGES: dict[Engine, str] = {
    "cpsat": "ortools",
    "sat": "pysat",
    "yices": "yices_api",
    "cbc": "pulp",
    "scip": "pyscipopt",
}
"""The package that each engine imports."""

DRAWN = 1000
"""Operations beyond which drawings show nothing that can be read, and take minutes."""

NOTHING = Problem("", "", (), (), ())

EXIT: dict[Status, int] = {"optimal": 0, "infeasible": 3, "feasible": 4, "unknown": 4}


@click.command(cls=Command, short_help="Find the provably best schedule of a loop.")
@click.argument("spec")
@input_options
@what_if_options
@click.option(
    "--engine",
    type=click.Choice(get_args(Engine)),
    default="auto",
    show_default=True,
    help="Solver; auto is a portfolio.",
)
@click.option(
    "--time-limit",
    type=Seconds(),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help=f"For each loop, {COUNTED}.",
)
@click.option(
    "--max-in-flight",
    type=click.IntRange(1, 64),
    metavar="N",
    help="At most N iterations in flight.  [default: 4, more where more help]",
)
@click.option("--copies", type=click.IntRange(1, 64), hidden=True)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    metavar="N",
    help="Run up to N solvers at once.",
)
@click.option("--modulo-only", is_flag=True, help="Plain modulo scheduling: dependences and units alone.")
@click.option(
    "--explain/--no-explain",
    default=True,
    show_default=True,
    help="Find which limits keep the interval above the lower bound.",
)
@click.option("--out", type=Folder(), metavar="DIR", help="Write all results into this folder.")
@click.option(
    "--drawings/--no-drawings",
    "draw",
    default=True,
    show_default=True,
    help="With --out, draw and write report.html too.",
)
@click.option(
    "--triton",
    "dialects",
    multiple=True,
    type=click.Choice(get_args(Dialect)),
    help="Also write the attributes of Triton's passes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print only the schedule, one line of JSON per loop.")
@click.option(
    "--reproducible",
    is_flag=True,
    help="Write every measured time as 0, so that the same input gives the same bytes.",
)
@click.pass_context
def schedule(ctx: click.Context, spec: str, **options: Option) -> None:
    """Find the optimal joint software pipeline and warp specialization of the loops of SPEC.

    SPEC is FILE.ttgir (or a dump); FILE.py:FUNCTION (a @triton.jit kernel; needs Triton, no GPU); FILE.ttir
    (needs Triton too; Triton's cache keeps the target and the options in the .json beside it); FILE.json:NAME
    (a kernel that twill capture recorded); or FILE.graph.json (a dependence graph).

    \b
    twill schedule kernel.ttgir --arch sm100
    twill schedule kernels.py:fa_fwd --arch sm90 --set BLOCK_N=128 --out out/
    twill schedule loop.graph.json --machine h200 --json
    twill schedule kernel.ttgir --arch sm100 --groups 3 --tmem 384    # what if

    Exit status: 0 optimal, 2 bad input, 3 proven infeasible, 4 stopped at a limit with the best answer and
    its bound.
    """
    search = Options(
        engine=options["engine"],
        time_limit=options["time_limit"],
        max_in_flight=options["copies"] or options["max_in_flight"],
        jobs=options["jobs"],
        modulo_only=options["modulo_only"],
        explain=options["explain"],
    )
    if search.engine in PACKAGES and find_spec(PACKAGES[search.engine]) is None:
        raise click.BadParameter(
            f"the package {PACKAGES[search.engine]} is not installed", param_hint="--engine"
        )
    began = time.monotonic()
    requested = inputs(spec, options)
    found = prepared(requested)
    read = time.monotonic() - began
    form, made, notes = worker.watched(partial(_searched, requested, found, search, read))
    found = found if form == requested else prepared(form)
    found = tuple(map(_as_solved, found, made))
    results = [_with_problem(result, case) for result, case in zip(made, found, strict=True)]
    for case, result in zip(found, results, strict=True):
        _show(case, result, search, len(found) > 1, options)
    for note in () if options["as_json"] else notes:
        click.echo(f"note: {note}")
    statuses = [EXIT[result.status] for result in results]
    ctx.exit(max(statuses, key=lambda status: (status == 3, status)))


def _searched(
    requested: Inputs, found: Sequence[Case], search: Options, read: float, on_event: "Told"
) -> tuple[Inputs, tuple[Result, ...], tuple[str, ...]]:
    """The form of the kernel that takes fewer cycles, with the result of each loop, and notes; the problems
    themselves, which may be large, do not come back through the pipe, but those of loops that are solved on
    the groups of others. `read`: seconds spent before the search."""
    from twill.generation.scheduled import scheduled
    from twill.pipeline import solve

    def solved(case: Case, options: Options, known: "Begun | None") -> Result:
        began = time.monotonic()
        result = solve(case.problem, options, partial(on_event, case.name), known)
        seconds = (("read", round(read, 3)), *result.seconds, ("solve", round(time.monotonic() - began, 3)))
        return replace(result, seconds=seconds)

    form, alone, together, notes = scheduled(requested, found, search, solved, on_event)
    results = (_without_problem(one) if one in alone else one for one in together)
    return form, tuple(results), notes


def _without_problem(result: Result) -> Result:
    return replace(result, problem=replace(NOTHING, implementation=result.problem.implementation))


def _as_solved(case: Case, result: Result) -> Case:
    """The loop with the problem that its result came with, if any: one on the groups of other loops."""
    return replace(case, problem=result.problem) if result.problem.operations else case


def _with_problem(result: Result, case: Case) -> Result:
    return replace(result, problem=case.problem.implemented(result.problem.implementation))


def _show(case: Case, result: Result, search: Options, several: bool, options: CommandOptions) -> None:
    """Write and print a result. It is printed also where it cannot be written, which a search of minutes
    must not be lost to."""
    if options["reproducible"]:
        result = timeless(result)
    try:
        if options["out"]:
            _write(case, result, search, folder_of(options["out"], case, several), options)
    finally:
        if options["as_json"]:
            click.echo(_one_line(write_schedule(result, search)))
        else:
            _print(result, cost_notes(case, result))


def _one_line(document: str) -> str:
    return json.dumps(json.loads(document), separators=(",", ":"), ensure_ascii=False)


def _write(case: Case, result: Result, search: Options, folder: Path, options: CommandOptions) -> None:
    dialects: Sequence[Dialect] = options["dialects"]
    files = dict(text_files(case, result, search, dialects))
    count = len(case.problem.operations)
    if options["draw"] and count > DRAWN:
        click.echo(f"{case.name}: no drawings of {count} operations, {DRAWN} at most", err=True)
    elif options["draw"]:
        files |= drawings(case, result)
    for path in write_all(folder, files):
        if not options["as_json"]:
            click.echo(f"wrote {path}", err=True)


def _print(result: Result, notes: tuple[str, ...]) -> None:
    """Print the summary, and what to know of the costs; on a terminal, labels are bold and long lines are
    wrapped."""
    from twill.report import summary

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6
    click.secho(summary.title(result), bold=True)
    for label, text in (*summary.pairs(result), *(("costs", note) for note in notes)):
        first, *rest = textwrap.wrap(text, max(40, width - 20), break_long_words=False) or [""]
        click.echo(f"  {click.style(f'{label:<16}', bold=True)} {first}")
        for line in rest:
            click.echo(f"{'':<19}{line}")
