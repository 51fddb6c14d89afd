"""Pairs of thread blocks, executed as clusters: values, and no hazard, in whatever order asynchronous operations
complete."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.builds import build, numbers
from tests.kernels.programs import PAIRED, changed, cuda, loops
from twill.diagnostics import TwillError
from twill.emulate.build import Request, run, wrong
from twill.emulate.faults import HazardError
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME
from twill.targets.blackwell import TARGET
from twill.warp.lower import lower
from twill.warp.plan import Options

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")


def request(kernel: str, schedule: int = 0) -> Request:
    """Two programs, of arguments that the kernel has."""
    names = {argument.name for argument in build(kernel).manifest.arguments}
    given = {**numbers(kernel), "M": 256, "K": 192} | (
        {"K": 640} if "_mx" in kernel or "_nv" in kernel else {}
    )
    return Request({n: v for n, v in given.items() if n in names}, (2, 1, 1), schedule=schedule)


@pytest.mark.parametrize("kernel", PAIRED)
@pytest.mark.parametrize("schedule", [0, 1])
def test_a_pair_computes_what_two_programs_compute(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), request(kernel, schedule))
    assert wrong(build(kernel), compared) is None, compared
    assert any(one.values for one in compared)


@pytest.mark.parametrize("kernel", ["matmul_bf16_pairs.sm100", "matmul_mxfp8_pairs.sm100"])
@pytest.mark.parametrize("k", [32, 608])
def test_ragged_tiles_of_both_blocks(kernel: str, k: int) -> None:
    compared = run(build(kernel), Request({"M": 208, "N": 320, "K": k}, (2, 3, 1)))
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_a_persistent_pair_uses_tensor_memory_again(schedule: int) -> None:
    """Four tiles each: the first block's MMAs wait for the second one's threads."""
    kernel = "gemm_persistent_pairs.sm100"
    one = Request({"M": 512, "N": 512, "K": 192}, (2, 1, 1), schedule=schedule)
    compared = run(build(kernel), one)
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_threads_and_mmas_of_a_pair_share_slots(schedule: int) -> None:
    """Sixteen iterations through seven slots, which each block fills for itself."""
    kernel = "gemm_reduction_pairs.sm100"
    one = Request({"M": 512, "N": 256, "K": 1024}, (4, 1, 1), schedule=schedule)
    compared = run(build(kernel), one)
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize(
    ("kernel", "wait", "hazard"),
    [
        ("gemm_persistent", r"accumulators_free\.wait_of_pair\([^;]*;", "synchronization after its read"),
        (
            "gemm_reduction",
            r"if \([^;]*\) dependence0\.wait_of_pair\([^;]*;",
            "synchronization after its write",
        ),
    ],
)
def test_without_waiting_for_the_second_block_a_hazard_is_found(
    tmp_path: Path, kernel: str, wait: str, hazard: str
) -> None:
    paired = f"{kernel}_pairs.sm100"
    source = re.sub(wait, ";", cuda(paired))
    (tmp_path / "kernel.cu").write_text(source)
    host = compiled(tmp_path / "kernel.cu", tmp_path, [RUNTIME], "100a")
    made = replace(build(paired), host=host, manifest=replace(build(paired).manifest, name=kernel))
    with pytest.raises(HazardError, match=f"without {hazard}"):
        run(made, Request({"M": 512, "N": 512, "K": 192}, (2, 1, 1)))


@pytest.mark.parametrize(
    ("kernel", "one"),
    [
        ("matmul_bf16_pairs.sm100", Request({"M": 128, "N": 128, "K": 64}, (1, 1, 1))),
        ("gemm_pairs.sm100", Request({"M": 384, "N": 256, "K": 64}, (4, 1, 1))),
    ],
)
def test_a_launch_with_an_odd_number_of_tiles_is_refused(kernel: str, one: Request) -> None:
    """Programs along x; rows of tiles, from which the programs' order follows."""
    with pytest.raises(TwillError, match="launch"):
        run(build(kernel), one)


def test_half_of_b_is_loaded() -> None:
    """Of 256 x 64 elements of 2 bytes, and 128 x 64 of A: both blocks' bytes on the first one's barrier."""
    assert re.search(r"if \(pair_rank == 0\) mbarrier_arrive_expect\(.*, 65536\);", cuda("gemm_pairs.sm100"))


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [("fa_bwd.sm100", "load the same B"), ("fa_fwd_causal.sm100", "equally often")],
)
def test_other_kernels_are_refused(kernel: str, reason: str) -> None:
    with pytest.raises(TwillError, match=reason):
        lower(*loops(kernel), TARGET, Options(pairs=True))


def test_a_pair_has_whole_tiles_of_128_rows() -> None:
    """Accumulators of fewer rows lie otherwise in a pair."""
    with pytest.raises(TwillError, match="128 rows"):
        changed("matmul_low.sm100", Options(pairs=True))
