"""`twill export`: hand a schedule over to another compiler."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from twill.cli import worker
from twill.cli.options import (
    Command,
    Folder,
    Option,
    generate_options,
    input_options,
    inputs,
    program_options,
    what_if_options,
)

if TYPE_CHECKING:
    from twill.generation.export import Language


@click.command(cls=Command, short_help="Write a kernel or schedule for another compiler.")
@click.argument("spec")
@input_options
@what_if_options
@program_options
@click.option(
    "--to",
    type=click.Choice(["gluon", "tilelang"]),
    default="gluon",
    show_default=True,
    help="Gluon: a kernel for Triton 3.7 to 3.9. TileLang: a schedule for its kernels.",
)
@click.option("--out", type=Folder(), default=Path("export"), metavar="DIR", show_default=True)
def export(spec: str, to: "Language", out: Path, **options: Option) -> None:
    """Schedule the loops of SPEC and write them for another compiler, with explicit warp specialization.

    Gluon: NAME_gluon.py has a kernel with the arguments of SPEC's, and `launch(grid, *arguments)`. It is
    compiled where Triton is installed. TileLang: NAME_tilelang.py makes a WSSchedule from the buffers of a
    TileLang kernel whose operations have the ids that are named there.

    \b
    twill export kernel.ttgir --arch sm90 --to gluon --out export/
    """
    from dataclasses import replace

    from twill.cli.output import note, say_replaced
    from twill.emit.files import write
    from twill.generation.export import exported
    from twill.generation.generate import generate

    wanted = replace(generate_options(options), execute=False)
    lowering = replace(wanted.lowering, alternate=wanted.lowering.alternate and to == "tilelang")
    if lowering.tiles is None:  # several tiles in flight are not expressed in other languages
        lowering = replace(lowering, tiles=1)
    if lowering.independent is None:  # nor are warpgroups that store by themselves
        lowering = replace(lowering, independent=False)
    wanted = replace(wanted, lowering=lowering)
    made = worker.watched(lambda on_progress: generate(inputs(spec, options), wanted, on_progress))
    name, text = worker.alone(lambda: exported(made, to))
    write(out / name, text)  # beside the kernels exported before
    note(out, [out / name])
    click.echo(f"wrote {out / name}", err=True)
    say_replaced(made)
    for warning in made.program.warnings:
        click.echo(f"warning: {warning}", err=True)
