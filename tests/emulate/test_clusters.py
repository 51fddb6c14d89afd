"""Thread blocks of Hopper that share loads, executed as clusters: values, and no hazard, in whatever order
asynchronous operations complete; and launches that have no clusters."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.builds import build, numbers
from tests.kernels.programs import CLUSTERED, cuda
from twill.emulate.build import Request, run, wrong
from twill.emulate.faults import HazardError
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")


def request(kernel: str, schedule: int = 0) -> Request:
    """Two programs, of arguments that the kernel has."""
    names = {argument.name for argument in build(kernel).manifest.arguments}
    given = {**numbers(kernel), "M": 256, "K": 320}
    return Request({n: v for n, v in given.items() if n in names}, (2, 1, 1), schedule=schedule)


@pytest.mark.parametrize("kernel", CLUSTERED)
@pytest.mark.parametrize("schedule", [0, 1])
def test_a_cluster_computes_what_two_programs_compute(kernel: str, schedule: int) -> None:
    compared = run(build(kernel), request(kernel, schedule))
    assert wrong(build(kernel), compared) is None, compared
    assert any(one.values for one in compared)


@pytest.mark.parametrize("k", [16, 208, 1040])
def test_ragged_tiles_few_iterations_and_many(k: int) -> None:
    """The slots of gemm's channel are used up to four times."""
    one = Request({"M": 208, "N": 256, "K": k}, (2, 1, 1), schedule=2)
    compared = run(build("matmul_e4m3_clustered"), one)
    assert wrong(build("matmul_e4m3_clustered"), compared) is None, compared


@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("kernel", ["gemm_persistent_clustered", "neighbours_clustered"])
def test_persistent_clusters_go_on_to_further_tiles(kernel: str, schedule: int) -> None:
    """Several tiles for each cluster; with two tiles in flight in the second kernel."""
    one = Request({"M": 512, "N": 512, "K": 200}, (4, 1, 1), schedule=schedule)
    compared = run(build(kernel), one)
    assert wrong(build(kernel), compared) is None, compared


@pytest.mark.parametrize(
    ("kernel", "one"),
    [
        ("matmul_e4m3_clustered", Request({"M": 384, "N": 128, "K": 256}, (3, 1, 1))),
        ("gemm_persistent_clustered", Request({"M": 256, "N": 512, "K": 128}, (1, 1, 1))),
        ("gemm_persistent_clustered", Request({"M": 384, "N": 512, "K": 128}, (2, 1, 1))),
    ],
    ids=["odd grid", "one block", "odd number of rows of tiles"],
)
def test_launches_without_clusters_are_right(kernel: str, one: Request) -> None:
    compared = run(build(kernel), one)
    assert wrong(build(kernel), compared) is None, compared
    assert any(one.values for one in compared)


@pytest.mark.parametrize(
    ("old", "new", "hazard"),
    [
        (r"channel_x_y\.producer_tail\([^;]*;", ";", "may exit before its shared memory"),
        ("Filling::tma, 2", "Filling::tma", "without synchronization after its"),
        (r"cluster_sync\(\);", "__syncthreads();", "mbarrier"),
    ],
    ids=["exits early", "does not wait for the other block's consumers", "begins early"],
)
def test_without_a_wait_a_hazard_is_found(tmp_path: Path, old: str, new: str, hazard: str) -> None:
    kernel = "gemm_clustered"
    source = re.sub(old, new, cuda(kernel))
    (tmp_path / "kernel.cu").write_text(source)
    host = compiled(tmp_path / "kernel.cu", tmp_path, [RUNTIME], "90a")
    made = replace(build(kernel), host=host, manifest=replace(build(kernel).manifest, name="gemm"))
    with pytest.raises(HazardError, match=hazard):
        run(made, Request({"M": 256, "N": 256, "K": 640}, (2, 1, 1), schedule=1))


def test_half_of_b_is_loaded_and_all_of_it_expected() -> None:
    """Of 256 x 64 elements of 2 bytes, and 128 x 64 of A."""
    text = cuda("gemm_clustered")
    assert re.search(r"mbarrier_arrive_expect\(.*, 49152\);", text)
    assert re.search(
        r"tma_load_multicast\(.* \+ 16384 \+ pair_rank \* 16384, .* \+ pair_rank \* 128\);", text
    )
    assert text.count("__cluster_dims__(2, 1, 1)") == 1
