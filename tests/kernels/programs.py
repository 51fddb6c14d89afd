"""The example kernels as warp programs, from schedules kept in `schedules/` (found by `twill schedule`, so
that no test has to search)."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from twill.files import load, read_schedule
from twill.inputs import Inputs, cases
from twill.ir.loop import Module
from twill.ir.program import Program
from twill.launch.build import RUNTIME, gencode
from twill.targets import EXACT_LAYOUTS, target
from twill.warp.lower import lower
from twill.warp.plan import Options
from twill.warp.tasks import Scheduled

FORMS = (
    *("grouped", "searched", "nested", "flattened", "resumed", "drained", "alternating"),
    *("doubled", "overwritten"),
    *(
        "matmul_bf16",
        "matmul_e4m3",
        "matmul_e5m2_64",
        "matmul_e4m3_32",
        "matmul_tf32",
        "matmul_narrow",
        "matmul_bands",
    ),
    *("matmul_half", "matmul_integer"),
    *("matmul_across", "batched", "epilogue", "widened", "split", "pointers"),
    *(
        "bumped",
        "offset",
        "branching",
        "gathered",
        "gathered_rows",
        "clamped",
        "scaled",
        "scaled_32",
        "across",
        "unpacked",
        "rotated",
        "crests",
    ),
    *(
        "surrounded",
        "straight",
        "detoured",
        "eliminated",
        "reflected",
        "recounted",
        "sums_of_rows",
        "substituted",
        "unrolled",
        "strided",
        "guarded",
        "skipping",
        "picking",
        "gleaning",
        "rivals",
        "prefixes",
        "halves",
        "modulated",
        "confined",
        "peeked",
        *("every_other", "every_other_half", "scant", "sought", "spanned"),
        "leafed",
        "narrowed",
        "distant",
        "bordered",
        "consulted",
        "rationed",
        "overtaken",
        "hopping",
        "hopped",
        "curtailed",
        "thumbed",
        "weighed",
        "dequantized",
        "rescaled_rows",
        "centered",
        "centered_brain",
        "tilted",
        "gauged",
    ),
    *("sieved", "overturned", "paged", "peeked_columns", "astride", "bytewise", "apportioned", "marching", "allotted", "edged", "promoted", "pacing", "circling", "distilled", "wandering", "tolled", "streams", "leftover", "revolving", "amended", "amending"),
    *("reread", "echoed", "upheld", "listed", "quarters", "quarters_and_whole", "matmul_mxfp4_wide", "packed_rows", "packed_halves", "nibbled", "nibbled_e4m3", "packed_columns", "ranked", "mapped", "drawn", "weighted", "weighted_integer", "exactly", "mounting", "parting", "forking", "both_ways", "interrupted", "exactly_deep", "signalled"),
    *("settled", "accrued", "lengths_of_rows", "unaligned", "retyped"),
    *("pointers_two_warps", "pointers_one_warp", "pointers_16", "pointers_into_bytes", "pointers_few_tiles", "queries_16", "matmul_32"),
    "queries_across",
    "matmul_outer_tf32",
    "walled",
    "ahead",
    "bytes_ahead",
    "heads_apart",
    "slots_ahead",
    *("matmul_32_tf32", "matmul_32_e4m3", "matmul_32_integer", "matmul_32_half"),
    *("nearest", "nearest_across", "nearest_32"),
    *(
        "jumping",
        "query_gradient",
        "query_gradient_16",
        "queries",
        "masked",
        "deflated",
        "tempered",
        "faded",
        "aged",
        "recalled",
        "panels_cut",
        "gram",
        "decayed",
        "columns",
    ),
    *("wrapped", "wrapped_e4m3", "wrapped_integer", "wrapped_bytes"),
    *("highest_bytes", "strips", "noted", "scaled_columns", "scored", "summed_columns", "summed_columns_16", "summed_transposed", "archived"),
    *("turned", "turned_32", "chosen", "balanced", "tallied", "kindred", "stepwise", "columns_bytes", "columns_bytes_16", "rehearsed", "veiled", "spaced", "joined", "foreseen", "with_bias", "graded"),
)
"""Kernels of `kernels.py`, compiled and scheduled by `make_fixtures.py`."""
INVARIANT = ("panels", "biased", "filled")
"""Of these, the ones whose loops read what is the same in every iteration: operands of addresses that are computed again, accumulators."""
CARRIED = ("exclusive", "recurrent", "chunked")
"""Of these, the ones that read what they carry before they change it."""
EXAMPLES = (
    "gemm",
    "gemm_persistent",
    "dual_gemm",
    "gemm_reduction",
    "fa_fwd",
    "fa_fwd_subtiled",
    "fa_fwd_causal",
    "fa_bwd",
    "fa_bwd_subtiled",
)
BLACKWELL_EXAMPLES = (
    *("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction"),
    *("fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal", "fa_bwd", "fa_bwd_subtiled"),
)
SCALED_EXAMPLES = ("gemm_mxfp8", "gemm_nvfp4")
"""Examples with block-scaled MMAs, for Blackwell alone."""
PADDED = ("matmul_mxfp8_mxfp4", "matmul_mxfp4_mxfp8")
"""Of 4-bit floats beside 8-bit ones that TMA pads in shared memory."""
BY_ROW = (
    *("matmul_mxfp8_loaded", "matmul_mxfp8_outer"),
    *("matmul_mxfp4_mxfp8_copied", "matmul_mxfp8_mxfp4_across", "matmul_mxfp8_mxfp4_turned"),
)
"""Products that load scale factors row by row, and compute others."""
BLOCK_SCALED = ("matmul_mxfp8", "matmul_mxfp4", "matmul_nvfp4", *PADDED, *BY_ROW)
"""Products with block-scaled MMAs, which Hopper does not have."""
BLACKWELL_ONLY = (*BLOCK_SCALED, "matmul_outer", "queries_scaled")
"""Those, one with MMAs of 8 bits whose operands are not contiguous along K, and one whose block-scaled MMA has A in tensor
memory."""
BLACKWELL_FORMS = (
    *("matmul_bf16", "matmul_e4m3", "matmul_tf32", "pointers", "panels", "biased"),
    *("continued", "continued_scaled", "matmul_low", "biased_low", "queries_low"),
    *("straight", "guarded", "skipping", "stacked", "flattened", "overwritten", "handed_on", "retained"),
    *("matmul_wide", "matmul_half", "matmul_half_low", "matmul_integer", "matmul_integer_low", "settled", "accrued"),
    *("odd_columns", "narrowed", "wrapped_e4m3", "matmul_outer_tf32", "resumed"),
    *BLACKWELL_ONLY,
)
PAIRED = tuple(
    f"{kernel}_pairs.sm100"
    for kernel in (
        "gemm",
        "gemm_persistent",
        "dual_gemm",
        "gemm_reduction",
        "fa_fwd",
        "fa_fwd_subtiled",
        "matmul_bf16",
        "matmul_e4m3",
        "matmul_mxfp8",
        "matmul_mxfp8_mxfp4",
        "matmul_nvfp4",
        *SCALED_EXAMPLES,
    )
)
"""Kernels compiled for Blackwell whose MMAs are those of pairs of thread blocks."""
CLUSTERED = tuple(
    f"{kernel}_clustered"
    for kernel in (
        *("gemm", "gemm_persistent", "gemm_reduction", "fa_fwd"),
        *("neighbours", "matmul_e4m3", "batched", "guarded", "chunked"),
    )
)
"""Kernels compiled for Hopper whose thread blocks share loads."""
INDEPENDENT = ("gemm_persistent_independent",)
"""Kernels compiled for Hopper whose warpgroups store tiles by themselves."""
POLYNOMIAL = ("fa_fwd_subtiled_polynomial",)
"""Examples of whose exponentials a polynomial computes some."""
BRAIN: dict[str, tuple[str, dict[str, str]]] = {
    "fa_fwd_subtiled_bf16.sm100": ("fa_fwd_subtiled", dict.fromkeys("qkvo", "*bf16:16")),
    "fa_bwd_bf16.sm100": ("fa_bwd", dict.fromkeys(("q", "k", "v", "do", "dk", "dv"), "*bf16:16")),
}
"""Examples whose arrays are of bf16, with the schedule for fp16: costs are the same."""
DIVIDED = ("fa_fwd_subtiled_divided",)
"""Examples with the schedule in reports/schedules whose waits divide elementwise operations."""
RANDOM = (
    *("recurrent_random5", "decayed_random6", "chunked_random9"),
    *("faded_random1", "exclusive_random2", "biased_random51.sm100", "rotated_random72", "balanced_random4"),
    *("overwritten_random3", "overwritten_random1.sm100"),
)
"""Kernels with a schedule of `benchmarks/fuzz_schedules.py`, by its seed, that was once lowered wrong."""
BLACKWELL = tuple(f"{kernel}.sm100" for kernel in (*BLACKWELL_EXAMPLES, *SCALED_EXAMPLES, *POLYNOMIAL, *BLACKWELL_FORMS))
"""Kernels compiled for Blackwell."""
PASSED = ("fa_fwd_passed.sm100",)
"""Kernels for Blackwell with a schedule, of four stages, in which two groups that compute pass a tile in
registers on and one of them issues MMAs. A search prefers tiles that stay in their group."""
_HERE = Path(__file__).parent


@cache
def loops(kernel: str) -> tuple[Module, tuple[Scheduled, ...]]:
    """The module of an example, or of one of the kernels in other forms, and its loops with their
    schedules."""
    name, arch, pairs = kernel.removesuffix(".sm100"), architecture(kernel), kernel in PAIRED
    plain = re.sub("_(polynomial|divided|passed|pairs|clustered|independent|random[0-9]+)$", "", name)
    folder = "examples/ttgir" if plain in EXAMPLES else "tests/kernels/ttgir"
    path = f"{folder}/{plain}.{arch}.ttgir"
    found = cases(Inputs(path, arch=arch, exact_layouts=EXACT_LAYOUTS, pairs=pairs))
    scheduled = list[Scheduled]()
    for i, case in enumerate(found):
        schedules = _HERE / "schedules" / ("sm100" if arch == "sm100" else "")
        kept = f"reports/schedules/{plain}.for.{i}.json"
        own = re.sub("_(clustered|independent)$", "", name)
        searched = BRAIN[kernel][0] if kernel in BRAIN else own
        path = kept if name in DIVIDED else str(schedules / f"{searched}.for.{i}.json")
        result = read_schedule(load(path), path).result
        assert case.loop
        assert case.graph
        assert case.machine
        assert result.solution
        scheduled.append(Scheduled(case.loop, case.graph, result.problem, result.solution, case.machine))
    module = found[0].module
    assert module
    return module, tuple(scheduled)


def measured(kernel: str) -> tuple[Module, tuple[Scheduled, ...]]:
    """As `loops`, with the schedules that benchmarks measure (reports/schedules)."""
    module, scheduled = loops(kernel)
    found = list[Scheduled]()
    for i, one in enumerate(scheduled):
        path = f"reports/schedules/{kernel}.for.{i}.json"
        kept = read_schedule(load(path), path).result
        assert kept.solution
        found.append(replace(one, problem=kept.problem, solution=kept.solution))
    return module, tuple(found)


def architecture(kernel: str) -> str:
    return "sm100" if kernel.endswith(".sm100") else "sm90"


@cache
def program(kernel: str) -> Program:
    cluster, independent = 2 if kernel in CLUSTERED else 1, kernel in INDEPENDENT or None
    options = Options(pairs=kernel in PAIRED, cluster=cluster, independent=independent)
    return lower(*loops(kernel), target(architecture(kernel)), options)


def cuda(kernel: str) -> str:
    return target(architecture(kernel)).source(program(kernel))


def changed(kernel: str, options: Options) -> Program:
    """The example with other options."""
    return lower(*loops(kernel), target(architecture(kernel)), options)


def joined(kernels: Sequence[str]) -> str:
    """One file with the CUDA of all these kernels: names are made distinct, KERNEL_kernel and
    KERNEL_launch, and what every file begins with is written once."""
    instructions, texts = set[str](), list[str]()
    for kernel in kernels:
        lines = cuda(kernel).splitlines()
        name = program(kernel).function.name
        instructions |= {line for line in lines if line.startswith("TWILL_WGMMA")}
        kept = "\n".join(line for line in lines if not line.startswith(("TWILL_WGMMA", "#include")))
        texts.append(
            re.sub(
                rf"\b{name}_((?:tma_)?(?:alone_)?kernel|launch)\b", rf"{kernel.replace('.', '_')}_\1", kept
            )
        )
    headers = ["twill.cuh", *(["tcgen05.cuh"] if {"sm100"} == set(map(architecture, kernels)) else [])]
    head = ["#include <cuda_runtime.h>", *(f'#include "{one}"' for one in headers), *sorted(instructions)]
    return "\n".join([*head, *texts])


def assemble(text: str, folder: Path, level: int = 1, arch: str = "sm90") -> str:
    """What nvcc says to a CUDA file."""
    (folder / "all.cu").write_text(text)
    command = ["nvcc", "-std=c++17", gencode(arch), f"-I{RUNTIME}", "-Xptxas", f"-v,-O{level}", "-cubin"]
    done = subprocess.run(
        [*command, "-o", folder / "all.cubin", folder / "all.cu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr
