"""Schedules for TileLang: what they say, executed against a stand-in for `tilelang.language`, keeps TileLang's
rules; where TileLang is installed, it makes kernels of them, whose PTX computes the right values."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.kernels.programs import architecture, loops, program
from twill.diagnostics import TwillError
from twill.emulate import Mapped, TensorMap, load
from twill.targets.tilelang import schedule


class Recorded(dict[str, Any]):
    """A call of the language: its arguments by position and name."""


def call(name: str) -> Any:
    def recorded(*args: Any, **named: Any) -> Recorded:
        return Recorded(call=name, args=args, **named)

    return recorded


class WSScope:
    """Makes a record, and has the name of the outermost scope."""

    ROOT = "root"

    def __new__(cls, *args: Any) -> Any:
        return Recorded(args=args)


def language() -> ModuleType:
    """The names that a schedule uses, as in TileLang's documentation."""
    made = ModuleType("tilelang.language")
    words = ("producer_acquire", "producer_commit", "consumer_wait", "consumer_release")
    sync = type("WSSync", (), {word: staticmethod(call(word)) for word in words})
    for name, value in (("WSSync", sync), ("WSScope", WSScope)):
        setattr(made, name, value)
    for name in ("WSSchedule", "WSRole", "WSPipeline"):
        setattr(made, name, call(name))
    return made


def executed(kernel: str, monkeypatch: pytest.MonkeyPatch, buffers: Mapping[str, str]) -> Recorded:
    monkeypatch.setitem(sys.modules, "tilelang", ModuleType("tilelang"))
    monkeypatch.setitem(sys.modules, "tilelang.language", language())
    names: dict[str, Any] = {}
    exec(schedule(program(kernel), loops(kernel)[1]), names)
    return names["schedule"](buffers, after={"group_1": ["store"]})


@pytest.mark.parametrize(
    ("kernel", "tensors"), [("gemm", "xy"), ("dual_gemm", "xyz"), ("gemm_reduction", "xy")]
)
def test_every_operation_of_the_loop_is_placed_once_inside_its_spans(
    kernel: str, tensors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = program(kernel)
    (channel,) = one.channels
    made = executed(kernel, monkeypatch, {tensor.name: tensor.name for tensor in channel.tensors})
    assert made["num_warps"] == one.launch.threads // 32
    ranges = [(role["warps_lo"], role["warps_hi"], role["max_nreg"]) for role in made["roles"]]
    assert ranges == [(g.first_warp, g.first_warp + g.warps, g.registers) for g in one.groups]
    assert made["pipelines"][0]["args"][0] == channel.id
    assert made["pipelines"][0]["depth"] == channel.depth
    bodies = made["scopes"][0]["args"][1]
    placed = [entry for body in bodies.values() for entry in body if isinstance(entry, str)]
    nodes = [node.id for node in loops(kernel)[1][0].graph.nodes]
    assert sorted(placed) == sorted(nodes)
    for body in bodies.values():
        words = [entry["call"] if isinstance(entry, Recorded) else "op" for entry in body]
        assert words[0] in ("producer_acquire", "consumer_wait")
        assert {"producer_acquire": "producer_commit", "consumer_wait": "consumer_release"}[words[0]] in words
    assert made["scopes"][-1]["args"] == ("root", {"group_0": ["for_0"], "group_1": ["for_0", "store"]})


def test_a_persistent_kernel_has_a_scope_for_its_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    made = executed("gemm_persistent", monkeypatch, {"x": "x", "y": "y"})
    inner, tiles, root = (scope["args"] for scope in made["scopes"])
    assert inner[0] == "for_0_for_0"
    assert tiles == ("for_0", {"group_0": ["for_0_for_0"], "group_1": ["for_0_for_0", "store"]})
    assert root == ("root", {"group_0": ["for_0"], "group_1": ["for_0"]})


@pytest.mark.parametrize(("kernel", "depth"), [("gemm.sm100", 1), ("gemm_persistent.sm100", 2)])
def test_accumulators_in_tensor_memory_have_a_pipeline(
    kernel: str, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tile,) = program(kernel).tensor_memory
    made = executed(kernel, monkeypatch, {"x": "x", "y": "y", tile.id: "accumulators"})
    assert made["pipelines"][1] == Recorded(call="WSPipeline", args=(tile.id, ["accumulators"]), depth=depth)
    bodies = made["scopes"][1]["args"][1]
    words = {
        role: [one["call"] for one in body if isinstance(one, Recorded)] for role, body in bodies.items()
    }
    assert words["group_1"] == ["producer_acquire", "producer_commit"]
    assert words["group_2"] == ["consumer_wait", "consumer_release"]
    assert "group_2" not in made["scopes"][0]["args"][1]


REFUSED = {
    "fa_fwd": "filled outside of the loops",
    "fa_fwd_subtiled": "WSSchedule",
    "gemm_reduction.sm100": "tensor memory that its group reads",
    "fa_fwd.sm100": "WSSchedule",
}


@pytest.mark.parametrize("kernel", sorted(REFUSED))
def test_what_tilelang_can_not_express_is_refused_with_a_line(kernel: str) -> None:
    with pytest.raises(TwillError, match="WSSchedule") as refused:
        schedule(program(kernel), loops(kernel)[1])
    assert REFUSED[kernel] in refused.value.message
    assert refused.value.location
    assert refused.value.help


# --- TileLang itself ----------------------------------------------------------------------------------------

PYTHON = os.environ.get("TWILL_TILELANG_PYTHON", sys.executable)
"""A Python for which TileLang is installed."""
M, N, K = 512, 512, 256


@cache
def has_tilelang() -> bool:
    found = [PYTHON, "-c", "from tilelang.language import WSSchedule"]
    return not subprocess.run(found, capture_output=True, check=False).returncode


def lowered(kernel: str, folder: Path) -> tuple[Path, str]:
    """The CUDA that TileLang makes of the exported schedule, and where its headers are."""
    if not has_tilelang():
        pytest.skip("needs TileLang with WSSchedule: TWILL_TILELANG_PYTHON=/venv/bin/python")
    exported, cuda = folder / "exported.py", folder / "kernel.cu"
    exported.write_text(schedule(program(kernel), loops(kernel)[1]))
    script = Path(__file__).with_name("tilelang_kernels.py")
    arch = architecture(kernel).replace("sm", "sm_") + "a"
    words = [PYTHON, script, exported, kernel.replace(".", "_"), arch, cuda]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    assert not made.returncode, made.stderr[-3000:]
    return cuda, made.stdout.strip()


@pytest.mark.parametrize("kernel", ["gemm.sm100", "dual_gemm.sm100", "gemm_persistent.sm100"])
def test_tilelang_takes_schedules_for_blackwell(kernel: str, tmp_path: Path) -> None:
    cuda, _ = lowered(kernel, tmp_path)
    text = cuda.read_text()
    for tile in program(kernel).tensor_memory:
        assert f"{tile.id}_full[" in text
    assert "tcgen05mma" in text


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", ["gemm", "gemm_persistent", "dual_gemm", "gemm_reduction"])
def test_kernels_of_tilelang_with_exported_schedules_are_right(kernel: str, tmp_path: Path) -> None:
    cuda, tilelang = lowered(kernel, tmp_path)
    ptx = tmp_path / "kernel.ptx"
    headers = [f"-I{tilelang}/src", f"-I{tilelang}/3rdparty/cutlass/include"]
    words = ["nvcc", "-w", "-ptx", "-std=c++17", "-arch=sm_90a", *headers, "-o", ptx, cuda]
    subprocess.run(words, check=True, capture_output=True)
    random, columns = np.random.default_rng(0), 128 if kernel == "dual_gemm" else 256
    a, b, d = ((random.standard_normal((rows, K)) / 2).astype(np.float16) for rows in (M, N, N))
    c, s = np.zeros((M, N), np.float16), np.zeros(M, np.float32)
    passed = {
        "A_desc": tiled(a, 128),
        "B_desc": tiled(b, columns),
        "D_desc": tiled(d, columns),
        "C": c,
        "S": s,
    }
    names = re.findall(r"(\w+)[,)]", re.findall(r"_kernel\(.*\);", cuda.read_text())[0])
    grid = (3,) if kernel == "gemm_persistent" else (N // columns, M // 128)
    dynamic = 4 * 2 * 64 * (128 + columns * (1 + ("D_desc" in names)))
    load(ptx.read_text(), "kernel.ptx").kernel().launch(
        grid, [passed[name] for name in names], block=(384, 1, 1), shared=dynamic + 1024, strict=False
    )
    x, y, z = (one.astype(np.float64) for one in (a, b, d))
    expected = x @ y.T
    if kernel == "dual_gemm":
        expected = expected / (1 + np.exp(-expected)) * (x @ z.T)
    assert np.abs(c - expected).max() <= 1e-3 * np.abs(expected).max()
    if kernel == "gemm_reduction":
        np.testing.assert_allclose(s, x.sum(1), atol=1e-4)


def tiled(array: np.ndarray[Any, Any], rows: int) -> Mapped:
    """An array in boxes of 64 columns, swizzled in lines of 128 bytes."""
    return Mapped(array, TensorMap(0, "f16", array.shape[::-1], (array.strides[0],), (64, rows), 128))
