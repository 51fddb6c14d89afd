"""Each row's CUDA as nvcc compiles it, inline PTX included, executed beside its meaning in NumPy.

`test_differential.py` compiles the same expressions for the host, and tries more values; here they are the
PTX of a GPU, with its own conversions, roundings and approximations.
"""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.ops.cases import Case, cases
from tests.ops.test_differential import NOWHERE, different
from twill.diagnostics import TwillError
from twill.emulate import Module, load
from twill.launch.build import RUNTIME
from twill.ops.table import TABLE
from twill.ops.values import Array, bits_of, dtype, of_bits

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


SIMULATED = TEXTS[:2]
"""Of which it is known what they compute."""
HEAD = '#include "math.cuh"\n#include "arithmetic.cuh"\nusing namespace twill;\n'
PARTS = ("cvt.rna.tf32.f32", "%laneid", "max.NaN.f32", "div.full.f32", "cvt.rzi.s64.f64")
"""Of the PTX that must be there."""
MOST = 256
"""Values of a case: all in one block, one for each thread."""
FLUSHED = ("math.log", "math.log2", "math.sqrt", "__nv_fast_logf", "__nv_fast_log2f", "__nv_fast_log10f")
"""Their instruction takes subnormal operands as 0, as Triton's do (lg2.approx.ftz, sqrt.approx.ftz)."""
CALLS = ("math.sin : f64", "math.cos : f64", "math.tan : f64", "math.powf : f64")
CALLED = ("__nv_sin", "__nv_cos", "__nv_tan", "__nv_pow")
"""nvcc calls a function for these; the emulator executes no calls."""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_takes_every_expression_and_its_ptx_computes_it(tmp_path: Path) -> None:
    every = cases()
    text = ptx((*every, *TEXTS), tmp_path)
    assert all(part in text for part in PARTS)
    module = load(text, "rows.ptx")
    wrong = [
        found
        for number, case in enumerate((*every, *SIMULATED))
        if (found := complaint(module, number, case))
    ]
    assert not wrong, "\n".join(wrong)


def ptx(every: tuple[Case, ...], folder: Path) -> str:
    """One kernel for each case."""
    kernels = [kernel(number, case) for number, case in enumerate(every)]
    (folder / "rows.cu").write_text(HEAD + "\n".join(kernels))
    options = ("-std=c++17", "-arch=sm_90a", "-O1", "-ptx", f"-I{RUNTIME}", "-o", "rows.ptx")
    command = ["nvcc", *options, "rows.cu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    assert "warning" not in done.stderr, done.stderr[:4000]
    return (folder / "rows.ptx").read_text()


def kernel(number: int, case: Case) -> str:
    text = case.function(f"case_{number}").replace('extern "C" void', 'extern "C" __global__ void')
    return text.replace("for (int i = 0; i < n; ++i)", "if (const int i = threadIdx.x; i < n)")


def complaint(module: Module, number: int, case: Case) -> str | None:
    """What the kernel of a case computes wrongly."""
    given = chosen(case, number)
    if str(case).startswith(CALLS) or case.attributes.get("symbol") in CALLED:
        with pytest.raises(TwillError, match="not executed"):
            launched(module, number, case, given)
        return None
    assert case.row.meaning is not None
    with np.errstate(all="ignore"):
        expected = case.row.meaning(case.op, given, NOWHERE)
    for one, found, name in zip(expected, launched(module, number, case, given), case.results, strict=True):
        wanted = np.broadcast_to(one, given[0].shape)
        wrong = np.flatnonzero(different(case, wanted, found, name))
        at = [(*(str(value[i]) for value in given), f"NumPy {wanted[i]}, PTX {found[i]}") for i in wrong[:5]]
        if at:
            return f"{case}: {len(wrong)} of {len(wanted)} differ: {at} {case.texts()}"
    return None


def chosen(case: Case, seed: int) -> tuple[Array, ...]:
    whole = case.values()
    kept = np.random.default_rng(seed).permutation(len(whole[0]))[:MOST]
    if case.attributes.get("symbol", case.row.name) in FLUSHED:
        kept = kept[(whole[0][kept] == 0) | ~(np.abs(whole[0][kept]) < np.finfo(np.float32).tiny)]
    return tuple(value[kept] for value in whole)


def launched(module: Module, number: int, case: Case, given: tuple[Array, ...]) -> list[Array]:
    """The results of the kernel of a case."""
    size = len(given[0])
    inputs = [
        np.ascontiguousarray(bits_of(value, name)) for value, name in zip(given, case.operands, strict=True)
    ]
    outputs = [np.zeros(size, bits_of(np.zeros(1, dtype(name)), name).dtype) for name in case.results]
    block = (-(-size // 32) * 32, 1, 1)
    module.kernel(f"case_{number}").launch((1, 1, 1), [*inputs, *outputs, size], block=block)
    return [of_bits(bits, name) for bits, name in zip(outputs, case.results, strict=True)]


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
