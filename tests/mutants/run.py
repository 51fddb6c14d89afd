"""One defect, applied to a copy of the package in a temporary folder, and the first judge that finds it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.table import HOPPER, WARP, Mutant
from twill.diagnostics import TwillError

ROOT = Path(__file__).parents[2]
LINKED = ("tests", "examples", "machines", "docs", "benchmarks", "reports", "pyproject.toml")
"""What is not changed."""
LIMIT = 300
"""Seconds; a right kernel takes a few."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a defect; `judge` is empty where it survived."""

    mutant: Mutant
    judge: str
    what: str


def applied(mutant: Mutant, text: str) -> str:
    """The file with the defect. Raises TwillError where the old text is not there exactly once."""
    if text.count(mutant.old) != 1:
        raise TwillError(f"{mutant.name}: its text occurs {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def outcome(mutant: Mutant) -> Outcome:
    """Raises TwillError for a defect that can not be applied."""
    with TemporaryDirectory(prefix="mutant-") as made:
        folder = Path(made)
        shutil.copytree(ROOT / "twill", folder / "twill", ignore=shutil.ignore_patterns("__pycache__"))
        for name in LINKED:
            (folder / name).symlink_to(ROOT / name)
        changed = folder / mutant.file
        changed.write_text(applied(mutant, changed.read_text()))
        return _judged(mutant, folder)


def _judged(mutant: Mutant, folder: Path) -> Outcome:
    simulate = ["--simulate"] if mutant.file.startswith((WARP, f"{HOPPER}/mma_waits")) else []
    try:
        if mutant.tests:
            done = _run(
                ["-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *mutant.tests], folder
            )
            failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
            return Outcome(
                mutant,
                "tests" if done.returncode else "",
                "".join(failed[:1]) if failed else done.stderr[-200:],
            )
        done = _run(["-m", "tests.mutants.judge", *simulate, *mutant.kernels], folder)
    except subprocess.TimeoutExpired:
        return Outcome(mutant, "timeout", f"no end in {LIMIT} s")
    if done.returncode:
        return Outcome(mutant, "crash", done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    return Outcome(mutant, found["judge"], found["what"])


def _run(words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["nice", sys.executable, *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
    )
