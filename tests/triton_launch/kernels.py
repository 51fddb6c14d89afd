# pyright: basic, reportMissingImports=false
"""Small kernels that are compiled in a second, for launches that go nowhere."""

import triton
import triton.language as tl


@triton.jit
def dot(a, b, c, stride, scale, BLOCK: tl.constexpr):
    """One tile of a product."""
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in range(0, stride, BLOCK):
        acc = tl.dot(tl.load(a + i * stride + k + j), tl.load(b + (k + i) * stride + j), acc)
    tl.store(c + i * stride + j, (acc * scale).to(tl.float16))


@triton.autotune([triton.Config({"BLOCK": size}, num_warps=4) for size in (16, 32)], key=["stride"])
@triton.jit
def tuned(a, b, c, stride, BLOCK: tl.constexpr):
    """The same with two configurations."""
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(
        c + i * stride + j, tl.dot(tl.load(a + i * stride + j), tl.load(b + i * stride + j)).to(tl.float16)
    )


@triton.heuristics({"BLOCK": lambda args: 16})
@triton.jit
def guessed(a, b, c, BLOCK: tl.constexpr):
    """The same with a computed constant."""
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(c + i * BLOCK + j, tl.dot(tl.load(a + i * BLOCK + j), tl.load(b + i * BLOCK + j)).to(tl.float16))


@triton.jit
def pair(both, c, BLOCK: tl.constexpr):
    """Two arguments in a tuple."""
    a, b = both
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(c + i * BLOCK + j, tl.dot(tl.load(a + i * BLOCK + j), tl.load(b + i * BLOCK + j)).to(tl.float16))


@triton.jit
def copy(a, c, BLOCK: tl.constexpr):
    """No dot."""
    i = tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(a + i))
