"""Defects in the PTX of generated kernels are noticed: as a hazard, or as values that differ."""

import re
import shutil
from contextlib import suppress
from dataclasses import replace
from functools import cache

import pytest

from tests.kernels.builds import build, numbers
from twill.emulate import HazardError, load
from twill.emulate.build import Request, run, wrong

pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")

ALONE = "gemm_persistent_independent"
MUTANTS = {
    "no barrier after the initialization of mbarriers": ("gemm", r"bar\.sync\s+0;", ""),
    "no fence after the initialization of mbarriers": ("gemm", r"fence\.mbarrier_init\S+;", ""),
    "an arrival too many": ("gemm", r"(mbarrier\.init\S+ \[\S+\], )%r\d+;", r"\g<1>9;"),
    "half of the expected bytes": (
        "gemm",
        r"(mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )%r\d+;",
        r"\g<1>24576;",
    ),
    "twice the expected bytes": (
        "gemm",
        r"(mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )%r\d+;",
        r"\g<1>98304;",
    ),
    "no wait for what TMA loads": (
        "gemm",
        r"mbarrier\.try_wait\S+ (\w+), \[[^;]*;",
        r"setp.eq.u32 \1, 0, 0;",
    ),
    "one wgmma group more in flight": (
        "gemm",
        r"wgmma\.wait_group\.sync\.aligned 1;",
        "wgmma.wait_group.sync.aligned 2;",
    ),
    "no wgmma.fence": ("fa_fwd", r"wgmma\.fence\.sync\.aligned;", ""),
    "no proxy fence": ("gemm", r"fence\.proxy\.async\S+;", ""),
    "a store that is not waited for": ("gemm", r"cp\.async\.bulk\.wait_group\S* \d;", ""),
    "registers that the SM does not have": (
        "gemm",
        r"setmaxnreg\.inc\.sync\.aligned\.u32 240;",
        "setmaxnreg.inc.sync.aligned.u32 248;",
    ),
    "a k-step of half the length": ("gemm", r"mov\.u64 (\s*%rd\d+), 4;", r"mov.u64 \1, 2;"),
    "a minimum in place of a maximum": ("fa_fwd", r"\bmax\.f32", "min.f32"),
    "reductions of single lanes": (
        "fa_fwd",
        r"shfl\.sync\.bfly\.b32\s+(%r\d+)\S*, (%r\d+),[^;]*;",
        r"mov.b32 \1, \2;",
    ),
    "no barrier before staging is written": ("gemm_persistent", r"bar\.sync %r\d+, %r\d+;", ""),
    "no proxy fence before rows are handed over": (ALONE, r"fence\.proxy\.async\S+;", ""),
    "rows released before TMA has read them": (ALONE, r"cp\.async\.bulk\.wait_group\.read\S* \d;", ""),
    "rows that are never handed over or released": (ALONE, r"mbarrier\.arrive\.shared::cta\.b64[^;]*;", ""),
    "rows that are not waited for": (
        ALONE,
        r"mbarrier\.try_wait\S+ (\w+), \[[^;]*;",
        r"setp.eq.u32 \1, 0, 0;",
    ),
    "another tile": ("gemm", r"%ctaid\.x", "%ctaid.y"),
    "no tcgen05.fence before barriers": ("fa_fwd.sm100", r"tcgen05\.fence::before_thread_sync;", ""),
    "no tcgen05.fence behind barriers": ("fa_fwd.sm100", r"tcgen05\.fence::after_thread_sync;", ""),
    "no wait for loads from tensor memory": ("fa_fwd.sm100", r"tcgen05\.wait::ld\S*;", ""),
    "no wait for stores to tensor memory": ("fa_fwd.sm100", r"tcgen05\.wait::st\S*;", ""),
    "MMAs that nothing waits for": ("gemm.sm100", r"tcgen05\.commit[^;]*;", ""),
    "too few columns": ("gemm.sm100", r"(tcgen05\.alloc[^;]*), 256;", r"\1, 128;"),
    "tensor memory that is not freed": ("gemm.sm100", r"tcgen05\.dealloc[^;]*;", ""),
}


@cache
def text(kernel: str) -> str:
    """The PTX of one kernel, without the others in its file."""
    whole = "\n".join(build(kernel).host.module.text.lines)
    head, *entries = re.split(r"(?=^\s*(?:// \.globl.*\n)?\.visible \.entry )", whole, flags=re.MULTILINE)
    name = kernel.replace(".", "_")
    mine = next(entry for entry in entries if re.search(rf"\.entry _Z\d+{name}_kernel", entry))
    return head + mine


def survives(kernel: str, ptx: str) -> bool:
    made = build(kernel)
    other = replace(made, host=replace(made.host, module=load(ptx, f"{kernel}.ptx")))
    grid = (2, 1, 1) if kernel == "gemm" else (1, 1, 1)
    given = numbers(kernel) | ({"M": 256, "K": 512} if kernel.startswith("gemm") else {})
    return wrong(other, run(other, Request(given, grid))) is None


@pytest.mark.parametrize("kernel", ["gemm", "fa_fwd", "gemm_persistent", ALONE, "gemm.sm100"])
def test_what_is_not_changed_is_right(kernel: str) -> None:
    assert survives(kernel, text(kernel))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_defect_is_noticed(name: str) -> None:
    kernel, old, new = MUTANTS[name]
    changed = re.sub(old, new, text(kernel))
    assert changed != text(kernel)
    with suppress(HazardError):
        assert not survives(kernel, changed)
