# pyright: basic, reportMissingImports=false
"""Kernels on other GPUs than the current one: where the arrays are, that is where they run."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import twill.triton
from tests.gpu.kernels import ANY, kernel
from twill.diagnostics import TwillError

pytestmark = pytest.mark.gpu(*ANY)

M, N, K = 1024, 512, 256
TILES = (M // 128) * (N // 256)


@pytest.fixture(autouse=True)
def two() -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")


def matrices(device: int) -> tuple[Any, Any, Any]:
    import torch

    where = f"cuda:{device}"
    a, b = (torch.randn(rows, K, device=where, dtype=torch.float16) for rows in (M, N))
    return a, b, torch.full((M, N), float("nan"), device=where, dtype=torch.float16)


def right(a: Any, b: Any, c: Any) -> bool:
    import torch

    torch.cuda.synchronize(c.device)
    return bool(torch.allclose(c.float(), a.float() @ b.float().T, rtol=2e-3, atol=0.05))


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_arrays_say_on_which_gpu(dynamic: bool) -> None:
    """With a counter of tiles, which is memory of the launch, too."""
    import torch

    gemm = kernel("gemm", dynamic=dynamic)
    for device in (1, 0, 1):
        a, b, c = matrices(device)
        gemm[TILES](a, b, c, M, N, K)
        assert right(a, b, c)
        assert torch.cuda.current_device() == 0


def test_each_gpu_has_its_own_current_stream() -> None:
    import torch

    gemm, (a, b, c) = kernel("gemm"), matrices(1)
    gemm[TILES](a.mul_(2), b, c, M, N, K)  # what is loaded lazily
    torch.cuda.synchronize(1)
    side = torch.cuda.Stream(1)
    with torch.cuda.device(1), torch.cuda.stream(side):
        torch.cuda._sleep(1_000_000_000)
        a.mul_(2)
        gemm[TILES](a, b, c, M, N, K)
        assert not side.query()
    assert right(a, b, c)


def test_a_thread_for_each_gpu() -> None:
    gemm = kernel("gemm", dynamic=True)

    def many(device: int) -> bool:
        a, b, c = matrices(device)
        for _ in range(50):
            gemm[TILES](a, b, c, M, N, K)
        return right(a, b, c)

    with ThreadPoolExecutor(2) as threads:
        assert all(threads.map(many, (0, 1)))


def test_arrays_on_two_gpus_are_refused() -> None:
    (a, b, _), (_, _, c) = matrices(0), matrices(1)
    with pytest.raises(TwillError, match=r"on different GPUs: `a.*` on GPU 0, `c.*` on GPU 1"):
        kernel("gemm")[TILES](a, b, c, M, N, K)


@pytest.mark.parametrize("verify", [False, True])
def test_a_program_of_triton_on_each_gpu(
    verify: bool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton launches on the current GPU."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    from tests.gpu import oneline_kernels

    hosted: Any = oneline_kernels.hosted
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    twill.triton.install(verify=verify, measure=False, time_limit=10)
    try:
        for device in (0, 1, 0, 1):
            a, b, c = matrices(device)
            blocks = ([128, 64], [256, 64], [128, 256])
            descriptors = [
                TensorDescriptor.from_tensor(one, shape) for one, shape in zip((a, b, c), blocks, strict=True)
            ]
            with torch.cuda.device(device):
                hosted[(M // 128, N // 256)](
                    *descriptors, K, BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8
                )
            assert right(a, b, c)
        print(twill.triton.report())
        assert {row.choice for row in twill.triton.report()} == {"twill"}
    finally:
        twill.triton.uninstall()
