# pyright: basic
"""The example kernels compute what they say: run by Triton's interpreter, which needs no GPU, on NumPy
arrays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
CASES = ["products", "forward", "backward"]


@pytest.mark.parametrize("case", CASES)
def test_against_numpy(case: str) -> None:
    """In a process of its own, since the interpreter replaces Triton's functions when Triton is imported."""
    script = Path(__file__).parent / "interpret.py"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), case],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
