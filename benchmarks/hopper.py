# pyright: basic
# pyright: reportMissingImports=false
"""Generated kernels on a Hopper GPU: values first, then time beside cuBLAS and cuDNN.

    python benchmarks/hopper.py FOLDER [KERNEL ...]

FOLDER holds KERNEL.so, the libraries that `twill codegen` builds, named after the kernels. Needs PyTorch. Contenders are interleaved,
in an order that rotates from round to round; the L2 is flushed before each; a sleep kernel lets the host run ahead. Prints a JSON line for
each shape: medians in milliseconds and the ratio (above 1 is faster than the peer). Exit status 1 where a value is wrong.
"""

import ctypes
import json
import sys
from pathlib import Path
from statistics import median

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention, silu

ROUNDS, FLUSH, SLEEP = 15, 256 << 20, 1_500_000
TOLERANCE = 1e-3
"""Relative error (Frobenius) of fp16 results."""
SQUARE = 8192


def launch(library, name, grid, *arguments):
    passed = [
        ctypes.c_void_p(x.data_ptr()) if torch.is_tensor(x) else ctypes.c_float(x) if isinstance(x, float) else ctypes.c_int(x)
        for x in arguments
    ]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    status = getattr(library, f"{name}_launch")(*passed, *map(ctypes.c_int, grid), stream)
    assert status == 0, f"{name}: CUDA error {status}"


def times(contenders):
    junk = torch.empty(FLUSH, dtype=torch.int8, device="cuda")
    found = {name: [] for name in contenders}
    order = list(contenders)
    for turn in range(ROUNDS + 2):
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            torch.cuda._sleep(SLEEP)
            junk.zero_()
            began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            began.record()
            contenders[name]()
            ended.record()
            torch.cuda.synchronize()
            if turn > 1:
                found[name].append(began.elapsed_time(ended))
    return {name: median(values) for name, values in found.items()}


def error(found, expected):
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def half(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def poisoned(*shape, dtype=torch.float16):
    return torch.full(shape, float("nan"), device="cuda", dtype=dtype)


def product(library, name, k):
    """The GEMMs; dual_gemm and gemm_reduction beside the GEMM of as many operations."""
    m, n = SQUARE, SQUARE // 2 if name == "dual_gemm" else SQUARE
    a, c, sums = half(m, k), poisoned(m, n), poisoned(m, dtype=torch.float32)
    weights = half(SQUARE, k) / k**0.5
    tiles = (m // 128) * (n // (128 if name == "dual_gemm" else 256))
    grid = (min(tiles, torch.cuda.get_device_properties(0).multi_processor_count) if name == "gemm_persistent" else tiles, 1, 1)
    pair = (weights[:n].contiguous(), weights[n:].contiguous()) if name == "dual_gemm" else (weights,)
    more = (sums,) if name == "gemm_reduction" else ()

    def run():
        launch(library, name, grid, a, *pair, c, *more, m, n, k)

    run()
    whole = a.float() @ weights.float().T
    expected = silu(whole[:, :n]) * whole[:, n:] if name == "dual_gemm" else whole
    errors = [error(c, expected), *([error(sums, a.double().sum(1))] if more else [])]
    return max(errors), {"twill": run, "cublas": lambda: torch.mm(a, weights.T)}


def attention(library, name, length):
    batch, heads, width = 4, 32, 128
    causal = name.endswith("causal")
    q, k, v = (half(batch, heads, length, width) for _ in range(3))
    o, lse = poisoned(batch, heads, length, width), poisoned(batch * heads, length, dtype=torch.float32)

    def run():
        launch(library, name, (length // 128, batch * heads, 1), q, k, v, o, lse, width**-0.5, batch * heads, length)

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            scaled_dot_product_attention(q, k, v, is_causal=causal)

    run()
    scores = q[0, 0].double() @ k[0, 0].double().T * width**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return error(o[0, 0], scores.softmax(-1) @ v[0, 0].double()), {"twill": run, "cudnn": cudnn}


SHAPES = {
    **dict.fromkeys(["gemm", "gemm_persistent", "dual_gemm", "gemm_reduction"], (product, (1024, 4096, 16384))),
    **dict.fromkeys(["fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal"], (attention, (4096, 8192, 16384))),
}


def main(folder, names):
    wrong = False
    for name in names or SHAPES:
        case, sizes = SHAPES[name]
        library = ctypes.CDLL(str(Path(folder) / f"{name}.so"))
        for size in sizes:
            off, contenders = case(library, name, size)
            found = times(contenders)
            (peer,) = set(found) - {"twill"}
            ratio = found[peer] / found["twill"]
            line = {"kernel": name, "size": size, "error": off, "ms": found, "ratio": round(ratio, 3)}
            print(json.dumps(line), flush=True)
            wrong |= not off < TOLERANCE
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
