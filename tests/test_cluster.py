# pyright: basic
"""Sweeps on a Dask cluster: a scheduler and two worker processes on this machine."""

from pathlib import Path
from typing import Any

import pytest

from twill.cli import run
from twill.cluster import connected
from twill.diagnostics import TwillError
from twill.inputs import Inputs
from twill.ir.search import Options


def test_a_sweep_on_worker_processes_gives_the_same(tmp_path: Path) -> None:
    distributed: Any = pytest.importorskip("distributed")
    pytest.importorskip("triton")
    command = ["sweep", "examples/kernels.py:gemm", "--arch", "sm90", "--set", "BLOCK_N=64,128"]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        assert run([*command, "--dask", address, "--out", str(tmp_path / "cluster")]) == 0
    assert run([*command, "--out", str(tmp_path / "here")]) == 0
    one, other = ((tmp_path / name / "sweep.csv").read_text() for name in ("cluster", "here"))
    assert one == other
    assert "optimal" in one


def test_a_scheduler_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("twill.cluster.PATIENCE", "1s")
    with pytest.raises(TwillError, match="no Dask scheduler answers"):
        connected("tcp://127.0.0.1:9", Inputs("x"), None, Options())
