"""Pairs of thread blocks, executed as clusters: values, and no hazard, in whatever order asynchronous operations
complete."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.builds import build, numbers
from tests.kernels.double_precision import scaled_error
from tests.kernels.programs import PAIRED, changed, cuda, loops
from twill.diagnostics import TwillError
from twill.emulate.build import Build, Request, run, wrong
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


def mutant(kernel: str, place: Path, pattern: str, other: str) -> Build:
    """A kernel of pairs whose text is changed."""
    paired = f"{kernel}_pairs.sm100"
    source, changes = re.subn(pattern, other, cuda(paired))
    assert changes
    (place / "kernel.cu").write_text(source)
    made, host = build(paired), compiled(place / "kernel.cu", place, [RUNTIME], "100a")
    return replace(made, host=host, manifest=replace(made.manifest, name=made.function.name))


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
    made = mutant(kernel, tmp_path, wait, ";")
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
    with pytest.raises(TwillError, match="launch") as refused:
        run(build(kernel), one)
    assert "even" in (refused.value.help or "")


def test_half_of_b_is_loaded() -> None:
    """Of 256 x 64 elements of 2 bytes, and 128 x 64 of A: both blocks' bytes on the first one's barrier."""
    assert re.search(r"if \(pair_rank == 0\) mbarrier_arrive_expect\(.*, 65536\);", cuda("gemm_pairs.sm100"))


def test_scale_factors_of_b_are_loaded_once() -> None:
    """Of 256 rows of B x 16 each block loads those of 128 rows, for both; those of its own rows of A as a whole."""
    text = cuda("matmul_nvfp4_pairs.sm100")
    both = re.findall(r"tma_load_multicast_pair\(.* \+ pair_rank \* 2048, &map_(\w+), of_first\(", text)
    assert both == ["y_desc_18"] * 2
    assert "{256, 2, 4, 1, 1}, no_elements" in re.findall(r"tensor_map<5>\(&map_y_desc_18,.*", text)[0]
    assert len(re.findall(r"tma_load_pair\(.*&map_x_desc_13,", text)) == 2


@pytest.mark.parametrize("schedule", [0, 1, 2])
def test_both_blocks_fill_slots_of_each_other_again(schedule: int) -> None:
    """Twelve iterations; each slot of scale factors is filled by both blocks."""
    found, most = scaled_error("matmul_nvfp4_pairs.sm100", 256, 512, 12 * 256, schedule)
    assert found < most


@pytest.mark.parametrize(
    ("pattern", "other", "hazard"),
    [
        (r"tma_load_multicast_pair\(", "tma_load_pair(", "deadlock"),
        (r"(tma_load_multicast)_pair(\(.*)of_first\((\S*)\), ", r"\1\2\3, ", "deadlock"),
        (r"if \(pair_rank == 0\) (mbarrier_arrive_expect)", r"\1", "1 arrivals on an mbarrier"),
        (r"(\S*\.producer_acquire\(.*\);)", r"if (pair_rank == 0) \1", "without synchronization"),
    ],
    ids=["for itself", "on its own barrier", "expected twice", "not waited for"],
)
def test_wrong_loads_of_both_blocks_are_found(tmp_path: Path, pattern: str, other: str, hazard: str) -> None:
    made = mutant("matmul_nvfp4", tmp_path, pattern, other)
    with pytest.raises((HazardError, TwillError), match=hazard):
        run(made, Request({"M": 256, "N": 256, "K": 12 * 256}, (2, 1, 1)))


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
