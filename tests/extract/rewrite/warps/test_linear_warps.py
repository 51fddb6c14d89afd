"""More warps hold parts of tiles in linear layouts, not copies."""

from pathlib import Path

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.warps.narrow_modules import widened
from twill.ir.distribution import distribution
from twill.ir.loop import Linear, Module, Tensor
from twill.ops.table import role

TEXT = """\
#wide = #ttg.linear<{register = [[0, 1], [0, 2], [0, 64], [8, 0]], lane = [[0, 4], [0, 8], [0, 16], [0, 32], [1, 0]], warp = [[2, 0], [4, 0]], block = []}>
#turned = #ttg.linear<{register = [[1, 0], [2, 0], [64, 0], [0, 8]], lane = [[4, 0], [8, 0], [16, 0], [32, 0], [0, 1]], warp = [[0, 2], [0, 4]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%x: tensor<SHAPE, #wide>) {
    %y = tt.trans %x {order = array<i32: 1, 0>} : tensor<SHAPE, #wide> -> tensor<TURNED, #turned>
    tt.return
  }
}
"""


def fixture(kernel: str) -> Module:
    path = Path(f"tests/kernels/ttgir/{kernel}.sm90.ttgir")
    return read(path.read_text(encoding="utf-8"), str(path))


def test_an_unpacked_operand_is_divided() -> None:
    """Of the tile that is copied to shared memory, each of twice as many threads unpacks half as much."""
    wide = widened(fixture("quarters"), 8)
    for one in (op for op in wide.functions[0].walk() if role(op) == "alloc" and op.operands):
        tile = one.operands[0].type
        assert isinstance(tile, Tensor)
        found = distribution(tile.encoding, tile.shape)
        assert found is not None
        assert all(any(vector) for vector in found.warp)


def test_the_last_register_of_the_largest_tile_becomes_a_warp() -> None:
    made = widened(read(TEXT.replace("SHAPE", "16x128xi8").replace("TURNED", "128x16xi8"), "k.ttgir"), 8)
    wide, turned = (made.encodings[name] for name in ("#wide", "#turned"))
    assert isinstance(wide, Linear)
    assert isinstance(turned, Linear)
    assert (wide.warp[-1], turned.warp[-1]) == ((0, 64), (64, 0))
    assert len(wide.register) == len(turned.register) == 3
    assert made.text.count("\n") == TEXT.count("\n")
