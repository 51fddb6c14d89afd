"""Contents of integer arrays with which a kernel does its work."""

from collections.abc import Mapping

import numpy as np
import pytest

from tests.simulate.test_values import grid
from twill.extract.reader.ttgir import read
from twill.extract.rewrite.control.early_return import structured
from twill.ir.loop import Function
from twill.ops.values import Pointers
from twill.simulate.compare import arguments, useful
from twill.simulate.global_memory import Fill, Memory, Unwritten
from twill.simulate.index_arrays import steered, work, writes
from twill.simulate.interpret import Meter, TooLongError, interpret

RETURNS = """
    %id = tt.load %ids : !tt.ptr<i32>
    %none = arith.cmpi eq, %id, %zero : i32
    cf.cond_br %none, ^out, ^size
  ^out:
    tt.return
  ^size:
    %next = tt.addptr %starts, %one : !tt.ptr<i32>, i32
    %begin = tt.load %starts : !tt.ptr<i32>
    %end = tt.load %next : !tt.ptr<i32>
    %size = arith.subi %end, %begin : i32
    %few = arith.cmpi slt, %size, %sixteen : i32
    cf.cond_br %few, ^out, ^work
  ^work:
    %to = tt.splat %out : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %at = tt.addptr %to, %lane : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    tt.store %at, %lane : tensor<128x!tt.ptr<i32>, #b>
    tt.return
"""
"""Returns early where the first id is zero, and where the first part has less than 16 elements."""

SCATTERS = """
    %from = tt.splat %ids : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %read = tt.addptr %from, %lane : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    %rows = tt.load %read : tensor<128x!tt.ptr<i32>, #b>
    %to = tt.splat %out : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %at = tt.addptr %to, %rows : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    tt.store %at, %lane : tensor<128x!tt.ptr<i32>, #b>
    tt.return
"""
"""Stores to elements whose indices are loaded."""

LOOPS = """
    %n = tt.load %ids : !tt.ptr<i32>
    %sum = scf.for %i = %zero to %n step %sixteen iter_args(%s = %lane) -> (tensor<128xi32, #b>)  : i32 {
      %more = arith.addi %s, %lane : tensor<128xi32, #b>
      scf.yield %more : tensor<128xi32, #b>
    }
    %to = tt.splat %out : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %at = tt.addptr %to, %lane : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    tt.store %at, %sum : tensor<128x!tt.ptr<i32>, #b>
    tt.return
"""
"""Takes the upper bound of a loop from memory."""

DATA = """
    %from = tt.splat %ids : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %read = tt.addptr %from, %lane : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    %values = tt.load %read : tensor<128x!tt.ptr<i32>, #b>
    %to = tt.splat %out : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %at = tt.addptr %to, %lane : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    tt.store %at, %values : tensor<128x!tt.ptr<i32>, #b>
    tt.return
"""
"""Copies integers."""


def kernel(body: str) -> Function:
    text = f"""
#b = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @k(%ids: !tt.ptr<i32>, %starts: !tt.ptr<i32>, %out: !tt.ptr<i32>) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sixteen = arith.constant 16 : i32
    %lane = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32, #b>
{body}  }}
}}
"""
    return structured(read(text, "k.ttgir")).functions[0]


def after(function: Function, contents: Mapping[str, object] | None) -> Memory:
    """The memory after one program, with these contents."""
    values, memory = arguments(function, {}, 0, contents)  # pyright: ignore[reportArgumentType]
    interpret(function, values, memory, grid(0, 0, (1, 1)))
    return memory


def written(function: Function, contents: Mapping[str, object] | None) -> int:
    """Elements of the output."""
    now = after(function, contents).arrays.get("out")
    _, fresh = arguments(function, {})
    return 0 if now is None else int(np.count_nonzero(now != fresh.array("out", len(now))))


def test_conditions_that_return_early_do_not_hold() -> None:
    """Two arrays, one of which needs differences of its elements."""
    function = kernel(RETURNS)
    assert not written(function, None)
    chosen = useful(function, {}, grid(0, 0, (1, 1)))
    assert chosen["starts"].step >= 16
    assert written(function, chosen) > 100


def test_no_element_is_written_twice() -> None:
    function = kernel(SCATTERS)
    chosen = useful(function, {}, grid(0, 0, (1, 1)))
    assert chosen["ids"].step
    assert written(function, chosen) > 100


def test_a_loop_runs_a_few_times() -> None:
    function = kernel(LOOPS)
    chosen = useful(function, {}, grid(0, 0, (1, 1)))
    assert chosen["ids"].step == 0
    assert 3 <= -(-chosen["ids"].start // 16) <= 8


def test_other_integers_stay_random() -> None:
    assert useful(kernel(DATA), {}, grid(0, 0, (1, 1))) == {}


@pytest.mark.parametrize("body", [RETURNS, SCATTERS, LOOPS])
def test_the_choice_is_deterministic(body: str) -> None:
    first, second = (useful(kernel(body), {}, grid(0, 0, (1, 1))) for _ in range(2))
    assert first == second


LATE = """
    %place = tt.get_program_id y : i32
    %early = arith.cmpi slt, %place, %sixteen : i32
    cf.cond_br %early, ^out, ^work
  ^out:
    tt.return
  ^work:
    tt.store %out, %one : !tt.ptr<i32>
    tt.return
"""
"""Returns early in the first programs."""


def test_programs_that_return_early_are_told_from_those_that_write() -> None:
    function = kernel(LATE)
    values, memory = arguments(function, {})
    assert [writes(function, values, memory, grid(0, place, (1, 20))) for place in (0, 15, 16)] == [
        False,
        False,
        True,
    ]


CAUSAL = """
    %place = tt.get_program_id x : i32
    %from = tt.splat %ids : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %read = tt.addptr %from, %lane : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    %keys = tt.load %read : tensor<128x!tt.ptr<i32>, #b>
    %last = tt.splat %place : i32 -> tensor<128xi32, #b>
    %seen = arith.cmpi sle, %keys, %last : tensor<128xi32, #b>
    %data = tt.splat %starts : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %row = tt.addptr %data, %keys : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    %values = tt.load %row, %seen : tensor<128x!tt.ptr<i32>, #b>
    %to = tt.splat %out : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
    %at = tt.addptr %to, %lane : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    tt.store %at, %values : tensor<128x!tt.ptr<i32>, #b>
    tt.return
"""
"""Reads the elements that are listed, of those before its own number."""


def test_a_sparse_kernel_reads_different_elements_in_a_late_program() -> None:
    """The first program may read one element alone, the hundredth many, in another order."""
    function = kernel(CAUSAL)
    values, memory = arguments(function, {})
    first, late = (work(function, values, memory, grid(place, 0, (101, 1)), {}) for place in (0, 100))
    assert first is not None
    assert late is not None
    assert (first[0], late[0]) == (1, 1)
    assert late[1] > first[1]
    assert useful(function, {}, grid(100, 0, (101, 1)))["ids"].run > 1


def test_kernels_that_copy_integers_are_not_steered_by_them() -> None:
    assert steered(kernel(CAUSAL))
    assert not steered(kernel(DATA))


def test_a_program_that_touches_elements_far_behind_is_not_taken() -> None:
    far = (
        CAUSAL.replace("%starts :", "%moved :")
        .replace(
            "%from =",
            "%by = arith.muli %place, %million : i32\n"
            "    %moved = tt.addptr %starts, %by : !tt.ptr<i32>, i32\n    %from =",
            1,
        )
        .replace("    %place =", "    %million = arith.constant 1000000 : i32\n    %place =", 1)
    )
    function = kernel(far)
    values, memory = arguments(function, {})
    assert work(function, values, memory, grid(0, 0, (101, 1)), {})
    assert work(function, values, memory, grid(100, 0, (101, 1)), {}) is None


@pytest.mark.parametrize("seen_as", ["i32", "i64", "i16"])
def test_what_is_read_alone_is_what_lies_in_all_of_the_memory(seen_as: str) -> None:
    """Random numbers and contents, of its own type and of another one, near and far."""
    fills = {"ids": Fill(0, 3, run=64)}
    whole, parts = (made({"ids": "i32", "out": "i32"}, 0, fills=fills) for made in (Memory, Unwritten))
    offsets = np.asarray([[5, 0, -1], [70_000, 1 << 20, 131_072]])
    for name in ("ids", "out"):
        pointers = Pointers(name, np.asarray(0, np.int64), seen_as)
        expected, found = (one.read(pointers, offsets, offsets >= 0, 7) for one in (whole, parts))
        assert np.array_equal(expected, found)
        assert expected.dtype == found.dtype
    assert not parts.arrays


def test_a_search_that_is_kept_counts_as_it_did() -> None:
    function = kernel(RETURNS)
    first = Meter(100_000)
    chosen = useful(function, {}, grid(0, 0, (1, 1)), meter=first)
    again = Meter(100_000)
    assert useful(function, {}, grid(0, 0, (1, 1)), meter=again) == chosen
    assert again.left == first.left
    with pytest.raises(TooLongError):
        useful(function, {}, grid(0, 0, (1, 1)), meter=Meter(10))
