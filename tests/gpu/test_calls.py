# pyright: basic, reportMissingImports=false
"""Calling a built kernel: arrays of several libraries, names, streams."""

from typing import Any

import pytest

from tests.gpu.kernels import ANY, kernel

pytestmark = pytest.mark.gpu(*ANY)

M, N, K = 256, 512, 128


class OnlyDlpack:
    """An array of a library that has nothing but DLPack."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.tensor.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def matrices() -> tuple[Any, Any, Any]:
    import torch

    a, b = (torch.randn(rows, K, device="cuda", dtype=torch.float16) for rows in (M, N))
    return a, b, torch.full((M, N), float("nan"), device="cuda", dtype=torch.float16)


def right(a: Any, b: Any, c: Any) -> bool:
    import torch

    torch.cuda.synchronize()
    return bool(torch.allclose(c.float(), a.float() @ b.float().T, rtol=2e-3, atol=0.05))


def test_arguments_by_position_and_by_name() -> None:
    a, b, c = matrices()
    kernel("gemm")[(4,)](a, b, c, M, K=K, N=N)
    assert right(a, b, c)


def test_arrays_of_any_library() -> None:
    cupy = pytest.importorskip("cupy")
    a, b, c = matrices()
    kernel("gemm")[4](*map(OnlyDlpack, (a, b, c)), M, N, K)
    assert right(a, b, c)
    c.fill_(0)
    kernel("gemm")[(4, 1, 1)](*map(cupy.asarray, (a, b, c)), M, N, K)
    assert right(a, b, c)


def test_the_current_stream_is_used() -> None:
    import torch

    (a, b, c), gemm = matrices(), kernel("gemm")
    gemm[4](a.mul_(2), b, c, M, N, K)  # what is loaded lazily
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(1_000_000_000)  # half a second: the host is faster on a loaded machine, too
        a.mul_(2)
        gemm[4](a, b, c, M, N, K)
        assert not side.query()
    assert right(a, b, c)


def test_a_graph_can_be_captured() -> None:
    import torch

    a, b, c = matrices()
    kernel("gemm")[4](a, b, c, M, N, K)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel("gemm")[4](a, b, c, M, N, K)
    a.mul_(2)
    graph.replay()
    assert right(a, b, c)
