"""The execution of a kernel's PTX before it is handed over."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.programs import loops, program
from twill.diagnostics import TwillError
from twill.emulate.check import check
from twill.emulate.host import Host, compiled
from twill.inputs import Inputs, cases
from twill.simulate.compare import TOLERANCE
from twill.targets import EXACT_LAYOUTS, target
from twill.warp.lower import lower
from twill.warp.plan import Options

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
CUDA = target("sm90").source(program("gemm"))
LOOPS = loops("gemm")[1]


def test_a_kernel_passes_within_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """One compilation for both runs."""
    made, said = list[Host](), list[str]()

    def once(*arguments: object) -> Host:
        if not made:
            made.append(compiled(*arguments))  # pyright: ignore[reportArgumentType]
        return made[0]

    monkeypatch.setattr("twill.emulate.check.compiled", once)
    monkeypatch.setattr("twill.emulate.check.EVERY", 0.0)
    run = check(program("gemm"), LOOPS, CUDA, said.append)
    assert (run.by, run.trips, run.values, run.skipped) == ("emulator", (4,), 128 * 256, "")
    assert 0 < run.error < 1e-2
    assert said[0] == "compiling the kernel to PTX"
    assert any("instructions of at most 150,000" in one for one in said)
    stopped = check(program("gemm"), LOOPS, CUDA, said.append, budget=1000)
    assert stopped.skipped == "more than 1,000 instructions of warps would be executed"
    assert not stopped.values


def test_additions_in_16_bits_may_come_in_another_order() -> None:
    """Nothing is narrowed behind them."""
    kernel = "tallied"
    run = check(program(kernel), loops(kernel)[1], target("sm90").source(program(kernel)), lambda what: None)
    assert run.values == 64 * 64 + 64
    assert TOLERANCE["f32"] < run.error < TOLERANCE["bf16"]


def test_heads_that_the_grid_is_divided_by() -> None:
    """With more heads than programs a number is divided by 0, which gives no address of the array."""
    kernel = "kindred"
    run = check(program(kernel), loops(kernel)[1], target("sm90").source(program(kernel)), lambda what: None)
    assert run.values == 64 * 64
    assert run.error < TOLERANCE["f32"]


def test_sums_of_columns_are_completed_between_warps_after_the_loop() -> None:
    """Each thread adds up its own; the warps exchange theirs through the group's scratch buffer."""
    kernel = "summed_transposed"
    run = check(program(kernel), loops(kernel)[1], target("sm90").source(program(kernel)), lambda what: None)
    assert run.values == 64 * 64 + 64
    assert run.error < TOLERANCE["f32"]


def test_scans_go_along_registers_lanes_and_warps() -> None:
    """From both ends, by one operation and by several, of tiles and of vectors."""
    kernel = "ranked"
    source = target("sm90").source(program(kernel))
    assert "scan0_" not in source, "a scan goes line by line through shared memory"
    run = check(program(kernel), loops(kernel)[1], source, lambda what: None)
    assert run.values > 64 * 64 + 2 * 64
    assert run.error < 2 * TOLERANCE["f16"]


def test_tiles_that_are_loaded_behind_the_loop() -> None:
    """Gates, their last row and shifts: the loop's schedule is the same as with these before it."""
    kernel = "tempered"
    path = f"tests/kernels/ttgir/{kernel}.sm90.ttgir"
    (late,) = cases(Inputs(path, arch="sm90", exact_layouts=EXACT_LAYOUTS, late_loads=True))
    (early,) = loops(kernel)[1]
    assert late.loop
    assert late.graph
    assert late.problem == early.problem
    scheduled = (replace(early, loop=late.loop, graph=late.graph),)
    assert late.module
    made = lower(late.module, scheduled, target("sm90"), Options())
    cuda = target("sm90").source(made)
    assert cuda != target("sm90").source(program(kernel))
    assert cuda.index("gates", cuda.index("for (")) > cuda.index("wgmma")
    run = check(made, scheduled, cuda, lambda what: None)
    assert run.values == 64 * 64
    assert run.error < TOLERANCE["f32"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("fence_async_shared();", "", "the generated kernel is wrong: the async proxy reads byte")],
)
def test_a_kernel_that_goes_wrong_is_refused(old: str, new: str, message: str) -> None:
    assert old in CUDA
    with pytest.raises(TwillError, match=message) as refused:
        check(program("gemm"), LOOPS, CUDA.replace(old, new), lambda what: None)
    assert refused.value.location
    assert Path(refused.value.location.file).name == refused.value.location.file == "kernel.ptx"
    assert "--no-check" in str(refused.value)
    assert "/tmp" not in refused.value.message
