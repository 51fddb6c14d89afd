"""`twill explain`: what bounds a loop, and what would move the bound."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from twill.explain import Explanation
    from twill.inputs import Case, Inputs


@click.command(cls=Command, short_help="Show what bounds a loop, and what would move the bound.")
@click.argument("spec")
@input_options
@what_if_options
@click.option(
    "--time-limit",
    type=Seconds(),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help=f"Time limit per query, {COUNTED}.",
)
@click.option(
    "--total",
    type=Seconds(),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="All queries together; none starts after this.",
)
@click.option(
    "--pairs",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    metavar="N",
    help="Pairs of changes to solve, at most.",
)
@click.option(
    "--out", type=Folder(), metavar="DIR", help="Write report.html with the explanation into this folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per loop (twill.explain/1).")
def explain(spec: str, out: Path | None, as_json: bool, **options: Option) -> None:
    """Show what bounds the loops of SPEC: the lower bound of each unit and each circuit of dependences. Then
    lift each unit, circuit and limit one at a time, and the most promising pairs, and schedule the loop again
    to show what each of them costs.

    \b
    twill explain kernel.ttgir --arch sm100
    """
    from twill.inputs import cost_notes
    from twill.report.explanation import document, text

    requested = inputs(spec, options)
    found = prepared(requested)
    for number, case in enumerate(found):
        explanation = _explained(case, requested, options)
        if out:
            _write(case, explanation, out, len(found) > 1)
        if as_json:
            click.echo(json.dumps(document(explanation), separators=(",", ":")))
        else:
            click.echo(("\n" if number else "") + text(explanation))
            for note in cost_notes(case, explanation.result):
                click.echo(f"\ncosts: {note}")


def _explained(case: "Case", requested: "Inputs", options: CommandOptions) -> "Explanation":
    def work(on_progress: Callable[..., None]) -> "Explanation":
        from twill.engine.clock import Limit
        from twill.explain import explained
        from twill.generation.choices.subtiles import change
        from twill.ir.problem import Problem
        from twill.ir.schedule import Result
        from twill.ir.search import Options, Progress
        from twill.pipeline import solve

        def solved(problem: Problem, search: Options) -> Result:
            return solve(problem, case.searched(search), lambda event: on_progress(case.name, event))

        def begin(number: int, total: int, changes: tuple[str, ...]) -> None:
            what = f"change {number} of {total}: without {' and '.join(changes)}"
            on_progress(case.name, Progress(limit.began.ago, "explain", 0, "note", what))

        def query(problem: Problem) -> Result:
            left = max(1.0, limit.left)
            return solved(problem, Options(time_limit=min(options["time_limit"], left), explain=False))

        base = solved(case.problem, Options(time_limit=max(60.0, options["time_limit"])))
        limit = Limit(options["total"])
        further = change(requested, case)
        return explained(base, query, options["pairs"], options["total"], begin, further)

    return worker.watched(work)


def _write(case: "Case", explanation: "Explanation", out: Path, several: bool) -> None:
    from dataclasses import replace

    from twill.cli.output import context, folder_of
    from twill.emit.files import write
    from twill.report.explanation import tables
    from twill.report.page import page

    path = folder_of(out, case, several) / "report.html"
    write(path, page(explanation.result, replace(context(case), extra=tables(explanation))))
    click.echo(f"wrote {path}", err=True)
