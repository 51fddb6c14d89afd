"""`twill cache`: the kernels that were built and kept in the user's cache."""

import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click


@click.group(short_help="List or clear the cache of built kernels.")
def cache() -> None:
    """The cache of built kernels, `~/.cache/twill` or `$XDG_CACHE_HOME/twill`. It can be deleted at any time.

    \b
    twill cache list
    twill cache clear
    """


@cache.command("list")
def list_cache() -> None:
    """List the kernels with size and date, newest first."""
    from twill.launch.folders import cache_folder

    entries = sorted(_entries(cache_folder()), key=lambda path: -path.stat().st_mtime)
    for path in entries:
        when = datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
        click.echo(f"{when}  {_size(path):>9}  {_name(path):<24}  {path}")
    total = sum(_bytes(path) for path in entries)
    click.echo(
        f"{len(entries)} kernel{'' if len(entries) == 1 else 's'}, {_shown(total)}, in {cache_folder()}"
    )


@cache.command()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def clear(yes: bool) -> None:
    """Delete all built kernels."""
    from twill.launch.folders import cache_folder

    folder = cache_folder()
    entries = list(_entries(folder))
    if entries and not yes:
        click.confirm(f"delete {len(entries)} kernels in {folder}?", abort=True)
    if folder.exists():
        shutil.rmtree(folder)
    click.echo(f"deleted {len(entries)} kernel{'' if len(entries) == 1 else 's'}", err=True)


def _entries(folder: Path) -> Iterator[Path]:
    """The folders of kernels, at any depth: those with a manifest or a library."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            files = {child.name for child in path.iterdir()}
            if files & {"kernel.json", "kernel.so"}:
                yield path
            else:
                yield from _entries(path)


def _name(path: Path) -> str:
    """The kernel's name by its manifest."""
    try:
        return str(json.loads((path / "kernel.json").read_text(encoding="utf-8"))["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return "?"


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _size(path: Path) -> str:
    return _shown(_bytes(path))


def _shown(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
