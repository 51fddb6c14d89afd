"""The commands in README.md and docs: every command exists and takes the options that the pages give it, and
those that need neither a GPU nor Triton run as they stand."""

import json
import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import click
import pytest

from twill.cli import COMMANDS, run

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


CHEAP = {"schedule", "simulate", "export", "explain", "diff", "graph", "check", "machines", "doctor", "cache"}
"""Commands that take a second or two on a GEMM."""
ROOT = Path(__file__).parents[2]
GIVEN = {
    "loop.graph.json": "examples/graphs/attention.graph.json",
    "examples/ttgir/fa_fwd_subtiled.sm90.ttgir": "examples/ttgir/gemm.sm90.ttgir",
}
"""Files that the commands name, and what stands for them."""
MADE = {"kernel.ttgir", "pins.json", "schedule.json", "a.json", "b.json"}
"""The same, made by the test."""
NAME = re.compile(r"(?<![\w./-])[~\w./-]+\.(?:ttgir|ttir|json|py|ptx)\b")


def runnable() -> list[str]:
    """Commands of code blocks and of tables, without comments, whose files are all there or given."""
    found = dict[str, None]()
    for page in PAGES:
        for block, inline in re.findall(r"```\w*\n(.*?)```|`(twill [^`]*)`", page.read_text(), re.DOTALL):
            for line in (block or inline).splitlines():
                command = line.strip().split("  #")[0].split(" # ")[0].strip()
                words = command.split()
                if len(words) < 2 or words[0] != "twill" or words[1] not in CHEAP or "..." in command:
                    continue
                files = set(NAME.findall(command))
                whole = files or words[1] == "doctor" or words[2:3] in (["show"], ["list"])
                if whole and files <= {*GIVEN, *MADE}:
                    found[command] = None
    return [*found]


def test_most_commands_run_here() -> None:
    assert len(runnable()) >= 15
    assert {command.split()[1] for command in runnable()} >= CHEAP - {"cache"}


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a schedule of the GEMM."""
    folder = tmp_path_factory.mktemp("solved")
    spec = str(ROOT / "examples/ttgir/gemm.sm90.ttgir")
    assert run(["schedule", spec, "--no-drawings", "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("command", runnable())
def test_a_documented_command_runs(
    command: str, solved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder with a GEMM as `kernel.ttgir`."""
    arch = "sm100" if "sm100" in command else "sm90"
    for name, original in {**GIVEN, "kernel.ttgir": f"examples/ttgir/gemm.{arch}.ttgir"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / original, tmp_path / name)
    for name in ("schedule.json", "a.json", "b.json"):
        shutil.copy(solved / "schedule.json", tmp_path / name)
    first = json.loads((solved / "schedule.json").read_text())["ops"][0]["id"]
    (tmp_path / "pins.json").write_text(json.dumps({"starts": {first: 0}}))
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(command)[1:]) == 0
