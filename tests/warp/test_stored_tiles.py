"""How many tiles a launch stores, where the constants of a kernel say so."""

import pytest

from tests.kernels.programs import changed, loops, program
from twill.warp.plan import Options, most_blocks
from twill.warp.stored_tiles import stored_tiles

FEW = "pointers_few_tiles"


@pytest.mark.parametrize(
    ("kernel", "tiles"),
    [
        pytest.param(FEW, 4 * 32, id="constant sizes"),
        pytest.param("pointers", None, id="sizes of the launch"),
        pytest.param("rationed", None, id="several for each thread block"),
        pytest.param("matmul_32", None, id="by TMA"),
    ],
)
def test_a_mask_that_ends_at_constants_says_how_many(kernel: str, tiles: int | None) -> None:
    assert stored_tiles(program(kernel).function) == tiles


def test_thread_blocks_share_no_sm_where_each_has_one() -> None:
    machine = loops(FEW)[1][0].machine
    assert most_blocks(Options(), machine, program(FEW).function) == 1
    assert program(FEW).resident_blocks == 1
    assert changed(FEW, Options(blocks=10_000)).resident_blocks > 1
