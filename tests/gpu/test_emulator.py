# pyright: basic, reportMissingImports=false
"""The emulator beside this machine's GPU: generated kernels, and Triton's own, give the same bits on both.

Where every number is an integer that sums hold exactly, all bits must agree. Elsewhere the GPU adds in an
order of its own and approximates in its own way, and results agree within the error of their type.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.emulate import test_triton, test_triton_blackwell
from tests.emulate.compiled import compiled
from tests.emulate.compiled import launch as emulate
from tests.emulate.test_triton import *  # noqa: F403 (its tests are collected here, too)
from tests.emulate.test_triton_blackwell import *  # noqa: F403
from tests.gpu.kernels import ANY, here, kernel
from tests.kernels.builds import build, numbers
from twill.emulate.arrays import decoded
from twill.emulate.build import Request, execute, prepared
from twill.emulate.faults import HazardError
from twill.simulate.compare import TOLERANCE, error

pytestmark = pytest.mark.gpu(*ANY)

EXACT = ("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction")
ROUNDED = ("fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal", "fa_bwd", "fa_bwd_subtiled")
APPROXIMATE = {
    "attention_specialized": 2e-3,
    "attention_backward": 4e-3,
    "attention": 2e-3,
    "softmax": 1e-6,
    "layer_norm": 2e-3,
    "functions": 1e-6,
}
"""Triton's kernels that approximate: the relative error between both machines."""

TORCH = {"bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
"""Types that NumPy lacks; arrays hold their codes."""


def both(name: str, request: Request) -> dict[str, tuple[Any, Any, str]]:
    """Arrays as the emulator leaves them and as the GPU does, with their types."""
    import torch

    made = build(name if here() == "sm90" else f"{name}.{here()}")
    start = prepared(made, request)
    emulated, arrays = start.raw(), start.raw()
    execute(made, start.numbers, request, emulated)
    kinds = start.expected.types
    given: dict[str, Any] = dict(start.numbers)
    for argument, array in arrays.items():
        tensor = torch.from_numpy(array).cuda()
        kind = TORCH.get(kinds[argument])
        given[argument] = tensor.view(getattr(torch, kind)) if kind else tensor
    passed = {one.name: given[one.name] for one in made.manifest.arguments if one.name in given}
    kernel(name)[request.grid](**passed)
    torch.cuda.synchronize()
    return {
        argument: (emulated[argument], given[argument].view(torch.uint8).cpu().numpy(), kinds[argument])
        for argument in arrays
    }


@pytest.mark.parametrize("name", EXACT)
def test_generated_kernels_give_the_same_bits(name: str) -> None:
    for argument, (one, other, _) in both(name, Request(numbers(name), integers=True)).items():
        assert one.tobytes() == other.tobytes(), argument


@pytest.mark.parametrize("name", ROUNDED)
def test_generated_attention_agrees_within_the_error_of_its_type(name: str) -> None:
    for argument, (emulated, there, kind) in both(name, Request(numbers(name))).items():
        found = there.view(emulated.dtype).reshape(emulated.shape)
        one, other = (decoded(array, kind).astype(np.float64) for array in (emulated, found))
        assert error(one, other) <= TOLERANCE[kind], argument


@pytest.fixture(autouse=True)
def on_both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of Triton's kernels run on the emulator and on the GPU, and are compared."""
    for module in (test_triton, test_triton_blackwell):
        monkeypatch.setattr(module, "launch", launch_both)
        monkeypatch.setattr(module, "compiled", compiled_here)


def compiled_here(
    kernel: str, types: Any, constants: Any, arch: int = int(here().removeprefix("sm")), *given: Any
) -> Any:
    """Triton's compilation for this GPU, where this version of it takes the kernel."""
    from triton.compiler.errors import CompilationError

    try:
        return compiled(kernel, types, constants, arch, *given)
    except CompilationError as error:
        pytest.skip(f"Triton can not compile it: {str(error).splitlines()[0]}")


def launch_both(made: Any, grid: Sequence[int], arguments: Sequence[Any], seed: int = 0) -> None:
    """A launch on the emulator, and the same launch on the GPU."""
    import torch
    import triton

    if f"sm{made.metadata.target.arch}" != here():
        pytest.skip("compiled for another GPU")
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    on_gpu = [
        torch.from_numpy(one.copy()).cuda() if isinstance(one, np.ndarray) else one for one in arguments
    ]
    try:
        emulate(made, grid, arguments, seed)
    except HazardError as hazard:  # what the emulator finds wrong in Triton's code is no test of the emulator
        pytest.skip(f"Triton {triton.__version__}: {str(hazard).splitlines()[0]}")
    given = iter(on_gpu)
    made[(*grid, 1, 1)[:3]](
        *[next(given) if kind != "constexpr" else None for kind in made.src.signature.values()]
    )
    torch.cuda.synchronize()
    allowed = APPROXIMATE.get(made.metadata.name, 0.0)
    for emulated, tensor in zip(arguments, on_gpu, strict=True):
        if isinstance(emulated, np.ndarray):
            found = tensor.cpu().numpy()
            same = emulated.tobytes() == found.tobytes()
            assert same or error(*(array.astype(np.float64) for array in (emulated, found))) <= allowed
