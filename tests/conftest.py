"""What all tests share: golden files, kept beside the test that reads them and rewritten with
`--update-golden`; GPU tests are skipped where no GPU of an architecture that they name is at hand.
"""

import gc
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Before NumPy is imported: processes share the processors, and threads that wait occupy them."""
gc.set_threshold(50_000, 50, 50)
"""Kernels that are kept for the whole run are many objects, which a collection walks over in vain."""
settings.register_profile("twill", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("twill")
"""No example has a time limit: a machine may be busy."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("gpu"):
        if architectures().isdisjoint(mark.args):
            pytest.skip(f"needs a GPU of {' or '.join(mark.args)}")


@pytest.fixture(scope="session", autouse=True)
def builds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A folder of kernels that are built once for all processes of a run; pytest removes it later."""
    base = tmp_path_factory.getbasetemp()
    os.environ["TWILL_TEST_BUILDS"] = str(base.parent if hasattr(request.config, "workerinput") else base)


@cache
def architectures() -> frozenset[str]:
    """Compute capabilities of the GPUs of this machine, such as `sm_90`."""
    if not shutil.which("nvidia-smi"):
        return frozenset()
    asked = subprocess.run(
        ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    return frozenset(
        f"sm_{line.strip().replace('.', '')}" for line in asked.stdout.splitlines() if asked.returncode == 0
    )


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
        assert text == path.read_text(encoding="utf-8"), (
            f"differs from {path}: run pytest --update-golden if that is right"
        )

    return compare
