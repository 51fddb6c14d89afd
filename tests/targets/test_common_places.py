"""Tiles between two linear layouts in shared memory: every address, evaluated for every thread and register,
is that of one element for those that write it and those that read it."""

from math import prod

import pytest

from tests.targets.test_linear_tiles import at, element
from twill.ir.loop import Blocked, Linear, Scalar, Tensor
from twill.targets.cuda.registers.linear_tiles import Spread, flattened, spread
from twill.targets.cuda.shared.common_places import Side, common_places

SHAPE = (16, 4, 64)
ROWS = Blocked((1, 1, 8), (1, 4, 8), (4, 1, 1), (2, 1, 0))
COLUMNS = Blocked((1, 1, 1), (1, 1, 32), (1, 2, 2), (2, 1, 0))
DEEP = Blocked((1, 1, 8), (1, 2, 16), (2, 2, 1), (2, 1, 0))
ACCUMULATOR = Linear(
    ((0, 0, 1), (2, 0, 0), (0, 0, 8), (0, 0, 16), (0, 0, 32)),
    ((0, 0, 2), (0, 0, 4), (0, 1, 0), (0, 2, 0), (1, 0, 0)),
    ((4, 0, 0), (8, 0, 0)),
    (),
)
WIDE_ACCUMULATOR = Linear((*ACCUMULATOR.register, (0, 0, 64)), ACCUMULATOR.lane, ACCUMULATOR.warp, ())
EVERY_ROW = Linear(
    ((0, 1, 0), (0, 2, 0), (1, 0, 0), (2, 0, 0), (4, 0, 0), (8, 0, 0)),
    ((0, 0, 1), (0, 0, 2), (0, 0, 4), (0, 0, 8), (0, 0, 16)),
    ((0, 0, 32), (0, 0, 0)),
    (),
)


def form(encoding: Blocked | Linear, shape: tuple[int, ...] = SHAPE) -> Spread:
    return spread(Tensor(shape, Scalar("f16"), encoding))


def touched(side: Side, address: str, size: int) -> dict[int, set[tuple[int, ...]]]:
    """The elements that threads have at each byte."""
    found = dict[int, set[tuple[int, ...]]]()
    for lane in range(32):
        for warp in range(4):
            for step in range(side.form.registers // side.many):
                begin = at(address, lane, warp, step)
                assert begin % (side.many * size) == 0
                for k in range(side.many):
                    here = element(side.form, lane, warp, step * side.many + k)
                    found.setdefault(begin + k * size, set()).add(here)
    return found


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("source", "result"),
    [
        (ROWS, EVERY_ROW),
        (COLUMNS, ACCUMULATOR),
        (ACCUMULATOR, COLUMNS),
        (ACCUMULATOR, ROWS),
        (DEEP, WIDE_ACCUMULATOR),
        (WIDE_ACCUMULATOR, DEEP),
    ],
)
def test_each_element_has_one_place(source: Blocked | Linear, result: Blocked | Linear, size: int) -> None:
    shape = (16, 4, 128) if DEEP in (source, result) else SHAPE
    forms = form(source, shape), form(result, shape)
    places = common_places(*forms, size)
    assert places is not None
    found = list[dict[int, set[tuple[int, ...]]]]()
    for one in forms:
        side = places.side(one)
        step = f"(i_ * {side.many})" if side.many > 1 else "i_"
        found.append(touched(side, places.address(side.form.point(step)), size))
    assert found[0] == found[1]
    assert sorted(found[0]) == [size * k for k in range(prod(shape))]
    assert sorted(flattened(one, shape) for (one,) in found[0].values()) == [*range(prod(shape))]


def test_neighbours_of_a_thread_move_together() -> None:
    """Of rows of eight elements to columns of 64: eight stores of 8 bytes and eight loads of 16, where 32
    elements were stored and 64 loaded one by one."""
    places = common_places(form(ROWS), form(EVERY_ROW), 2)
    assert places is not None
    assert [places.side(form(one)).many for one in (ROWS, EVERY_ROW)] == [4, 8]
    assert places.cost(form(ROWS), form(EVERY_ROW)) == 8 * (1 + 2) + 8 * (1 + 4)
