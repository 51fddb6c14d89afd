"""The site that `make docs` builds: every page is in its navigation, and the reference names what exists."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import twill

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
