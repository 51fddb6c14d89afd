"""Vectors that are held exactly as they are laid out, beside tiles that are not."""

from pathlib import Path

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.literal_layouts import literal_layouts
from twill.ir.loop import Blocked, Linear, Tensor


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("kernel", ["apportioned", "faded", "epilogue"])
def test_layouts_of_one_dimension_are_exact(kernel: str, vectors: bool) -> None:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    module = read(path.read_text(encoding="utf-8"), str(path))
    exact = literal_layouts(module, vectors=vectors).encodings
    blocked = {name: one for name, one in module.encodings.items() if isinstance(one, Blocked)}
    flat = {name for name, one in blocked.items() if len(one.order) == 1}
    assert flat
    alone = {name for name in blocked if isinstance(exact[name], Linear)} - {
        name for name in blocked if isinstance(literal_layouts(module).encodings[name], Linear)
    }
    assert alone <= flat
    assert all(isinstance(exact[name], Linear) for name in flat) or not vectors
    assert bool(alone) == vectors


TIED = """
#column = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#tile = #ttg.linear<{register = [[0, 1], [0, 2]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]], block = []}>
#turned = #ttg.linear<{register = [[1, 0], [2, 0]], lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 8], [0, 16]], block = []}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f32>) {
    %one = arith.constant dense<1.000000e+00> : tensor<32x1xf32, #column>
    %all = tt.broadcast %one : tensor<32x1xf32, #column> -> tensor<32x16xf32, #tile>
    %back = tt.trans %all {order = array<i32: 1, 0>} : tensor<32x16xf32, #tile> -> tensor<16x32xf32, #turned>
    tt.return
  }
}
"""


def test_the_layout_of_a_column_is_exact_where_that_of_its_tile_is() -> None:
    """Triton broadcasts to another layout where threads hold the same rows in both."""
    exact = literal_layouts(read(TIED, "tied.ttgir")).encodings
    assert all(isinstance(one, Linear) and one.exact for one in exact.values())


def test_tiles_with_dimensions_of_one_behind_others_are_held_as_laid_out() -> None:
    path = Path("tests/kernels/ttgir/detoured.sm90.ttgir")
    module = read(path.read_text(encoding="utf-8"), str(path))
    deep = {
        name for name, one in module.encodings.items() if isinstance(one, Blocked) and len(one.order) == 3
    }
    exact = literal_layouts(module).encodings
    assert deep
    assert all(isinstance(exact[name], Linear) for name in deep)


def test_vectors_whose_threads_divide_are_held_as_laid_out() -> None:
    """Numbers of columns modulo their count: threads have one of them each, 32 as columns of an MMA. Tiles of
    other kernels that divide keep their layouts."""
    path = Path("tests/kernels/ttgir/amended.sm90.ttgir")
    module = read(path.read_text(encoding="utf-8"), str(path))
    exact = literal_layouts(module).encodings
    rows = [one for one in module.encodings.values() if isinstance(one, Blocked) and len(one.order) == 2]
    held = [name for name, one in module.encodings.items() if one in rows and isinstance(exact[name], Linear)]
    assert len(held) == 1
    by_constant = module.text.replace("arith.remsi", "arith.addi")
    plain = literal_layouts(read(by_constant, str(path))).encodings
    assert not isinstance(plain[held[0]], Linear)


STORED = """
#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = WARPS, instrShape = [16, 8]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f16>) {
    %x = arith.constant dense<1.000000e+00> : tensor<64x128xf16, #mma>
    %at = tt.splat %p : !tt.ptr<f16> -> tensor<64x128x!tt.ptr<f16>, #rows>
    %y = ttg.convert_layout %x : tensor<64x128xf16, #mma> -> tensor<64x128xf16, #rows>
    tt.store %at, %y : tensor<64x128x!tt.ptr<f16>, #rows>
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("warps", "threads", "rows"),
    [("[1, 4]", "[2, 16]", True), ("[4, 1]", "[2, 16]", False), ("[1, 4]", "[8, 4]", False)],
)
def test_tiles_are_stored_in_whole_rows_where_warps_hold_columns(
    warps: str, threads: str, rows: bool
) -> None:
    """As laid out where the accumulators of warps that lie beside each other pass through shared memory, and
    lanes store whole lines."""
    text = STORED.replace("WARPS", warps).replace("[2, 16]", threads)
    exact = literal_layouts(read(text, "stored.ttgir")).encodings
    assert isinstance(exact["#rows"], Linear) == rows


ADDED = """
#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = WARPS, instrShape = [16, 8]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f16>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant dense<0.000000e+00> : tensor<64x64xf16, #mma>
    %a = arith.constant dense<1.000000e+00> : tensor<64x16xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>
    %b = arith.constant dense<1.000000e+00> : tensor<16x64xf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>>
    %x = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf16, #mma>) : i32 {
      %d = tt.dot %a, %b, %acc : tensor<64x16xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>> * tensor<16x64xf16, #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>> -> tensor<64x64xf16, #mma>
      scf.yield %d : tensor<64x64xf16, #mma>
    }
    %at = tt.splat %p : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>, #rows>
    %old = tt.load %at : tensor<64x64x!tt.ptr<f16>, #rows>
    COMPUTED
    %y = ttg.convert_layout %old : tensor<64x64xf16, #rows> -> tensor<64x64xf16, #mma>
    %sum = arith.addf %x, %y : tensor<64x64xf16, #mma>
    %z = ttg.convert_layout %sum : tensor<64x64xf16, #mma> -> tensor<64x64xf16, #rows>
    tt.store %at, %z : tensor<64x64x!tt.ptr<f16>, #rows>
    tt.return
  }
}
"""
DOUBLED = "%twice = arith.addf %old, %old : tensor<64x64xf16, #rows>"


@pytest.mark.parametrize(
    ("warps", "threads", "computed", "rows"),
    [
        ("[1, 4]", "[4, 8]", "", True),
        ("[4, 1]", "[4, 8]", "", False),
        ("[1, 4]", "[8, 4]", "", False),
        ("[1, 4]", "[4, 8]", DOUBLED, False),
    ],
)
def test_tiles_are_loaded_in_whole_rows_for_accumulators_of_warps_that_hold_columns(
    warps: str, threads: str, computed: str, rows: bool
) -> None:
    """As laid out where nothing is computed so, with MMAs in a loop too."""
    text = ADDED.replace("WARPS", warps).replace("[4, 8]", threads).replace("COMPUTED", computed)
    exact = literal_layouts(read(text, "added.ttgir")).encodings
    assert isinstance(exact["#rows"], Linear) == rows


LOOPED = """
#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#b = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f16>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.000000e+00> : tensor<64x128xf32, #mma>
    %a = arith.constant dense<1.000000e+00> : tensor<64x16xf16, #a>
    %b = arith.constant dense<1.000000e+00> : tensor<16x128xf16, #b>
    %at = tt.splat %p : !tt.ptr<f16> -> tensor<64x128x!tt.ptr<f16>, #rows>
    %sums = scf.for %i = %zero to %n step %one iter_args(%sum = %none) -> (tensor<64x128xf32, #mma>) : i32 {
      %more = tt.dot %a, %b, %sum : tensor<64x16xf16, #a> * tensor<16x128xf16, #b> -> tensor<64x128xf32, #mma>
      EACH
      scf.yield %more : tensor<64x128xf32, #mma>
    }
    BEHIND
    tt.return
  }
}
"""
STORING = """%x = arith.truncf %sums : tensor<64x128xf32, #mma> to tensor<64x128xf16, #mma>
    %y = ttg.convert_layout %x : tensor<64x128xf16, #mma> -> tensor<64x128xf16, #rows>
    tt.store %at, %y : tensor<64x128x!tt.ptr<f16>, #rows>"""


@pytest.mark.parametrize("each", [True, False])
def test_tiles_that_each_iteration_stores_are_no_small_part(each: bool) -> None:
    """Of a loop with MMAs, whose result is stored behind it as it is held."""
    inside, behind = (STORING.replace("%sums", "%more"), "") if each else ("", STORING)
    text = LOOPED.replace("EACH", inside).replace("BEHIND", behind)
    exact = literal_layouts(read(text, "looped.ttgir")).encodings
    assert isinstance(exact["#rows"], Linear) == each


FED = """%old = tt.load %at : tensor<64x128x!tt.ptr<f16>, #rows>
      %twice = arith.addf %old, %old : tensor<64x128xf16, #rows>
      """
TO_AN_OPERAND = """%c = ttg.convert_layout %twice : tensor<64x128xf16, #rows> -> tensor<64x128xf16, #b>
      """
TO_AN_ACCUMULATOR = """%c = ttg.convert_layout %old : tensor<64x128xf16, #rows> -> tensor<64x128xf16, #mma>
      """


@pytest.mark.parametrize(
    ("used", "rows"), [(TO_AN_OPERAND, True), (TO_AN_OPERAND + TO_AN_ACCUMULATOR.replace("%c", "%d"), False)]
)
def test_tiles_that_pass_through_registers_keep_the_layout_of_what_is_stored(used: str, rows: bool) -> None:
    """What is loaded beside, and goes to shared memory after it was computed with; not what goes to other
    threads, as elements of an accumulator."""
    inside = FED + used + STORING.replace("%sums", "%more")
    text = LOOPED.replace("EACH", inside).replace("BEHIND", "")
    exact = literal_layouts(read(text, "looped.ttgir")).encodings
    assert isinstance(exact["#rows"], Linear) == rows


SCATTERED = """
#rows = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [2, 2], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32) {
    %x = arith.constant dense<1.000000e+00> : tensor<16x64xf16, #mma>
    %row = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32, #ttg.slice<{dim = 1, parent = #rows}>>
    %column = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #rows}>>
    %down = tt.expand_dims %row {axis = 1 : i32} : tensor<16xi32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<16x1xi32, #rows>
    %across = tt.expand_dims %column {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x64xi32, #rows>
    %most = tt.splat %n : i32 -> tensor<1x64xi32, #rows>
    %inside = arith.cmpi slt, %across, %most : tensor<1x64xi32, #rows>
    %mask = tt.broadcast %inside : tensor<1x64xi1, #rows> -> tensor<16x64xi1, #rows>
    %pitch = tt.splat %n : i32 -> tensor<16x1xi32, #rows>
    %first = arith.muli %down, %pitch : tensor<16x1xi32, #rows>
    %begin = tt.broadcast %first : tensor<16x1xi32, #rows> -> tensor<16x64xi32, #rows>
    %further = tt.broadcast %across : tensor<1x64xi32, #rows> -> tensor<16x64xi32, #rows>
    %place = arith.addi %begin, %further : tensor<16x64xi32, #rows>
    %base = tt.splat %p : !tt.ptr<f16> -> tensor<16x64x!tt.ptr<f16>, #rows>
    %at = tt.addptr %base, %place : tensor<16x64x!tt.ptr<f16>, #rows>, tensor<16x64xi32, #rows>
    %y = ttg.convert_layout %x : tensor<16x64xf16, #mma> -> tensor<16x64xf16, #rows>
    tt.store %at, %y, %mask : tensor<16x64x!tt.ptr<f16>, #rows>
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("divisor", "threads", "rows"),
    [("", "[1, 32]", True), (" {tt.divisibility = 16 : i32}", "[1, 32]", False), ("", "[8, 4]", False)],
)
def test_tiles_that_are_stored_element_by_element_go_where_fewer_sectors_are_touched(
    divisor: str, threads: str, rows: bool
) -> None:
    """A warp stores 32 neighbours of a row at once; as an MMA has them, four of each of eight rows."""
    text = SCATTERED.replace("%n: i32)", f"%n: i32{divisor})").replace("[1, 32]", threads)
    exact = literal_layouts(read(text, "scattered.ttgir")).encodings
    assert isinstance(exact["#rows"], Linear) == rows


@pytest.mark.parametrize(("columns", "rows"), [(64, True), (128, False)])
def test_neighbours_are_stored_at_once_where_threads_have_16_bytes_to_exchange(
    columns: int, rows: bool
) -> None:
    """Rows whose beginning may lie anywhere: four warps hold 16 columns each of 64, 32 of 128."""
    divisor = " {tt.divisibility = 16 : i32}"
    text = SCATTERED.replace(divisor, "").replace("%n: i32)", f"%n: i32{divisor})")
    text = text.replace("64", str(columns))
    exact = literal_layouts(read(text, "anywhere.ttgir")).encodings
    assert isinstance(exact["#rows"], Linear) == rows


def test_tiles_of_mmas_in_loops_are_stored_as_they_are_held() -> None:
    path = Path("tests/kernels/ttgir/spaced.sm90.ttgir")
    module = read(path.read_text(encoding="utf-8"), str(path))
    store = next(op for op in module.functions[0].walk() if op.name == "tt.store")
    kind = store.operands[1].type
    assert isinstance(kind, Tensor)
    exact = literal_layouts(module).encodings
    assert [one for name, one in exact.items() if module.encodings[name] == kind.encoding] == [kind.encoding]


SUMMED = """
#loaded = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4], order = [0, 1]}>
#other = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f() {
    %tile = arith.constant dense<1.000000e+00> : tensor<128x128xf32, #loaded>
    %sum = "tt.reduce"(%tile) <{axis = AXIS : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<128x128xf32, #loaded>) -> tensor<128xf32, #ttg.slice<{dim = AXIS, parent = #loaded}>>
    MOVED
    tt.return
  }
}
"""
MOVED = "%moved = ttg.convert_layout %tile : tensor<128x128xf32, #loaded> -> tensor<128x128xf32, #other>"


@pytest.mark.parametrize(("axis", "moved", "held"), [(0, "", True), (1, "", False), (0, MOVED, False)])
def test_tiles_are_held_as_laid_out_where_warps_sum_their_columns_sooner(
    axis: int, moved: str, held: bool
) -> None:
    """As rows of an MMA each column is in all warps; a tile that also goes to another layout stays."""
    text = SUMMED.replace("AXIS", str(axis)).replace("MOVED", moved)
    exact = literal_layouts(read(text, "summed.ttgir")).encodings
    assert isinstance(exact["#loaded"], Linear) == held
