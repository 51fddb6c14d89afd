"""`twill bench`: measure a generated kernel on the local GPU."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from twill.cli import worker
from twill.cli.options import (
    Command,
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
    from twill.bench.case import Shape
    from twill.bench.run import Steady
    from twill.inputs import Inputs


class _Shape(click.ParamType[dict[str, int]]):
    """`NAME=SIZE,...`"""

    name = "NAME=SIZE,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        pair = Pair("NAME=SIZE", int)
        return {
            name: int(str(size))
            for name, size in (pair.convert(part, param, ctx) for part in str(value).split(","))
        }


@click.command(cls=Command, short_help="Measure a generated kernel on a GPU.")
@click.argument("spec")
@input_options
@what_if_options
@program_options
@click.option(
    "--built",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of a kernel that twill codegen built.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    type=_Shape(),
    help="Shape to measure instead of the shapes in the file; repeatable.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=2),
    default=15,
    show_default=True,
    metavar="N",
    help="Measurements per contender.",
)
@click.option(
    "--triton/--no-triton",
    default=True,
    show_default=True,
    help="Also measure the kernel as Triton compiles it.",
)
@click.option(
    "--cycles/--no-cycles",
    default=True,
    show_default=True,
    help="Count SM cycles with ncu, where it is installed.",
)
@click.option(
    "--profile",
    type=Folder(),
    metavar="DIR",
    help="Also sample with ncu what the warps wait for, by operation of the schedule, and write it to DIR.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document (twill.bench/1) instead of tables."
)
def bench(
    spec: str,
    built: Path | None,
    shapes: tuple[dict[str, int], ...],
    rounds: int,
    triton: bool,
    cycles: bool,
    profile: Path | None,
    as_json: bool,
    **options: Option,
) -> None:
    """Schedule, generate and build SPEC, a FILE.py:FUNCTION or a captured kernel (FILE.json:NAME), and
    measure it.

    First compares the outputs, which are filled with NaN before the launch, with a reference. Then compares
    time with the peers in the file's BENCH table and with the kernel as Triton compiles it, and predicted
    with measured cycles per iteration. `--profile DIR` prints, for each warp group, how many cycles of an
    iteration each operation and each wait takes on the GPU and why warps stall there, and writes stalls.json
    and a drawing of each loop beside its prediction.

    Needs PyTorch, Triton and a GPU of the architecture: Hopper for sm90, Blackwell for sm100.

    \b
    twill bench kernels.py:fa_fwd_subtiled --arch sm90 --shape length=8192
    """
    from twill.bench.measure import ready
    from twill.bench.page import document, text
    from twill.bench.run import Wanted
    from twill.bench.run import bench as measured
    from twill.generation.builds.built import built as build

    requested = inputs(spec, options)
    ready(requested.arch or "sm90")
    folder = built or worker.watched(
        lambda on_progress: build(requested, generate_options(options), on_progress)
    )
    report = measured(requested, folder, Wanted(shapes, rounds, triton, cycles))
    click.echo(document(report) if as_json else text(report))
    if profile is not None:
        shape = shapes[-1] if shapes else report.shapes[-1].shape
        said, paths = _profiled(requested, folder, shape, {one.path: one for one in report.loops}, profile)
        click.echo(said, err=as_json)
        for path in paths:
            click.echo(f"wrote {path}", err=True)


def _profiled(
    requested: "Inputs", folder: Path, shape: "Shape", loops: "Mapping[str, Steady]", out: Path
) -> tuple[str, tuple[Path, ...]]:
    """The table of stalls of one shape, and the files that were written."""
    from functools import partial

    from twill.bench import stall_page
    from twill.bench.run import stalls
    from twill.cli.output import write_all
    from twill.report.scene import svg

    kernel, found = stalls(requested, folder, shape)
    trace = (folder / "trace.json").read_text()
    contents = {"stalls.json": partial(stall_page.document, found, loops)}
    for loop in kernel.loops:
        cycles = loops[loop.path].measured if loop.path in loops else loop.simulated
        scene = stall_page.drawing(found, loop.path, cycles, trace)
        contents[f"stalls.{loop.path.replace('/', '.')}.svg"] = partial(svg, scene)
    return stall_page.text(found, loops), write_all(out, contents)
