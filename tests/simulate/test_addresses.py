"""Pointers that a kernel loads from memory: each points to memory of its own."""

from typing import cast

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.diagnostics import TwillError
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


SELECTED = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @copy(%a: !tt.ptr<f8E4M3FN>, %b: !tt.ptr<f8E4M3FN>, %to: !tt.ptr<f8E4M3FN>, %n: i32) {
    %zero = arith.constant 0 : i32
    %first = arith.cmpi eq, %n, %zero : i32
    %from = arith.select %first, %a, %b : !tt.ptr<f8E4M3FN>
    %bytes = tt.bitcast %from : !tt.ptr<f8E4M3FN> -> !tt.ptr<i8>
    %into = tt.bitcast %to : !tt.ptr<f8E4M3FN> -> !tt.ptr<i8>
    %x = tt.load %bytes : !tt.ptr<i8>
    tt.store %into, %x : !tt.ptr<i8>
    tt.return
  }
}
"""


@pytest.mark.parametrize(("number", "name"), [(0, "a"), (1, "b")])
def test_a_pointer_that_is_selected_is_to_the_array_that_is_meant(number: int, name: str) -> None:
    """Bytes that are copied through pointers to bytes stay the numbers that they were."""
    function = read(SELECTED, "copy.ttgir").functions[0]
    values, memory = arguments(function, {"n": number})
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    assert set(memory.arrays) == {name, "to"}
    assert memory.arrays["to"][0] == memory.arrays[name][0]


TRUTH = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @truth(%mask: !tt.ptr<i1>, %to: !tt.ptr<i1>, %n: i32) {
    %first = tt.addptr %mask, %n : !tt.ptr<i1>, i32
    %byte = tt.bitcast %first : !tt.ptr<i1> -> !tt.ptr<i8>
    %x = tt.load %byte : !tt.ptr<i8>
    %zero = arith.constant 0 : i8
    %is = arith.cmpi ne, %x, %zero : i8
    %out = tt.addptr %to, %n : !tt.ptr<i1>, i32
    %place = tt.bitcast %out : !tt.ptr<i1> -> !tt.ptr<i8>
    %y = arith.extui %is : i1 to i8
    tt.store %place, %y : !tt.ptr<i8>
    tt.return
  }
}
"""


def test_truth_values_are_read_and_written_as_bytes() -> None:
    """As Triton does it: a mask of which blocks are attended to."""
    function = read(TRUTH, "truth.ttgir").functions[0]
    seen = set[bool]()
    for n in range(8):
        values, memory = arguments(function, {"n": n})
        interpret(function, values, memory, grid(0, 0, (1, 1)))
        assert memory.arrays["to"][n] == memory.arrays["mask"][n]
        seen.add(bool(memory.arrays["mask"][n]))
    assert seen == {False, True}


TILES = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>) {
    %i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %two = arith.constant dense<2> : tensor<4xi32>
    %first = arith.cmpi slt, %i, %two : tensor<4xi32>
    %x = tt.splat %a : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %y = tt.splat %b : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %both = arith.select %first, %x, %y : tensor<4xi1>, tensor<4x!tt.ptr<f32>>
    %one = arith.constant 1 : i32
    %next = tt.addptr %a, %one : !tt.ptr<f32>, i32
    %wide = tt.bitcast %next : !tt.ptr<f32> -> !tt.ptr<i64>
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("%wide", "pointers to a and to b can not be simulated"),
        (
            "%both",
            "tt.bitcast of f32 pointers to i64 pointers can not be simulated: an address is no multiple",
        ),
    ],
)
def test_what_pointers_can_not_say_is_refused(without: str, said: str) -> None:
    text = "\n".join(line for line in TILES.splitlines() if not line.strip().startswith(without))
    function = read(text, "k.ttgir").functions[0]
    values, memory = arguments(function, {})
    with pytest.raises(TwillError, match=said):
        interpret(function, values, memory, grid(0, 0, (1, 1)))


WIDTHS = """
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%bytes: !tt.ptr<i8>, %words: !tt.ptr<i32>, %to: !tt.ptr<i8>, %out: !tt.ptr<f32>) {
    %i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %four = arith.constant 4 : i32
    %second = tt.addptr %bytes, %four : !tt.ptr<i8>, i32
    %floats = tt.bitcast %second : !tt.ptr<i8> -> !tt.ptr<f32>
    %from = tt.splat %floats : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %read = tt.addptr %from, %i : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    %x = tt.load %read : tensor<4x!tt.ptr<f32>>
    %halves = tt.bitcast %words : !tt.ptr<i32> -> !tt.ptr<i16>
    %half = tt.addptr %halves, %four : !tt.ptr<i16>, i32
    %y = arith.constant 7 : i16
    tt.store %half, %y : !tt.ptr<i16>
    %wide = tt.bitcast %to : !tt.ptr<i8> -> !tt.ptr<f32>
    %there = tt.splat %wide : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %each = tt.addptr %there, %i : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    tt.store %each, %x : tensor<4x!tt.ptr<f32>>
    %some = tt.splat %out : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
    %at = tt.addptr %some, %i : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
    tt.store %at, %x : tensor<4x!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_numbers_of_another_width_are_the_bytes_in_memory() -> None:
    function = read(WIDTHS, "k.ttgir").functions[0]
    values, memory = arguments(function, {})
    before = memory.array("words", 8).copy()
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    expected = memory.arrays["bytes"][4:20].astype(np.int8).view(np.float32)
    assert memory.arrays["out"][:4].tolist() == expected.tolist()
    assert memory.arrays["to"][:16].tolist() == memory.arrays["bytes"][4:20].tolist()
    changed = (int(before[2]) & 0xFFFF0000) | 7
    assert memory.arrays["words"][:8].tolist() == [*before[:2], changed, *before[3:8]]
    assert np.all((expected > 0.25) & (expected < 1))
