# pyright: basic, reportMissingImports=false
"""Triton programs under `twill.triton.install()`: right values, whoever's kernel runs, and nothing left
behind.

The kernels have the forms of Triton's tutorials 03, 05, 06, 08 and 09. Where Twill has a kernel for certain,
the report must say so.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import twill.triton
from tests.gpu.kernels import ANY

pytestmark = pytest.mark.gpu(*ANY)

TOLERANCE = 4e-3
"""Norm of the difference by the norm of what is right, for results in fp16."""


LIMIT = 10.0
"""Seconds for the search of each loop. It is part of the name of a kernel on disk: another limit, another
kernel."""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Kernels that Twill builds, for this module alone."""
    with pytest.MonkeyPatch.context() as patch:
        made = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(made))
        yield made


@pytest.fixture(autouse=True)
def gone() -> Iterator[None]:
    yield
    twill.triton.uninstall()


@pytest.fixture
def kernels() -> Any:
    """Compiled anew, as in another process."""
    from triton.runtime.jit import JITFunction

    from tests.gpu import oneline_kernels

    values: list[Any] = list(vars(oneline_kernels).values())
    for value in values:
        inner = value if isinstance(value, JITFunction) else getattr(value, "fn", None)
        if isinstance(inner, JITFunction):
            inner.device_caches.clear()
        if hasattr(value, "cache") and hasattr(value, "configs"):
            vars(value)["cache"].clear()
    return oneline_kernels


def half(*shape: int) -> Any:
    import torch

    return torch.randn(shape, device="cuda", dtype=torch.float16)


def empty(*shape: int) -> Any:
    import torch

    return torch.full(shape, float("nan"), device="cuda", dtype=torch.float16)


def close(found: Any, right: Any) -> None:
    found, right = found.double(), right.double()
    error = float((found - right).norm() / right.norm())
    assert error < TOLERANCE, f"relative error {error:.1e}\n{twill.triton.report()}"


def choices() -> set[str]:
    print(twill.triton.report())
    return {row.choice for row in twill.triton.report()}


def row_of(name: str) -> Any:
    print(twill.triton.report())
    return next(row for row in twill.triton.report() if row.kernel == name)


# --- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("M", "N", "K", "leaky"), [(1024, 1024, 512, False), (1000, 520, 200, True)])
def test_an_autotuned_product_through_masked_pointers(
    kernels: Any, M: int, N: int, K: int, leaky: bool
) -> None:
    import torch

    twill.triton.install(verify=True, time_limit=LIMIT)
    a, b, c = half(M, K), half(K, N), empty(M, N)

    def grid(meta: Any) -> tuple[int]:
        return (-(-M // meta["BLOCK_M"]) * -(-N // meta["BLOCK_N"]),)

    for _ in range(2):
        kernels.product[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), GROUP=8, LEAKY=leaky)
    right = a.float() @ b.float()
    close(c, torch.nn.functional.leaky_relu(right) if leaky else right)
    assert len(twill.triton.report().rows) == 2


def test_normalization_falls_through(kernels: Any) -> None:
    import torch

    twill.triton.install()
    x, y, weight, bias = half(512, 1000), empty(512, 1000), half(1000), half(1000)
    kernels.normalize[(512,)](x, y, weight, bias, x.stride(0), 1000, 1e-5, BLOCK=1024)
    close(y, torch.nn.functional.layer_norm(x.float(), (1000,), weight.float(), bias.float(), 1e-5))
    assert (row_of("normalize").choice, row_of("normalize").reason) == ("triton", "it has no dot")


@pytest.mark.parametrize("causal", [False, True])
def test_attention(kernels: Any, causal: bool) -> None:
    import torch

    use_scratch()
    twill.triton.install(verify=True, time_limit=LIMIT)
    heads, length, size = 8, 1024, 128
    q, k, v = (half(heads, length, size) for _ in range(3))
    o, lse = empty(heads, length, size), torch.empty(heads, length, device="cuda")
    for _ in range(2):
        kernels.attention[(length // 128, heads)](
            q,
            k,
            v,
            o,
            lse,
            0.1,
            heads,
            length,
            HEAD=size,
            BLOCK_M=128,
            BLOCK_N=128,
            CAUSAL=causal,
            num_warps=8,
        )
    close(
        o,
        torch.nn.functional.scaled_dot_product_attention(
            q.float(), k.float(), v.float(), is_causal=causal, scale=0.1
        ),
    )


def test_many_products_in_one_launch(kernels: Any) -> None:
    import torch

    twill.triton.install(verify=True, time_limit=LIMIT)
    shapes = [(1024, 512, 256), (512, 512, 512), (256, 128, 128)]
    a, b = [half(m, k) for m, n, k in shapes], [half(k, n) for m, n, k in shapes]
    c = [empty(m, n) for m, n, k in shapes]
    addresses = [torch.tensor([one.data_ptr() for one in group], device="cuda") for group in (a, b, c)]
    sizes = torch.tensor(shapes, device="cuda", dtype=torch.int32)
    strides = torch.tensor([[k, n, n] for m, n, k in shapes], device="cuda", dtype=torch.int32)
    for _ in range(2):
        kernels.many[(64,)](
            *addresses, sizes, strides, len(shapes), PROGRAMS=64, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32
        )
    for left, right, found in zip(a, b, c, strict=True):
        close(found, left.float() @ right.float())


@pytest.mark.parametrize("flat", [False, True])
def test_a_persistent_product_through_host_descriptors(kernels: Any, flat: bool) -> None:
    twill.triton.install(verify=True, time_limit=LIMIT)
    a, b, c, descriptors = hosted(2048, 1024, 512, (128, 256, 64))
    for _ in range(2):
        kernels.persistent[(132,)](
            *descriptors,
            2048,
            1024,
            512,
            BLOCK_M=128,
            BLOCK_N=256,
            BLOCK_K=64,
            GROUP=8,
            PROGRAMS=132,
            FLAT=flat,
            num_warps=8,
        )
    close(c, a.float() @ b.float().T)


def hosted(M: int, N: int, K: int, block: tuple[int, int, int]) -> tuple[Any, ...]:
    """Matrices and their descriptors."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    a, b, c = half(M, K), half(N, K), empty(M, N)
    blocks = ([block[0], block[2]], [block[1], block[2]], [block[0], block[1]])
    return (
        a,
        b,
        c,
        tuple(TensorDescriptor.from_tensor(one, shape) for one, shape in zip((a, b, c), blocks, strict=True)),
    )


def use_scratch() -> None:
    """Triton's own kernels make descriptors in memory that the program gives them."""
    import torch
    import triton

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))


# --- with Twill's kernel for certain ----------------------------------------------------------------------

BLOCK = (128, 256, 64)
SIZES = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8}


def test_a_kernel_that_twill_has(kernels: Any) -> None:
    twill.triton.install(verify=True, measure=False, time_limit=LIMIT)
    for M, N, K in ((2048, 2048, 1024), (512, 256, 64), (1000, 520, 200)):
        a, b, c, descriptors = hosted(M, N, K, BLOCK)
        kernels.hosted[(-(-M // 128), -(-N // 256))](*descriptors, K, **SIZES)
        close(c, a.float() @ b.float().T)
    assert choices() == {"twill"}
    assert row_of("hosted").reason == "verified"


def test_the_faster_one_is_kept(kernels: Any) -> None:
    twill.triton.install(time_limit=LIMIT)
    a, b, c, descriptors = hosted(4096, 4096, 4096, BLOCK)
    kernels.hosted[(32, 16)](*descriptors, 4096, **SIZES)
    close(c, a.float() @ b.float().T)
    row = row_of("hosted")
    assert row.speed is not None
    assert row.choice == ("twill" if row.speed >= 1 else "triton")


def test_later_launches_allocate_nothing_and_work_in_graphs(kernels: Any) -> None:
    import torch

    twill.triton.install(measure=False, time_limit=LIMIT)
    a, b, c, descriptors = hosted(1024, 1024, 512, BLOCK)

    def launch() -> None:
        kernels.hosted[(8, 4)](*descriptors, 512, **SIZES)

    launch()
    assert row_of("hosted").choice == "twill"
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for _ in range(10):
        launch()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    c.fill_(float("nan"))
    graph.replay()
    close(c, a.float() @ b.float().T)


def test_a_first_launch_inside_a_graph_is_tritons(kernels: Any) -> None:
    import torch

    a, b, c, descriptors = hosted(1024, 1024, 512, BLOCK)
    kernels.hosted[(8, 4)](*descriptors, 512, **SIZES)
    twill.triton.install(measure=False, time_limit=LIMIT)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.hosted[(8, 4)](*descriptors, 512, **SIZES)
    assert row_of("hosted").choice == "triton"
    c.fill_(float("nan"))
    graph.replay()
    close(c, a.float() @ b.float().T)


def test_in_the_background(kernels: Any, folder: Path) -> None:
    twill.triton.install(compile="background", measure=False, time_limit=LIMIT + 1)
    a, b, c, descriptors = hosted(1024, 1024, 512, BLOCK)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        c.fill_(float("nan"))
        kernels.hosted[(8, 4)](*descriptors, 512, **SIZES)
        close(c, a.float() @ b.float().T)
        if row_of("hosted").choice == "twill":
            return
        time.sleep(1)
    pytest.fail("the kernel did not come")


def test_a_wrong_kernel_is_found_and_switched_off(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch passes the left matrix for both."""
    from twill.triton import session

    plan = session.plan

    def wrong(*given: Any) -> Any:
        getter = plan(*given)

        def values(passed: Any) -> Any:
            found = getter(passed)
            return (*found[:5], *found[:5], *found[10:])

        return values

    monkeypatch.setattr(session, "plan", wrong)
    twill.triton.install(verify=True, measure=False, time_limit=LIMIT + 2)
    a, b, c, descriptors = hosted(1024, 1024, 512, BLOCK)
    for _ in range(2):
        kernels.hosted[(8, 4)](*descriptors, 512, **SIZES)
        close(c, a.float() @ b.float().T)
    assert row_of("hosted").choice == "triton"
    assert "differs from Triton's" in row_of("hosted").reason


def test_uninstall(kernels: Any) -> None:
    twill.triton.install(measure=False, time_limit=LIMIT)
    a, b, c, descriptors = hosted(1024, 1024, 512, BLOCK)
    kernels.hosted[(8, 4)](*descriptors, 512, **SIZES)
    twill.triton.uninstall()
    c.fill_(float("nan"))
    kernels.hosted[(8, 4)](*descriptors, 512, **SIZES)
    close(c, a.float() @ b.float().T)
    assert twill.triton.report().rows == ()


# --- torch.compile ----------------------------------------------------------------------------------------


def test_kernels_of_inductor(kernels: Any) -> None:
    """They are launched through Twill; nothing is built for them here, which would take minutes."""
    import torch
    import torch._inductor.config

    twill.triton.install(compile="cached")
    torch._dynamo.reset()
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    a, b = half(1024, 512), half(512, 2048)
    with torch._inductor.config.patch(compile_threads=1, fx_graph_cache=False):
        found = torch.compile(lambda a, b: torch.relu(a @ b), options=options)(a, b)
    close(found, torch.relu(a.float() @ b.float()))
    assert any("triton" in row.kernel and "not been built" in row.reason for row in twill.triton.report())
