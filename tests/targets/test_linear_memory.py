"""Places in shared memory that a linear layout addresses."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill.ir.loop import SharedLinear
from twill.ir.shared_places import places, run
from twill.targets.cuda.shared.linear_memory import place

BLOCKS = ((0, 1), (0, 2), (32, 0), (64, 0), (1, 0), (2, 0), (4, 0), (8, 0), (16, 0), (128, 0), (0, 4))
"""Two blocks of 128 rows of eight scale factors."""


@given(rows=st.integers(0, 4), columns=st.integers(0, 3), order=st.randoms(use_true_random=False))
def test_each_element_has_the_place_that_the_layout_says(rows: int, columns: int, order: object) -> None:
    bases = [*((1 << i, 0) for i in range(rows)), *((0, 1 << i) for i in range(columns))]
    order.shuffle(bases)  # type: ignore[attr-defined]
    text = place(tuple(bases), "row", "column")
    for row, column in product(range(1 << rows), range(1 << columns)):
        expected = sum(1 << k for k, (down, across) in enumerate(bases) if row & down or column & across)
        assert eval(text, {"row": row, "column": column}) == expected


def test_a_scale_factor_lies_where_tcgen05_cp_reads_it() -> None:
    """PTX ISA, Scale Factor A: row m of a block in lane m % 32, four factors in word m / 32 of 16 bytes."""
    for row, factor in product(range(256), range(8)):
        at = eval(place(BLOCKS, str(row), str(factor)))
        block = row // 128 + 2 * (factor // 4)
        assert at == 512 * block + 16 * (row % 32) + 4 * (row % 128 // 32) + factor % 4
    assert run(BLOCKS) == 4


@pytest.mark.parametrize(
    ("shape", "offset"),
    [
        ((2, 2), ((0, 1), (1, 1))),
        ((2, 2), ((0, 1), (0, 1))),
        ((4, 2), ((0, 1), (1, 0))),
        ((2, 2, 1), ((0, 1, 0), (1, 0, 0))),
    ],
)
def test_a_swizzle_is_no_such_layout(shape: tuple[int, ...], offset: tuple[tuple[int, ...], ...]) -> None:
    assert places(shape, SharedLinear(offset, (), 16)) is None
