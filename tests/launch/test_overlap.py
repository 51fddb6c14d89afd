"""Arrays that share memory."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill.diagnostics import TwillError
from twill.ir.apart import Apart
from twill.launch.arrays import Array
from twill.launch.overlap import refuse, share


def array(address: int, shape: tuple[int, ...], strides: tuple[int, ...], type: str = "f16") -> Array:
    return Array(address, type, shape, strides, 0)


def touched(one: Array, size: int) -> set[int]:
    """Every byte of an array."""
    places = product(*map(range, one.shape))
    begins = (
        one.address + size * sum(i * s for i, s in zip(place, one.strides, strict=True)) for place in places
    )
    return {begin + byte for begin in begins for byte in range(size)}


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    rank = draw(st.integers(0, 3))
    shape = draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank))
    strides = draw(st.lists(st.integers(0, 12), min_size=rank, max_size=rank))
    return array(draw(st.integers(0, 40)), tuple(shape), tuple(strides), draw(st.sampled_from(["i8", "f32"])))


@given(arrays(), arrays())
def test_arrays_that_are_said_to_be_apart_have_no_byte_in_common(one: Array, other: Array) -> None:
    sizes = [1 if found.type == "i8" else 4 for found in (one, other)]
    common = touched(one, sizes[0]) & touched(other, sizes[1])
    assert share(one, other) == share(other, one)
    if common:
        assert share(one, other)


def test_views_of_packed_rows_are_apart() -> None:
    """Queries, keys and values of 8 heads of 64 in rows of 1536 numbers; what lies between them."""
    rows = [array(4096 + 2 * 512 * i, (4, 128, 8, 64), (128 * 1536, 1536, 64, 1)) for i in range(3)]
    assert not any(share(one, other) for one in rows for other in rows if one is not other)
    assert share(rows[0], rows[0])
    shifted = array(4096 + 2 * 511, (4, 128, 8, 64), (128 * 1536, 1536, 64, 1))
    assert share(rows[0], shifted)
    assert not share(array(0, (64,), (1,)), array(128, (64,), (1,)))
    assert share(array(0, (64,), (1,)), array(127, (64,), (1,)))


def test_on_different_gpus_addresses_say_nothing() -> None:
    one = array(0, (64,), (1,))
    assert not share(one, Array(0, "f16", (64,), (1,), 1))


def test_a_launch_with_one_array_for_two_arguments_is_refused() -> None:
    one, other = array(0, (64,), (1,)), array(64, (64,), (1,))
    with pytest.raises(TwillError, match="argument `c`: it overlaps `a`, and the kernel stores to it"):
        refuse([Apart("c", "b"), Apart("c", "a")], {"c": one, "a": one})
    with pytest.raises(TwillError, match="overlaps"):
        refuse([Apart("c", "a", in_place=True)], {"c": one, "a": other})
    refuse([Apart("c", "a", in_place=True)], {"c": one, "a": one})
    refuse([Apart("c", "a")], {"c": one, "a": array(128, (64,), (1,))})
    refuse([Apart("c", "a")], {"c": one})
