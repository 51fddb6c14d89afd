"""Every row's CUDA, inline PTX included, is CUDA to nvcc: what the host's compiler takes may be ambiguous or
missing there."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.ops.cases import Case, cases
from twill.launch.build import RUNTIME
from twill.ops.table import TABLE

INLINE = TABLE["tt.elementwise_inline_asm"]
TEXTS = (
    Case(
        INLINE,
        ("f32",),
        ("i32",),
        {"asm_string": "cvt.rna.tf32.f32 $0, $1;", "constraints": "=r,f", "packed_element": 1},
    ),
    Case(
        INLINE,
        ("f32", "f32"),
        ("f32",),
        {"asm_string": "{\n add.f32 $0, $1, $2;\n}", "constraints": "=f,f,f", "packed_element": 1},
    ),
    Case(
        INLINE,
        ("f16", "f16"),
        ("f16",),
        {"asm_string": "max.NaN.f16 $0, $1, $2;", "constraints": "=h,h,h", "packed_element": 1},
    ),
    Case(
        INLINE,
        ("i32",),
        ("i32",),
        {"asm_string": "mov.u32 $0, %laneid; // $1", "constraints": "=r,r", "packed_element": 1},
    ),
)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_takes_every_expression(tmp_path: Path) -> None:
    functions = [
        case.function(f"case_{i}").replace('extern "C" void', "__device__ void")
        for i, case in enumerate((*cases(), *TEXTS))
    ]
    head = [
        "#include <cuda_runtime.h>",
        '#include "math.cuh"',
        '#include "arithmetic.cuh"',
        "using namespace twill;",
    ]
    (tmp_path / "rows.cu").write_text("\n".join([*head, *functions]))
    command = [
        "nvcc",
        "-std=c++17",
        "-arch=sm_90a",
        "-O1",
        "-rdc=true",
        "-ptx",
        f"-I{RUNTIME}",
        "-o",
        "rows.ptx",
        "rows.cu",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    assert "warning" not in done.stderr, done.stderr[:4000]
    text = (tmp_path / "rows.ptx").read_text()
    assert all(
        part in text
        for part in ("cvt.rna.tf32.f32", "%laneid", "max.NaN.f32", "div.full.f32", "cvt.rzi.s64.f64")
    )


def test_inline_text_for_several_elements_is_refused() -> None:
    packed = Case(
        INLINE,
        ("i8",),
        ("i8",),
        {"asm_string": "mov.b32 $0, $1;", "constraints": "=r,r", "packed_element": 4},
    )
    assert packed.texts() is None
    narrow = Case(
        INLINE,
        ("f16",),
        ("f32",),
        {"asm_string": "cvt.f32.f16 $0, $1;", "constraints": "=f,r", "packed_element": 1},
    )
    assert narrow.texts() is None
