"""`twill bench`: a generated kernel on the GPU at hand."""

from pathlib import Path
from typing import Any

import click

from twill.cli import worker
from twill.cli.options import Pair, input_options, inputs, program_options, question_options, wishes


class _Shape(click.ParamType[dict[str, int]]):
    """`NAME=SIZE,...`"""

    name = "NAME=SIZE,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        pair = Pair("NAME=SIZE", int)
        return {name: int(str(size)) for name, size in (pair.convert(part, param, ctx) for part in str(value).split(","))}


@click.command(short_help="Measure a generated kernel on a Hopper GPU.")
@click.argument("spec")
@input_options
@question_options
@program_options
@click.option(
    "--built", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR", help="Measure what twill codegen built there."
)
@click.option("--shape", "shapes", multiple=True, type=_Shape(), help="A shape instead of those that the file names; repeatable.")
@click.option("--rounds", type=click.IntRange(min=2), default=15, show_default=True, help="Measurements of each contender.")
@click.option("--triton/--no-triton", default=True, help="Measure Triton's own compilation of the kernel too.")
@click.option("--cycles/--no-cycles", default=True, help="Count SM cycles with ncu, where it is installed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (twill.bench/1) instead of tables.")
def bench(
    spec: str,
    built: Path | None,
    shapes: tuple[dict[str, int], ...],
    rounds: int,
    triton: bool,
    cycles: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Schedule, generate and build SPEC, a FILE.py:FUNCTION, and run it: values first, on poisoned outputs, then time beside the peers
    that the table BENCH of its file names and beside Triton's own compilation; and predicted beside measured cycles per iteration.

    Needs PyTorch, Triton and a Hopper GPU.

    \b
    twill bench kernels.py:fa_fwd_subtiled --arch sm90 --shape length=8192
    """
    from twill.bench.measure import ready
    from twill.bench.page import document, text
    from twill.bench.run import Wanted
    from twill.bench.run import bench as measured
    from twill.generate import built as build

    ready()
    asked = inputs(spec, options)
    folder = built or worker.watched(lambda tell: build(asked, wishes(options), tell))
    report = measured(asked, folder, Wanted(shapes, rounds, triton, cycles))
    click.echo(document(report) if as_json else text(report))
