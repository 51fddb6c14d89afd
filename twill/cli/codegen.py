"""`twill codegen`: generate CUDA C++ from a kernel."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
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
from twill.diagnostics import TwillError

if TYPE_CHECKING:
    from twill.generation.generated import Generated, ProgressCallback


@click.command(cls=Command, short_help="Generate CUDA C++ for Hopper or Blackwell.")
@click.argument("spec")
@input_options
@what_if_options
@program_options
@click.option("--build/--no-build", default=None, help="Run nvcc; the default where nvcc is installed.")
@click.option(
    "--check/--no-check",
    default=True,
    help="Run the warp programs, and with nvcc their PTX, on small problems first (the default).",
)
@click.option("--out", type=Folder(), default=Path("build"), metavar="DIR", show_default=True)
@click.option(
    "--dump", type=Folder(), metavar="DIR", help="Write the program after each pass of lowering to DIR."
)
def codegen(
    spec: str, out: Path, build: bool | None, check: bool, dump: Path | None, **options: Option
) -> None:
    """Schedule the loops of SPEC and generate a kernel for sm_90a or sm_100a.

    Writes kernel.cu with a C launcher, kernel.json (the launch signature that `twill.load_kernel(DIR)`
    reads), warps.txt (the program of each warp group), trace.json (their simulated timeline), the schedules,
    and report.html, which shows the CUDA (and the SASS, if built) of every operation beside its TTGIR.

    \b
    twill codegen kernel.ttgir --arch sm90 --out build/
    """
    from twill.cli.output import note
    from twill.generation.builds.built import with_library
    from twill.generation.generate import generate
    from twill.launch.build import nvcc

    if build:
        nvcc()  # refuses before the search, not after it
    compiles = bool(shutil.which("nvcc"))
    build = compiles if build is None else build
    wanted = replace(generate_options(options), check=check, execute=compiles, dump=dump is not None)
    asked = inputs(spec, options)
    with TemporaryDirectory() as kept:
        library = Path(kept)

        def work(on_progress: "ProgressCallback") -> "tuple[Generated, bool]":
            if build:
                return with_library(asked, wanted, on_progress, library, home=out)
            return generate(asked, wanted, on_progress), False

        try:
            made, instead = worker.watched(work)
        except TwillError:
            _keep_what_fails(library, out)
            raise
        _write(out, made, dump)
        if build:
            _take_library(library, out)
            _say_warnings(out, made, instead)
    reports = _reports(out, made)
    note(out, reports)
    for path in reports:
        click.echo(f"wrote {path}", err=True)


def _write(out: Path, made: "Generated", dump: Path | None) -> None:
    """All files but the library and the reports."""
    from twill.cli.output import say_replaced, write_all
    from twill.generation.generate import files

    if dump is not None:
        for path in write_all(dump, {name: partial(str, text) for name, text in made.dumps.items()}):
            click.echo(f"wrote {path}", err=True)
    say_replaced(made)
    _say_unchecked(made)
    for path in write_all(out, files(made)):
        click.echo(f"wrote {path}", err=True)
    for warning in made.program.warnings:
        click.echo(f"warning: {warning}", err=True)


def _say_unchecked(made: "Generated") -> None:
    """What the check before the kernel is written did not compare."""
    if made.checked and not made.checked.values:
        reason = next(
            (run.skipped for run in made.checked.runs if run.skipped),
            "the kernel writes nothing with the arguments tried",
        )
        click.echo(f"warning: no value of the kernel was checked: {reason}", err=True)
    for run in made.checked.runs if made.checked else ():
        if run.by == "emulator" and run.skipped:
            click.echo(f"note: the PTX was not checked: {run.skipped}", err=True)


def _keep_what_fails(made_in: Path, out: Path) -> None:
    """The source that nvcc refused, where the error says that it is."""
    from twill.cli.output import put
    from twill.launch.folders import LIBRARY, SOURCE

    if (made_in / SOURCE).exists() and not (made_in / LIBRARY).exists():
        put(out, {SOURCE: (made_in / SOURCE).read_bytes()})


def _take_library(made_in: Path, out: Path) -> None:
    """The library that was built, and what ptxas said, beside the other files."""
    from twill.cli.output import note, put
    from twill.launch.folders import LIBRARY, LOG

    note(out, put(out, {name: (made_in / name).read_bytes() for name in (LIBRARY, LOG)}))
    click.echo(f"wrote {out / LIBRARY}", err=True)


def _say_warnings(out: Path, made: "Generated", instead: bool) -> None:
    """What ptxas says of the kernel; `instead`: of another one than the fastest, which it said more of."""
    from twill.launch.build import complaints

    if instead:
        click.echo(f"note: {made.program.notes[-1]}", err=True)
    for warning in complaints(out):
        click.echo(f"warning: {warning}", err=True)


def _reports(out: Path, made: "Generated") -> list[Path]:
    """The report of each loop, with its CUDA, and its SASS where the kernel was built."""
    from twill.cli.output import context, prefixes_of, put
    from twill.launch.disassembly import disassembled
    from twill.launch.folders import LIBRARY
    from twill.report.page import page

    sass, paths = disassembled(out / LIBRARY), list[Path]()
    prefixes = prefixes_of([one.loop.path for one in made.loops])
    for case, one, prefix in zip(made.cases, made.loops, prefixes, strict=True):
        html = page(made.results[one.loop.path], context(case, cuda=made.cuda, sass=sass))
        paths += put(out, {f"{prefix}report.html": html})
    return paths
