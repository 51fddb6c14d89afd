"""Numbers of rows that lanes pass on to those that copy from the rows."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels.programs import cuda, loops, program
from twill.diagnostics import TwillError
from twill.emulate.check import check
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.program import Program
from twill.targets import target
from twill.targets.cuda.loads.row_numbers import LANES, rows, told_apart
from twill.targets.cuda.loads.tile_copies import row_and_copy
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.register_tiles import Point


def _with_few_registers(made: Program) -> Program:
    """Threads that copy have no registers for addresses."""
    groups = (replace(one, registers=24) if one.only_moves else one for one in made.groups)
    return replace(made, groups=tuple(groups))


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_each_lane_loads_the_numbers_of_one_row(few: bool) -> None:
    """A table is read at what is loaded: each of both once, before the wait for the slot."""
    made = _with_few_registers(program("paged")) if few else program("paged")
    cuda = target("sm90").source(made)
    assert ("advanced" in cuda or "kept_y" in cuda) != few
    copies = re.findall(r"const int32_t number_\w+_of_lane = .*\n.*\n *channel_y\w+\.producer_acquire", cuda)
    assert copies
    assert len(re.findall(r"cp_async<16>.*\*\(", cuda)) == 0
    run = check(made, loops("paged")[1], cuda, lambda what: None)
    assert run.values
    assert run.error < 1e-4


def test_numbers_in_a_layout_of_one_dimension_are_those_of_columns_too() -> None:
    """A vector that is carried to the next iteration, and then a row: each lane divides once."""
    cuda = target("sm90").source(program("peeked_columns"))
    assert not re.findall(r"cp_async<16>.*( % size|\*\()", cuda)
    divided = re.findall(r"const int64_t (now\w+)_of_lane = .* % \w+", cuda)
    assert divided
    assert f"__shfl_sync(~0u, {divided[0]}_of_lane, " in cuda


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_such_columns_are_those_of_their_lanes() -> None:
    made = program("peeked_columns")
    run = check(made, loops("peeked_columns")[1], target("sm90").source(made), lambda what: None)
    assert run.values
    assert run.error < 1e-4


def test_numbers_that_are_the_same_in_every_iteration_are_not_passed() -> None:
    """Addresses are kept instead."""
    assert "__shfl_sync" not in target("sm90").source(program("gathered_rows"))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("threads", [32, 64, 128, 256])
@pytest.mark.parametrize("per", [2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 64])
def test_the_lane_has_the_row(axis: int, threads: int, per: int, count: int) -> None:
    """A row takes one copy of some threads, or several of each."""
    shape = (threads * count // per, 64)
    form = Fragment((0, 1), shape[::-1] if axis else shape, threads=threads)
    row = f"(v_ / {per})"
    found = rows(Point(form, "i_", ("c_", row) if axis else (row, "c_")), axis, per, count)
    if threads * count % per or count * max(1, LANES // per) > LANES * max(1, per // threads):
        assert found is None
        return
    assert found is not None
    for thread in range(threads):
        for copy in range(count):
            source = _value(found.source, thread, copy)
            assert 0 <= source < LANES
            assert _value(found.lane, thread // LANES * LANES + source, 0) == (thread + threads * copy) // per


@pytest.mark.parametrize(("per", "threads"), [(32, 128), (128, 128), (256, 128), (128, 32), (96, 64)])
def test_row_and_place_of_a_copy_are_those_of_its_number(per: int, threads: int) -> None:
    for thread, copy in ((thread, copy) for thread in range(threads) for copy in range(8)):
        number = thread + threads * copy
        found = (text.replace("v_", str(number)) for text in row_and_copy(per, threads))
        assert tuple(_value(text, thread, copy) for text in found) == divmod(number, per)


def _value(text: str, thread: int, copy: int) -> int:
    """Of C, by Python's division of what is not negative."""
    plain = text.replace("thread.index", str(thread)).replace("i_", str(copy)).replace("/", "//")
    return int(eval(plain))


def test_numbers_that_the_group_that_loads_keeps_are_refused_at_the_line_that_needs_them(
    tmp_path: Path,
) -> None:
    """Each thread keeps one of them, and copies from rows whose numbers others keep: where the branch that
    loads them has another condition than the loop."""
    text = Path("tests/kernels/ttgir/peeked_rows.sm90.ttgir").read_text(encoding="utf-8")
    file = tmp_path / "peeked_rows.ttgir"
    file.write_text(text.replace("arith.cmpi slt, %26, %K", "arith.cmpi sle, %26, %K"), encoding="utf-8")
    inputs = Inputs(str(file), arch="sm90")
    with pytest.raises(TwillError, match=r"number_[0-9]+ lies in other threads") as caught:
        generate(inputs, GenerateOptions(time_limit=10, check=False))
    assert caught.value.location is not None


def test_numbers_of_tiles_that_pass_through_registers_are_loaded_once_and_passed_on() -> None:
    """Each access of `thumbed` would divide twice and look up its page: 32 times in an iteration of a thread."""
    text = target("sm90").source(program("thumbed"))
    begin = text.index("for (uint32_t b_ = 0")
    batch = text[begin : text.index("shared_at<uint16_t>", begin)]
    assert " / size" not in batch
    assert " % size" not in batch
    assert "*(table" not in batch
    assert "__shfl_sync(~0u, number0_of_lane, b_ + u_)" in batch
    assert batch.index("__shfl_sync") < batch.index("if (63 < N)")


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
def test_such_numbers_are_those_of_each_access() -> None:
    made = program("thumbed")
    run = check(made, loops("thumbed")[1], target("sm90").source(made), lambda what: None)
    assert run.values
    assert run.error < 1e-4


def test_rows_of_two_tiles_have_their_numbers_in_other_lanes() -> None:
    """Of one value: the second number has a name of its own, in its copy too."""
    first = "const int32_t page_of_lane = *(pages + thread.lane);"
    second = "const int32_t page_of_lane = *(pages + thread.lane / 2);"
    passed = "const int32_t page_of_i_ = __shfl_sync(~0u, page_of_lane, i_);"
    own, copies = told_apart([first], 1, [second], [passed])
    assert own == ["const int32_t page_1_of_lane = *(pages + thread.lane / 2);"]
    assert copies == ["const int32_t page_of_i_ = __shfl_sync(~0u, page_1_of_lane, i_);"]
    assert told_apart([first], 1, [first], [passed]) == ([first], [passed])


def test_threads_that_copy_nothing_read_no_numbers() -> None:
    """They would read beyond those of the tile."""
    addresses = [line for line in cuda("sought").splitlines() if "float* from_ =" in line]
    assert addresses
    assert all(
        "= thread.index < 64 ? weights + " in line and line.endswith(": weights;") for line in addresses
    )
