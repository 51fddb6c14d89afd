"""Stores under a mask that joins a condition on scalars, such as a branch that became one: a branch around them
again, so that a thread block which does not store waits for nothing that the rest of the mask needs."""

import re
from pathlib import Path

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs

KERNEL = """
import triton
import triton.language as tl

HALF, NUMBERS = dict.fromkeys("abc", "*fp16:16"), dict.fromkeys(("experts", "rows"), "*i32")
TWILL = {"chosen": {**HALF, **NUMBERS, "n": "i32:16"}}

@triton.jit
def chosen(a, b, c, experts, rows, n):
    if tl.program_id(0) * 64 >= tl.load(experts + 1000):
        return
    i, j, inner = tl.arange(0, 64), tl.arange(0, 64)[None, :], tl.arange(0, 64)
    expert, row = tl.load(experts + tl.program_id(0)), tl.load(rows + tl.program_id(0) * 64 + i)[:, None]
    if expert == -1:
        tl.store(c + row * 64 + j, tl.zeros([64, 64], tl.float16), mask=row < n)
        return
    x = tl.load(a + row * 64 + inner[None, :], mask=row < n, other=0.0)
    acc = tl.dot(x, tl.load(b + (expert * 64 + inner[:, None]) * 64 + j))
    tl.store(c + row * 64 + j, acc.to(tl.float16), mask=row < n)
"""


def test_a_branch_that_became_a_mask_is_a_branch_around_the_store(tmp_path: Path) -> None:
    (tmp_path / "chosen.py").write_text(KERNEL)
    given = Inputs(f"{tmp_path / 'chosen.py'}:chosen", arch="sm90")
    lines = generate(given, GenerateOptions(time_limit=10)).cuda.splitlines()
    stores = [i for i, line in enumerate(lines) if re.search(r"store_words|\*\(+c \+", line)]
    assert stores
    first = lines[stores[0] - 3 : stores[0]]
    assert any(re.fullmatch(r"\s*if \(\w+( && \w+)*\) \{", line) for line in first), first
