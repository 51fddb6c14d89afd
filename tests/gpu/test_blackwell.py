# pyright: basic, reportMissingImports=false
"""What only Blackwell has, on a Blackwell GPU: examples in sub-tiles, with block-scaled MMAs, pairs of thread
blocks, polynomials, and tiles that running thread blocks take over. Other block-scaled dots are among the
forms (`test_forms`)."""

import pytest

from tests.gpu.kernels import kernel, lineup
from tests.gpu.test_values import LENGTHS, SIZES
from tests.kernels.programs import EXAMPLES, PAIRED, POLYNOMIAL, SCALED_EXAMPLES
from twill.bench.run import values

pytestmark = pytest.mark.gpu("sm_100")

PAIRS = tuple(name.removesuffix(".sm100") for name in PAIRED)
NAMES = (
    *("fa_fwd_subtiled", "fa_bwd_subtiled"),
    *POLYNOMIAL,
    *SCALED_EXAMPLES,
    *(name for name in PAIRS if name.removesuffix("_pairs") in (*EXAMPLES, *SCALED_EXAMPLES)),
)
DEEP = [{"M": 128, "N": 256, "K": 256}, {"M": 512, "N": 768, "K": 1024}, {"M": 4096, "N": 4096, "K": 8192}]
"""Of block-scaled products: whole tiles."""


def sizes(name: str) -> list[dict[str, int]]:
    if name.removesuffix("_pairs") in SCALED_EXAMPLES:
        return DEEP
    return LENGTHS if name.startswith("fa") else SIZES


CASES = [(name, size) for name in NAMES for size in sizes(name)]
EVEN = 256
"""Rows of two tiles: of a pair, which needs a whole one."""


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_values_are_right(name: str, shape: dict[str, int]) -> None:
    if name in PAIRS and any(shape.get(size, EVEN) % EVEN for size in ("M", "length")):
        pytest.skip("an odd number of tiles")
    field = lineup(name)
    case = field.case(shape)
    for _ in range(3):
        assert values(field, case)


@pytest.mark.parametrize("size", [{"M": 256, "N": 256, "K": 64}, {"M": 4000, "N": 4080, "K": 1032}])
def test_running_thread_blocks_take_over_tiles(size: dict[str, int]) -> None:
    """More tiles than multiprocessors, ragged ones among them (cluster launch control)."""
    import torch

    m, n, k = size["M"], size["N"], size["K"]
    a, b = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    for _ in range(3):
        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        grid = (-(-m // 128), -(-n // 128))
        kernel("matmul_bf16", dynamic=True)[grid](a, b, c, m, n, k)
        torch.cuda.synchronize()
        assert torch.allclose(c.float(), a.float() @ b.float().T, rtol=1e-2, atol=0.5)
