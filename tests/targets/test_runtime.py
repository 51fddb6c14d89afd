"""The CUDA runtime header: its operand tables, and that every function of it becomes the instruction it
names."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from twill.emulate import load

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "twill" / "targets" / "runtime"
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")

WORDS = """
#include "twill.cuh"
using namespace twill;

__global__ void __launch_bounds__(256, 1)
    words(const __grid_constant__ CUtensorMap map, float* out, uint32_t* bits, float x) {
    extern __shared__ __align__(1024) uint8_t memory[];
    uint32_t s = shared_address(memory), m[4];
    if (elect_one()) { mbarrier_init(s, 1); mbarrier_init_fence(); tma_prefetch(&map); }
    __syncthreads();
    if (warp_index() < 4) {
        registers_decrease<24>();
        mbarrier_arrive_expect(s, 128);
        tma_load(s, &map, s, 0); tma_load(s, &map, s, 0, 1); tma_load(s, &map, s, 0, 1, 2);
        tma_load(s, &map, s, 0, 1, 2, 3); tma_load(s, &map, s, 0, 1, 2, 3, 4);
        tma_store(&map, s, 0); tma_store(&map, s, 0, 1, 2, 3, 4);
        tma_add(&map, s, 0, 1); tma_add(&map, s, 0, 1, 2);
        tma_commit(); tma_wait_read<1>();
        mbarrier_arrive(s);
    } else {
        registers_increase<232>();
        mbarrier_wait(s, 0);
        named_barrier_arrive(1, 256); named_barrier_sync(2, 256);
        ldmatrix_x4(m, s + swizzle<128>(threadIdx.x * 16));
        stmatrix_x4(s, m[3], m[2], m[1], m[0]);
        fence_async_shared();
        bits[0] = pack_f16(x, 1.0f); bits[1] = pack_bf16(x, 2.0f);
        bits[2] = pack_e4m3(x, 3.0f); bits[3] = pack_e5m2(x, 4.0f);
        bool opaque = opaque_false();
        bool truths[2] = {x > 0.0f, x > 1.0f};
        int64_t wide = bits[0];
        scheduling_fence(opaque, x, truths, wide);
        out[0] = exp2_approx(x) + log2_approx(x) + (truths[0] && !truths[1] ? float(wide) : 0.0f);
    }
}
"""

INSTRUCTIONS = (
    "mbarrier.init.shared::cta.b64",
    "fence.mbarrier_init.release.cluster",
    "prefetch.tensormap",
    "setmaxnreg.dec.sync.aligned.u32 24",
    "setmaxnreg.inc.sync.aligned.u32 232",
    "mbarrier.arrive.expect_tx.shared::cta.b64",
    *(
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes ["
        for rank in range(1, 6)
    ),
    "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group",
    "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group.read 1",
    "mbarrier.try_wait.parity.shared::cta.b64",
    "bar.arrive",
    "bar.sync",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16",
    "fence.proxy.async.shared::cta",
    "cvt.rn.f16x2.f32",
    "cvt.rn.bf16x2.f32",
    "cvt.rn.satfinite.e4m3x2.f32",
    "cvt.rn.satfinite.e5m2x2.f32",
    "ex2.approx.ftz.f32",
    "lg2.approx.ftz.f32",
    "%nsmid",
    "nanosleep.u32 0",
)

MATRIX = """
#include "twill.cuh"
{definitions}
using namespace twill;
{kernels}
"""

HALF_KERNEL = """
__global__ void __launch_bounds__(128, 1) half_kernel(uint32_t* out, uint32_t x) {{
    uint32_t d[16];
    const uint32_t a[4] = {{x, x + 1, x + 2, x + 3}};
    uint64_t b = descriptor_advance(matrix_descriptor(x, 8192), 32);
    wgmma_fence();
    wgmma_half_n64(d, b, b, 0);
    wgmma_half_n64<MN_MAJOR>(d, a, b, 1);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 16; ++i) out[i * 128 + threadIdx.x] = d[i];
}}
"""

INTEGER_KERNEL = """
__global__ void __launch_bounds__(128, 1) integer_kernel(int32_t* out, uint32_t x) {{
    int32_t d[88];
    uint64_t b = descriptor_advance(matrix_descriptor(x, 8192), 32);
    wgmma_fence();
    wgmma_s8_n176(d, b, b, 0);
    wgmma_s8_n176(d, b, b, 1);
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < 88; ++i) out[i * 128 + threadIdx.x] = d[i];
}}
"""

MATRIX_KERNEL = """
__global__ void __launch_bounds__(128, 1) {name}_kernel(float* out, uint32_t x) {{
    float d[{n} / 2];
    const uint32_t a[4] = {{x, x + 1, x + 2, x + 3}};
    uint64_t b = descriptor_advance(matrix_descriptor(x, 8192), 32);
    wgmma_fence();
    {calls}
    wgmma_commit();
    wgmma_wait<0>();
    for (int i = 0; i < {n} / 2; ++i) out[i * 128 + threadIdx.x] = d[i];
}}
"""


def compile_to(folder: Path, source: str, form: str) -> tuple[str, str]:
    """Compiles `source` to 'ptx' or 'cubin'; returns the PTX (or nothing) and what the compilers said."""
    (folder / "kernel.cu").write_text(source)
    output = folder / f"kernel.{form}"
    target = "-gencode=arch=compute_90a,code=" + ("compute_90a" if form == "ptx" else "sm_90a")
    command = ["nvcc", "-std=c++17", target, f"-{form}", f"-I{RUNTIME}", "-Xptxas", "-v"]
    done = subprocess.run(
        [*command, "-o", output, folder / "kernel.cu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return output.read_text() if form == "ptx" else "", done.stdout + done.stderr


def matrix_source() -> str:
    """One kernel per kind of operand, over sizes N that end in every row class of the tables."""
    shapes = [("16", n, t, t) for t in ("f16", "bf16") for n in (8, 128, 176)]
    shapes += [("8", 64, a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")] + [
        ("32", 248, "tf32", "tf32")
    ]
    definitions: list[str] = []
    kernels: list[str] = []
    for width, n, a, b in shapes:
        types = {"16": f", {a}", "8": f", {a}, {b}", "32": ""}[width]
        definitions.append(f"TWILL_WGMMA_{width}({n}{types})")
        name = f"wgmma_{a}_{b}_n{n}"
        calls = [f"{name}(d, b, b, 0);", f"{name}(d, a, b, 1);"]
        calls += [f"{name}<MN_MAJOR, MN_MAJOR>(d, b, b, 1);", f"{name}<MN_MAJOR>(d, a, b, 1);"] * (
            width == "16"
        )
        kernels.append(MATRIX_KERNEL.format(name=name, n=n, calls="\n    ".join(calls)))
    definitions += ["TWILL_WGMMA_HALF(64, 32)", "TWILL_WGMMA_INTEGER(176)"]
    kernels += [HALF_KERNEL.format(), INTEGER_KERNEL.format()]
    return MATRIX.format(definitions="\n".join(definitions), kernels="\n".join(kernels))


def expanded(table: str, n: int, text: str) -> str:
    """The row of `table` for `n`, with the row it extends put in its place."""
    match = re.search(rf"#define TWILL_{table}_{n}(?:\(C\))? (.*)", text)
    assert match is not None, f"no row of {table} for {n}"
    return re.sub(rf"TWILL_{table}_(\d+)(?:\(C\))?", lambda m: expanded(table, int(m[1]), text), match[1])


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_operand_tables_number_every_register_once(n: int) -> None:
    text = (RUNTIME / "wgmma_operands.cuh").read_text()
    count = n // 2
    assert [int(r) for r in re.findall(r"%(\d+)", expanded("NAMES", n, text))] == list(range(count))
    assert [int(r) for r in re.findall(r"d\[(\d+)\]", expanded("BINDINGS", n, text))] == list(range(count))
    assert [int(r) for r in expanded("AFTER", n, text).split(",")] == list(range(count, count + 7))


@needs_nvcc
def test_words_become_the_instructions_they_name(tmp_path: Path) -> None:
    ptx, _ = compile_to(tmp_path, WORDS, "ptx")
    assert [word for word in INSTRUCTIONS if word not in ptx] == []


@needs_nvcc
def test_words_assemble_without_complaint(tmp_path: Path) -> None:
    _, said = compile_to(tmp_path, WORDS, "cubin")
    assert "0 bytes spill stores" in said
    assert "C75" not in said
    assert "warning" not in said


@needs_nvcc
def test_two_neighbours_of_16_bits_are_stored_as_a_word(tmp_path: Path) -> None:
    """Else nvcc stores the halves of some packed words one by one."""
    source = """
#include "twill.cuh"
using namespace twill;
__global__ void pairs(__half* a, __nv_bfloat16* b, const uint32_t* words) {
    const uint32_t word = words[threadIdx.x];
    store_pair(a + 2 * threadIdx.x, f16_of(word, 1), f16_of(word, 0));
    store_pair(b + 2 * threadIdx.x, bf16_of(word, 0), bf16_of(word, 1));
}
"""
    ptx, _ = compile_to(tmp_path, source, "ptx")
    assert re.findall(r"st\.global\.([.\w]+)", ptx) == ["u32", "u32"]


@needs_nvcc
def test_matrix_instructions_assemble_in_flight(tmp_path: Path) -> None:
    _, said = compile_to(tmp_path, matrix_source(), "cubin")
    assert said.count("Compiling entry function") == 13
    assert "serialized" not in said
    assert "warning" not in said
    assert set(re.findall(r"(\d+) bytes spill stores", said)) == {"0"}


def test_every_function_of_the_runtime_is_used() -> None:
    """By the generator, or by another function of the runtime; those of tcgen05.cuh wait for their target."""
    sources = [path for path in Path("twill").rglob("*.py") if path.name != "names.py"]
    python = {word for path in sources for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    headers = {
        path.name: re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for path in RUNTIME.glob("*.cuh")
    }
    used = Counter(word for text in headers.values() for word in re.findall(r"\w+", text))
    for name, header in headers.items():
        for function in (
            set(re.findall(r"__forceinline__ (?:static )?[^\n(#]*?\b(\w+)\(", header))
            if name != "tcgen05.cuh"
            else ()
        ):
            short = function.removeprefix("un")
            assert {short, f"un{short}"} & python or used[function] > 1 or function == "elect_one", (
                f"{name}: {function}"
            )


STORED = """
#include "math.cuh"
using namespace twill;

template <class Element>
__device__ void both(uint32_t* out, int at, Element low, Element high) {
    out[at] = pack_f16(low, high);
    out[at + 1] = pack_f16(float(low), float(high));
    out[at + 2] = pack_bf16(low, high);
    out[at + 3] = pack_bf16(float(low), float(high));
}

extern "C" __global__ void stored(uint32_t* out, const uint32_t* in) {
    extern __shared__ __align__(16) uint8_t memory[];
    const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(memory)) + 4 * threadIdx.x;
    shared_at<uint32_t>(at) = in[threadIdx.x];
    __nv_fp8_e4m3 a[4];
    __nv_fp8_e5m2 b[4];
    int8_t c[4];
    __half d[2];
    __nv_bfloat16 e[2];
    load_elements<4>(a, 0, at);
    load_elements<4>(b, 0, at);
    load_elements<4>(c, 0, at);
    load_elements<2>(d, 0, at);
    load_elements<2>(e, 0, at);
    both(out, 32 * threadIdx.x, a[0], a[1]);
    both(out, 32 * threadIdx.x + 4, a[2], a[3]);
    both(out, 32 * threadIdx.x + 8, b[0], b[1]);
    both(out, 32 * threadIdx.x + 12, b[2], b[3]);
    both(out, 32 * threadIdx.x + 16, c[0], c[1]);
    both(out, 32 * threadIdx.x + 20, c[2], c[3]);
    both(out, 32 * threadIdx.x + 24, d[0], d[1]);
    both(out, 32 * threadIdx.x + 28, e[0], e[1]);
}
"""


@needs_nvcc
def test_packing_what_is_stored_gives_the_bits_of_packing_numbers(tmp_path: Path) -> None:
    (tmp_path / "stored.cu").write_text(STORED)
    options = ("-std=c++17", "-arch=sm_90a", "-O1", "-ptx", f"-I{RUNTIME}", "-o", "stored.ptx")
    done = subprocess.run(
        ["nvcc", *options, "stored.cu"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    text = (tmp_path / "stored.ptx").read_text()
    assert {"cvt.rn.f16x2.e4m3x2", "cvt.rn.f16x2.e5m2x2"} <= set(re.findall(r"cvt\.[\w.]+", text))
    words = np.random.default_rng(0).integers(0, 1 << 32, 1024, dtype=np.uint32)
    words[:256] = np.arange(256, dtype=np.uint32) * 0x01010101
    words = words[~_has_nan(words)][:512]
    found = np.zeros((512, 8, 4), np.uint32)
    load(text, "stored.ptx").kernel("stored").launch(
        (1, 1, 1), [found, words], block=(512, 1, 1), shared=2048
    )
    assert np.array_equal(found[..., 0], found[..., 1])
    assert np.array_equal(found[..., 2], found[..., 3])


ROUNDED = """
#include "math.cuh"
using namespace twill;

extern "C" __global__ void rounded(uint32_t* out, const uint32_t* in) {
    const float number = __uint_as_float(in[threadIdx.x]);
    out[2 * threadIdx.x] = __bfloat16_as_ushort(to_bf16(number));
    out[2 * threadIdx.x + 1] = __bfloat16_as_ushort(__nv_bfloat16(number));
}
"""


@needs_nvcc
def test_a_number_is_rounded_to_bfloat16_as_its_own_conversion_does(tmp_path: Path) -> None:
    (tmp_path / "rounded.cu").write_text(ROUNDED)
    options = ("-std=c++17", "-arch=sm_90a", "-O1", "-ptx", f"-I{RUNTIME}", "-o", "rounded.ptx")
    done = subprocess.run(
        ["nvcc", *options, "rounded.cu"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    text = (tmp_path / "rounded.ptx").read_text()
    assert {"cvt.rn.bf16x2.f32", "cvt.rn.bf16.f32"} <= set(re.findall(r"cvt\.[\w.]+", text))
    words = np.random.default_rng(0).integers(0, 1 << 32, 1024, dtype=np.uint32)
    words[:512] = 0x3F800000 + (np.arange(512, dtype=np.uint32) << 14)  # numbers of bfloat16, and ties
    words[-2:] = 0x7F800000, 0xFF800000
    words = words[(words & 0x7FFFFFFF) <= 0x7F800000]
    found = np.zeros((len(words), 2), np.uint32)
    load(text, "rounded.ptx").kernel("rounded").launch((1, 1, 1), [found, words], block=(len(words), 1, 1))
    assert np.array_equal(found[:, 0], found[:, 1])


def _has_nan(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Words with a NaN in some type: its bits may stay, or become those of another NaN."""
    halves = words.view(np.uint16).reshape(-1, 2)
    infinite = np.array([0x7C00, 0x7F80], np.uint16)
    return np.any((halves & 0x7FFF)[:, :, None] > infinite, axis=(1, 2))


NEIGHBOURS = """
#include "math.cuh"
using namespace twill;

template <class Element>
__device__ void halves_of(uint32_t* out, uint32_t at) {
    Element read[16];
    uint32_t words[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_elements<4>(read, i * 4, at + 16 * i);
#pragma unroll
    for (int i = 0; i < 8; ++i) words[i] = pack_f16(read[2 * i & 15], read[2 * i + 1 & 15]);
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = words[i];
}

extern "C" __global__ void words(uint32_t* out, uint32_t at) {
    halves_of<__nv_fp8_e4m3>(out, at);
    halves_of<__nv_fp8_e5m2>(out + 8, at + 64);
}
"""


@needs_nvcc
def test_neighbours_of_8_bits_are_converted_without_arithmetic_on_their_bytes(tmp_path: Path) -> None:
    (tmp_path / "words.cu").write_text(NEIGHBOURS)
    options = ("-std=c++17", "-arch=sm_90a", "-O3", "-ptx", f"-I{RUNTIME}", "-o", "words.ptx")
    done = subprocess.run(
        ["nvcc", *options, "words.cu"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    text = (tmp_path / "words.ptx").read_text()
    assert len(re.findall(r"cvt\.rn\.f16x2\.e[45]m[32]x2", text)) == 16
    assert not re.findall(r"\b(?:and|or|shl|prmt)\.b\d+", text)
