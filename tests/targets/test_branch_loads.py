"""Tiles that only one branch of an `if` reads, loaded in that branch."""

import pytest

from twill.extract.reader.ttgir import read
from twill.targets.cuda.loads.branch_loads import loaded_in_branches

BRANCH = """
#rows = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @f(%p: !tt.ptr<f32>, %c: i1) {
    %at = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #rows>
    %zero = arith.constant dense<0.000000e+00> : tensor<128xf32, #rows>
    %x = tt.load %at : tensor<128x!tt.ptr<f32>, #rows>
    %y = scf.if %c -> (tensor<128xf32, #rows>) {
      %z = arith.addf %x, %x : tensor<128xf32, #rows>
      scf.yield %z : tensor<128xf32, #rows>
    } else {
      scf.yield %zero : tensor<128xf32, #rows>
    }
    %w = arith.addf %y, %zero : tensor<128xf32, #rows>
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        ("%w = ", "%w = ", True),
        ("scf.yield %zero", "scf.yield %x", False),
        ("%w = arith.addf %y, %zero", "%w = arith.addf %y, %x", False),
        ("%at : tensor<128x!tt.ptr<f32>", "%at {isVolatile = true} : tensor<128x!tt.ptr<f32>", False),
        ("    tt.return", "    tt.store %at, %y : tensor<128x!tt.ptr<f32>, #rows>\n    tt.return", False),
    ],
)
def test_loads_move_to_the_branch_that_reads_them(old: str, new: str, moved: bool) -> None:
    """Not where the other branch or what follows reads them, nor beside stores."""
    ops = read(BRANCH.replace(old, new), "branch.ttgir").functions[0].body
    assert ops is not None
    inside = ops.blocks[0].ops
    branch = next(op for op in inside if op.name == "scf.if")
    found = loaded_in_branches(inside, frozenset())
    assert {place: [op.name for op in loads] for place, loads in found.items()} == (
        {(branch.index, 0): ["tt.load"]} if moved else {}
    )


def test_what_others_read_stays() -> None:
    body = read(BRANCH, "branch.ttgir").functions[0].body
    assert body is not None
    ops = body.blocks[0].ops
    load = next(op for op in ops if op.name == "tt.load")
    assert not loaded_in_branches(ops, frozenset({load.result.id}))
