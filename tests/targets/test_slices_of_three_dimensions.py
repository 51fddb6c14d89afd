"""Which way a vector runs whose layout is a slice of a slice."""

import pytest

from twill.ir.loop import Blocked, Encoding, Scalar, Slice, Tensor
from twill.targets.cuda.registers.fragments import axes

WHOLE = Blocked((1, 1, 8), (1, 4, 8), (1, 4, 1), (2, 1, 0))
ROWS, COLUMNS = (0,), (1,)


@pytest.mark.parametrize(
    ("shape", "encoding", "expected"),
    [
        ((16,), Slice(0, Slice(2, WHOLE)), ROWS),
        ((16,), Slice(1, Slice(0, WHOLE)), ROWS),
        ((64,), Slice(0, Slice(1, WHOLE)), COLUMNS),
        ((64,), Slice(0, Slice(0, WHOLE)), COLUMNS),
        ((1, 16), Slice(2, WHOLE), ROWS),
        ((1, 64), Slice(1, WHOLE), COLUMNS),
        ((1, 16, 1), WHOLE, ROWS),
        ((1, 1, 64), WHOLE, COLUMNS),
        ((1, 16, 64), WHOLE, (0, 1)),
    ],
)
def test_axes(shape: tuple[int, ...], encoding: Encoding, expected: tuple[int, ...]) -> None:
    assert axes(Tensor(shape, Scalar("i32"), encoding)) == expected
