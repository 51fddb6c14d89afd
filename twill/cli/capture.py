"""`twill capture`: the kernels that a program launches, in a file."""

from pathlib import Path

import click

from twill.cli.run import child


@click.command(
    short_help="Record the Triton kernels that a program launches.",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("capture.json"),
    show_default=True,
    metavar="FILE",
)
@click.pass_context
def capture(ctx: click.Context, command: tuple[str, ...], out: Path) -> None:
    """Run COMMAND, and the Python programs that it starts, and record every Triton kernel with a dot that
    they launch: types, constants, options, grids and shapes. `FILE:NAME` then names a kernel to the other
    commands, so that nobody writes a signature.

    \b
    twill capture bench.py
    twill schedule capture.json:gemm
    twill bench capture.json:gemm
    """
    from twill.triton.capture import merge, parts
    from twill.triton.startup import CAPTURE, environment

    out = out.absolute()
    for stale in parts(out):
        stale.unlink()
    status = child(command, environment({CAPTURE: str(out)}))
    kernels = merge(out)
    for kernel in kernels:
        count = sum(launch["count"] for launch in kernel["launches"]) + kernel["more"]
        different = len(kernel["launches"])
        click.echo(
            f"{kernel['id']} ({kernel['configuration']}): {count} launch{'es' if count != 1 else ''},"
            f" {different} different"
        )
    if kernels:
        click.echo(f"wrote {out}: {len(kernels)} kernel{'s' if len(kernels) != 1 else ''}", err=True)
    else:
        click.echo(f"warning: no Triton kernel with a dot was launched; {out} is not written", err=True)
    ctx.exit(status)
