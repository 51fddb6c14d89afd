"""Loads of what was stored just before, as the stored values."""

from pathlib import Path

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.loads.stored_values import forwarded
from twill.ir.loop import Module
from twill.ops.table import role


def noted(*changes: tuple[str, str]) -> Module:
    path = Path("tests/kernels/ttgir/noted.sm90.ttgir")
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return read(text, str(path))


def loads(module: Module) -> int:
    return sum(role(op) == "pointer_load" for op in module.functions[0].walk())


def test_a_vector_that_was_stored_is_not_loaded() -> None:
    made = forwarded(noted())
    assert (loads(noted()), loads(made)) == (3, 2)
    assert made.text.count("\n") == noted().text.count("\n")


STORE, LOAD = "tt.store %27, %63 : tensor<64x!tt.ptr<f32>, #blocked2>", "tt.load %26 : "
RANGE = "{end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked2>"


@pytest.mark.parametrize(
    "change",
    [
        (STORE, f"{STORE} loc(unknown) tt.store %32, %32 : tensor<64x1x!tt.ptr<f16>, #blocked>"),
        (LOAD, "tt.load %26, %12 : "),
        (LOAD, "tt.load %26 {isVolatile = true} : "),
        (RANGE, RANGE.replace("start = 0", "start = 1")),
        ("tt.addptr %25, %15", "tt.addptr %25, %11"),
    ],
)
def test_what_may_be_something_else_is_loaded(change: tuple[str, str]) -> None:
    """Another store comes between, a mask or the word volatile; other addresses, or one for all elements."""
    assert loads(forwarded(noted(change))) == 3


def test_addresses_that_elements_share_are_loaded() -> None:
    shared = (("tt.addptr %25, %15", "tt.addptr %25, %11"), ("tt.addptr %24, %12", "tt.addptr %24, %8"))
    assert loads(forwarded(noted(*shared))) == 3
