"""Asynchronous copies of pointer loads: what is known of pointers, which loads are copied, and where each
copy goes."""

import re
from math import prod
from pathlib import Path

import pytest

from tests.kernels.programs import loops, program
from twill.diagnostics import TwillError
from twill.extract.reader.ttgir import read as read_module
from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.channels import SlotTensor
from twill.ir.loop import NvmmaShared, Scalar, Tensor
from twill.ir.program import Program
from twill.ir.statements import ProducerLoad, walk
from twill.ops.axis_info import AxisAnalysis, copied_together
from twill.ops.kept_rows import kept_together
from twill.ops.pointer_loads import Neighbours, one_copy, register_access, repeated_rows
from twill.ops.steps import Step, closer, step
from twill.targets.cuda.loads.copies import copies
from twill.targets.cuda.loads.register_loads import units
from twill.targets.cuda.loads.tile_copies import copied, copy_places
from twill.targets.cuda.loads.tiled_form import tiled_form
from twill.targets.cuda.registers.fragments import linear, numbered
from twill.targets.cuda.registers.register_tiles import AnyPoint, Point
from twill.targets.cuda.shared.shared_tiles import addressed, byte_of
from twill.targets.hopper import source

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %stride: i32 {tt.divisibility = 16 : i32}, %odd: i32, %n: i32) {
    %zero = arith.constant 0 : i32
    %sixteen = arith.constant 16 : i32
    %m = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32, #rows>
    %k = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #columns>
    %m2 = tt.expand_dims %m {axis = 1 : i32} : tensor<32xi32, #rows> -> tensor<32x1xi32, #blocked>
    %k2 = tt.expand_dims %k {axis = 0 : i32} : tensor<64xi32, #columns> -> tensor<1x64xi32, #blocked>
    %s = tt.splat %STRIDE : i32 -> tensor<32x1xi32, #blocked>
    %row = arith.muli %m2, %s : tensor<32x1xi32, #blocked>
    %row2 = tt.broadcast %row : tensor<32x1xi32, #blocked> -> tensor<32x64xi32, #blocked>
    %column = tt.broadcast %k2 : tensor<1x64xi32, #blocked> -> tensor<32x64xi32, #blocked>
    %offset = arith.addi %row2, %column : tensor<32x64xi32, #blocked>
    %base = tt.splat %p : !tt.ptr<f16> -> tensor<32x64x!tt.ptr<f16>, #blocked>
    %at = tt.addptr %base, %offset : tensor<32x64x!tt.ptr<f16>, #blocked>, tensor<32x64xi32, #blocked>
    %bound = tt.splat %BOUND : i32 -> tensor<1x64xi32, #blocked>
    %inside = arith.cmpi slt, %k2, %bound : tensor<1x64xi32, #blocked>
    %mask = tt.broadcast %inside : tensor<1x64xi1, #blocked> -> tensor<32x64xi1, #blocked>
"""
LOAD = "    %x = tt.load %at, %mask : tensor<32x64x!tt.ptr<f16>, #blocked>\n    tt.return\n  }\n}\n"
ASSUMED = """    %rest = arith.remsi %n, %sixteen : i32
    %even = arith.cmpi eq, %rest, %zero : i32
    llvm.intr.assume %even : i1
"""


@pytest.mark.parametrize(
    ("stride", "bound", "more", "along"),
    [
        ("stride", "stride", "", [0, 16]),
        ("odd", "stride", "", [0, 0]),
        ("stride", "odd", "", [0, 0]),
        ("stride", "n", ASSUMED, [0, 16]),
        ("n", "n", ASSUMED, [0, 16]),
    ],
    ids=["aligned", "odd rows", "odd bound", "assumed bound", "assumed rows"],
)
def test_copies_take_consecutive_aligned_pointers_under_one_mask(
    stride: str, bound: str, more: str, along: list[int]
) -> None:
    text = HEAD.replace("%STRIDE", f"%{stride}").replace("%BOUND", f"%{bound}") + more + LOAD
    module = read_module(text, "f.ttgir")
    load = next(op for op in module.functions[0].walk() if op.name == "tt.load")
    assert [copied_together(AxisAnalysis(module.functions[0]), load, axis) for axis in (0, 1)] == along


@pytest.mark.parametrize(
    ("made", "along"),
    [
        ("arith.minsi %stride, %n : i32", 16),
        ("arith.maxui %stride, %n : i32", 16),
        ("arith.minsi %stride, %odd : i32", 0),
        ("arith.select %which, %stride, %n : i32", 16),
        ("arith.select %which, %stride, %odd : i32", 0),
        (
            "scf.if %which -> (i32) {\n scf.yield %stride : i32\n } else {\n scf.yield %n : i32\n }",
            16,
        ),
        (
            "scf.if %which -> (i32) {\n scf.yield %stride : i32\n } else {\n scf.yield %odd : i32\n }",
            0,
        ),
    ],
)
def test_a_bound_that_is_one_of_two_numbers_has_their_common_divisor(made: str, along: int) -> None:
    chosen = f"    %which = arith.cmpi slt, %n, %odd : i32\n    %limit = {made}\n"
    head = HEAD.replace("%STRIDE", "%stride").replace("%BOUND", "%limit")
    begin = head.index("    %m = tt.make_range")
    text = head[:begin] + ASSUMED + chosen + head[begin:] + LOAD
    function = read_module(text, "f.ttgir").functions[0]
    load = next(op for op in function.walk() if op.name == "tt.load")
    assert copied_together(AxisAnalysis(function), load, 1) == along


def test_parts_of_a_run_begin_at_less_than_what_the_run_begins_at() -> None:
    """i + 64 * i for a range of i: numbers 65 apart, of which only the first is a multiple of 64."""
    more = """    %64 = arith.constant dense<64> : tensor<32xi32, #rows>
    %far = arith.muli %m, %64 : tensor<32xi32, #rows>
    %sum = arith.addi %m, %far : tensor<32xi32, #rows>
    %rest = arith.remsi %m, %m : tensor<32xi32, #rows>
"""
    head = HEAD.replace("%STRIDE", "%stride").replace("%BOUND", "%n")
    function = read_module(head + more + LOAD, "f.ttgir").functions[0]
    known = AxisAnalysis(function)
    made = {op.result.name: known.of(op.result) for op in function.walk() if op.results}
    assert (made["%sum"].contiguity, made["%sum"].divisibility) == ((1,), (1,))
    assert (made["%rest"].contiguity, made["%rest"].divisibility) == ((1,), (1,))


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ("%m", (1, True)),
        ("%far", (64, True)),
        ("%unknown", (1, False)),
        ("%aligned", (16, False)),
        ("%wrapped", (1, True)),
        ("%sum", (1, False)),
        ("%even", (64, False)),
        ("%quotient", (0, True)),
        ("%split", None),
        ("%within", (1, True)),
        ("%capped", (64, True)),
        ("%chosen", (1, True)),
        ("%either", None),
    ],
)
def test_steps_from_one_element_to_the_next(offsets: str, expected: tuple[int, bool] | None) -> None:
    """In a sum of numbers that are an unknown multiple apart they are a multiple of the common divisor; a
    quotient that is the same for a sector is the same, one by an unknown number is not known. A bound changes
    nothing for those below it."""
    more = """    %64 = arith.constant dense<64> : tensor<32xi32, #rows>
    %far = arith.muli %m, %64 : tensor<32xi32, #rows>
    %odds = tt.splat %odd : i32 -> tensor<32xi32, #rows>
    %strides = tt.splat %stride : i32 -> tensor<32xi32, #rows>
    %unknown = arith.muli %m, %odds : tensor<32xi32, #rows>
    %even = arith.muli %far, %odds : tensor<32xi32, #rows>
    %aligned = arith.muli %strides, %m : tensor<32xi32, #rows>
    %wrapped = arith.remsi %m, %odds : tensor<32xi32, #rows>
    %sum = arith.addi %far, %unknown : tensor<32xi32, #rows>
    %quotient = arith.divsi %m, %strides : tensor<32xi32, #rows>
    %split = arith.divsi %m, %odds : tensor<32xi32, #rows>
    %within = arith.minsi %m, %odds : tensor<32xi32, #rows>
    %capped = arith.maxsi %odds, %far : tensor<32xi32, #rows>
    %below = arith.cmpi slt, %m, %odds : tensor<32xi32, #rows>
    %chosen = arith.select %below, %m, %64 : tensor<32xi1, #rows>, tensor<32xi32, #rows>
    %either = arith.select %below, %m, %far : tensor<32xi1, #rows>, tensor<32xi32, #rows>
"""
    head = HEAD.replace("%STRIDE", "%stride").replace("%BOUND", "%n")
    function = read_module(head + more + LOAD, "f.ttgir").functions[0]
    known = AxisAnalysis(function)
    made = {op.result.name: op.result for op in function.walk() if op.results}
    found = step(known, made[offsets], 0)
    assert (found and (found.divisor, found.exact)) == expected
    assert [step(known, made["%at"], axis) for axis in (0, 1)] == [Step(16), Step(1, exact=True)]
    assert closer(known, made["%at"], 1, 0)
    assert not closer(known, made["%at"], 0, 1)


@pytest.mark.parametrize("kernel", ["pointers", "bumped", "gathered_rows"])
def test_operands_through_pointers_are_copied_by_a_warpgroup(kernel: str) -> None:
    made = program(kernel)
    vectors = {
        load.vector
        for group in made.groups
        for one in walk(group.body)
        if isinstance(one, ProducerLoad)
        for load in one.loads
    }
    assert vectors == {16}
    assert [(group.warps, group.only_moves) for group in made.groups if group.only_moves] == [(4, True)]
    assert "cp_async<16>" in source(made)
    assert not any("element by element" in note for note in made.warnings)


def test_what_is_not_known_to_be_aligned_passes_through_registers_with_a_note() -> None:
    made = program("gathered")
    notes = [note for note in made.notes if "passes through registers in accesses of 2 bytes" in note]
    assert len(notes) == 2
    assert all(re.search(r"1639 of 3\d\d\d cycles of an iteration", note) for note in notes)
    assert all("not known to be consecutive and aligned" in note for note in notes)
    loads = {load.along for one in _filled(made) for load in one.loads}
    assert [channel.filled_by for channel in made.channels] == ["cp_async"]
    assert loads == {1}
    assert [group.warps for group in made.groups if group.only_moves] == [4]
    assert not made.warnings


def _filled(made: Program) -> list[ProducerLoad]:
    return [one for group in made.groups for one in walk(group.body) if isinstance(one, ProducerLoad)]


@pytest.mark.parametrize(
    ("kernel", "accesses"),
    [
        ("wrapped", {"x": (2, 1), "y": (2, 1)}),
        ("wrapped_e4m3", {"x": (16, None), "y": (4, 1)}),
        ("wrapped_integer", {"x": (16, None), "y": (4, 1)}),
        ("wrapped_bytes", {"x": (1, 1), "y": (1, 1)}),
        ("turned", {"a": (2, 0), "b": (2, 0)}),
    ],
)
def test_accesses_are_as_wide_as_is_known_and_along_what_is_contiguous(
    kernel: str, accesses: dict[str, tuple[int, int | None]]
) -> None:
    """A tile of bytes goes to shared memory transposed: whole words are read along its rows. Of elements that
    lie apart in both directions, those that are closer are read by lanes next to each other."""
    made = program(kernel)
    loads = [load for one in _filled(made) for load in one.loads]
    found = {made.op(one.ops[-1]).result.name.lstrip("%")[0]: (one.vector, one.along) for one in loads}
    assert found == accesses


def test_loads_through_registers_hold_the_group_that_loads() -> None:
    """10 bytes in a cycle (machines/h200.toml)."""
    slow, fast = (loops(kernel)[1][0].solution.interval for kernel in ("gathered", "gathered_rows"))
    assert slow >= 2 * 128 * 64 * 2 / 10
    assert fast < slow / 4


@pytest.mark.parametrize(
    ("shape", "transposed", "dtype", "access", "along", "warps"),
    [
        ((128, 64), False, "f16", 2, 1, 4),
        ((64, 128), False, "bf16", 2, 1, 4),
        ((64, 16), True, "f16", 2, 0, 4),
        ((16, 64), False, "f16", 2, 0, 4),
        ((128, 128), True, "i8", 4, 1, 4),
        ((64, 64), True, "f8E4M3FN", 2, 1, 4),
        ((32, 64), False, "i8", 1, 1, 1),
        ((96, 48), False, "f16", 2, 1, 4),
        ((48, 96), False, "f16", 2, 0, 4),
    ],
)
@pytest.mark.parametrize("swizzled", [True, False])
@pytest.mark.parametrize("neighbours", ["next", "apart", "equal"])
def test_every_word_goes_where_tma_would_put_it(
    shape: tuple[int, int],
    transposed: bool,
    dtype: str,
    access: int,
    along: int,
    warps: int,
    swizzled: bool,
    neighbours: Neighbours,
) -> None:
    """The accesses of all threads cover the tile once, and each word, or element of its own, lies where the
    swizzle has it."""
    size, rows = (1 if dtype.endswith(("8", "N")) else 2), shape[1] if transposed else shape[0]
    columns = shape[0] if transposed else shape[1]
    line = min(128, columns * size & -(columns * size)) if swizzled else columns * size
    encoding = NvmmaShared(line, transposed, 8 * size, False) if swizzled else None
    if not swizzled and transposed:
        pytest.skip("a tile without a swizzle lies row by row")
    tensor = SlotTensor("x", shape, Scalar(dtype), encoding, 0, shape[0] * shape[1] * size)
    found = units(tensor, access, along, numbered(Tensor(shape, Scalar(dtype)), 32 * warps), neighbours)
    written = found.written
    assert written == (size if neighbours == "apart" and found.across else 4)
    assert found.loads == (1 if found.equal else 4 // found.part)
    words = dict[int, tuple[int, int]]()
    for thread in range(32 * warps):
        for unit in range(found.grid.count):
            names: dict[str, object] = {"i_": unit, "warp": thread // 32, "lane": thread % 32, "to_": 0}
            names["turn_"] = _number(found.turn, names)
            if not all(_number(guard, names) for guard in found.grid.guards):
                continue
            names["at_"] = [_number(start, names) for start in found.starts()]
            line_of, word_of = _number(found.line.text, names), _number(found.word.text, names)
            for j in range(found.writes):
                row = line_of * found.lines + (_number(found.number(j), names) if found.lines > 1 else 0)
                to = _number(found.to(j), names)
                assert to not in words
                column = _number(found.column(str(word_of), j), names) * size if found.apart else word_of * 4
                words[to] = (row, column)
    assert len(words) == shape[0] * shape[1] * size // written
    for to, (row, byte) in words.items():
        inside = row * line + byte % line
        flipped = inside ^ (inside >> 3 & line - 16) if swizzled else inside
        assert to == byte // line * rows * line + flipped


def _number(text: str, names: dict[str, object]) -> int:
    """The value of a C expression of natural numbers."""
    return int(eval(text.replace("thread.", "").replace("/", "//"), {}, names))


def test_index_tiles_are_loaded_again_by_who_reads_them() -> None:
    made = program("gathered_rows")
    assert not [
        one.id
        for group in made.groups
        for one in group.variables
        if group.only_moves and isinstance(one.type, Tensor)
    ]
    loads = [one for group in made.groups for one in walk(group.body) if isinstance(one, ProducerLoad)]
    names = [[made.op(index).result.name for index in load.ops] for one in loads for load in one.loads]
    assert any("%row_4" in ops for ops in names), names


@pytest.mark.parametrize(("array", "refused"), [("log", None), ("rows", "lies in other threads")])
def test_index_tiles_of_an_array_that_the_kernel_stores_to(
    array: str, refused: str | None, tmp_path: Path
) -> None:
    """Numbers of their type that go to another array change nothing; with the same one, nobody may load them
    again, and the threads that copy do not hold them."""
    text = Path("tests/kernels/ttgir/gathered_rows.sm90.ttgir").read_text()
    text = text.replace("@gathered(", "@gathered(%log: !tt.ptr<i32>, ")
    store = f"    tt.store %{array}, %c0_i32 : !tt.ptr<i32>\n    tt.return"
    (tmp_path / "kernel.ttgir").write_text(text.replace("    tt.return", store))
    inputs = Inputs(str(tmp_path / "kernel.ttgir"), arch="sm90", subtile=1)
    options = GenerateOptions(time_limit=10, execute=False)
    if refused is None:
        assert "cp_async<16>" in generate(inputs, options).cuda
    else:
        with pytest.raises(TwillError, match=refused):
            generate(inputs, options)


@pytest.mark.parametrize(
    ("transposed", "line", "dtype"),
    [(False, 128, "f16"), (True, 128, "f16"), (False, 64, "f16"), (False, 128, "f8E4M3FN")],
)
def test_every_element_goes_where_tma_would_put_it(transposed: bool, line: int, dtype: str) -> None:
    """The swizzle of PTX ISA, shared memory matrix layout: bits 4 to 6 of the address xor bits 7 to 9, as
    many as the line has."""
    shape, size = (32, 128), 1 if dtype.startswith("f8") else 2
    tensor = SlotTensor(
        "x",
        shape,
        Scalar(dtype),
        NvmmaShared(line, transposed, 8 * size, False),
        0,
        shape[0] * shape[1] * size,
    )
    lines = copied(
        "0", copy_places(tensor, 16, linear(Tensor(shape, Scalar(dtype)), 64)), _named, ("true", "")
    )
    rows, columns = shape[::-1] if transposed else shape
    found = {at: to for thread in range(64) for to, at in _executed(lines, thread)}
    expected = dict[tuple[int, int], int]()
    for row in range(rows):
        for chunk in range(columns * size // 16):
            box, inside = divmod(16 * chunk, line)
            plain = row * line + inside
            to = box * rows * line + (plain ^ (plain >> 7 & line // 16 - 1) << 4)
            column = 16 * chunk // size
            expected[(column, row) if transposed else (row, column)] = to
    assert found == expected


@pytest.mark.parametrize(
    ("shape", "transposed", "line", "dtype", "threads"),
    [
        ((128, 64), False, 128, "f16", 128),
        ((64, 256), False, 128, "f16", 128),
        ((64, 128), True, 128, "f16", 128),
        ((128, 32), False, 64, "f16", 256),
        ((32, 64), False, 32, "f8E4M3FN", 64),
    ],
)
def test_copies_with_constant_distances_go_where_tma_would_put_them(
    shape: tuple[int, int], transposed: bool, line: int, dtype: str, threads: int
) -> None:
    size = 1 if dtype.startswith("f8") else 2
    encoding = NvmmaShared(line, transposed, 8 * size, False)
    tensor = SlotTensor("x", shape, Scalar(dtype), encoding, 0, shape[0] * shape[1] * size)
    form = linear(Tensor(shape, Scalar(dtype)), threads)
    some = copies(tensor, 16, form)
    assert some is not None
    plain = copied("0", copy_places(tensor, 16, form), _named, ("true", ""))
    names = {"int32_t": int, "swizzle": _swizzle}
    for thread in range(threads):
        wanted = dict(_executed(plain, thread, threads))
        assert some.count == len(wanted)
        for i in range(some.count):
            here = names | {"row_": thread // some.per, "chunk_": thread % some.per, "i_": i}
            to = (
                eval(_python(some.starts[i % len(some.starts)]), {}, here) + i // len(some.starts) * some.step
            )
            assert eval(_python(_named(some.point)), {}, {**here, "at": _pair}) == wanted[to]


CROSSED = [
    ((32, 128), True, 128, 128),
    ((16, 128), True, 64, 128),
    ((64, 64), False, 128, 256),
    ((8, 64), True, 32, 32),
    ((64, 32), True, 128, 64),
]


@pytest.mark.parametrize(("shape", "transposed", "line", "threads"), CROSSED)
def test_copies_across_rows_fill_sectors_and_all_banks(
    shape: tuple[int, int], transposed: bool, line: int, threads: int
) -> None:
    """Each element goes where copies along rows put it; a warp copies eight elements that follow one another
    in global memory of each of four lines, to 32 different banks."""
    tensor = SlotTensor(
        "x", shape, Scalar("f32"), NvmmaShared(line, transposed, 32, False), 0, 4 * prod(shape)
    )
    form = linear(Tensor(shape, Scalar("f32")), threads)
    along, across = (
        copied("0", copy_places(tensor, 4, form, crosses), _named, ("true", "")) for crosses in (False, True)
    )
    executed = [_executed(across, thread, threads) for thread in range(threads)]
    plain = {at: to for thread in range(threads) for to, at in _executed(along, thread, threads)}
    assert {at: to for made in executed for to, at in made} == plain
    assert len(plain) == prod(shape)
    kept, names = copies(tensor, 4, form, crosses=True), {"int32_t": int, "swizzle": _swizzle, "at": _pair}
    assert kept is not None
    for thread in range(threads):
        here = names | {"thread.index": thread}
        for name, value in re.findall(r"(row_|chunk_) = ([^,;]*)", kept.place[0]):
            here[name] = eval(_python(value).replace("thread.index", str(thread)), {}, {})
        for i in range(kept.count):
            start = _python(kept.starts[i % len(kept.starts)])
            to = eval(start, {}, here) + i // len(kept.starts) * kept.step
            assert to == plain[eval(_python(_named(kept.point)), {}, here | {"i_": i})]
    for warp in range(threads // 32):
        for one in zip(*executed[32 * warp : 32 * warp + 32], strict=True):
            assert {to // 4 % 32 for to, _ in one} == set(range(32))
            lines = [at[::-1] if not transposed else at for _, at in one]
            assert len({(line, place // 8) for line, place in lines}) == 4


def test_equal_rows_are_copied_once() -> None:
    """Eight rows of numbers that hold eight rows of four bits each: an eighth of the tile is copied, to rows
    that lie one behind the other."""
    made = program("packed_rows")
    (words,) = (one for channel in made.channels for one in channel.tensors if one.name.startswith("words"))
    assert (words.shape, words.repeated, words.bytes) == ((64, 64), 8, 64 * 64 * 4 // 8)
    assert not any(one.repeated > 1 for ch in made.channels for one in ch.tensors if one is not words)
    form, rows = linear(Tensor((64, 64), Scalar("i32")), 128), 64 * 4
    kept, plain = (
        copies(words, 16, form),
        copied("0", copy_places(words, 16, form), _named, ("true", "")),
    )
    assert kept is not None
    assert kept.count == 1
    found = {at: to for thread in range(128) for to, at in _executed(plain, thread, 128)}
    assert found == {
        (8 * row, column): row * rows + 4 * column for row in range(8) for column in range(0, 64, 4)
    }


def test_equal_rows_are_copied_along_their_columns() -> None:
    """The same where the numbers of a column are consecutive: copies of several of them, to lines of columns,
    and each element is read where its number lies."""
    made = program("packed_columns")
    (words,) = (one for channel in made.channels for one in channel.tensors if one.name.startswith("words"))
    assert (words.shape, words.kept, words.repeated) == ((64, 64), (8, 64), 8)
    assert words.encoding == NvmmaShared(32, True, 32, False)
    form, tile = linear(Tensor((64, 64), Scalar("i32")), 128), addressed("0", words)
    copied_words = copied("0", copy_places(words, 8, form), _named, ("true", ""))
    found = {at: to for thread in range(128) for to, at in _executed(copied_words, thread, 128)}
    names = {"swizzle": _swizzle}
    assert found == {
        (8 * word, column): eval(_python(byte_of(tile, str(word), str(column))), {}, names)
        for word in range(0, 8, 2)
        for column in range(64)
    }


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 8),
        ("dense<8> : tensor<64x1xi32|dense<4> : tensor<64x1xi32", 0),
        ("dense<8> : tensor<64x1xi32|dense<6> : tensor<64x1xi32", 0),
    ],
)
def test_kept_rows_follow_one_another_as_their_quotients_do(text: str, width: int) -> None:
    """Of numbers that hold eight rows; every eighth row is no consecutive number where one holds four, and
    unknown where its number is rounded."""
    source = Path("tests/kernels/ttgir/packed_columns.sm90.ttgir").read_text(encoding="utf-8")
    before, _, after = text.partition("|")
    assert before in source
    function = read_module(source.replace(before, after) if text else source, "f.ttgir").functions[0]
    load = next(
        op
        for op in function.walk()
        if op.results and op.result.name.startswith("%words") and op.name == "tt.load"
    )
    assert kept_together(AxisAnalysis(function), load, 8, (16, 8, 4)) == width


@pytest.mark.parametrize(("divisor", "rows"), [(1, 1), (2, 1), (4, 4), (8, 8), (64, 64)])
def test_rows_are_equal_as_far_as_their_pointers_are(divisor: int, rows: int) -> None:
    text = Path("tests/kernels/ttgir/packed_rows.sm90.ttgir").read_text(encoding="utf-8")
    assert "dense<8> : tensor<64x1xi32" in text
    changed = text.replace("dense<8> : tensor<64x1xi32", f"dense<{divisor}> : tensor<64x1xi32")
    function = read_module(changed, "f.ttgir").functions[0]
    load = next(
        op
        for op in function.walk()
        if op.results and op.result.name.startswith("%words") and op.name == "tt.load"
    )
    assert repeated_rows(AxisAnalysis(function), load) == rows


def test_equal_rows_pass_through_registers_once() -> None:
    """Two numbers of four bits in a byte, and scales of 128 rows in tiles of 64. Threads that load go along
    the dimension in which bytes follow one another, two elements for each."""
    made = program("packed_halves")
    kept = {one.name.split("_")[0]: one for channel in made.channels for one in channel.tensors}
    assert {name: one.repeated for name, one in kept.items()} == {"x": 1, "halves": 2, "scale": 64}
    assert (kept["halves"].bytes, kept["scale"].bytes) == (64 * 64 // 2, 64 * 2)
    analysis = AxisAnalysis(made.function)
    loads = {
        op.result.name.removeprefix("%").split("_")[0]: register_access(analysis, op)
        for op in made.function.walk()
        if op.name == "tt.load"
    }
    assert loads == {"x": (4, 1), "halves": (1, 0), "scale": (2, 0)}


def _pair(row: int, column: int) -> tuple[int, int]:
    return row, column


def _named(one: AnyPoint) -> str:
    assert isinstance(one, Point)
    return f"at({one.along((0,)).coordinate()}, {one.along((1,)).coordinate()})"


def _python(text: str) -> str:
    return re.sub(r"swizzle<(\d+)>\(", r"swizzle(\1, ", text).replace("/", "//")


def _executed(lines: list[str], thread: int, threads: int = 64) -> list[tuple[int, tuple[int, int]]]:
    """Runs the loop of one thread: where each copy goes, and row and column of its first element."""
    text = " ".join(lines)
    count = int(re.findall(r"i_ < (\d+);", text)[0])
    call = re.findall(r"cp_async<\d+>\((.*), at\((.*)\), true\);", text)
    assert len(call) == 1
    found = list[tuple[int, tuple[int, int]]]()
    for i in range(count):
        names = {"v_": thread + threads * i, "to_": 0, "int32_t": int, "swizzle": _swizzle}
        to, at = (eval(_python(one), {}, names) for one in call[0])
        found.append((to, at))
    return found


def _swizzle(line: int, offset: int) -> int:
    return offset ^ (offset >> 7 & line // 16 - 1) << 4


def test_a_vector_that_is_consecutive_and_aligned_is_one_bulk_copy() -> None:
    """lse and delta of attention backward: 64 floats at a multiple of 64."""
    made = program("fa_bwd")
    assert {made.channel(name).filled_by for name in ("weights_18", "slopes_26")} == {"tma"}
    vectors = [
        load.vector
        for group in made.groups
        for one in walk(group.body)
        if isinstance(one, ProducerLoad) and one.channel == "weights_18"
        for load in one.loads
    ]
    assert set(vectors) == {0}
    assert ", 256, channel_weights_18.full(" in source(made)


@pytest.mark.parametrize(
    ("pointers", "count", "bulk"),
    [("%p", 64, True), ("%q", 64, False), ("%p", 4, False)],
    ids=["aligned", "not known to be aligned", "less than 16 bytes"],
)
def test_a_bulk_copy_is_of_16_bytes_at_16_bytes(pointers: str, count: int, bulk: bool) -> None:
    text = f"""
#v = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @f(%p: !tt.ptr<f16> {{tt.divisibility = 16 : i32}}, %q: !tt.ptr<f16>) {{
    %k = tt.make_range {{end = {count} : i32, start = 0 : i32}} : tensor<{count}xi32, #v>
    %b = tt.splat {pointers} : !tt.ptr<f16> -> tensor<{count}x!tt.ptr<f16>, #v>
    %at = tt.addptr %b, %k : tensor<{count}x!tt.ptr<f16>, #v>, tensor<{count}xi32, #v>
    %x = tt.load %at : tensor<{count}x!tt.ptr<f16>, #v>
    tt.return
  }}
}}
"""
    (function,) = read_module(text, "f.ttgir").functions
    (load,) = (op for op in function.walk() if op.name == "tt.load")
    assert one_copy(AxisAnalysis(function), load) == bulk


def test_what_is_filled_with_a_constant_is_copied_and_never_loaded_by_tma() -> None:
    made = program("dequantized")
    text = source(made)
    assert not made.warnings
    assert "cp_async_or<16>(" in text
    assert "0x3c003c003c003c00ull" in text, "1.0 in 16 bits, four times"
    assert "map_scale" not in text


@pytest.mark.parametrize(("kernel", "one"), [("scaled_32", True), ("scaled", False)])
def test_a_tile_of_equal_numbers_is_read_once(kernel: str, one: bool) -> None:
    """Scales of blocks of 32 columns: all that a tile of 32 columns has are equal."""
    assert ("const float read_" in source(program(kernel))) == one


def test_copies_go_along_the_columns_where_the_pointers_are_consecutive_there() -> None:
    made = program("across")
    (y,) = (tensor for channel in made.channels for tensor in channel.tensors if tensor.name.startswith("y"))
    assert isinstance(y.encoding, NvmmaShared)
    assert y.encoding.transposed
    assert not made.warnings
    assert source(made).count("cp_async<16>(") == source(made).count("cp_async<")


@pytest.mark.parametrize(("kernel", "warps"), [("decayed", 1), ("gathered_rows", 4)])
def test_one_warp_loads_where_it_starts_tma_and_copies_vectors_alone(kernel: str, warps: int) -> None:
    made = program(kernel)
    form = tiled_form(made)
    (loading,) = (group for group in (form.program if form else made).groups if group.only_moves)
    assert any(channel.filled_by == "cp_async" for channel in made.channels)
    assert loading.warps == warps
