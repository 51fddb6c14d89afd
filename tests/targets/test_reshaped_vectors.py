"""A vector that is reshaped to a row: its elements are those of the row, whichever way it ran before."""

import re
from dataclasses import replace
from pathlib import Path

from tests.kernels.programs import loops
from twill.inputs import Inputs, cases
from twill.targets import EXACT_LAYOUTS, target
from twill.warp.lower import lower

KERNEL = "pointers"
"""Its stores are at columns that `tt.expand_dims` makes of a vector."""
FLAT = "#flat = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [8], order = [0]}>\n"
SLICE = "#ttg.slice<{dim = 0, parent = #blocked}>"
"""The layout of a vector along columns; in `FLAT` it runs along rows."""


def _reshaped(text: str) -> str:
    """The last vector in that layout reshaped from another one."""
    before, last, behind = text.rpartition(
        f"tt.expand_dims %12 {{axis = 0 : i32}} : tensor<128xi32, {SLICE}>"
    )
    assert last
    name = before.rpartition("\n")[2]
    moved = f"    %flat = ttg.convert_layout %12 : tensor<128xi32, {SLICE}> -> tensor<128xi32, #flat> loc(unknown)"
    head = before.removesuffix(name)
    return f"{FLAT}{head}{moved} {name.lstrip()}tt.reshape %flat : tensor<128xi32, #flat>{behind}"


def test_the_columns_of_a_store_follow_from_columns(tmp_path: Path) -> None:
    _, scheduled = loops(KERNEL)
    plain = Path(f"tests/kernels/ttgir/{KERNEL}.sm90.ttgir").read_text(encoding="utf-8")
    file = tmp_path / "kernel.ttgir"
    file.write_text(_reshaped(plain), encoding="utf-8")
    (case,) = cases(Inputs(str(file), arch="sm90", exact_layouts=EXACT_LAYOUTS))
    assert case.module
    assert case.loop
    assert case.graph
    made = replace(scheduled[0], loop=case.loop, graph=case.graph)
    text = target("sm90").source(lower(case.module, (made,), target("sm90")))
    columns = re.findall(r"wrap_add\(muli_10, ((?:int32_t\()*thread\.\w+)", text)
    assert columns
    assert all(column.endswith("thread.column") for column in columns)
