"""`twill extract`: compile a Python kernel to TTGIR, up to Triton's own scheduling passes."""

from pathlib import Path

import click

from twill.cli.options import Command, Pair


@click.command(cls=Command, short_help="Compile a @triton.jit function to TTGIR before scheduling.")
@click.argument("spec")
@click.option("--arch", required=True, help="Architecture, sm90 or sm100.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    type=Pair("NAME=VALUE"),
    help="Argument or constexpr of the kernel; repeatable.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Output file; by default standard output.",
)
def extract(spec: str, arch: str, settings: tuple[tuple[str, str], ...], out: Path | None) -> None:
    """Compile SPEC, FILE.py:FUNCTION, to the TTGIR before Triton's scheduling passes. Needs Triton, but no
    GPU.

    \b
    twill extract kernels.py:fa_fwd --arch sm90 --set BLOCK_N=128 --out fa_fwd.ttgir
    """
    from twill.emit.files import write
    from twill.extract.frontend.source import load

    module = load(spec, arch, dict(settings))
    if out is None:
        click.echo(module.text, nl=False)
    else:
        write(out, module.text)
        click.echo(f"wrote {out}", err=True)
