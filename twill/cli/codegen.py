"""`twill codegen`: a CUDA file from a kernel."""

import shutil
from pathlib import Path
from typing import Any

import click

from twill.cli import worker
from twill.cli.options import Folder, input_options, inputs, program_options, question_options, wishes


@click.command(short_help="Generate CUDA C++ for Hopper.")
@click.argument("spec")
@input_options
@question_options
@program_options
@click.option("--build/--no-build", default=None, help="Run nvcc; by default where it is installed.")
@click.option("--out", type=Folder(), default=Path("build"), metavar="DIR", show_default=True)
def codegen(spec: str, out: Path, build: bool | None, **options: Any) -> None:
    """Schedule the loops of SPEC and write kernel.cu for sm_90a, with a launcher in C; kernel.json, by which `twill.load_kernel(DIR)` knows
    how to call it; warps.txt, the program of each warp group; trace.json, their simulated timeline; and the schedules.

    \b
    twill codegen kernel.ttgir --arch sm90 --out build/
    """
    from twill.cli.output import write_all
    from twill.generate import files, generate
    from twill.launch.build import LIBRARY
    from twill.launch.build import build as built

    made = worker.watched(lambda tell: generate(inputs(spec, options), wishes(options), tell))
    for path in write_all(out, files(made)):
        click.echo(f"wrote {path}", err=True)
    if build or (build is None and shutil.which("nvcc")):
        warnings = built(out)
        click.echo(f"wrote {out / LIBRARY}", err=True)
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
