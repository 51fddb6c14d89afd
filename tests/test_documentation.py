"""The site that `make docs` builds: every page is in its navigation, and the reference names what exists."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import twill
from tests.kernels.programs import BLACKWELL, BRAIN, PAIRED

DOCS = Path("docs")


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        capture_output=True,
        text=True,
    )
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    pages = {path.name for path in (tmp_path / "site").glob("*.html")}
    assert {"which-command.html", "kernel-to-cuda.html", "python-interface.html"} <= pages
    assert (
        "The schedule of smallest interval, verified."
        in (tmp_path / "site" / "python-interface.html").read_text()
    )


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^\s+- .*?: ([\w-]+\.md)$", Path("mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.md"))


def test_links_between_pages_and_to_files_lead_somewhere() -> None:
    for page in [*DOCS.glob("*.md"), Path("README.md")]:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_reference_names_public_objects_alone() -> None:
    named = re.findall(r"^::: ([\w.]+)$", (DOCS / "python-interface.md").read_text(), re.MULTILINE)
    for full in named:
        home, _, name = full.rpartition(".")
        if name == "problem":
            continue
        found = getattr(import_module(home), name)
        assert found.__doc__, full
        assert any(getattr(twill, public) is found for public in twill.__all__ if public != "triton"), full


def test_the_kernels_for_b200_execute_what_their_schedules_charge() -> None:
    """At most a tenth more instructions on any unit, waits, barriers and fences, in the table of SASS."""
    text = Path("reports/b200.md").read_text(encoding="utf-8")
    table = text.split("## Instructions of the steady state")[1]
    counted = [(line, re.findall(r"(\d+) \((\d+)\)", line)) for line in table.splitlines() if "|" in line]
    rows = [(line, [(int(one), int(other)) for one, other in found]) for line, found in counted if found]
    assert len(rows) > 70
    assert all(len(found) == 7 for _, found in rows)
    assert [line for line, found in rows if any(10 * one > 11 * other for one, other in found)] == []


def test_intervals_of_b200_contain_what_is_predicted() -> None:
    """And nothing beats the tensor core: 8972 TFLOP/s in the fastest of its types."""
    text = Path("reports/b200.md").read_text(encoding="utf-8").split("## Beside published figures")[0]
    rows = [tuple(map(int, found)) for found in re.findall(r"\| (\d+) \((\d+) to (\d+)\) \|", text)]
    assert len(rows) == len((*BLACKWELL, *BRAIN, *PAIRED))
    assert [row for row in rows if not row[1] <= row[0] <= row[2] <= 8972] == []
