"""`twill bench` on a Hopper GPU."""

import json
from pathlib import Path

import pytest

from tests.gpu.kernels import kernel
from twill.cli import run

pytestmark = pytest.mark.gpu("sm_90")


def test_a_kernel_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "examples/kernels.py:gemm",
        "--arch",
        "sm90",
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


def test_triton_judges_where_no_reference_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of its own, whose case has neither reference nor peers."""
    head, _, _ = Path("examples/kernels.py").read_text().partition("# --- how twill measures them")
    file = tmp_path / "own.py"
    file.write_text(head + OWN)
    arguments = [f"{file}:gemm", "--arch", "sm90", "--built", str(kernel("gemm").folder)]
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
