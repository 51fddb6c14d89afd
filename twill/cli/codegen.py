"""`twill codegen`: a CUDA file from a kernel."""

import shutil
from pathlib import Path
from typing import Any

import click

from twill.cli.options import Pair, input_options, inputs, persistent_option, question_options


@click.command(short_help="Generate CUDA C++ for Hopper.")
@click.argument("spec")
@input_options
@persistent_option
@question_options
@click.option("--depth", "depths", multiple=True, type=Pair("CHANNEL=SLOTS", int), help="Slots of a channel; repeatable.")
@click.option("--time-limit", type=float, default=60.0, show_default=True, help="Seconds for scheduling each loop.")
@click.option("--build/--no-build", default=None, help="Run nvcc; by default where it is installed.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("build"), metavar="DIR", show_default=True)
def codegen(spec: str, out: Path, build: bool | None, **options: Any) -> None:
    """Schedule the loops of SPEC and write kernel.cu for sm_90a, with a launcher in C, and warps.txt, the program of each warp group.

    \b
    twill codegen kernel.ttgir --arch sm90 --out build/
    """
    from twill.cli.output import write_all
    from twill.codegen.build import build as built
    from twill.codegen.emit.kernel import source
    from twill.codegen.listing import text
    from twill.codegen.lower import Options
    from twill.codegen.plan import program
    from twill.inputs import cases
    from twill.ir.search import Options as Search
    from twill.pipeline import solve

    search = Search(time_limit=options["time_limit"], explain=False)
    found = cases(inputs(spec, options))
    made, _ = program(found, lambda problem: solve(problem, search), Options(depths=dict(options["depths"])))
    cuda = source(made)
    for path in write_all(out, {"kernel.cu": lambda: cuda, "warps.txt": lambda: text(made)}):
        click.echo(f"wrote {path}", err=True)
    if build or (build is None and shutil.which("nvcc")):
        library, warnings = built(cuda, out)
        click.echo(f"wrote {library}", err=True)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
