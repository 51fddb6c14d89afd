"""Loops that are executed as they stand: who executes them, and what they carry."""

import pytest

from tests.kernels.programs import loops, program
from tests.simulate.test_values import grid
from twill.extract.dependence.loops import loops as found
from twill.extract.reader.ttgir import read as parsed
from twill.extract.rewrite.loads.device_maps import on_the_device
from twill.ir.statements import For, If, InitializeCarried, Pipelined, StoreTile, While, walk
from twill.ops.table import role
from twill.simulate.compare import compare
from twill.warp.dataflow import read
from twill.warp.non_loop_code import refusals


def test_every_group_walks_over_the_blocks_of_all_groups() -> None:
    for warps in program("grouped").groups:
        (outer,) = (one for one in walk(warps.body) if isinstance(one, For))
        (inner,) = (one for one in walk(outer.body) if isinstance(one, While))
        assert any(isinstance(one, Pipelined) for one in inner.body)
        assert sum(isinstance(one, InitializeCarried) for one in outer.body) >= 2, (
            "the next tile, and the end"
        )


def test_only_the_group_that_stores_searches() -> None:
    """The number of a program's group scales the result, which one group stores."""
    for warps in program("searched").groups:
        stores = any(isinstance(one, StoreTile) for one in walk(warps.body))
        assert any(isinstance(one, While) for one in walk(warps.body)) is stores
        assert any(isinstance(one, For) for one in walk(warps.body)) is stores


def test_no_branch_is_left_empty() -> None:
    for kernel in ("grouped", "searched"):
        for warps in program(kernel).groups:
            assert not any(isinstance(one, If) and not one.then for one in walk(warps.body))


def test_bounds_from_memory_that_the_kernel_writes_are_refused() -> None:
    """Groups read them one by one, so they might not agree."""
    text = loops("grouped")[0].text
    store = "    tt.store %sizes, %c0_i32 : !tt.ptr<i32>\n"
    end = text.index("    tt.return")
    assert reasons(text) == []
    found = reasons(text[:end] + store + text[end:])
    assert len(found) == 1
    assert "how often this loop runs" in found[0]


def test_bounds_from_another_array_than_the_kernel_writes_are_not() -> None:
    """Of the same type: what two arguments point to does not overlap; where a loaded pointer points is unknown."""
    text = loops("grouped")[0].text
    end, begin = text.index("    tt.return"), text.index("tt.func")
    argument = text.index("(", begin) + 1
    more = f"{text[:argument]}%log: !tt.ptr<i32>, %logs: !tt.ptr<!tt.ptr<i32>>, {text[argument:end]}"
    known = "    tt.store %log, %c0_i32 : !tt.ptr<i32>\n"
    loaded = known.replace("%log,", "%unknown,")
    loaded = f"    %unknown = tt.load %logs : !tt.ptr<!tt.ptr<i32>>\n{loaded}"
    assert reasons(more + known + text[end:]) == []
    (found,) = reasons(more + loaded + text[end:])
    assert "how often this loop runs" in found


def test_values_that_change_places_are_refused() -> None:
    text = loops("searched")[0].text
    swapped = text.replace(
        "iter_args(%total_6 = %c0_i32) -> (i32)",
        "iter_args(%total_6 = %c0_i32, %p = %K, %q = %M) -> (i32, i32, i32)",
    )
    swapped = swapped.replace("%total = scf.for", "%total, %x, %y = scf.for").replace(
        "scf.yield %total_9 : i32", "scf.yield %total_9, %q, %p : i32, i32, i32"
    )
    (reason,) = reasons(swapped)
    assert "change places" in reason


def reasons(text: str) -> list[str]:
    """Why a kernel is refused, whatever its schedule."""
    module = parsed(text, "kernel.ttgir")
    loop = next(loop for loop in found(module) if loop.schedulable)
    code = read(module, loop.function)
    inside = {op.index for op in loop.op.inner()} | {loop.op.index}
    plain = [op for op in code.ops.values() if op.index not in inside]
    return [error.message for error in refusals(code, plain, {loop.op.index: loop})]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("taps", [1, 3])
def test_accumulators_pass_through_loops_and_branches(place: int, taps: int) -> None:
    """Even programs accumulate over two counted loops, odd ones over a loop that ends by a condition."""
    numbers = {"M": 256, "N": 128, "K": 128, "taps": taps}
    compared = compare(program("nested"), numbers, grid(place, 0, (2, 1)))
    assert all(one.good for one in compared), compared
    assert any(one.changed for one in compared)


def test_an_accumulator_of_two_nested_loops_is_one_variable() -> None:
    (storing,) = (
        warps
        for warps in program("nested").groups
        if any(isinstance(one, StoreTile) for one in walk(warps.body))
    )
    outer = next(one for one in walk(storing.body) if isinstance(one, For))
    assert not any(isinstance(one, InitializeCarried) for one in outer.body)


@pytest.mark.parametrize(("line", "own"), [("%count = tt.addptr", True), ("%x_20 = ", False)])
def test_descriptors_that_differ_between_iterations(line: str, own: bool) -> None:
    """Made by the thread block in a loop around the MMAs, refused in the loop of the MMAs."""
    text = loops("grouped")[0].text
    made = next(one for one in text.splitlines() if "make_tensor_descriptor %c," in one)
    other = made.replace(made.split("=")[0].strip(), "%later", 1).replace(" %c,", " %moved,", 1)
    inner = next(one for one in text.splitlines() if line in one)
    moved = "      %moved = tt.addptr %c, %g : !tt.ptr<f16>, i32\n"
    assert reasons(text) == []
    changed = on_the_device(parsed(text.replace(inner, f"{moved}{other}\n{inner}"), "kernel.ttgir"))
    makers = [
        role(op) for op in changed.functions[0].walk() if any(value.name == "%later" for value in op.results)
    ]
    assert makers == ["tensor_map" if own else "descriptor"]
    assert reasons(changed.text) == (
        [] if own else ["a descriptor that is made in a loop with MMAs can not be generated"]
    )
