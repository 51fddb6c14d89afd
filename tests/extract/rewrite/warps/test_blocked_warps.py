"""More warps of blocked layouts lie where all views of a tile say."""

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.warps.blocked_warps import dimensions
from twill.extract.rewrite.warps.narrow_modules import widened
from twill.ir.distribution import distribution
from twill.ir.loop import Blocked, Module, Tensor
from twill.ops.table import role

SCALES = """\
#cube = #ttg.blocked<{sizePerThread = [1, 1, 1], threadsPerWarp = [1, 1, 32], warpsPerCTA = [1, 1, 4], order = [2, 1, 0]}>
#wide = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [1, 0]}>
#tall = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#rows = #ttg.linear<{register = [[128, 0], [0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%s: tensor<256x4xbf16, #rows>, %x: tensor<256x128xbf16, #tall>) {
    %t = tt.trans %s {order = array<i32: 1, 0>} : tensor<256x4xbf16, #rows> -> tensor<4x256xbf16, #ttg.slice<{dim = 1, parent = #cube}>>
    %c = tt.reshape %t efficient_layout : tensor<4x256xbf16, #ttg.slice<{dim = 1, parent = #cube}>> -> tensor<4x1x256xbf16, #cube>
    %b = tt.broadcast %c : tensor<4x1x256xbf16, #cube> -> tensor<4x32x256xbf16, #cube>
    %w = tt.reshape %b : tensor<4x32x256xbf16, #cube> -> tensor<128x256xbf16, #wide>
    %y = tt.trans %x {order = array<i32: 1, 0>} : tensor<256x128xbf16, #tall> -> tensor<128x256xbf16, #wide>
    %p = arith.mulf %y, %w : tensor<128x256xbf16, #wide>
    tt.return
  }
}
"""
"""Factors of 32 rows each, as a block-scaled product has them."""


def chosen(module: Module) -> dict[str, int]:
    found = dimensions(module, 2)
    return {name: found[one] for name, one in module.encodings.items() if isinstance(one, Blocked)}


def test_columns_where_factors_repeat_in_rows() -> None:
    assert chosen(read(SCALES, "k.ttgir")) == {"#cube": 2, "#wide": 1, "#tall": 0}


def test_the_slowest_dimension_where_no_view_contradicts() -> None:
    lines = SCALES.splitlines(keepends=True)
    alone = "".join(line for line in lines if not any(name in line for name in ("%t =", "%c", "%b", "%w")))
    found = chosen(read(alone, "k.ttgir"))
    assert (found["#wide"], found["#tall"]) == (0, 1)


def test_views_keep_elements_in_their_threads() -> None:
    """A reshape of a tile in row-major order names the same elements in each warp."""
    made = widened(read(SCALES, "k.ttgir"), 8)
    for op in made.functions[0].walk():
        if role(op) != "reshape":
            continue
        source, result = op.operands[0].type, op.result.type
        assert isinstance(source, Tensor)
        assert isinstance(result, Tensor)
        sides = [(distribution(one.encoding, one.shape), one.shape) for one in (source, result)]
        places = [
            [sum(v * _stride(shape, d) for d, v in enumerate(vector)) for vector in found.warp]
            for found, shape in sides
            if found is not None
        ]
        assert len(places) == 2
        assert places[0] == places[1]


def _stride(shape: tuple[int, ...], dim: int) -> int:
    made = 1
    for size in shape[dim + 1 :]:
        made *= size
    return made
