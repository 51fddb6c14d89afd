"""The execution of a kernel's PTX before it is handed over."""

import shutil
from pathlib import Path

import pytest

from tests.kernels.programs import loops, program
from twill.diagnostics import TwillError
from twill.emulate.check import check
from twill.emulate.host import Host, compiled
from twill.simulate.compare import TOLERANCE
from twill.targets import target

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
