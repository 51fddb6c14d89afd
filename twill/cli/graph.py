"""`twill graph`: draw the dependence graph of a loop without searching for a schedule."""

from pathlib import Path

import click

from twill.cli.options import Command, Folder, Option, input_options, inputs, prepared, what_if_options


@click.command(cls=Command, short_help="Draw the dependence graph of a loop.")
@click.argument("spec")
@input_options
@what_if_options
@click.option(
    "--out", type=Folder(), default=Path("."), show_default=True, metavar="DIR", help="Output folder."
)
def graph(spec: str, out: Path, **options: Option) -> None:
    """Draw the dependence graph of the loops of SPEC, print its lower bounds, and write it as a graph file.

    Writes graph.svg, graph.png, graph.dot, costs.txt (every cost with its source) and loop.graph.json (input
    for `twill schedule`).

    \b
    twill graph kernel.ttgir --arch sm100 --out drawings/
    """
    from twill.cli.output import folder_of, graph_files, write_all
    from twill.costs.listing import listing
    from twill.files import write_graph
    from twill.modulo.bounds import bounds
    from twill.report.summary import bound

    found = prepared(inputs(spec, options))
    for case in found:
        limits = bounds(case.problem)
        click.echo(f"{case.name}: {bound(case.problem, limits)}")
        files = {
            **graph_files(case, limits),
            "costs.txt": lambda case=case: listing(case.problem, case.formulas),
            "loop.graph.json": lambda case=case: write_graph(case.problem),
        }
        for path in write_all(folder_of(out, case, len(found) > 1), files):
            click.echo(f"wrote {path}", err=True)
