"""Pointers that a kernel loads from memory: each points to memory of its own."""

from typing import cast

import numpy as np

from tests.simulate.test_values import grid
from twill.emulate.build import Build, Request, prepared
from twill.emulate.host import Host
from twill.extract.reader.ttgir import read
from twill.launch.manifest import Manifest
from twill.ops.c import c_type
from twill.simulate.compare import arguments
from twill.simulate.interpret import interpret

TEXT = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @copy(%from: !tt.ptr<i64>, %to: !tt.ptr<i64>, %n: i32) {
    %p = tt.addptr %from, %n : !tt.ptr<i64>, i32
    %a = tt.load %p : !tt.ptr<i64>
    %b = tt.load %to : !tt.ptr<i64>
    %source = tt.int_to_ptr %a : i64 -> !tt.ptr<f32>
    %target = tt.int_to_ptr %b : i64 -> !tt.ptr<f32>
    %x = tt.load %source : !tt.ptr<f32>
    tt.store %target, %x : !tt.ptr<f32>
    tt.return
  }
}
"""


def test_loaded_addresses_are_distinct_and_point_to_arrays() -> None:
    function = read(TEXT, "copy.ttgir").functions[0]
    values, memory = arguments(function, {"n": 1})
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    both = np.concatenate([memory.arrays["from"][:100], memory.arrays["to"][:100]])
    assert len(set(both.tolist())) == 200
    assert all(address % 16 == 0 for address in both.tolist())
    source, target = (memory.arrays[f"*{memory.arrays[name][i]}"] for name, i in (("from", 1), ("to", 0)))
    assert source[0] == target[0]
    assert source[1] != target[1]


def test_the_emulator_has_arrays_behind_them() -> None:
    """A run of PTX starts with an array for each pointer that the TTGIR dereferences."""
    function = read(TEXT, "copy.ttgir").functions[0]
    build = Build(cast(Manifest, None), function, cast(Host, None))
    start = prepared(build, Request({"n": 1}))
    pointed = {f"*{start.before[name][i]}" for name, i in (("from", 1), ("to", 0))}
    assert set(start.before) == {"from", "to"} | pointed
    assert all(start.before[name].dtype == np.float32 for name in pointed)


def test_arrays_of_unsigned_numbers_as_descriptors_have_them() -> None:
    text = """
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k(%a: !tt.ptr<ui8>, %n: i32) {
    tt.return
  }
}
"""
    (function,) = read(text, "k.ttgir").functions
    values, memory = arguments(function, {"n": 1})
    assert memory.array("a", 4).dtype == np.int8
    assert c_type(function.args[0].type) == "uint8_t*"
    assert set(values) == {arg.id for arg in function.args}
