"""`twill diff`: compare two schedule files."""

import json
from pathlib import Path

import click

from twill.cli.options import Command, Folder


@click.command(cls=Command, short_help="Compare two schedules.")
@click.argument("before")
@click.argument("after")
@click.option(
    "--out",
    type=Folder(),
    metavar="DIR",
    help="Write diff.svg and diff.png, both timelines, into this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (twill.diff/1).")
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, out: Path | None, as_json: bool) -> None:
    """Compare two files written by twill schedule, such as of two machines, what-ifs or versions: interval,
    partition, moved operations and changed costs.

    \b
    twill diff h100/schedule.json h200/schedule.json --out diff/

    Exit status: 0 the schedules are the same, 1 they differ, 2 bad input.
    """
    from twill.emit.files import write
    from twill.files import load, read_schedule
    from twill.report.comparison import compared, document, drawing, text
    from twill.report.scene import png, svg

    first, second = (read_schedule(load(file), file).result for file in (before, after))
    found = compared(first, second)
    click.echo(json.dumps(document(found), separators=(",", ":")) if as_json else text(found))
    if out and (scene := drawing(first, second)):
        for name, content in (("diff.svg", svg(scene)), ("diff.png", png(scene))):
            write(out / name, content)
            click.echo(f"wrote {out / name}", err=True)
    ctx.exit(0 if found.same else 1)
