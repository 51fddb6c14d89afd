"""Arguments that the text names after a variable which they are assigned to later."""

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.parameter_names import named_as_in_source
from twill.ir.loop import Module


def _module(second: str = "other_gate") -> Module:
    """A kernel that picks one of two pointers; `second` is what its source calls the second."""
    text = f"""
#loc = loc("kernel.py":1:1)
#loc1 = loc("gate_1"(#loc3))
#loc2 = loc("text_gate"(#loc))
#loc3 = loc("{second}"(#loc))
module attributes {{"ttg.num-warps" = 4 : i32}} {{
  tt.func public @kernel(%out: !tt.ptr<f32> loc("out"(#loc)), %gate: !tt.ptr<f32> loc("gate"(#loc2)), %gate_1: !tt.ptr<f32> loc(#loc1), %chosen: i1 loc("chosen"(#loc))) {{
    %gate_10 = arith.select %chosen, %gate, %gate_1 : !tt.ptr<f32> loc(#loc)
    %value = tt.load %gate_10 : !tt.ptr<f32> loc(#loc)
    tt.store %out, %value : !tt.ptr<f32> loc(#loc)
    tt.return loc(#loc)
  }} loc(#loc)
}} loc(#loc)
"""
    return read(text, "kernel.ttgir")


def _names(module: Module) -> list[str]:
    return [value.name for value in module.functions[0].args]


def test_arguments_are_named_as_a_caller_names_them() -> None:
    named = named_as_in_source(_module())
    assert _names(named) == ["%out", "%text_gate", "%other_gate", "%chosen"]
    assert "%gate_10 = arith.select %chosen, %text_gate, %other_gate" in named.text
    assert named_as_in_source(named) is named


def test_a_name_that_a_value_has_stays_that_value_s() -> None:
    assert _names(named_as_in_source(_module("value"))) == ["%out", "%text_gate", "%gate_1", "%chosen"]


def test_two_arguments_of_one_name_keep_theirs() -> None:
    assert _names(named_as_in_source(_module("text_gate"))) == ["%out", "%gate", "%gate_1", "%chosen"]
