"""Fixtures of all tests: golden files, kept beside the test that reads them and rewritten with `--update-golden`."""

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("fa_fwd.json", text)` compares `text` with that file of the folder `golden` beside the test."""
    folder = Path(str(request.path)).parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = folder / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: run pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}: run pytest --update-golden if that is right"

    return compare
