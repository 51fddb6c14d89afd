"""Where the machine files are, and which of them stands for an architecture; reads none."""

from collections.abc import Mapping
from pathlib import Path

DEFAULTS: Mapping[str, str] = {"sm90": "h200", "sm100": "b200"}
"""The machine that stands for an architecture."""


def folder() -> Path:
    """Beside the package in a checkout, inside it when installed."""
    inside = Path(__file__).parents[1] / "machines"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "machines"


def available() -> tuple[str, ...]:
    """The names of the machines that come with Twill."""
    return tuple(sorted(path.stem for path in folder().glob("*.toml")))
