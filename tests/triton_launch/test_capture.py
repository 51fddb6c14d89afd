# pyright: basic, reportMissingImports=false
"""Recording launches, and what the recording is good for."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

import triton
from click.testing import CliRunner
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.triton_launch import kernels as sources
from tests.triton_launch.fakes import HALF, Driver, Tensor, forget
from twill.bench.captured import Recompiled, _rebuilt, _values, compiled, stored
from twill.cli import twill
from twill.diagnostics import TwillError
from twill.extract.dependence.loops import loops
from twill.extract.frontend.capture_file import kernel_of, kernels_in
from twill.extract.frontend.source import load
from twill.inputs import is_graph
from twill.triton.capture import Recorder, described, merge

kernels: Any = sources


class Matrix(Tensor):
    """With a shape."""

    def __init__(self, *shape: int) -> None:
        super().__init__(HALF, 256)
        self.shape = shape

    def stride(self) -> tuple[int, ...]:
        return (self.shape[1], 1)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    made = Driver()
    monkeypatch.setattr(triton.runtime.driver, "_active", made)
    yield made
    for kernel in (kernels.dot, kernels.pair, kernels.copy):
        forget(kernel)


def launch(size: int, BLOCK: int = 16) -> None:
    a = Matrix(size, size)
    kernels.dot[(3, 2)](a, a, a, size, 2.0, BLOCK=BLOCK)


@pytest.fixture
def file(driver: Driver, tmp_path: Path) -> Path:
    """Two processes, the second of which launches another kernel too."""
    out = tmp_path / "capture.json"
    for process, more in ((1, False), (2, True)):
        recorder = Recorder(out.with_name(f".capture.json.{process}"))
        launch(64)
        launch(64)
        launch(128)
        kernels.copy[(1,)](Matrix(4, 4), Matrix(4, 4), BLOCK=16)
        if more:
            launch(64, 32)
            kernels.pair[(1,)]((Matrix(16, 16), Matrix(16, 16)), Matrix(16, 16), BLOCK=16)
        recorder.stop()
        for kernel in (kernels.dot, kernels.pair, kernels.copy):
            forget(kernel)
    merge(out)
    return out


def test_launches_reach_triton(file: Path, driver: Driver) -> None:
    assert [one.who for one in driver.launches] == ["triton"] * 10


def test_kernels_with_a_dot_are_recorded_once(file: Path) -> None:
    found = kernels_in(str(file))
    assert [kernel.name for kernel in found] == ["dot.0", "dot.1", "pair"]
    first = found[0]
    assert "BLOCK=16" in first.configuration
    assert [(one["grid"], one["count"]) for one in first.launches] == [([3, 2, 1], 4), ([3, 2, 1], 2)]
    assert first.launches[0]["arguments"][0] == {
        "array": {"type": "float16", "shape": [64, 64], "strides": [64, 1]}
    }
    assert [one["arguments"][3] for one in first.launches] == [{"value": 64}, {"value": 128}]
    assert first.signature == ("*fp16", "*fp16", "*fp16", "i32", "fp32", "constexpr")
    assert not list(file.parent.glob(".capture*"))


def test_a_recorded_kernel_is_a_module(file: Path) -> None:
    module = load(f"{file}:dot.1")
    assert (module.file, module.target) == ("dot.sm90.ttgir", "cuda:90")
    assert [loop.path for loop in loops(module)] == ["dot/for.0"]


@pytest.mark.parametrize(("name", "message"), [("", "has 3 kernels"), (":dot", "has no kernel dot")])
def test_which_kernel_is_meant(file: Path, name: str, message: str) -> None:
    with pytest.raises(TwillError) as caught:
        kernel_of(f"{file}{name}")
    assert message in caught.value.message
    assert "dot.0 (BLOCK=16" in caught.value.message


@pytest.mark.parametrize(
    "text", ['{"schema": "twill.capture/1"}', '{"schema": "twill.capture/1", "kernels": [{"id": "x"}]}']
)
def test_damaged_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "capture.json").write_text(text)
    with pytest.raises(TwillError, match=r"is no twill\.capture/1"):
        load(f"{tmp_path / 'capture.json'}:x")


def test_after_stop_nothing_is_recorded(driver: Driver, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "part")
    recorder.stop()
    launch(64)
    assert not (tmp_path / "part").exists()


def test_descriptions() -> None:
    matrix = Matrix(64, 64)
    matrix.dtype = HALF
    descriptor = TensorDescriptor(matrix, [64, 64], [64, 1], [16, 64])
    assert described(descriptor)["descriptor"]["block"] == [16, 64]
    assert described((1, None)) == {"tuple": [{"value": 1}, {"value": None}]}
    assert json.dumps(described(triton.language.float16)) == '{"value": "fp16"}'


# --- measuring it anew ------------------------------------------------------------------------------------


def test_what_the_kernel_stores_to(file: Path) -> None:
    (function,) = load(f"{file}:dot.0").functions
    assert stored(function, ["a", "b", "c", "stride", "scale"]) == ["c"]


def test_values_are_passed_as_the_original_takes_them() -> None:
    signature = (("*fp16", "constexpr"), "i32", "constexpr")
    arguments = [{"tuple": [{"value": 1}, {"value": 2}]}, {"value": 3}, {"value": 4}]
    values = list(_values(signature, arguments))
    assert values == [1, 3]
    assert _rebuilt(signature, iter(values)) == ((1, None), 3, None)


def test_an_argument_may_be_called_like_an_option(file: Path) -> None:
    recompiled, found = Recompiled(kernel_of(f"{file}:dot.0")), list[object]()
    recompiled.captured = replace(recompiled.captured, signature=("i32", "i32"))
    recompiled.binaries[(("num_warps", 8),)] = {(3, 1, 1): lambda *values: found.extend(values)}
    recompiled[(3,)](132, n=5, num_warps=8)
    assert found == [132, 5]


def test_triton_compiles_what_was_recorded(file: Path) -> None:
    captured = kernel_of(f"{file}:dot.0")
    assert compiled(captured.kernel, {"num_warps": 8}).metadata.num_warps == 8
    binary = Recompiled(captured).binary({"num_warps": 4})
    assert tuple(binary.src.signature.values()) == captured.signature


def test_a_schedule_is_checked_against_the_only_kernel_of_a_file(file: Path, tmp_path: Path) -> None:
    """It is no graph file: the schedule says for which machine and of which loop it is."""
    alone = tmp_path / "alone.json"
    document = json.loads(file.read_text())
    alone.write_text(json.dumps({**document, "kernels": document["kernels"][:1]}))
    out = tmp_path / "out"
    for arguments in (
        ["schedule", str(alone), "--machine", "h100", "--no-drawings", "--out", str(out)],
        ["check", str(out / "schedule.json"), str(alone)],
    ):
        result = CliRunner().invoke(twill, arguments)
        assert result.exit_code == 0, result.output
    assert is_graph(str(out / "loop.graph.json"))
    assert not is_graph(str(alone))


def test_a_program_without_kernels_leaves_an_earlier_file_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "capture.json"
    out.write_text("an earlier capture")
    missing = str(tmp_path / "nothere.py")
    result = CliRunner().invoke(twill, ["capture", "--out", str(out), missing])
    assert result.exit_code == 2
    assert f"warning: no Triton kernel with a dot was launched; {out} is not written" in result.output
    assert out.read_text() == "an earlier capture"
