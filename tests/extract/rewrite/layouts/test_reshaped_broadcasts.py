"""Scales that are spread over further dimensions and reshaped are broadcast in their last form."""

from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.reshaped_broadcasts import broadcast_last, kept_shape
from twill.ir.loop import Tensor

KERNEL = Path("tests/kernels/ttgir/gauged.sm90.ttgir")


def ranks(text: str) -> set[int]:
    module = read(text, str(KERNEL))
    values = (value for op in module.functions[0].walk() for value in op.results)
    return {len(value.type.shape) for value in values if isinstance(value.type, Tensor)}


def test_no_tile_of_more_dimensions_is_left() -> None:
    text = KERNEL.read_text(encoding="utf-8")
    assert max(ranks(text)) == 4
    assert max(ranks(broadcast_last(read(text, str(KERNEL))).text)) == 2


def test_lines_stay_where_they_are() -> None:
    text = KERNEL.read_text(encoding="utf-8")
    assert broadcast_last(read(text, str(KERNEL))).text.count("\n") == text.count("\n")


@st.composite
def spreads(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """A shape, what it is broadcast to, and what that is reshaped to."""
    sizes = draw(st.lists(st.sampled_from((1, 2, 4)), min_size=1, max_size=4))
    source = tuple(draw(st.sampled_from((1, size))) for size in sizes)
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(sizes) - 1)), max_size=2)))
    parts = [sizes[a:b] for a, b in zip([0, *cuts], [*cuts, len(sizes)], strict=True)]
    return source, tuple(sizes), tuple(prod(part) for part in parts)


@given(spreads())
def test_the_tile_has_the_same_elements(given: tuple[tuple[int, ...], ...]) -> None:
    source, wide, result = given
    kept = kept_shape(source, wide, result)
    if kept is None:
        return
    tile = np.arange(prod(source)).reshape(source)
    spread = np.broadcast_to(tile, wide).reshape(result)
    assert prod(kept) == prod(source)
    np.testing.assert_array_equal(np.broadcast_to(tile.reshape(kept), result), spread)


@pytest.mark.parametrize(
    ("source", "wide", "result", "kept"),
    [
        ((64, 1, 1), (64, 1, 32), (64, 32), (64, 1)),
        ((2, 1, 4, 1), (2, 32, 4, 16), (64, 64), None),
        ((1, 1, 1, 1), (1, 64, 1, 64), (64, 64), (1, 1)),
        ((64, 4, 1), (64, 4, 16), (64, 64), None),
    ],
)
def test_what_repeated_and_other_dimensions_make_up_is_left(
    source: tuple[int, ...], wide: tuple[int, ...], result: tuple[int, ...], kept: tuple[int, ...] | None
) -> None:
    assert kept_shape(source, wide, result) == kept
