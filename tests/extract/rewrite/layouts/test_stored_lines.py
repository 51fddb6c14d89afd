"""Tiles that loops store and that pass through shared memory on the way: stored as they are laid out."""

import pytest

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.layouts.stored_lines import stored_lines
from twill.ir.distribution import distribution
from twill.ir.loop import Linear, Module, Tensor
from twill.ops.table import role

TURNED = "register = [[1, 0], [0, 8], [8, 0], [16, 0], [32, 0]], lane = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 16], [0, 32]]"
AS_ACCUMULATOR = "register = [[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[16, 0], [32, 0]]"
STORE = "tt.store %at, %y, %inside : tensor<64x64x!tt.ptr<f16>, #rows>"
COMPUTED, LOADED = (
    "%o = tt.broadcast %mine : tensor<64x1xi32, #rows> -> tensor<64x64xi32, #rows>",
    "%o = tt.load %table : tensor<64x64x!tt.ptr<i32>, #rows>",
)
STORED = f"""
#rows = #ttg.blocked<{{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}}>
#turned = #ttg.linear<{{{TURNED}, block = [], exact = true}}>
#mma = #ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}}>
#shared = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#smem = #ttg.shared_memory
module attributes {{"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @f(%p: !tt.ptr<f16> {{tt.divisibility = 16 : i32}}, %q: !tt.ptr<i32> {{tt.divisibility = 16 : i32}}, %n: i32 {{tt.divisibility = 16 : i32}}) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c7 = arith.constant 7 : i32
    %ones = arith.constant dense<1.000000e+00> : tensor<64x64xf16, #rows>
    %x = arith.constant dense<1.000000e+00> : tensor<64x64xf16, #turned>
    %zero = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #mma>
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, #ttg.slice<{{dim = 1, parent = #rows}}>>
    %k = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, #ttg.slice<{{dim = 0, parent = #rows}}>>
    %row = tt.expand_dims %r {{axis = 1 : i32}} : tensor<64xi32, #ttg.slice<{{dim = 1, parent = #rows}}>> -> tensor<64x1xi32, #rows>
    %column = tt.expand_dims %k {{axis = 0 : i32}} : tensor<64xi32, #ttg.slice<{{dim = 0, parent = #rows}}>> -> tensor<1x64xi32, #rows>
    %size = tt.splat %n : i32 -> tensor<64x1xi32, #rows>
    %mine = arith.muli %row, %size : tensor<64x1xi32, #rows>
    %below = arith.cmpi slt, %row, %size : tensor<64x1xi32, #rows>
    %inside = tt.broadcast %below : tensor<64x1xi1, #rows> -> tensor<64x64xi1, #rows>
    %table = tt.splat %q : !tt.ptr<i32> -> tensor<64x64x!tt.ptr<i32>, #rows>
    %columns = tt.broadcast %column : tensor<1x64xi32, #rows> -> tensor<64x64xi32, #rows>
    %a = ttg.local_alloc %ones : (tensor<64x64xf16, #rows>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
    scf.for %i = %c0 to %c7 step %c1  : i32 {{
      %d = ttng.warp_group_dot %a, %a, %zero {{inputPrecision = 0 : i32}} : !ttg.memdesc<64x64xf16, #shared, #smem> * !ttg.memdesc<64x64xf16, #shared, #smem> -> tensor<64x64xf32, #mma>
      {COMPUTED}
      %both = arith.addi %o, %columns : tensor<64x64xi32, #rows>
      %first = tt.splat %p : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>, #rows>
      %at = tt.addptr %first, %both : tensor<64x64x!tt.ptr<f16>, #rows>, tensor<64x64xi32, #rows>
      %y = ttg.convert_layout %x : tensor<64x64xf16, #turned> -> tensor<64x64xf16, #rows>
      {STORE}
    }}
    tt.return
  }}
}}
"""


def test_threads_store_lines_as_they_are_laid_out() -> None:
    """In a layout of this store's own, which the pointers and masks are changed to."""
    module = read(STORED, "stored.ttgir")
    after = stored_lines(module)
    (store,) = (op for op in after.functions[0].walk() if role(op) == "pointer_store")
    kinds = [value.type for value in store.operands]
    for kind in kinds:
        assert isinstance(kind, Tensor)
        assert isinstance(kind.encoding, Linear)
        assert kind.encoding.exact
        assert distribution(kind.encoding, (64, 64)) == distribution(module.encodings["#rows"], (64, 64))
    assert after.encodings["#rows"] == module.encodings["#rows"], "what else is laid out so stays"
    assert after.text.count("\n") == module.text.count("\n") + 2, "the alias alone has a line of its own"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TURNED, AS_ACCUMULATOR),
        ("block = [], exact = true", "block = []"),
        ("[4, 8], warpsPerCTA", "[8, 4], warpsPerCTA"),
        (COMPUTED, LOADED),
        ("%n: i32 {tt.divisibility = 16 : i32}", "%n: i32"),
        (STORE, f"{STORE}\n      {STORE}"),
        (STORE, ""),
    ],
    ids=["in-place", "not-exact", "short", "loaded", "unaligned", "twice", "unstored"],
)
def test_others_stay(old: str, new: str) -> None:
    """Elements that stay in their threads, or that an accumulator's are held as; parts of lines; pointers that
    follow from what is loaded, or are not known to be aligned; a tile that is stored twice, or never."""
    module: Module = read(STORED.replace(old, new), "stored.ttgir")
    assert module.text != STORED
    assert stored_lines(module) is module


def test_stores_behind_the_loop_stay() -> None:
    closing = f"      {STORE}\n    }}\n"
    begin = STORED.index("      %both"), STORED.index(closing)
    inside = STORED[begin[0] : begin[1]]
    behind = STORED.replace(inside, "").replace(closing, f"    }}\n      {COMPUTED}\n{inside}      {STORE}\n")
    behind = behind.replace(f"      {COMPUTED}\n", "", 1)
    module = read(behind, "stored.ttgir")
    assert stored_lines(module) is module
