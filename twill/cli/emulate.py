"""`twill emulate`: execute PTX on the CPU."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from twill.cli.options import Command, CommandOptions, Option, Pair

if TYPE_CHECKING:
    from twill.emulate import Module


def _triple(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int, int] | None:
    if value is None:
        return None
    parts = value.split(",")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r} is not of the form X,Y,Z", ctx, param)
    x, y, z = [*map(int, parts), *([0 if param.name == "pid" else 1] * (3 - len(parts)))]
    return x, y, z


@click.command(cls=Command, short_help="Execute PTX on the CPU: values, hazards, races, deadlocks.")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
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
    default="1",
    metavar="X,Y,Z",
    show_default=True,
    help="Size of the launch grid.",
)
@click.option(
    "--pid", callback=_triple, default=None, metavar="X,Y,Z", help="Execute only this program of the grid."
)
@click.option(
    "--integers", is_flag=True, help="Fill arrays with small integers, whose sums are exact in any order."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the arrays.",
)
@click.option(
    "--random",
    "schedules",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Also run N random asynchronous schedules.",
)
@click.option(
    "--processors",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Multiprocessors, for persistent kernels.",
)
@click.option(
    "--ptx",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the compiled PTX, whose lines are reported.",
)
@click.option("--kernel", metavar="NAME", help="Kernel of a .ptx or .cu file that has several.")
@click.option(
    "--block",
    callback=_triple,
    default=None,
    metavar="X,Y,Z",
    help="Threads of a CTA, where the .ptx or .cu file does not say.",
)
@click.option(
    "--cluster",
    callback=_triple,
    default=None,
    metavar="X,Y,Z",
    help="CTAs of a cluster, for a .ptx or .cu file.",
)
@click.option(
    "--shared",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="BYTES",
    help="Dynamic shared memory, for a .ptx or .cu file.",
)
@click.option(
    "--unfenced",
    "lenient",
    is_flag=True,
    help="Accept what Triton omits: fences of mbarrier.init, cp.async and tcgen05, mbarrier.inval.",
)
@click.option(
    "--param",
    "parameters",
    multiple=True,
    metavar="VALUE",
    help=(
        "Parameter of a .ptx or .cu file, in order: TYPE[SIZE] for a random array, as f16[4096]; else a"
        " number."
    ),
)
def emulate(path: Path, **options: Option) -> None:
    """Execute a kernel instruction by instruction, without a GPU.

    PATH is a folder that `twill codegen` wrote: its kernel.cu is compiled to PTX (nvcc is needed), launched
    by its own launcher, and compared with a direct execution of its TTGIR on random arrays. Or PATH is a .ptx
    or .cu file, of anyone: parameters are given with --param, and the kernel is only checked for hazards.

    Asynchronous operations take effect as late as the memory model allows, so that a missing wait, fence or
    arrival shows as a wrong value or as a report with its PTX line: races, undefined values, missing proxy
    fences, deadlocks, accesses out of bounds.

    \b
    twill emulate build/ --arg M=256 --arg N=256 --arg K=256 --grid 2
    twill emulate kernel.ptx --param f16[65536] --param 1024 --grid 4 --shared 98304
    """
    if path.is_dir():
        _build(path, options)
    else:
        _file(path, options)


def _build(path: Path, options: CommandOptions) -> None:
    from twill.diagnostics import TwillError
    from twill.emulate.build import Request, load, run, wrong

    build = load(path)
    _write(build.host.module, options["ptx"])
    programs = (options["pid"],) if options["pid"] is not None else None
    for schedule in range(options["schedules"] + 1):
        request = Request(
            dict(options["numbers"]),
            options["grid"],
            programs,
            options["integers"],
            options["seed"],
            schedule,
            options["processors"],
        )
        compared = run(build, request)
        shown = ", ".join(f"{one.argument} {one.error:.1e}" for one in compared if one.changed)
        click.echo(f"{_name(schedule)}  relative errors {shown}: no hazard")
        different = wrong(build, compared)
        if different is not None:
            raise TwillError(
                f"the generated code computes another {different.argument} than the TTGIR: relative error"
                f" {different.error:.1e}",
                help="please report this",
            )
        if not any(one.values for one in compared):
            raise TwillError(
                "no value was compared: the kernel writes nothing",
                help="give larger scalar arguments with --arg",
            )


def _write(module: "Module", path: Path | None) -> None:
    from twill.emit.files import write

    if path:
        write(path, "\n".join(module.text.lines))


def _name(schedule: int) -> str:
    return f"random schedule {schedule}" if schedule else "as late as possible"


def _file(path: Path, options: CommandOptions) -> None:
    from twill.emulate.arrays import parameter

    module = _module(path)
    _write(module, options["ptx"])
    kernel = module.kernel(options["kernel"])
    for schedule in range(options["schedules"] + 1):
        given = [
            parameter(text, i, options["seed"], options["integers"])
            for i, text in enumerate(options["parameters"])
        ]
        kernel.launch(
            options["grid"],
            given,
            block=options["block"],
            cluster=options["cluster"],
            shared=options["shared"],
            seed=schedule,
            ctas=[options["pid"]] if options["pid"] is not None else None,
            strict=not options["lenient"],
        )
        click.echo(f"{_name(schedule)}  no hazard")


def _module(path: Path) -> "Module":
    import tempfile

    from twill.emulate import load
    from twill.emulate.host import compiled
    from twill.files import load as text_of
    from twill.launch.build import RUNTIME

    if path.suffix == ".ptx":
        return load(text_of(path), str(path))
    with tempfile.TemporaryDirectory() as folder:
        return compiled(path, Path(folder), [RUNTIME]).module
