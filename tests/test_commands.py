"""Every `twill` command that the documentation shows is one that the command line takes, with its options."""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from twill.cli import COMMANDS

PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
LINE = re.compile(r"^(?:    |\$ )?(twill [a-z]+ .*?)(?: +# .*)?$", re.MULTILINE)
INLINE = re.compile(r"`(twill [a-z]+ [^`]+)`")
STANDS_FOR = ("...", "[", "DIR", "FILE", "NAME", "SPEC", "STEM")
"""In a line that is no command as it is."""


def shown() -> Iterator[str]:
    for page in PAGES:
        text = page.read_text()
        for line in (*LINE.findall(text), *INLINE.findall(text)):
            if not any(word in line for word in STANDS_FOR):
                yield line


def named(line: str) -> click.Command:
    name = shlex.split(line)[1]
    assert name in COMMANDS
    return getattr(import_module(f"twill.cli.{name}"), name)


MENTIONED = sorted({line for line in shown() if shlex.split(line)[2].startswith("-")})
"""A command and an option of it."""
WHOLE = sorted({*shown()} - {*MENTIONED})


def test_the_pages_show_commands() -> None:
    assert len(WHOLE) > 40
    assert {shlex.split(line)[1] for line in WHOLE} >= {"schedule", "codegen", "export", "explain", "sweep"}


@pytest.mark.parametrize("line", WHOLE)
def test_a_command_of_the_pages_is_taken(line: str) -> None:
    """Files that are not there are no fault of the page."""
    _, name, *words = shlex.split(line)
    try:
        named(line).make_context(name, words)
    except click.BadParameter as problem:
        if "exist" not in problem.format_message():
            raise


@pytest.mark.parametrize("line", MENTIONED)
def test_an_option_that_the_pages_name_is_there(line: str) -> None:
    command = named(line)
    known = {option for one in command.get_params(click.Context(command)) for option in one.opts}
    assert {word for word in shlex.split(line)[2:] if word.startswith("--") and word != "--"} <= known
