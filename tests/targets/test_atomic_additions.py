"""Atomic additions of tiles whose results nobody reads: neighbours in one operation, and never a loop of exchanges
for elements of 16 bits. The check of a generated kernel compares values, by its PTX."""

import re
from pathlib import Path

import pytest

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs

KERNEL = """
import triton
import triton.language as tl

TWILL = {"shared_out": {"a": "*fp16:16", "b": "*fp16:16", "c": "*DTYPE:16", "n": "i32:16", "m": "i32"}}

@triton.jit
def shared_out(a, b, c, n, m):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    inner, acc = tl.arange(0, 64), tl.zeros([ROWS, COLUMNS], tl.float32)
    for k in range(tl.program_id(0) * 64, n, 64 * tl.num_programs(0)):
        acc = tl.dot(tl.load(a + i * n + k + inner[None, :]), tl.load(b + (k + inner[:, None]) * 64 + j), acc)
    tl.atomic_add(c + i * STRIDE + j, acc.to(tl.DTYPE), mask=MASK, sem="relaxed")
"""


def _functions(folder: Path, dtype: str, shape: tuple[int, int], stride: str, mask: str) -> set[str]:
    """Those that add."""
    words = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
    text = KERNEL.replace("*DTYPE", f"*{dtype}").replace("tl.DTYPE", f"tl.{words[dtype]}")
    text = (
        text.replace("ROWS", str(shape[0]))
        .replace("COLUMNS", str(shape[1]))
        .replace("STRIDE", stride)
        .replace("MASK", mask)
    )
    (folder / "shared_out.py").write_text(text)
    given = Inputs(f"{folder / 'shared_out.py'}:shared_out", arch="sm90")
    made = generate(given, GenerateOptions(time_limit=10))
    return set(re.findall(r"\b(?:atomicAdd|add_\w+)\b(?=[<(])", made.cuda))


@pytest.mark.parametrize(
    ("dtype", "shape", "word"),
    [
        ("fp16", (64, 64), "add_words"),
        ("bf16", (64, 64), "add_words"),
        ("fp32", (64, 64), "add_words"),
        ("fp16", (16, 64), "add_pair"),
        ("fp16", (16, 32), "add_neighbours"),
    ],
)
def test_neighbours_are_added_in_one_operation(
    tmp_path: Path, dtype: str, shape: tuple[int, int], word: str
) -> None:
    assert _functions(tmp_path, dtype, shape, "64", "(i < m) & (j < 64)") == {word}


def test_an_element_of_16_bits_is_added_with_the_other_of_its_word(tmp_path: Path) -> None:
    assert _functions(tmp_path, "fp16", (64, 64), "m", "(i < 50) & (j < m)") == {"add_element"}
