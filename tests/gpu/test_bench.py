"""`twill bench` on this machine's GPU."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.gpu.kernels import ANY, here, kernel
from twill.cli import run

pytestmark = pytest.mark.gpu(*ANY)


def test_a_kernel_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "examples/kernels.py:gemm",
        "--arch",
        here(),
        "--built",
        str(kernel("gemm").folder),
        "--shape",
        "M=1024,N=1024,K=512",
    ]
    assert run(["bench", *arguments, "--rounds", "3", "--no-cycles", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["reports"]["gemm"]
    (shape,) = report["shapes"]
    assert {row["name"] for row in shape["contenders"]} == {"twill", "cublas", "triton"}
    assert all(row["ms"]["median"] > 0 for row in shape["contenders"])
    (loop,) = report["loops"]
    assert loop["measured"] > 0.9 * loop["scheduled"]


@pytest.mark.skipif(shutil.which("ncu") is None, reason="ncu is not installed")
def test_stalls_are_shown_by_operation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["examples/kernels.py:gemm", "--arch", here(), "--built", str(kernel("gemm").folder)]
    arguments += ["--shape", "M=2048,N=2048,K=4096", "--rounds", "2", "--no-cycles", "--no-triton"]
    assert run(["bench", *arguments, "--profile", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "stalls.json").read_text())
    names = {one["statement"]["name"] for one in found["statements"] if one["statement"]["part"] == "steady"}
    assert any(name.startswith("dot.acc") for name in names)
    assert sum(one["samples"] for one in found["statements"]) > 0.9 * found["samples"] > 100
    assert ">measured<" in (tmp_path / "stalls.gemm.for.0.svg").read_text()
    assert "what the warps of gemm_kernel wait for" in capsys.readouterr().out


def test_the_best_of_a_sweep_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two GEMMs, one of which has a quarter of the other's tile."""
    arguments = ["examples/kernels.py:gemm", "--arch", here(), "--set", "BLOCK_N=64,256"]
    arguments += [f"--shape={name}=4096" for name in "MNK"]
    arguments += ["--grid", "cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)", "--bench", "2", "--out", str(tmp_path)]
    assert run(["sweep", *arguments]) == 0
    rows = list(csv.DictReader((tmp_path / "measured.csv").read_text().splitlines()))
    assert [row["configuration"] for row in rows] == [f"{here()} BLOCK_N=256", f"{here()} BLOCK_N=64"]
    assert [row["measured"] for row in rows] == ["1", "2"]
    assert float(rows[0]["ms"]) < float(rows[1]["ms"])
    assert "rank correlation 1.00; the best is first" in capsys.readouterr().out


def test_triton_judges_where_no_reference_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of its own, whose case has neither reference nor peers."""
    head, _, _ = Path("examples/kernels.py").read_text().partition("# --- how twill measures them")
    file = tmp_path / "own.py"
    file.write_text(head + OWN)
    arguments = [f"{file}:gemm", "--arch", here(), "--built", str(kernel("gemm").folder)]
    assert run(["bench", *arguments, "--rounds", "2", "--no-cycles"]) == 0
    assert "relative errors c" in capsys.readouterr().out


OWN = """
def case(settings, M=512, N=512, K=256):
    import torch

    a, b, c = (torch.randn(*shape, device="cuda").to(settings["a"]) for shape in ((M, K), (N, K), (M, N)))
    arguments = {"a": a, "b": b, "c": c, "M": M, "N": N, "K": K}
    return {"arguments": arguments, "grid": (M // 128 * (N // 256),), "outputs": ["c"]}


BENCH = {"gemm": {"case": case}}
"""
