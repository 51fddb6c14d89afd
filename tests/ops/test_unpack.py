"""Two numbers of four bits from each byte: NumPy beside the runtime's C, for every byte."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from twill.diagnostics import TwillError
from twill.extract.reader.ttgir import read
from twill.extract.validate import validate
from twill.ir.loop import Op
from twill.launch.build import RUNTIME
from twill.ops.table import TABLE
from twill.ops.values import Array

SHIM = Path(__file__).with_name("cuda_on_host.hpp")
TEXT = """
#b = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%a: tensor<4x64xi8, #b>) {
    %x = ttg.fp4_to_fp %a {axis = AXIS : i32} : tensor<4x64xi8, #b> -> tensor<ROWSxCOLUMNSxf16, #b>
    tt.return
  }
}
"""


def module_text(axis: int, rows: int, columns: int) -> str:
    text = TEXT.replace("AXIS", str(axis)).replace("ROWS", str(rows))
    return text.replace("COLUMNS", str(columns))


def unpacked(axis: int) -> Array:
    """The tile of all bytes, row by row, unpacked along an axis."""
    module = read(module_text(axis, *((8, 64), (4, 128))[axis]), "k.ttgir")
    validate(module, module.functions[0])
    (op,) = (one for one in module.functions[0].walk() if one.name == "ttg.fp4_to_fp")
    return meaning(op, np.arange(256).astype(np.int8).reshape(4, 64))


def meaning(op: Op, tile: Array) -> Array:
    function = TABLE[op.name].meaning
    assert function is not None
    return function(op, [tile], None)[0]  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_every_byte_has_the_same_numbers_in_c(tmp_path: Path) -> None:
    head = [f'#include "{SHIM}"', f'#include "{RUNTIME}/arithmetic.cuh"']
    body = 'extern "C" float half(int byte, int which) { return twill::unpack_e2m1(int8_t(byte), which); }'
    (tmp_path / "half.cpp").write_text("\n".join([*head, body]))
    command = ["g++", "-std=c++17", "-w", "-shared", "-fPIC", "-o", "half.so", "half.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    function = ctypes.CDLL(str(tmp_path / "half.so")).half
    function.restype = ctypes.c_float
    wide = unpacked(1)
    for byte in range(256):
        pair = [function(byte, which) for which in (0, 1)]
        row, column = divmod(byte, 64)
        assert wide[row, 2 * column : 2 * column + 2].tolist() == pair
    assert sorted(set(np.abs(wide).reshape(-1).tolist())) == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_pairs_lie_along_the_axis() -> None:
    columns, rows = unpacked(1), unpacked(0)
    assert rows.shape == (8, 64)
    assert np.array_equal(rows[::2], columns[:, ::2])
    assert np.array_equal(rows[1::2], columns[:, 1::2])


@pytest.mark.parametrize(("axis", "rows", "columns"), [(1, 8, 64), (0, 4, 128), (2, 4, 128)])
def test_another_shape_is_refused(axis: int, rows: int, columns: int) -> None:
    module = read(module_text(axis, rows, columns), "k.ttgir")
    with pytest.raises(TwillError, match="fp4_to_fp"):
        validate(module, module.functions[0])
