"""Inline PTX of several results becomes operations of one result each, with constants in the text."""

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.inline_assembly import assembled_apart
from twill.ir.loop import Module, Op
from twill.ops.table import TABLE

TEXT = r"""
#p = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @words(%low: !tt.ptr<f16>, %high: !tt.ptr<f16>) {
    %n = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #p>
    %mask = arith.constant dense<983055> : tensor<128xi32, #p>
    %h:2 = tt.elementwise_inline_asm "{\0A .reg .b32 w;\0A and.b32 w, $2, $3;\0A mov.b32 {$0, $1}, w; // $$\0A}" {constraints = "=h,=h,r,n", packed_element = 1 : i32, pure = true} %n, %mask : tensor<128xi32, #p>, tensor<128xi32, #p> -> tensor<128xf16, #p>, tensor<128xf16, #p>
    %m:2 = tt.elementwise_inline_asm "max.f16 $0, $2, $3; min.f16 $1, $2, $3;" {constraints = "=h,=h,h,h", packed_element = 1 : i32, pure = true} %h#0, %h#1 : tensor<128xf16, #p>, tensor<128xf16, #p> -> tensor<128xf16, #p>, tensor<128xf16, #p>
    %s = arith.addf %m#0, %m#1 : tensor<128xf16, #p>
    tt.return
  }
}
"""


def assembly(module: Module) -> list[Op]:
    return [op for op in module.functions[0].walk() if op.name == "tt.elementwise_inline_asm"]


def test_each_result_has_an_operation_of_its_own() -> None:
    first, second, most, least = assembly(assembled_apart(read(TEXT, "words.ttgir")))
    assert [str(op.attributes["constraints"]) for op in (first, second)] == ["=h,r", "=h,r"]
    assert "and.b32 w, $1, 983055;" in str(first.attributes["asm_string"])
    assert "mov.b32 {$0, twill_other1}" in str(first.attributes["asm_string"])
    assert "mov.b32 {twill_other0, $0}" in str(second.attributes["asm_string"])
    assert str(first.attributes["asm_string"]).count("$$") == 1
    assert [value.id for value in most.operands] == [first.result.id, second.result.id]
    assert str(most.attributes["asm_string"]).startswith("{ .reg .b16 twill_other1; max.f16 $0, $1, $2;")
    assert "min.f16 $0, $1, $2;" in str(least.attributes["asm_string"])


def test_readers_read_the_results_and_lines_stay() -> None:
    module = assembled_apart(read(TEXT, "words.ttgir"))
    assert module.text.count("\n") == TEXT.count("\n")
    (added,) = [op for op in module.functions[0].walk() if op.name == "arith.addf"]
    assert [value.id for value in added.operands] == [op.result.id for op in assembly(module)[2:]]


def test_what_is_made_of_it_has_a_text_in_cuda() -> None:
    expression = TABLE["tt.elementwise_inline_asm"].c
    assert expression is not None
    for op in assembly(assembled_apart(read(TEXT, "words.ttgir"))):
        names = [f"x{i}" for i in range(len(op.operands))]
        assert expression(op, names) is not None


def test_lines_stay_lines_in_cuda() -> None:
    """A line break is written as two digits in TTGIR: PTX knows no such escape."""
    first, *_ = assembly(assembled_apart(read(TEXT, "words.ttgir")))
    assert "{\n .reg .b32 w;\n and.b32" in str(first.attributes["asm_string"])
    expression = TABLE["tt.elementwise_inline_asm"].c
    assert expression is not None
    assert r"{\n .reg .b32 w;\n and.b32" in str(expression(first, ["x0"]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("packed_element = 1", "packed_element = 2"),
        ("pure = true", "pure = false"),
        ("=h,=h,", "=h,=q,"),
        ("=h,=h,", "=h,0,"),
    ],
)
def test_other_code_stays(before: str, after: str) -> None:
    module = read(TEXT.replace(before, after), "words.ttgir")
    assert assembled_apart(module) is module


def test_an_operand_that_is_not_known_stays() -> None:
    module = read(TEXT.replace("%n, %mask", "%n, %n"), "words.ttgir")
    made = assembly(assembled_apart(module))
    assert [len(op.results) for op in made] == [2, 1, 1]
