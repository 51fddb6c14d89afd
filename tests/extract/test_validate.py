"""Modules that are not valid TTGIR are refused at the operation; everything that Triton writes passes."""

from pathlib import Path

import pytest

from twill.diagnostics import TwillError
from twill.extract.reader.ttgir import read
from twill.extract.validate import validate

GEMM = Path("examples/ttgir/gemm.sm90.ttgir").read_text()
POINTERS = Path("tests/kernels/ttgir/pointers.sm90.ttgir").read_text()


@pytest.mark.parametrize("folder", ["examples/ttgir", "tests/kernels/ttgir", "tests/extract/fixtures"])
def test_what_triton_writes_passes(folder: str) -> None:
    files = sorted(Path(folder).rglob("*.ttgir"))
    assert files
    for file in files:
        module = read(file.read_text(), str(file))
        for function in module.functions:
            validate(module, function)


@pytest.mark.parametrize(
    ("text", "old", "new", "complaint"),
    [
        (
            POINTERS,
            "warpsPerCTA = [8, 1]",
            "warpsPerCTA = [0, 1]",
            "a blocked layout with a size that is no power of two",
        ),
        (
            POINTERS,
            "threadsPerWarp = [2, 16]",
            "threadsPerWarp = [1, 16]",
            "16 threads for each warp, and a warp has 32",
        ),
        (
            GEMM,
            "warpsPerCTA = [8, 1], instr",
            "warpsPerCTA = [4, 1], instr",
            "a layout of 4 warps, and the module has 8",
        ),
        (POINTERS, "order = [1, 0]", "order = [1, 1]", r"a blocked layout of order \[1, 1\]"),
        (POINTERS, "{axis = 1 : i32}", "{axis = 7 : i32}", "tt.expand_dims has no axis below 2"),
        (
            POINTERS,
            "end = 128 : i32, start = 0 : i32",
            "end = 100 : i32, start = 0 : i32",
            "a start and an end",
        ),
        (GEMM, "arith.truncf", "arith.extsi", "arith.extsi does not cast between these types"),
        (GEMM, "tt.descriptor_store", "tt.descriptor_load", "tt.descriptor_load has "),
        (
            GEMM,
            "order = array<i32: 1, 0>",
            "order = array<i32: 1, 1>",
            "ttg.memdesc_trans has no order of 2 dimensions",
        ),
        (
            GEMM,
            "<128x256xf16, #shared> loc",
            "<128x224xf16, #shared> loc",
            "rows of 448 bytes, no multiple of its swizzle of 128",
        ),
    ],
)
def test_what_can_not_be_is_refused(text: str, old: str, new: str, complaint: str) -> None:
    assert old in text
    module = read(text.replace(old, new, 1), "k.ttgir")
    with pytest.raises(TwillError, match=complaint) as refused:
        validate(module, module.functions[0])
    assert refused.value.location
    assert refused.value.text
