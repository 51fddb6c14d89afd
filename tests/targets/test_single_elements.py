"""Accesses to single elements of tiles: addresses that differ in known offsets, elements of words as they are,
one mask for all. The check of the generated kernel compares values, by its PTX."""

import re
from pathlib import Path

import pytest

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.distribution import powers
from twill.ir.loop import Scalar
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import cast
from twill.targets.cuda.shared.shared_tiles import Shared, places_again

KERNEL = """
import triton
import triton.language as tl

ARGUMENTS = {"a": "*bf16:16", "b": "*i32:16", "s": "*bf16:16", "c": "*fp32:16", "n": "i32:16"}
TWILL = {"single": ARGUMENTS}

@triton.jit
def single(a, b, s, c, n):
    m, k, word = tl.arange(0, 16), tl.arange(0, 64), tl.arange(0, 8)
    j = tl.program_id(0) * 64 + tl.arange(0, 64)
    shift, acc = 4 * tl.arange(0, 8)[None, None, :], tl.zeros([16, 64], tl.float32)
    for i in range(0, n, 64):
        x = tl.load(a + m[:, None] * n + i + k[None, :])
        packed = tl.load(b + j[:, None] * (n // 8) + i // 8 + word[None, :])
        scale = tl.load(s + j * (n // 64) + i // 64, mask=j < 192, other=0.0)
        y = (tl.reshape(packed[:, :, None] >> shift & 15, (64, 64)) - 8).to(tl.float32)
        acc = tl.dot(x, tl.trans((y * scale.to(tl.float32)[:, None]).to(tl.bfloat16)), acc)
    tl.store(c + m[:, None] * 192 + j[None, :], acc, mask=(j < 192)[None, :])
"""


def test_elements_are_stored_as_words_hold_them_under_one_mask(tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text(KERNEL)
    made = generate(Inputs(f"{tmp_path / 'single.py'}:single", arch="sm90"), GenerateOptions(time_limit=10))
    loop = made.cuda[made.cuda.index("an iteration every") :]
    stored = next(line for line in loop.splitlines() if re.search(r"shared_at<__nv_bfloat16>\(to_ \+", line))
    assert "= bf16_of(" in stored
    assert "keep(to_);" in loop
    masks = re.findall(r"\((\S+ \+ [^<]*) < 192\)", loop)
    assert masks
    assert not any("i_" in mask for mask in masks)


TILE = Shared("memory", 64, 64, 16, 128)


def _spread(register: tuple[tuple[int, int], ...]) -> Spread:
    """64 x 64 elements, a register of a thread for each of the vectors."""
    others = [
        (row, column)
        for row, column in [
            *((power, 0) for power in powers(1, 64)),
            *((0, power) for power in powers(1, 64)),
        ]
        if (row, column) not in register
    ]
    return Spread((64, 64), register, tuple(others[:5]), tuple(others[5:]))


@pytest.mark.parametrize(
    ("register", "again"),
    [
        (((8, 0), (16, 0), (32, 0)), True),  # whole patterns: one place
        (((1, 0), (8, 0), (16, 0), (32, 0)), True),  # two places for 16 elements
        (((1, 0), (2, 0), (4, 0)), False),  # all of them differ
        (((0, 8), (0, 16), (0, 32)), False),
        (((4, 0), (8, 0)), False),  # half of them: nothing is saved
    ],
)
def test_whether_most_places_are_those_of_others_with_an_offset(
    register: tuple[tuple[int, int], ...], again: bool
) -> None:
    assert places_again(TILE, _spread(register).point(), 1 << len(register)) == again


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("unpack_bf16(w_[i_ / 2], i_ % 2)", "bf16_of(w_[i_ / 2], i_ % 2)"),
        ("unpack_bf16(w_, 0) + unpack_bf16(w_, 1)", "to_bf16(unpack_bf16(w_, 0) + unpack_bf16(w_, 1))"),
        ("unpack_f16(w_, 0)", "to_bf16(unpack_f16(w_, 0))"),
        ("float(shared_at<__nv_bfloat16>(at_))", "shared_at<__nv_bfloat16>(at_)"),
    ],
)
def test_what_a_word_holds_is_not_converted(text: str, stored: str) -> None:
    assert cast(Scalar("bf16"), text) == stored


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("float(bitcast<__nv_fp8_e4m3>(x_))", "stored_e4m3(bitcast<__nv_fp8_e4m3>(x_))"),
        ("unpack_e4m3(w_, 1)", "e4m3_of(w_, 1)"),
        ("(c_ ? float(x_) : float(y_))", "(c_ ? stored_e4m3(x_) : stored_e4m3(y_))"),
        ("(c_ ? float(x_) : y_)", "__nv_fp8_e4m3((c_ ? float(x_) : y_))"),
    ],
)
def test_bytes_that_only_move_are_not_converted(text: str, stored: str) -> None:
    """Joined and seen otherwise, for instance: 192 conversions in an iteration of a kernel that decodes weights
    of 4 bits to e4m3."""
    assert cast(Scalar("f8E4M3FN"), text) == stored
