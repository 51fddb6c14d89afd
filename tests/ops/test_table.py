"""The table of operations: one place for each operation's name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.ops.cases import Case
from tests.ops.test_differential import NOWHERE
from twill.ops.table import ROWS, TABLE

ROOT = Path(__file__).parents[2] / "twill"
MOST = 3
"""Python files that an operation's name may stand in: its row, and what treats it alone."""
NAME = re.compile(r"(?<![\w.])[a-z]+\.[a-z][\w.]*[a-z0-9]\b")


def _texts(path: Path) -> Iterator[str]:
    """Every string literal of a file that is no documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    notes = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in notes:
            yield node.value


def test_an_operation_is_named_in_few_files() -> None:
    files: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for text in _texts(path):
            for name in NAME.findall(text):
                if name in TABLE:
                    files.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert not {name: sorted(found) for name, found in files.items() if len(found) > MOST}


def test_an_operation_has_one_row() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_row_says_what_it_is(name: str) -> None:
    row = TABLE[name]
    assert row.word
    assert row.scheduled or not row.cost
    assert not (row.repeatable and row.writes_global)
    assert not row.identity or row.c
    assert not row.cost or row.cost in TABLE


@pytest.mark.parametrize(
    ("source", "result", "c"),
    [
        ("i16", "bf16", "float(bitcast<__nv_bfloat16>(int16_t(16256)))"),
        ("i64", "f64", "bitcast<double>(int64_t(16256))"),
    ],
)
def test_the_bits_of_a_literal_have_the_size_of_its_type(source: str, result: str, c: str) -> None:
    row = TABLE["tt.bitcast"]
    assert row.c is not None
    assert row.c(Case(row, (source,), (result,)).op, ("16256",)) == c


@pytest.mark.parametrize(
    ("name", "given", "upper"),
    [
        ("tt.mulhiui", 2**31 - 1, 2**30 - 1),
        ("arith.mului_extended", 2**31 - 1, 2**30 - 1),
        ("arith.mulsi_extended", -(2**31), 2**30),
    ],
)
def test_the_upper_half_of_a_product_of_two_numbers(name: str, given: int, upper: int) -> None:
    """Numbers, not tiles: a generator of random numbers multiplies its seed before the tiles are made."""
    row = TABLE[name]
    results = ("i32",) if name.startswith("tt") else ("i32", "i32")
    op = Case(row, ("i32", "i32"), results).op
    assert row.meaning is not None
    found = row.meaning(op, (np.int32(given), np.int32(given)), NOWHERE)
    assert int(np.asarray(found[-1])) == upper
