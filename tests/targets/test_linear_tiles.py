"""Tiles in linear layouts: every expression, evaluated for every thread and register, against the layout's
definition."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twill.ir.loop import Bases, Blocked, Encoding, Linear, NvidiaMma, Scalar, Slice, Tensor
from twill.targets.cuda.registers.linear_tiles import Point, Spread, spread, unflattened
from twill.targets.cuda.shared.shared_tiles import Shared, matrix_rows

MMA = NvidiaMma((3, 0), (4, 1), (16, 64, 16))
ROWS = Blocked((1, 8), (4, 8), (4, 1), (1, 0))
DEEP = Blocked((1, 2, 4), (2, 4, 4), (2, 2, 1), (2, 1, 0))
SWIZZLED = Linear(((0, 1), (0, 2), (1, 3)), ((0, 4), (0, 8), (2, 0), (4, 4), (8, 0)), ((16, 0), (32, 0)), ())


class Lane:
    """Stands for the thread in an expression."""

    def __init__(self, lane: int, warp: int) -> None:
        self.lane, self.warp = lane, warp


def at(expression: str, lane: int, warp: int, step: int) -> int:
    """The value of an expression in one thread."""
    return int(eval(expression, {"thread": Lane(lane, warp), "i_": step}))


def element(point: Point | Spread, lane: int, warp: int, step: int) -> tuple[int, ...]:
    """By the definition of a linear layout."""
    found = list(point.constant) if isinstance(point, Point) else [0] * len(point.shape)
    for number, bits in ((step, point.register), (lane, point.lane), (warp, point.warp)):
        for k, vector in enumerate(bits):
            if number >> k & 1:
                found = [a ^ b for a, b in zip(found, vector, strict=True)]
    return tuple(found)


def tile(shape: tuple[int, ...], encoding: Encoding) -> Spread:
    return spread(Tensor(shape, Scalar("f32"), encoding))


def seen(
    held: Spread, shape: tuple[int, ...], change: Callable[[tuple[int, ...]], tuple[int, ...]]
) -> Spread:
    """The tile with every element where it is, counted otherwise."""
    bits = (held.register, held.lane, held.warp)
    return Spread(shape, *(tuple(change(vector) for vector in vectors) for vectors in bits))


def threads() -> list[tuple[int, int]]:
    return list(product(range(32), range(4)))


TILES = [
    tile((64, 64), MMA),
    tile((64, 64), ROWS),
    tile((16, 16), ROWS),
    tile((8, 16, 16), DEEP),
    tile((64, 16), SWIZZLED),
    tile((64,), Slice(1, MMA)),
    tile((64,), Slice(0, ROWS)),
]


@pytest.mark.parametrize("held", TILES, ids=lambda held: "x".join(map(str, held.shape)))
def test_coordinates_are_those_of_the_layout(held: Spread) -> None:
    point = held.point()
    for (lane, warp), step in product(threads(), range(held.registers)):
        wanted = element(held, lane, warp, step)
        assert (
            tuple(at(point.coordinate(axis), lane, warp, step) for axis in range(len(held.shape))) == wanted
        )
        assert unflattened(at(point.flat(), lane, warp, step), held.shape) == wanted


@pytest.mark.parametrize("held", TILES, ids=lambda held: "x".join(map(str, held.shape)))
def test_one_owner_holds_each_element(held: Spread) -> None:
    owner = held.owner().replace("&&", "and").replace("true", "True")
    owned = [
        element(held, *thread, step)
        for thread in threads()
        if at(owner, *thread, 0)
        for step in range(held.registers)
    ]
    assert sorted(owned) == sorted(product(*map(range, held.shape)))


def found(held: Spread, point: Point) -> None:
    """The register that an index names holds the element that the point means, in every thread and step."""
    index = held.index(point)
    for (lane, warp), step in product(threads(), range(1 << len(point.register))):
        assert element(held, lane, warp, at(index, lane, warp, step)) == element(point, lane, warp, step)


@pytest.mark.parametrize("encoding", [MMA, ROWS])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_vector_is_found_by_the_tile_it_is_broadcast_to(encoding: Encoding, axis: int) -> None:
    found(tile((64,), Slice(axis, encoding)), tile((64, 64), encoding).point().without(axis))
    column = tile((64, 1) if axis == 1 else (1, 64), encoding)
    found(column, tile((64, 64), encoding).point().collapsed(column.shape))


def test_a_transposed_tile_is_found() -> None:
    turned = Blocked((8, 1), (8, 4), (1, 4), (0, 1))
    found(tile((64, 32), ROWS), tile((32, 64), turned).point().permuted((1, 0)))


def test_a_reshaped_tile_is_found() -> None:
    whole = tile((64, 64), ROWS)
    halves = seen(whole, (64, 2, 32), lambda vector: (vector[0], *unflattened(vector[1], (2, 32))))
    found(whole, halves.point().reshaped((64, 64)))
    found(halves, whole.point().reshaped((64, 2, 32)))


def test_a_joined_pair_is_found() -> None:
    single = tile((64, 64), ROWS)
    pair = seen(single, (64, 64, 2), lambda vector: (*vector, 0))
    pair = Spread(pair.shape, ((0, 0, 1), *pair.register), pair.lane, pair.warp)
    for half in (0, 1):
        found(pair, single.point().extended(half))
    found(single, pair.point().without(2))


def test_what_another_thread_holds_is_refused() -> None:
    whole = tile((64, 64), MMA).point()
    for held, point in [(tile((64, 64), ROWS), whole), (tile((64,), Slice(1, MMA)), whole.without(0))]:
        with pytest.raises(ValueError, match="other threads"):
            held.index(point)


def test_sharers_of_a_row_are_named() -> None:
    assert tile((64, 64), MMA).along(1) == ((0, 1), ())
    assert tile((64, 64), MMA).along(0) == ((2, 3, 4), (0, 1))
    with pytest.raises(ValueError, match="pattern"):
        tile((64, 16), SWIZZLED).along(1)


@st.composite
def layouts(draw: st.DrawFn) -> Spread:
    """An invertible linear layout of a tile of three dimensions, some lane bits of which may move nothing."""
    shape = (4, 8, 32)
    places = draw(st.permutations(range(10)))
    bits = [1 << place for place in places]
    for _ in range(draw(st.integers(0, 4))):
        one, other = draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
        if one != other:
            bits[one] ^= bits[other]
    vectors = [unflattened(bit, shape) for bit in bits]
    zero = (0, 0, 0)
    lane: Bases = (*vectors[:4], zero) if draw(st.booleans()) else (zero, *vectors[:4])
    return Spread(shape, tuple(vectors[6:]), lane, tuple(vectors[4:6]))


@settings(max_examples=60, deadline=None)
@given(layouts(), st.permutations(range(3)))
def test_any_layout_is_found_through_views(held: Spread, order: list[int]) -> None:
    """A permuted and reshaped tile that keeps its elements where they are."""
    permuted = seen(held, tuple(held.shape[d] for d in order), lambda vector: tuple(vector[d] for d in order))
    point = permuted.point().permuted(order)
    assert point.shape == held.shape
    index = held.index(point)
    for lane, warp, step in [(0, 0, 0), (31, 3, 15), (5, 2, 9), (18, 1, 6)]:
        assert element(held, lane, warp, at(index, lane, warp, step)) == element(point, lane, warp, step)
    flat = held.point().reshaped((1024,))
    for lane, warp, step in [(0, 0, 0), (31, 3, 15), (9, 1, 3)]:
        assert at(flat.coordinate(0), lane, warp, step) == at(held.point().flat(), lane, warp, step)


WEIGHTS = (((1, 0), (8, 0), (16, 0), (0, 32), (32, 0)), ((2, 0), (4, 0), (0, 1), (0, 2), (0, 4)))
FOUR_TOGETHER = (((1, 0), (2, 0), (16, 0), (0, 32), (32, 0)), ((4, 0), (8, 0), (0, 1), (0, 2), (0, 4)))
"""Registers and lanes of the right operand of mma.sync, with two and with four neighbours in a thread."""


@pytest.mark.parametrize("operand", [WEIGHTS, FOUR_TOGETHER])
def test_matrices_bring_what_each_thread_holds(operand: tuple[Bases, Bases]) -> None:
    """PTX ISA, ldmatrix with .trans: lane 8 j + r gives the address of row r of matrix j; of each matrix lane
    t gets the elements of rows 2 (t % 4) and 2 (t % 4) + 1 in column t / 4."""
    form = Spread((64, 64), *operand, ((0, 8), (0, 16)))
    found = matrix_rows(form, Shared("0", 64, 64, 16, 128))
    assert found is not None
    point, transposed = found
    assert transposed
    for (lane, warp), register in product(threads(), range(form.registers)):
        step, j, half = register // 8, register % 8 // 2, register % 2
        row, column = element(point, 8 * j + 2 * (lane % 4) + half, warp, step)
        assert (row, column + lane // 4) == element(form, lane, warp, register)


def test_matrices_bring_sixteen_bytes_of_a_thread() -> None:
    """PTX ISA, ldmatrix: of a row of 16 bytes lane t gets bytes 4 (t % 4) to 4 (t % 4) + 3, of row t / 4: the
    operands of mma.sync of a byte. Columns that lie across memory stay where they are."""
    form = Spread((64, 64), *FOUR_TOGETHER, ((0, 8), (0, 16)))
    found = matrix_rows(form, Shared("0", 64, 64, 8, 64, transposed=True))
    assert found is not None
    point, transposed = found
    assert not transposed
    for (lane, warp), register in product(threads(), range(form.registers)):
        step, j, byte = register // 16, register % 16 // 4, register % 4
        row, column = element(point, 8 * j + lane // 4, warp, step)
        assert (row + 4 * (lane % 4) + byte, column) == element(form, lane, warp, register)
    assert matrix_rows(form, Shared("0", 64, 64, 8, 64)) is None


def test_matrices_bring_words_of_a_thread() -> None:
    """PTX ISA, ldmatrix: lane t gets word t % 4 of row t / 4, an element of 32 bits of an operand of mma.sync."""
    lanes: Bases = ((0, 1), (0, 2), (1, 0), (2, 0), (4, 0))
    form = Spread((32, 32), ((8, 0), (0, 4), (0, 8), (0, 16)), lanes, ((16, 0), (0, 0)))
    found = matrix_rows(form, Shared("0", 32, 32, 32, 128))
    assert found is not None
    point, transposed = found
    assert not transposed
    for (lane, warp), register in product(threads(), range(form.registers)):
        step, j = register // 4, register % 4
        row, column = element(point, 8 * j + lane // 4, warp, step)
        assert (row, column + lane % 4) == element(form, lane, warp, register)
    assert matrix_rows(form, Shared("0", 32, 32, 32, 128, transposed=True)) is None


def test_matrices_do_not_bring_rows_that_are_no_neighbours_in_memory() -> None:
    tile = Shared("0", 64, 64, 16, 128, transposed=True)
    two, four = (Spread((64, 64), *one, ((0, 8), (0, 16))) for one in (WEIGHTS, FOUR_TOGETHER))
    assert matrix_rows(two, tile) is not None
    assert matrix_rows(four, tile) is None


def test_matrices_do_not_bring_columns_that_warps_exchange() -> None:
    """The eight columns of a row of a matrix lie side by side from an address of 16 bytes on."""
    tile, operand = Shared("0", 64, 64, 16, 128), WEIGHTS
    assert matrix_rows(Spread((64, 64), *operand, ((0, 8), (0, 16))), tile) is not None
    assert matrix_rows(Spread((64, 64), *operand, ((0, 4), (0, 8))), tile) is None
