"""The example notebook runs from top to bottom, and a notebook shows results as drawings."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import twill
from tests.samples import attention

NOTEBOOK = json.loads(Path("examples/schedule.ipynb").read_text())


def test_the_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["result"].status == "optimal"
    assert "twill.start" in capsys.readouterr().out


def test_the_notebook_is_stored_without_outputs() -> None:
    assert all(not cell.get("outputs") for cell in NOTEBOOK["cells"])


def test_a_notebook_shows_summary_and_timeline() -> None:
    assert twill.summary
    html: str = getattr(attention(), "_repr_html_")()  # noqa: B009
    assert "<svg" in html
    assert "feasible" in html
    unsolved: str = getattr(replace(attention(), solution=None, status="unknown"), "_repr_html_")()  # noqa: B009
    assert "<svg" not in unsolved
