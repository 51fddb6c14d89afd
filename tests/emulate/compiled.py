# pyright: basic
"""Triton kernels, compiled with no GPU and launched on the machine."""

import importlib.util
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pytest

from twill.emulate import load

needs_triton = pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="needs Triton")


Case = TypeVar("Case")


def few(kept: int, cases: Sequence[Case]) -> Sequence[Case]:
    """The first of some cases; all of them for reports/emulator.md, with TWILL_EVERY_KERNEL set."""
    return cases if os.environ.get("TWILL_EVERY_KERNEL") else cases[:kept]


def compiled(
    kernel: str, types: Mapping[str, str], constants: Mapping[str, object], arch: int = 90, warps: int = 4
) -> Any:
    """Triton's compilation of a kernel of `triton_kernels`; pointers are multiples of 16, and integers where
    there is a constant BM."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compiled_by_triton

    from tests.emulate import triton_kernels

    function: Any = getattr(triton_kernels, kernel)
    names: Sequence[str] = function.arg_names
    whole = "BM" in constants
    divisible = [
        i
        for i, name in enumerate(names)
        if name in types and (types[name][0] == "*" or (whole and types[name] == "i32"))
    ]
    signature = {name: types.get(name, "constexpr") for name in names}
    source = ASTSource(
        function, signature, dict(constants), {(i,): [["tt.divisibility", 16]] for i in divisible}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiled_by_triton(
            source, target=GPUTarget("cuda", arch, 32), options={"num_warps": warps, "num_stages": 3}
        )


def compiled_gluon(
    kernel: str, types: Mapping[str, str], constants: Mapping[str, object], ctas: int = 1, arch: int = 100
) -> Any:
    """Triton's compilation of a kernel of `gluon_kernels`; pointers are multiples of 16."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import compile as compiled_by_triton
    from triton.experimental.gluon._runtime import GluonASTSource

    try:
        from tests.emulate import gluon_kernels
    except ImportError as missing:
        pytest.skip(f"this Triton's Gluon is too old: {missing.name or missing}")

    function: Any = getattr(gluon_kernels, kernel)
    signature = {name: types.get(name, "constexpr") for name in function.arg_names}
    places = [i for i, name in enumerate(function.arg_names) if types.get(name, "")[:1] == "*"]
    attributes = {(i,): [["tt.divisibility", 16]] for i in places}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compiled_by_triton(
            GluonASTSource(function, signature, dict(constants), attributes),
            target=GPUTarget("cuda", arch, 32),
            options={"num_warps": 4, "num_ctas": ctas},
        )


def launch(made: Any, grid: Sequence[int], arguments: Sequence[Any], seed: int = 0) -> None:
    """Executes it; Triton adds memory for descriptors that a kernel makes, and for profiles."""
    kernel = load(made.asm["ptx"], f"{made.metadata.name}.ptx").kernel()
    scratch = np.zeros(max(1, made.metadata.global_scratch_size * int(np.prod(grid))), np.uint8)
    added = len(kernel.function.parameters) - len(arguments)
    kernel.launch(
        grid,
        [*arguments, *[scratch, 0][:added]],
        cluster=(made.metadata.num_ctas,),
        shared=made.metadata.shared,
        seed=seed,
        strict=False,
    )
