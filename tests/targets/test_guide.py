# pyright: reportUnknownMemberType=false
"""The kernel of docs/kernel-to-cuda.md, taken through its steps."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import twill
from twill.cli import run
from twill.launch import build

pytest.importorskip("triton")

GUIDE = Path("docs/kernel-to-cuda.md").read_text()
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
SHOWN = [
    line
    for line in GUIDE.split("```c++\n")[1].split("```")[0].splitlines()
    if "..." not in line and "//" not in line
]
FILES = set(re.findall(r"`([\w*.]+\.\w+)`", GUIDE.split("| file |")[1].split("\n\n")[0]))


@pytest.fixture
def linear(tmp_path: Path) -> str:
    kernel, _, case = BLOCKS
    file = tmp_path / "linear.py"
    file.write_text(kernel + "\n\n" + case)
    return f"{file}:linear"


def test_the_steps_of_the_guide(linear: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", linear, "--arch", "sm90"]) == 0
    assert run(["codegen", linear, "--arch", "sm90", "--no-build", "--out", str(tmp_path / "build")]) == 0
    written = {path.name for path in (tmp_path / "build").iterdir()}
    assert FILES - {"kernel.so", "*.schedule.json"} <= written
    text = (tmp_path / "build" / "kernel.cu").read_text()
    assert "linear_launch(" in text
    for line in SHOWN:
        assert line.strip() in text


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_a_function_at_hand_is_compiled_once(
    linear: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("linear", None)
    function = __import__("linear").linear
    kernel = twill.compile(function)
    assert kernel.warnings == ()
    assert [argument.name for argument in kernel.manifest.arguments] == ["x", "w", "y", "M", "N", "K"]
    assert twill.compile(function).folder == kernel.folder
    keys = list[str]()

    def known(key: str, make: Callable[[Path], None]) -> Path:
        """The folder of a key follows from it (tests/launch/test_build.py)."""
        keys.append(key)
        return kernel.folder

    monkeypatch.setattr(build, "cached", known)
    for settings in ({}, {}, {"BLOCK_N": 128}):
        twill.compile(function, settings=settings)
    assert keys[0] == keys[1] != keys[2]
