"""The commands in README.md and docs: every command exists and takes the options that the pages give it."""

import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from twill.cli import COMMANDS

PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
LINE = re.compile(r"\btwill ([a-z]+)((?: [^`#\n|]*)?)")


def documented() -> list[tuple[str, str, tuple[str, ...]]]:
    """Page, command and long options of every line that looks like a command."""
    return [
        (page.name, found[1], tuple(re.findall(r"(?<!\S)--[a-z][a-z-]*", found[2].split(" -- ")[0])))
        for page in PAGES
        for block in re.findall(r"```\n(.*?)```|`(twill [^`]*)`", page.read_text(), re.DOTALL)
        for found in LINE.finditer("\n".join(block))
    ]


def test_there_are_some() -> None:
    assert len(documented()) > 40
    assert {command for _, command, _ in documented()} >= {"schedule", "explain", "diff", "sweep", "codegen"}


@pytest.mark.parametrize(("page", "command", "options"), sorted(set(documented())))
def test_a_documented_command_exists(page: str, command: str, options: tuple[str, ...]) -> None:
    assert command in COMMANDS, page
    found: click.Command = getattr(import_module(f"twill.cli.{command}"), command)
    known = {name for param in found.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    assert set(options) <= known, f"{page}: twill {command}"
