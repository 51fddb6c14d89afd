"""`twill extract`: the TTGIR of a Python kernel as it is before scheduling."""

from pathlib import Path

import click

from twill.cli.options import Pair


@click.command(short_help="Compile a @triton.jit function to TTGIR as it is before scheduling.")
@click.argument("spec")
@click.option("--arch", required=True, help="Architecture, sm90 or sm100.")
@click.option("--set", "settings", multiple=True, type=Pair("NAME=VALUE"), help="Argument or constexpr of the kernel; repeatable.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Where to; standard output by default.")
def extract(spec: str, arch: str, settings: tuple[tuple[str, str], ...], out: Path | None) -> None:
    """Compile SPEC, FILE.py:FUNCTION, to TTGIR as it is before Triton schedules it. Needs Triton, but no GPU.

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
