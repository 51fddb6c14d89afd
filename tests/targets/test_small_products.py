"""One group that computes and loads, in whose loop MMAs are those of warps, all or some: what an iteration does
beside them. The check of the generated kernel compares values, by its PTX."""

from pathlib import Path

from twill.generation.generate import generate
from twill.generation.generated import GenerateOptions
from twill.inputs import Inputs
from twill.ir.statements import Compute, ConsumerRelease, Pipelined, ProducerLoad, walk
from twill.targets import target
from twill.warp.lean import lean
from twill.warp.plan import Options

KERNEL = """
import triton
import triton.language as tl

ARGUMENTS = {**dict.fromkeys("ab", "*fp16:16"), **dict.fromkeys("lrc", "*fp32:16"), "n": "i32:16"}
TWILL = {"small": ARGUMENTS}

@triton.jit
def small(a, b, l, r, c, n):
    m, k, j = tl.arange(0, 16), tl.arange(0, 64), tl.program_id(0) * 64 + tl.arange(0, 64)
    acc = tl.zeros([16, 64], tl.float32)
    for i in range(0, n, 64):
        x = tl.load(a + m[:, None] * n + i + k[None, :])
        y = tl.load(b + j[:, None] * n + i + k[None, :])
        left, right = tl.load(l + m * (n // 64) + i // 64), tl.load(r + j * (n // 64) + i // 64)
        acc += tl.dot(x, y.T) * left[:, None] * right[None, :]
    tl.store(c + m[:, None] * 192 + j[None, :], acc)
"""

STATES = """
import triton
import triton.language as tl

TWILL = {"states": {**dict.fromkeys("ab", "*fp16:16"), "s": "*fp32:16", "n": "i32:16"}}

@triton.jit
def states(a, b, s, n):
    m, k = tl.arange(0, 16), tl.arange(0, 64)
    at = s + tl.program_id(0) * 4096 + k[:, None] * 64 + k[None, :]
    state = tl.load(at)
    for i in range(0, n, 16):
        x = tl.load(a + (i + m)[:, None] * 64 + k[None, :])
        y = tl.load(b + (i + m)[:, None] * 64 + k[None, :])
        u = y.to(tl.float32) - tl.dot(x, state.to(tl.float16))
        state += tl.dot(tl.trans(x), (u * 0.01).to(tl.float16))
    tl.store(at, state)
"""
REMATERIALIZED = "thread.rematerialize();"


def test_products_are_contracted_and_addresses_kept(tmp_path: Path) -> None:
    """Nothing is computed behind the release of a slot, which would end the basic block of a product whose sum
    follows; addresses of a thread stay in registers, unless ptxas spills."""
    (tmp_path / "small.py").write_text(KERNEL)
    given = Inputs(f"{tmp_path / 'small.py'}:small", arch="sm90")
    made = generate(given, GenerateOptions(lowering=Options(multistage=True), time_limit=10)).program
    loop = next(one for one in walk(made.groups[0].body) if isinstance(one, Pipelined))
    released = next(i for i, one in enumerate(loop.steady) if isinstance(one, ConsumerRelease))
    assert released > 0
    assert any(isinstance(one, Compute) for one in loop.steady)
    assert all(isinstance(one, ConsumerRelease | ProducerLoad) for one in loop.steady[released:])
    assert REMATERIALIZED not in target("sm90").source(made)
    assert REMATERIALIZED in target("sm90").source(lean(made))


def test_addresses_are_kept_beside_mmas_of_a_warpgroup(tmp_path: Path) -> None:
    """Warps read operands at addresses of their own: a delta rule's iteration, of MMAs of both kinds."""
    (tmp_path / "states.py").write_text(STATES)
    given = Inputs(f"{tmp_path / 'states.py'}:states", arch="sm90")
    made = generate(given, GenerateOptions(lowering=Options(multistage=True), time_limit=10)).program
    assert len(made.groups) == 1
    plain, few = (target("sm90").source(one) for one in (made, lean(made)))
    assert "warp_mma" in plain
    assert "wgmma_commit" in plain
    assert REMATERIALIZED not in plain
    assert REMATERIALIZED in few
