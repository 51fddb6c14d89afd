"""The runtime header for tensor memory and tcgen05: its descriptors bit by bit, and the instructions that its
functions become."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).resolve().parents[2] / "twill" / "targets" / "runtime"
pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")

KERNEL = """
#include "tcgen05.cuh"
using namespace twill;

{asserts}

template <int CtaGroup>
__device__ __forceinline__ void body(float* out) {{
    extern __shared__ __align__(1024) uint8_t memory[];
    const uint32_t s = shared_address(memory);
    if (warp_index() == 0) {{ tensor_memory_allocate<512, CtaGroup>(s); tensor_memory_relinquish<CtaGroup>(); }}
    tcgen05_fence_before();
    __syncthreads();
    tcgen05_fence_after();
    const uint32_t t = *reinterpret_cast<uint32_t*>(memory);
    if (warp_index() == 0 && elect_one()) {{
        const uint64_t a = tcgen05_descriptor(s + 1024), b = tcgen05_descriptor<64>(s + 4096);
        tcgen05_mma_f16<CtaGroup>(t, a, b, instruction_descriptor(F16, F16, false, false, 128, 256), 0);
        tcgen05_mma_f16<CtaGroup>(t, t + 256, b, instruction_descriptor(BF16, BF16, false, true, 128, 256), 1);
        tcgen05_mma_tf32<CtaGroup>(t, a, b, instruction_descriptor(TF32, TF32, false, false, 128, 64), 1);
        tcgen05_mma_f8f6f4<CtaGroup>(t, a, b, instruction_descriptor(E4M3, E5M2, false, false, 128, 64), 1);
        tcgen05_mma_i8<CtaGroup>(t, a, b, instruction_descriptor(S8, U8, false, false, 128, 64, S32_SUMS), 1);
        tcgen05_copy<CtaGroup>(t + 128, s + 8192);
        const uint32_t scaled = scaled_instruction_descriptor(E4M3, E5M2, false, false, 128 * CtaGroup, 64, UE8M0, 1, 3);
        const uint32_t four = scaled_instruction_descriptor(MXF4_E2M1, MXF4_E2M1, false, false, 128 * CtaGroup, 64, UE8M0, 2, 0);
        tcgen05_mma_mxf8f6f4<CtaGroup>(t, a, b, scaled, t + 128, t + 132, 1);
        tcgen05_mma_mxf4<CtaGroup>(t, a, b, four, t + 128, t + 132, 1);
        tcgen05_mma_mxf4nvf4<CtaGroup>(t, a, b, four, t + 128, t + 132, 1);
        if constexpr (CtaGroup == 1) tcgen05_commit(s + 8);
        else tcgen05_commit_pair(s + 8, 3);
    }}
    mbarrier_wait(s + 8, 0);
    tcgen05_fence_after();
    float v[32];
    uint32_t w[16], u[8];
    int32_t whole[16];
    tensor_memory_load(v, t);
    tensor_memory_load(w, t + 32);
    tensor_memory_load_packed(u, t + 48);
    tensor_memory_load(whole, t + 64);
    tensor_memory_wait_load(v);
    tensor_memory_wait_load(w);
    tensor_memory_wait_load(u);
    tensor_memory_wait_load(whole);
    for (int i = 0; i < 32; ++i) out[i * 128 + threadIdx.x] = v[i] + w[i % 16] + u[i % 8] + whole[i % 16];
    tensor_memory_store(t, v);
    tensor_memory_store(t, w);
    tensor_memory_store(t, whole);
    tensor_memory_store_packed(t, u);
    tensor_memory_wait_store();
    tcgen05_fence_before();
    __syncthreads();
    if (warp_index() == 0) tensor_memory_free<512, CtaGroup>(t);
}}

__global__ void __launch_bounds__(128, 1) one(float* out) {{ body<1>(out); }}
__global__ void __launch_bounds__(128, 1) pair(float* out) {{ body<2>(out); }}
"""

INSTRUCTIONS = (
    *(f"tcgen05.alloc.cta_group::{n}.sync.aligned.shared::cta.b32" for n in (1, 2)),
    *(f"tcgen05.dealloc.cta_group::{n}.sync.aligned.b32" for n in (1, 2)),
    *(f"tcgen05.relinquish_alloc_permit.cta_group::{n}.sync.aligned" for n in (1, 2)),
    *(f"tcgen05.mma.cta_group::{n}.kind::{kind}" for n in (1, 2) for kind in ("f16", "tf32", "f8f6f4", "i8")),
    *(
        f"tcgen05.mma.cta_group::{n}.kind::{kind}"
        for n in (1, 2)
        for kind in (
            "mxf8f6f4.block_scale.block32",
            "mxf4.block_scale.block32",
            "mxf4nvf4.block_scale.block16",
        )
    ),
    *(f"tcgen05.cp.cta_group::{n}.32x128b.warpx4" for n in (1, 2)),
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64",
    *(f"tcgen05.{word}.sync.aligned.32x32b.x{count}.b32" for word in ("ld", "st") for count in (16, 32)),
    "tcgen05.ld.sync.aligned.32x32b.x8.pack::16b.b32",
    "tcgen05.st.sync.aligned.32x32b.x8.unpack::16b.b32",
    "tcgen05.wait::ld.sync.aligned",
    "tcgen05.wait::st.sync.aligned",
    "tcgen05.fence::before_thread_sync",
    "tcgen05.fence::after_thread_sync",
)


def field(value: str, low: int, width: int, expected: int) -> str:
    """An assertion on one bit field of a constant."""
    return f"static_assert(({value} >> {low} & {(1 << width) - 1}u) == {expected}u);"


def instruction_fields(
    a: int, b: int, a_mn: bool, b_mn: bool, m: int, n: int, sums: tuple[str, int] = ("", 1)
) -> list[str]:
    """PTX ISA, "Instruction descriptor": D type 4-5 (F32 is 1), A type 7-9, B type 10-12, majors 15 and 16, N
    / 8 in 17-22, M / 16 in 24-28. `sums`: as the last argument has it, and its code."""
    text = f"instruction_descriptor({a}, {b}, {str(a_mn).lower()}, {str(b_mn).lower()}, {m}, {n}{sums[0]})"
    rows = [
        (0, 4, 0),
        (4, 2, sums[1]),
        (6, 1, 0),
        (7, 3, a),
        (10, 3, b),
        (13, 2, 0),
        (15, 1, a_mn),
        (16, 1, b_mn),
    ]
    rows += [(17, 6, n // 8), (23, 1, 0), (24, 5, m // 16), (29, 3, 0)]
    return [field(text, low, width, int(expected)) for low, width, expected in rows]


def scaled_fields(a: int, b: int, m: int, n: int, scale: int, a_byte: int, b_byte: int) -> list[str]:
    """PTX ISA, "Instruction descriptor" of the mxf kinds: byte of B's scale factors 4-5, A type 7-9, B type
    10-12, majors 15 and 16, N / 8 in 17-22, type of the factors 23, M / 128 in 27-28, byte of A's 29-30."""
    text = (
        f"scaled_instruction_descriptor({a}, {b}, false, true, {m}, {n}, ScaleType({scale}), {a_byte},"
        f" {b_byte})"
    )
    rows = [(0, 4, 0), (4, 2, b_byte), (6, 1, 0), (7, 3, a), (10, 3, b), (13, 2, 0), (15, 1, 0), (16, 1, 1)]
    rows += [(17, 6, n // 8), (23, 1, scale), (24, 3, 0), (27, 2, m // 128), (29, 2, a_byte), (31, 1, 0)]
    return [field(text, low, width, int(expected)) for low, width, expected in rows]


def shared_fields(width: int, address: int, leading: int, stride: int, mode: int) -> list[str]:
    """PTX ISA, "Shared memory descriptor": address >> 4 in 0-13, leading in 16-29, stride in 32-45, 0b001 in
    46-48, swizzle in 61-63."""
    text = f"tcgen05_descriptor<{width}>({address}, {leading}, {stride})"
    rows = [(0, 14, address >> 4), (14, 2, 0), (16, 14, leading >> 4), (30, 2, 0), (32, 14, stride >> 4)]
    rows += [(46, 3, 1), (49, 3, 0), (52, 9, 0), (61, 3, mode)]
    return [field(text, low, bits, expected) for low, bits, expected in rows]


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PTX of every function of the header; its static assertions hold where it compiles, and ptxas takes
    it without a warning."""
    folder = tmp_path_factory.mktemp("tcgen05")
    asserts = [
        *(
            row
            for m, n in ((64, 8), (128, 256), (256, 64))
            for row in instruction_fields(0, 1, False, True, m, n)
        ),
        *instruction_fields(5, 3, True, False, 128, 128),
        *instruction_fields(0, 0, False, True, 128, 64, (", F16_SUMS", 0)),
        *instruction_fields(1, 0, False, False, 64, 48, (", S32_SUMS", 2)),
        *scaled_fields(0, 5, 128, 256, 1, 3, 1),
        *scaled_fields(1, 1, 256, 64, 0, 0, 2),
        *(
            row
            for width, mode in ((128, 2), (64, 4), (32, 6))
            for row in shared_fields(width, 0x1C400, 8192, 8 * width, mode)
        ),
        *shared_fields(0, 0x400, 128, 256, 0),
    ]
    (folder / "kernel.cu").write_text(KERNEL.format(asserts="\n".join(asserts)))
    command = [
        "nvcc",
        "-std=c++17",
        "-gencode=arch=compute_100a,code=sm_100a",
        "--keep",
        f"--keep-dir={folder}",
        f"-I{RUNTIME}",
    ]
    done = subprocess.run(
        [*command, "-Xptxas", "-v", "-cubin", "-o", folder / "kernel.cubin", folder / "kernel.cu"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    assert set(re.findall(r"(\d+) bytes spill stores", done.stderr)) == {"0"}
    return (folder / "kernel.ptx").read_text()


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_functions_become_the_instructions_they_name(ptx: str, instruction: str) -> None:
    assert instruction in ptx


def test_what_a_load_gives_is_read_behind_its_wait(ptx: str) -> None:
    """Arithmetic on loaded registers stands after the wait, not before it."""
    body = ptx[ptx.index(".entry _Z3one") :]
    body = body[: body.index("ret;")]
    loads_end = body.index("tcgen05.wait::ld")
    assert "add.f32" not in body[body.index("tcgen05.ld") : loads_end]
    assert "add.f32" in body[loads_end:]
