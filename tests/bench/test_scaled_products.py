# pyright: basic, reportMissingImports=false
"""What `twill bench` measures of products with block-scaled operands, on the CPU: PyTorch makes a case, the
generated kernel is executed as PTX, and the case's own reference judges it. PyTorch checks what the peer
takes."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.kernels.builds import build
from tests.kernels.programs import PAIRED, SCALED_EXAMPLES
from twill.bench.case import Bench, Case
from twill.emulate.build import Request, execute
from twill.extract.frontend.triton import resolved

torch = pytest.importorskip("torch")

SHAPE = {"M": 256, "N": 512, "K": 1024}
PAIRS = [name for name in PAIRED if name.removesuffix("_pairs.sm100") in SCALED_EXAMPLES]
ROUNDED = 2**-9
"""Relative error of rounding to bf16."""


def on(device: str, make: Callable[[], Any]) -> Any:
    """What a function of the examples makes, which names the GPU, on another device."""
    from torch.overrides import TorchFunctionMode

    class Moved(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = dict(kwargs or {})
            return function(*args, **(given | ({"device": device} if given.get("device") == "cuda" else {})))

    with Moved():
        return make()


def case(name: str, device: str) -> Case:
    _, names, instance = resolved("examples/kernels.py", name, "sm100", {})
    entry = names["BENCH"][name]
    return on(device, lambda: Bench(name, entry["case"], ({},)).case(instance, SHAPE))


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("kernel", [*(f"{name}.sm100" for name in SCALED_EXAMPLES), *PAIRS])
def test_a_kernel_is_right_by_the_reference_of_its_case(kernel: str) -> None:
    torch.manual_seed(0)
    made = case(kernel.removesuffix(".sm100").removesuffix("_pairs"), "cpu")
    made.poison()
    arrays = {name: one for name, one in made.arguments.items() if isinstance(one, torch.Tensor)}
    raw = {name: one.contiguous().view(torch.uint8).numpy().ravel() for name, one in arrays.items()}
    execute(build(kernel), SHAPE, Request({}, (made.grid[0], 1, 1)), raw)
    assert made.reference
    found, right = made.reference()["c"]
    assert right.dtype == torch.float64
    error = (found.double() - right).norm() / right.norm()
    assert 0 < error < ROUNDED


@pytest.mark.parametrize("name", SCALED_EXAMPLES)
def test_the_peer_takes_what_the_kernel_takes(name: str) -> None:
    """Shapes, types, strides and numbers of scale factors, as PyTorch wants them of a GPU."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        made = case(name, "cuda")
        product = made.peers["cublas"]()
    assert (product.shape, product.dtype) == ((SHAPE["M"], SHAPE["N"]), torch.bfloat16)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float8_e4m3fn])
def test_scale_factors_lie_as_pytorch_has_them(kind: Any) -> None:
    pytest.importorskip("expecttest", reason="PyTorch's testing code needs it")
    from torch.testing._internal.common_quantized import to_blocked

    _, names, _ = resolved("examples/kernels.py", "gemm_nvfp4", "sm100", {})
    rows = torch.randint(120, 130, (256, 12), dtype=torch.uint8)
    rows = rows if kind == torch.uint8 else rows.float().to(kind)
    blocks = to_blocked(rows).reshape(2, 3, 32, 4, 4)
    found = names["unscaled"](torch.ones(256, 12), blocks, 1)
    assert torch.equal(found, (rows.double() - 127).exp2() if kind == torch.uint8 else rows.double())
