"""Vectors that are held exactly as they are laid out, beside tiles that are not."""

from pathlib import Path

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.literal_layouts import literal_layouts
from twill.ir.loop import Blocked, Linear


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("kernel", ["apportioned", "faded", "epilogue"])
def test_layouts_of_one_dimension_are_exact(kernel: str, vectors: bool) -> None:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    module = read(path.read_text(encoding="utf-8"), str(path))
    exact = literal_layouts(module, vectors=vectors).encodings
    blocked = {name: one for name, one in module.encodings.items() if isinstance(one, Blocked)}
    flat = {name for name, one in blocked.items() if len(one.order) == 1}
    assert flat
    alone = {name for name in blocked if isinstance(exact[name], Linear)} - {
        name for name in blocked if isinstance(literal_layouts(module).encodings[name], Linear)
    }
    assert alone <= flat
    assert all(isinstance(exact[name], Linear) for name in flat) or not vectors
    assert bool(alone) == vectors
