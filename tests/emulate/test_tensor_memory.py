"""Tensor memory and tcgen05: a small MMA computes what NumPy computes, and each mistake in it is reported."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.emulate.ptx import Array, kernel
from twill.emulate import HazardError

RANDOM = np.random.default_rng(5)
A, B = (RANDOM.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 16), (16, 16)))
PRODUCT = A.astype(np.float32) @ B.T.astype(np.float32)

ROLES = """
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r2, 0;
    setp.eq.u32 %p3, %r2, 1;
    mov.u32 %r5, tile;
    add.u32 %r6, %r5, 8192;
    add.u32 %r7, %r5, 8200;
    ld.param.u64 %d1, [out];
    mul.wide.u32 %d2, %r1, 64;
    add.s64 %d1, %d1, %d2;
"""
"""%p1 thread 0, %p2 and %p3 warps 0 and 1; A at the tile's start, B at 4096, a barrier at %r6, the address of
tensor memory at %r7; %d1 the thread's row of 16 words of the output."""

FILL = """
    ld.param.u64 %d3, [a];
    mul.wide.u32 %d4, %r1, 32;
    add.s64 %d3, %d3, %d4;
    ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%d3];
    ld.global.v4.u32 {%r24, %r25, %r26, %r27}, [%d3 + 16];
    shl.b32 %r8, %r1, 4;
    add.u32 %r8, %r8, %r5;
    st.shared.v4.u32 [%r8], {%r20, %r21, %r22, %r23};
    st.shared.v4.u32 [%r8 + 2048], {%r24, %r25, %r26, %r27};
    setp.lt.u32 %p4, %r1, 16;
    ld.param.u64 %d3, [b];
    add.s64 %d3, %d3, %d4;
    @%p4 ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%d3];
    @%p4 ld.global.v4.u32 {%r24, %r25, %r26, %r27}, [%d3 + 16];
    @%p4 st.shared.v4.u32 [%r8 + 4096], {%r20, %r21, %r22, %r23};
    @%p4 st.shared.v4.u32 [%r8 + 4352], {%r24, %r25, %r26, %r27};
"""
"""Rows in core matrices of 8 rows x 16 bytes: 128 bytes to the next 8 rows; 2048 bytes (A) and 256 bytes (B)
to the next 16 bytes of K."""

ALLOC = "    @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 32;\n"
RELINQUISH = "    @%p2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
INIT = "    @%p1 mbarrier.init.shared.b64 [%r6], 1;\n    fence.mbarrier_init.release.cluster;\n"
PROXY = "    fence.proxy.async.shared::cta;\n"
BEFORE = "    tcgen05.fence::before_thread_sync;\n"
SYNC = "    bar.sync 0;\n"
AFTER = "    tcgen05.fence::after_thread_sync;\n"
ADDRESS = "    ld.shared.u32 %r9, [%r7];\n"
START = ROLES + FILL + ALLOC + RELINQUISH + INIT + PROXY + BEFORE + SYNC + AFTER + ADDRESS

DESCRIPTORS = """
    shr.u32 %r30, %r5, 4;
    cvt.u64.u32 %d10, %r30;
    or.b64 %d11, %d10, {a_fields:#x};
    add.s64 %d12, %d10, 256;
    or.b64 %d12, %d12, {b_fields:#x};
    mov.b32 %r31, {shape:#x};
"""
FIELDS = {
    "a_fields": 1 << 46 | (128 >> 4) << 32 | (2048 >> 4) << 16,
    "b_fields": 1 << 46 | (128 >> 4) << 32 | (256 >> 4) << 16,
    "shape": 1 << 4 | (16 >> 3) << 17 | (128 >> 4) << 24,
}
GIVEN = DESCRIPTORS.format(**FIELDS)
MMA = "    @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r9], %d11, %d12, %r31, {};\n"
COMMIT = "    @%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r6];\n"
WAIT = """
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p5, [%r6], 0;
    @!%p5 bra WAIT;
"""
QUARTER = "    shl.b32 %r10, %r2, 21;\n    add.u32 %r10, %r10, %r9;\n"
RESULT = ", ".join(f"%r{40 + i}" for i in range(16))
LOAD = QUARTER + f"    tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{RESULT}}}, [%r10];\n"
WAIT_LOAD = "    tcgen05.wait::ld.sync.aligned;\n"
OUT = "".join(
    f"    st.global.v4.u32 [%d1 + {4 * i}], {{{', '.join(f'%r{40 + i + j}' for j in range(4))}}};\n"
    for i in range(0, 16, 4)
)
STORE = f"    tcgen05.st.sync.aligned.32x32b.x16.b32 [%r10], {{{RESULT}}};\n"
WAIT_STORE = "    tcgen05.wait::st.sync.aligned;\n"
FREE = "    @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;\n"
END = BEFORE + SYNC + FREE
DOT = [START, GIVEN, MMA.format(0), COMMIT, WAIT, AFTER, LOAD, WAIT_LOAD, OUT, END]


def run(parts: Sequence[str], seed: int = 0, a: Array = A, b: Array = B, strict: bool = True) -> Array:
    out = np.zeros((128, 16), np.float32)
    made = kernel("".join(parts), (".u64 out", ".u64 a", ".u64 b"), shared=8192 + 64, threads=128)
    made.kernel().launch((1,), [out, a.copy(), b.copy()], seed=seed, strict=strict)
    return out


def refused(parts: Sequence[str], message: str) -> None:
    with pytest.raises(HazardError, match=message):
        run(parts)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_dot_reaches_registers(seed: int) -> None:
    assert np.array_equal(run(DOT, seed), PRODUCT)


def test_a_second_dot_adds_to_the_first() -> None:
    assert np.array_equal(run([*DOT[:3], MMA.format("%p1"), *DOT[3:]]), 2 * PRODUCT)


def test_d_is_scaled_before_it_is_added_to() -> None:
    again = MMA.replace("{}", "%p1, 3")
    assert np.array_equal(run([*DOT[:3], again, *DOT[3:]]), PRODUCT / 8 + PRODUCT)


def test_lanes_can_be_left_out() -> None:
    masked = MMA.replace("{}", "{{%r90, %r91, %r91, %r91}}, %p1").format()
    parts = [*DOT[:3], "    mov.b32 %r90, 0xf;\n    mov.b32 %r91, 0;\n", masked, *DOT[3:]]
    assert np.array_equal(run(parts), np.where(np.arange(128) < 4, 1, 2)[:, None] * PRODUCT)


@pytest.mark.parametrize(
    ("bit", "expected"), [(13, -PRODUCT), (14, -PRODUCT), (4, None)], ids=["negate A", "negate B", "f16"]
)
def test_bits_of_the_instruction_descriptor(bit: int, expected: Array | None) -> None:
    text = DESCRIPTORS.format(**FIELDS | {"shape": FIELDS["shape"] ^ 1 << bit})
    found = run([START, text, *DOT[2:]])
    if expected is None:
        found, expected = found.view(np.uint32).astype(np.uint16).view(np.float16), PRODUCT
    assert np.array_equal(found, expected)


# --- what is missing is reported --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (PROXY, "written without a proxy fence"),
        (COMMIT, "deadlock"),
        (WAIT, "read without synchronization after its write by tcgen05 operations of lane 0 of warp 0"),
        (AFTER + LOAD, "no tcgen05.fence::after_thread_sync since its write"),
        (WAIT_LOAD, "freed without synchronization after their use by tcgen05.ld of warp 0"),
        (FREE, "32 columns of tensor memory, allocated here, are not freed when the CTA exits"),
        (END, "not freed"),
        (ALLOC, "read without synchronization|never written|depends on a value"),
    ],
)
def test_a_part_is_missing(missing: str, message: str) -> None:
    text = "".join(DOT)
    assert missing in text
    kept = {AFTER + LOAD: LOAD, WAIT: SYNC}.get(missing, "")
    refused([text.replace(missing, kept)], message)


def test_fences_may_be_left_out_where_that_is_accepted() -> None:
    text = "".join(DOT).replace(AFTER, "").replace(BEFORE, "")
    refused([text], "no tcgen05.fence::after_thread_sync")
    assert np.array_equal(run([text], strict=False), PRODUCT)


def test_a_dot_adds_to_what_was_never_written() -> None:
    refused([*DOT[:2], MMA.format("%p1"), *DOT[3:]], "adds to tensor memory that was never written")


def test_a_load_of_another_quarter() -> None:
    refused(
        ["".join(DOT).replace("shl.b32 %r10, %r2, 21", "shl.b32 %r10, %r2, 20")], "accesses lanes 16 to 47"
    )


def test_a_load_beyond_the_columns() -> None:
    refused(["".join(DOT).replace(QUARTER, QUARTER + "    add.u32 %r10, %r10, 24;\n")], "not all allocated")


def test_a_dot_over_what_is_still_loaded() -> None:
    late = [*DOT[:7], MMA.format(0), *DOT[7:]]
    refused(late, "overwritten without synchronization after its read by tcgen05.ld of warp 0")


def test_a_dot_over_what_was_loaded_needs_fences() -> None:
    parts = [*DOT[:9], SYNC, MMA.format(0), COMMIT, END]
    refused(
        parts, "overwritten with no tcgen05.fence::before_thread_sync since its read by tcgen05.ld of warp 1"
    )
    refused(
        [*DOT[:9], BEFORE, *parts[9:]], "overwritten with no tcgen05.fence::after_thread_sync since its read"
    )


SECOND = "    @%p1 mbarrier.init.shared.b64 [%r6 + 16], 128;\n"
ARRIVE = "    mbarrier.arrive.relaxed.cluster.shared::cta.b64 _, [%r6 + 16];\n"
RELAXED = """
RELAXED:
    mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p6, [%r6 + 16], 0;
    @!%p6 bra RELAXED;
"""
AGAIN = WAIT.replace("WAIT:", "AGAIN:").replace("bra WAIT", "bra AGAIN").replace("], 0;", "], 1;")
LOADED = [START.replace(INIT, SECOND + INIT), *DOT[1:9]]
ANOTHER = [AFTER, MMA.format(0), COMMIT, AGAIN, END]


def test_a_relaxed_arrival_hands_on_tensor_memory() -> None:
    """In the order of the PTX ISA's patterns of different threads, with fences."""
    assert np.array_equal(run([*LOADED, BEFORE, ARRIVE, RELAXED, *ANOTHER]), PRODUCT)
    refused([*LOADED, ARRIVE, RELAXED, *ANOTHER], "overwritten without synchronization after its read")


def test_a_relaxed_arrival_hands_on_no_shared_memory() -> None:
    refilled = [*LOADED, "    st.shared.u32 [%r8], %r20;\n", PROXY, BEFORE, ARRIVE, RELAXED, *ANOTHER]
    refused(refilled, "shared memory is read without synchronization after its write")


def test_operands_are_not_overwritten_before_the_commit_is_waited_for() -> None:
    refused(
        [*DOT[:4], SYNC, "    st.shared.u32 [%r8], %r1;\n", *DOT[4:]],
        "overwritten .* after it is read by tcgen05",
    )


def test_a_store_is_waited_for() -> None:
    added = "    add.f32 %r40, %r40, %r40;\n"
    again = "    mov.pred %p6, -1;\n" + added + STORE
    assert np.array_equal(run([*DOT[:8], again, WAIT_STORE, LOAD, *DOT[7:]])[:, 0], 2 * PRODUCT[:, 0])
    refused([*DOT[:8], again, LOAD, *DOT[7:]], "read without synchronization after its write by tcgen05.st")


def test_an_undefined_register_that_was_stored_is_undefined_when_it_is_loaded() -> None:
    parts = [*DOT[:8], STORE.replace("%r41", "%r150"), WAIT_STORE, LOAD, *DOT[7:]]
    refused(parts, "a value that was never written, or that has not arrived, is stored to global memory")


def test_an_exit_before_a_dot_is_complete() -> None:
    refused([*DOT[:4], "    exit;\n"], "a CTA exits while an MMA, issued here")


# --- allocation -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[%r7], 32", "[%r7], 48", "a power of two from 32 to 512 is expected"),
        ("%r9, 32", "%r9, 64", "64 columns at 0 of tensor memory are freed; allocated are: 32 at 0"),
        (RELINQUISH, RELINQUISH + ALLOC, "after tcgen05.relinquish_alloc_permit"),
        (RELINQUISH, ALLOC.replace("32;", "64;"), "the number must not increase"),
        ("dealloc.cta_group::1", "dealloc.cta_group::2", "different .cta_group values"),
        ("tcgen05.alloc", "tcgen05.alloc", ""),
    ],
)
def test_allocation(old: str, new: str, message: str) -> None:
    text = "".join(DOT)
    assert old in text
    if message:
        refused([text.replace(old, new, 1)], message)
    else:
        run([text])


def test_an_allocation_waits_for_free_columns() -> None:
    twice = ALLOC.replace("], 32", "], 512") * 2
    refused(["".join(DOT).replace(ALLOC, twice)], "deadlock.* 512 free columns of tensor memory")


# --- descriptors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "change", "message"),
    [
        ("a_fields", 1 << 46, "0b001 is expected in 46-48"),
        ("b_fields", 3 << 61, "invalid swizzle mode 3"),
        ("a_fields", 1 << 49, "with a base offset or an absolute address"),
        ("shape", 1 << 6, "bits that .kind::f16 does not have"),
        ("shape", 7 << 7, "a type that .kind::f16 does not have"),
        ("shape", 31 << 24 ^ 8 << 24 ^ 6 << 24, "does not exist for .kind::f16.cta_group::1"),
        ("shape", 4, "sparse MMAs are not supported"),
        ("a_fields", (1 << 12) << 32, "shared memory is accessed out of bounds"),
        ("b_fields", (1 << 6) << 32, "reads shared memory that was never written"),
    ],
)
def test_wrong_descriptors(field: str, change: int, message: str) -> None:
    refused([START, DESCRIPTORS.format(**FIELDS | {field: FIELDS[field] ^ change}), *DOT[2:]], message)
