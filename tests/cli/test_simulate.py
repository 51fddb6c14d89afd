"""`twill simulate` on a kernel: what it says, what it writes, what it refuses."""

import json
import re
from pathlib import Path

import pytest

from tests.samples import figure1
from twill import pipeline
from twill.cli import progress, run
from twill.costs import machine as machines
from twill.diagnostics import TwillError
from twill.files import write_graph
from twill.targets.cuda import kernel

GEMM = "examples/ttgir/gemm.sm90.ttgir"


def test_a_kernel_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--no-persistent", "--out", str(tmp_path), "--arg", "K=192"]
    assert run(["simulate", GEMM, "--arch", "sm90", *arguments]) == 0
    out = capsys.readouterr().out
    assert "values         relative errors c 0.0e+00" in out
    assert "every interleaving of 0 to 6 iterations" in out
    assert "gemm/for.0: 1024 cycles per iteration" in out
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert "MmaIssue dot.acc_9 k 0..64" in (tmp_path / "warps.txt").read_text()
    assert "Simulated run" in (tmp_path / "simulated.svg").read_text()
    assert (tmp_path / "simulated.png").read_bytes().startswith(b"\x89PNG")
    assert "Simulated timeline" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arch", "said"),
    [
        ("sm100", "gemm/for.0: 512 to 768 cycles per iteration, as far as estimates allow"),
        ("sm90", "gemm/for.0: 1024 to 1024 cycles per iteration, as far as estimates allow"),
    ],
)
def test_what_estimates_allow_is_said(arch: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = GEMM.replace("sm90", arch)
    assert run(["simulate", path, "--arch", arch, "--no-persistent", "--ranges", "--arg", "K=192"]) == 0
    assert said in capsys.readouterr().out


def test_a_machine_without_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (machines.folder() / "h200.toml").read_text(encoding="utf-8")
    path = tmp_path / "measured.toml"
    path.write_text(re.sub(r"(?m)^between = .*\n", "", text), encoding="utf-8")
    options = ["--machine", str(path), "--no-persistent", "--ranges", "--arg", "K=192"]
    assert run(["simulate", GEMM, *options]) == 0
    assert f"estimates: none with a range in {path}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--arg", "L=1"], "no scalar argument 'L'"),
        (["--depth", "z=2"], "no channel 'z'"),
        (["--grid", "x"], "not of the form X,Y,Z"),
        (
            ["--no-persistent", "--pid", "100,0"],
            "no value was compared: with M=512, N=512, K=512 this program of the grid writes nothing finite",
        ),
        (["--pid", "-1,0"], "not of the form X,Y,Z"),
    ],
)
def test_bad_questions(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", GEMM, "--arch", "sm90", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_what_the_tensor_core_can_not_do_is_refused_before_it_is_solved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def solve(*_: object) -> None:
        pytest.fail("it is solved")

    monkeypatch.setattr(pipeline, "solve", solve)
    text = Path(GEMM.replace("sm90", "sm100")).read_text().replace("blockM = 128", "blockM = 32")
    (tmp_path / "half.ttgir").write_text(text)
    assert run(["simulate", str(tmp_path / "half.ttgir")]) == 2
    assert "of another number of rows than 64 or 128 in a thread block" in capsys.readouterr().err


def test_what_can_not_be_printed_as_cuda_is_not_simulated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def source(*_: object) -> None:
        raise TwillError("no such instruction")

    monkeypatch.setattr(kernel, "_kernel", source)
    assert run(["simulate", GEMM]) == 2
    captured = capsys.readouterr()
    assert "error: no such instruction" in captured.err
    assert "values" not in captured.out


def test_a_search_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    assert run(["simulate", GEMM]) == 0
    assert "gemm/for.0: " in capsys.readouterr().err


def test_a_graph_has_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loop.graph.json"
    path.write_text(write_graph(figure1().problem))
    assert run(["simulate", str(path)]) == 2
    assert "only a kernel can become warp programs" in capsys.readouterr().err
