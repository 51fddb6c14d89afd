"""Tiles that threads load for shared memory alone are loaded as they are laid out."""

from twill.extract.reader.ttgir import read
from twill.extract.rewrite.loads.staged_loads import staged_loads
from twill.ir.loop import Linear, Module, Tensor
from twill.ops.table import role

STAGED = """
#rows = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<bf16>) {
    %all = arith.constant dense<true> : tensor<64x64xi1, #rows>
    %none = arith.constant dense<0.000000e+00> : tensor<64x64xbf16, #rows>
    %at = tt.splat %p : !tt.ptr<bf16> -> tensor<64x64x!tt.ptr<bf16>, #rows>
    %x = tt.load %at, %all, %none : tensor<64x64x!tt.ptr<bf16>, #rows>
    %y = ttg.local_alloc %x : (tensor<64x64xbf16, #rows>) -> !ttg.memdesc<64x64xbf16, #shared, #smem>
    tt.return
  }
}
"""
READ = "    %z = arith.addf %x, %x : tensor<64x64xbf16, #rows>\n    tt.return"


def _exact(made: Module) -> bool:
    load = next(op for op in made.functions[0].walk() if role(op) == "pointer_load")
    kind = load.result.type
    assert isinstance(kind, Tensor)
    return isinstance(kind.encoding, Linear) and kind.encoding.exact


def test_a_tile_for_shared_memory_alone_is_held_as_laid_out() -> None:
    before = read(STAGED, "staged.ttgir")
    after = staged_loads(before)
    assert _exact(after)
    alloc = next(op for op in after.functions[0].walk() if role(op) == "alloc")
    assert alloc.operands[0].type == next(
        op.result.type for op in after.functions[0].walk() if role(op) == "pointer_load"
    )
    assert [op.location.line for op in before.functions[0].walk() if role(op) == "alloc"] == [
        alloc.location.line
    ]


def test_a_tile_that_is_read_in_registers_too_stays() -> None:
    made = read(STAGED.replace("    tt.return", READ), "staged.ttgir")
    assert staged_loads(made) is made
