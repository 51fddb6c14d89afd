# pyright: basic, reportMissingImports=false
"""The launches that `python benchmarks/wild_gpu.py measure BUILDS benchmarks/launches/cases.py OUT` compares.

`CASES` has the launches of the kernels of the list of reports/wild.md, by the kernel's name there.
Sizes that are constants of a kernel are those it was compiled with. Ragged launches are compared, not timed.
"""

from collections.abc import Callable, Mapping, Sequence

from benchmarks.launches.arrays import Array, Case, ragged
from benchmarks.launches.attention import (
    chunk_backward,
    chunk_h,
    chunk_o,
    gated_delta_h,
    gla_o,
    kkt,
    parallel,
    parallel_backward,
    prefill,
    simple_gla,
    sparse,
    tutorial_backward,
    tutorial_described,
    tutorial_forward,
    wy,
)
from benchmarks.launches.paged import flexible, prefix, unified
from benchmarks.launches.products import (
    RAGGED,
    SMS,
    SQUARE,
    adapters,
    batched,
    block_scaled,
    contiguous,
    deepseek,
    descriptors,
    experts,
    fla_matmul,
    grouped,
    inductor,
    microscaled,
    packed,
    products,
    scaled,
    split,
)
from benchmarks.launches.spaces import chunk_bmm, chunk_scan, chunk_state

LINEAR = ((4, 4096), (2, 1000))
"""Batches and tokens of linear attention."""


def linears(made: Callable[[int, int], Case], *sizes: tuple[int, int]) -> tuple[Case, ...]:
    full, *rest = (made(*one) for one in sizes or LINEAR)
    return full, *map(ragged, rest)


ATTENTION = ((4, 4096), (4, 1000))
"""Batches and tokens of kernels with batches as a constant."""
BIAS: Array = ("bf16", SQUARE[1], 0.5)

PRODUCTS = ((4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 512))
SEQUENCES = ((1024, 512, 700, 2048), (1024, 2000, 333, 64))
"""Queries of sequences, and tokens before them."""

CASES: Mapping[str, Sequence[Case]] = {
    "deepgemm_m_grouped": (contiguous(8192, 256), ragged(contiguous(1024, 128))),
    "deepseek_fp8_gemm": (deepseek(4096), ragged(deepseek(1008))),
    "fla_chunk_bwd_dqkwg": linears(chunk_backward, *ATTENTION),
    "fla_chunk_fwd_h": linears(chunk_h),
    "fla_chunk_fwd_o": linears(chunk_o),
    "fla_gated_delta_h": linears(gated_delta_h),
    "fla_gla_fwd_o": linears(gla_o),
    "fla_kkt": linears(kkt),
    "fla_matmul": (fla_matmul(*SQUARE), ragged(fla_matmul(*RAGGED))),
    "fla_nsa_fwd": (sparse(2, 2048),),
    "fla_parallel_attn_bwd_dkv": linears(parallel_backward, *ATTENTION),
    "fla_parallel_attn_fwd": linears(parallel, *ATTENTION),
    "fla_parallel_simple_gla": linears(simple_gla, *ATTENTION),
    "fla_wy_recompute": linears(wy),
    "inductor_bmm": (inductor("16x1024", (64, 16), "AB", 16 * 1024**2),),
    "inductor_flex_attention": (flexible(),),
    "inductor_flex_attention_tma": (flexible(),),
    "inductor_mm": (inductor("4096", (1024,), "AB", 4096**2),),
    "inductor_mm_persistent": (inductor("4096", (SMS,), "AB", 4096**2),),
    "inductor_mm_plus_mm": (inductor("4096", (1024,), "ABCD", 4096**2),),
    "inductor_mm_tma": (inductor("4096", (SMS,), "AB", 4096**2),),
    "mamba_bmm_chunk": (chunk_bmm(256), ragged(chunk_bmm(160))),
    "mamba_chunk_scan": (chunk_scan(256),),
    "mamba_chunk_state": (chunk_state(256),),
    "tut03_matmul": products((128, 256)),
    "tut03_matmul_bt": products((128, 128)),
    "tut03_matmul_fp8": products((128, 256), "f8"),
    "tut03_matmul_smalltile": products((64, 32)),
    "tut06_attn_bwd": (tutorial_backward(4, 16, 2048),),
    "tut06_attn_fwd": (tutorial_forward(4, 16, 4096), ragged(tutorial_forward(1, 2, 1024))),
    "tut06_attn_fwd_causal": (tutorial_forward(4, 16, 4096), ragged(tutorial_forward(1, 2, 1024))),
    "tut06_attn_fwd_hostdesc": (tutorial_described(4, 16, 4096), ragged(tutorial_described(1, 2, 1024))),
    "tut08_grouped": (grouped(PRODUCTS),),
    "tut08_grouped_tma": (grouped(PRODUCTS, transposed=True),),
    "tut09_desc_persistent": products((128, 256), persistent=True),
    "tut09_desc_persistent_flat": products((128, 256), persistent=True),
    "tut09_persistent": products((128, 256), persistent=True),
    "tut09_tma": (descriptors(SQUARE, 256), ragged(descriptors(RAGGED, 256))),
    "tut09_tma_persistent": (descriptors(SQUARE, 128, True), ragged(descriptors(RAGGED, 128, True))),
    "tut10_block_scaled": (microscaled(8192, 8192, 8192),),
    "tut12_splitk": (split(1024, 1024, 8192),),
    "vllm_awq_gemm": (packed((32 * 64, 1), 2048, 4096, 4096),),
    "vllm_bi_bmm": (batched(8, 2048, 2048, 1024), ragged(batched(3, 400, 304, 208))),
    "vllm_bi_desc_matmul": products((128, 128), "bf16", "bf16", persistent=True, bias_ptr=BIAS),
    "vllm_bi_matmul": products((128, 256), "bf16", "bf16", persistent=True, bias_ptr=BIAS),
    "vllm_fused_moe": (experts(2048, "bf16"),),
    "vllm_fused_moe_fp8": (experts(2048, "f8"),),
    "vllm_lora_shrink": (adapters(1024),),
    "vllm_prefill_attention": (prefill((4096, 3500, 3000, 2049)),),
    "vllm_prefix_prefill": (prefix(*SEQUENCES),),
    "vllm_scaled_mm": (scaled(SQUARE), ragged(scaled(RAGGED))),
    "vllm_unified_attention": (
        unified((1,) * 64, (4000,) * 64, "64 tokens after 4000"),
        ragged(unified(*SEQUENCES, "4 sequences")),
    ),
    "vllm_w4a16": (packed((32, 32), 2048, 4096, 4096),),
    "vllm_w8a8_block_fp8": (block_scaled(SQUARE), ragged(block_scaled(RAGGED))),
}
"""Launches by the kernel's name in reports/wild.md."""
