"""What PTX forbids or leaves undefined is reported, each case by a small kernel; and the same kernel without
the mistake runs."""

from typing import Any

import numpy as np
import pytest

from tests.emulate.ptx import kernel
from twill.emulate import HazardError, Mapped, TensorMap

MAP = ".param .align 64 .b8 map[128]"
SOURCE = np.arange(64 * 32, dtype=np.float16).reshape(64, 32)
BOX = TensorMap(0, "f16", (32, 64), (64,), (32, 16))
"""16 rows of 64 bytes: 1024 bytes."""

ROLES = """
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    and.b32 %r3, %r1, 31;
    setp.eq.u32 %p1, %r1, 0;
    setp.eq.u32 %p2, %r2, 0;
    setp.eq.u32 %p3, %r2, 1;
    shl.b32 %r4, %r3, 2;
    mov.u32 %r5, tile;
    add.u32 %r6, %r5, %r4;
    ld.param.u64 %d1, [out];
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
"""
"""%p1 thread 0, %p2 warp 0, %p3 warp 1; %r6 the lane's word in the tile; %d1 the thread's word of the
output."""

BARRIER = """
    mov.u32 %r10, tile;
    add.u32 %r10, %r10, 4096;
    @%p1 mbarrier.init.shared.b64 [%r10], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
LOAD = """
    mov.b64 %d10, map;
    cvta.param.u64 %d10, %d10;
    mov.u32 %r11, 0;
    mov.u32 %r12, 16;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 1024;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%d10, {%r11, %r12}], [%r10];
"""
WAIT = """
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p5, [%r10], 0;
    @!%p5 bra WAIT;
"""
READ = """
    ld.shared.u32 %r20, [%r6];
    st.global.u32 [%d1], %r20;
"""
FILL = """
    mov.u32 %r20, 0;
    mov.u32 %r21, %r6;
FILL:
    st.shared.u32 [%r21], %r20;
    add.u32 %r21, %r21, 128;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, 8;
    @%p6 bra FILL;
"""
STORE = """
    mov.b64 %d10, map;
    cvta.param.u64 %d10, %d10;
    mov.u32 %r11, 0;
    mov.u32 %r12, 16;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d10, {%r11, %r12}], [%r5];
    @%p1 cp.async.bulk.commit_group;
"""
DONE = "    cp.async.bulk.wait_group 0;\n"


def run(body: str, threads: int = 64, seed: int = 0, shared: int = 4096 + 64) -> np.ndarray[Any, Any]:
    """The output of a kernel that may use a tensor map of `SOURCE`'s copy."""
    out = np.zeros(threads, np.uint32)
    made = kernel(ROLES + body, (".u64 out", MAP.removeprefix(".param ")), shared=shared, threads=threads)
    made.kernel().launch((1,), [out, Mapped(SOURCE.copy(), BOX)], seed=seed)
    return out


def refused(body: str, message: str, threads: int = 64) -> None:
    with pytest.raises(HazardError, match=message):
        run(body, threads)


# --- threads among themselves -----------------------------------------------------------------------------

PASS = (
    "    @%p2 st.shared.u32 [%r6], %r3;\n    {sync}\n    @%p3 ld.shared.u32 %r20, [%r6];\n    @%p3"
    " st.global.u32 [%d1], %r20;\n"
)


def test_a_barrier_orders_a_store_and_a_load() -> None:
    assert run(PASS.format(sync="bar.sync 0;"))[32:].tolist() == list(range(32))


def test_a_load_with_no_barrier_after_the_store() -> None:
    refused(PASS.format(sync=""), "read without synchronization after its write by warp 0")


def test_a_store_with_no_barrier_after_the_load() -> None:
    body = (
        PASS.format(sync="bar.sync 0;")
        + "    @%p2 st.shared.u32 [%r6], %r1;\n    @%p2 st.shared.u32 [%r6], 99;\n"
    )
    refused(body, "overwritten without synchronization after it is read by warp 1")


def test_two_stores_with_no_barrier_between() -> None:
    refused(
        "    st.shared.u32 [%r6], %r1;\n", "overwritten without synchronization after its write by warp 0"
    )


def test_two_stores_of_the_same_value_are_harmless() -> None:
    run("    st.shared.u32 [%r6], 5;\n")


def test_shared_memory_that_was_never_written() -> None:
    refused(READ, "never written")


def test_shared_memory_has_an_end() -> None:
    refused("    st.shared.u32 [tile+4160], %r1;\n", "out of bounds")


def test_a_lane_does_not_arrive_for_the_others() -> None:
    body = (
        "    @%p2 st.shared.u32 [%r6], %r3;\n    {sync}\n    @%p1 mbarrier.arrive.shared.b64 _, [%r10];\n"
        + WAIT
        + "    @%p3 ld.shared.u32 %r20, [%r6];\n"
    )
    run(BARRIER + body.format(sync="bar.warp.sync -1;"))
    refused(BARRIER + body.format(sync=""), "read without synchronization after its write by warp 0")


# --- barriers ---------------------------------------------------------------------------------------------


def test_a_barrier_that_awaits_too_many() -> None:
    refused("    bar.sync 1, 96;\n", "deadlock: .* warps 0, 1 at .* barrier 1, which has 64 of 96 threads")


def test_a_barrier_with_two_counts() -> None:
    refused(
        "    @%p2 bra A;\n    bar.sync 1, 128;\n    bra B;\nA:\n    bar.sync 1, 64;\nB:\n",
        "used with .* threads while",
    )


def test_a_barrier_for_a_part_of_a_warp() -> None:
    refused("    bar.sync 1, 40;\n", "a multiple of the warp's 32")


def test_more_barriers_than_there_are() -> None:
    refused("    bar.sync 16;\n", "there is no barrier 16")


def test_lanes_that_do_not_come_to_a_barrier() -> None:
    refused(
        "    setp.lt.u32 %p7, %r3, 5;\n    @%p7 bra A;\n    bar.sync 0;\nA:\n    bar.sync 1;\n",
        "lanes 0x1f of the warp have not arrived",
    )


def test_a_membermask_that_leaves_a_lane_out() -> None:
    refused("    shfl.sync.idx.b32 %r20, %r1, 0, 31, 1;\n", "membermask 0x1, which leaves them out")


def test_registers_of_an_sm_are_limited() -> None:
    refused("    setmaxnreg.inc.sync.aligned.u32 256;\n" * 1, "deadlock|of a warp that has", threads=1024)


def test_registers_come_from_those_of_the_launch() -> None:
    """170 registers for each of 384 threads are 168: the other 1,024 of the SM are nobody's."""
    taken = "    @%p4 setmaxnreg.dec.sync.aligned.u32 24;\n    @%p5 setmaxnreg.inc.sync.aligned.u32 240;\n"
    role = "    setp.lt.u32 %p4, %r2, 4;\n    setp.ge.u32 %p5, %r2, 4;\n"
    run(role + taken, threads=384)
    more = "    setp.ge.u32 %p6, %r2, 8;\n    @%p6 setmaxnreg.inc.sync.aligned.u32 248;\n"
    refused(role + taken + more, r"more registers per thread, \d+ are free", threads=384)


def test_setmaxnreg_of_a_part_of_a_warpgroup() -> None:
    refused(
        "    @%p2 setmaxnreg.dec.sync.aligned.u32 24;\n", "do not execute the same setmaxnreg", threads=128
    )


# --- mbarriers --------------------------------------------------------------------------------------------


def test_an_mbarrier_that_was_not_initialized() -> None:
    refused("    mbarrier.arrive.shared.b64 _, [%r5];\n", "there is no initialized mbarrier")


def test_an_mbarrier_that_other_warps_can_not_know_of() -> None:
    refused(
        BARRIER.replace("bar.sync 0;", "") + "    @%p3 mbarrier.arrive.shared.b64 _, [%r10];\n",
        "no initialized mbarrier|initialization",
    )


def test_too_many_arrivals() -> None:
    refused(
        BARRIER + "    @%p2 mbarrier.arrive.shared.b64 _, [%r10], 2;\n",
        "2 arrivals on an mbarrier with 1 of 1 arrivals pending",
    )


def test_an_mbarrier_that_is_initialized_twice() -> None:
    refused(BARRIER + "    @%p1 mbarrier.init.shared.b64 [%r10], 1;\n", "initialized where one is")


def test_an_mbarrier_that_is_initialized_again() -> None:
    run(
        BARRIER + "    @%p1 mbarrier.inval.shared.b64 [%r10];\n    @%p1 mbarrier.init.shared.b64 [%r10], 1;\n"
    )


def test_data_over_an_mbarrier() -> None:
    refused(BARRIER + "    @%p1 st.shared.u32 [%r10], %r1;\n", "data is written over an mbarrier")


def test_an_mbarrier_that_the_async_proxy_can_not_know_of() -> None:
    refused(
        BARRIER.replace("fence.mbarrier_init.release.cluster;", "") + LOAD,
        "no fence since its initialization",
    )


def test_a_phase_that_nobody_completes() -> None:
    refused(
        BARRIER + WAIT,
        "deadlock: .* warps 0, 1 at .* phase 0 of the mbarrier at byte 0x1000, with 1 of 1 arrivals pending",
    )


# --- TMA --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_load_arrives(seed: int) -> None:
    out = run(BARRIER + LOAD + WAIT + READ, seed=seed)
    assert out.view(np.float16)[:64].tolist() == SOURCE[16:18].ravel().tolist()


def test_a_load_that_is_not_waited_for() -> None:
    body = BARRIER + LOAD + "    @%p2 ld.shared.u32 %r20, [%r6];\n"
    refused(body, "read without synchronization after its write by copies that arrive on the mbarrier")


def test_a_load_that_is_in_flight_at_the_exit() -> None:
    refused(BARRIER + LOAD, "exits while a load of 1024 bytes")


def test_fewer_bytes_than_arrive() -> None:
    half = LOAD.replace("1024", "512")
    refused(BARRIER + half + WAIT, "deadlock: .* -512 bytes")
    twice = half.replace("    @%p1 mbarrier", "    add.u32 %r13, %r5, 1024;\n    @%p1 mbarrier").replace(
        "512", "1024"
    )
    again = twice.splitlines()[-1].replace("[%r5]", "[%r13]")
    refused(
        BARRIER + twice + again + WAIT,
        "a phase of an mbarrier completes while a copy of it, issued at PTX line",
    )


def test_more_bytes_than_arrive() -> None:
    refused(BARRIER + LOAD.replace("1024", "2048") + WAIT, "deadlock: .* and 1024 bytes")


def test_a_load_over_what_is_still_read() -> None:
    fill = "    st.shared.u32 [%r6], 1;\n    fence.proxy.async;\n    bar.sync 0;\n    ld.shared.u32 %r20, [%r6];\n"
    run(BARRIER + fill + "    bar.sync 0;\n" + LOAD + WAIT)
    refused(BARRIER + fill + LOAD + WAIT, "overwritten without synchronization after it is read by warp")


@pytest.mark.parametrize("fence", ["", "fence.proxy.async.global;", "fence.proxy.alias;"])
def test_a_load_over_what_the_async_proxy_does_not_see(fence: str) -> None:
    written = f"    st.shared.u32 [%r6], 1;\n    {fence}\n    bar.sync 0;\n"
    refused(BARRIER + written + LOAD + WAIT, "the async proxy overwrites .* without a proxy fence since")


@pytest.mark.parametrize(("wait", "arrived"), [("wait_group 0", True), ("wait_group.read 0", False)])
def test_what_is_stored_is_in_memory_behind_the_full_wait(wait: str, arrived: bool) -> None:
    stored = FILL + "    fence.proxy.async;\n    bar.sync 0;\n" + STORE
    waited = f"    @%p1 cp.async.bulk.{wait};\n    bar.sync 0;\n"
    found = run(BARRIER + stored + waited + LOAD + WAIT + READ)
    old = SOURCE[16:18].view(np.uint32).ravel()
    assert found.reshape(2, 32).tolist() == [[0] * 32 if arrived else old.tolist()] * 2


def test_a_store() -> None:
    kept = SOURCE.copy()
    made = kernel(
        ROLES + FILL + "    fence.proxy.async;\n    bar.sync 0;\n" + STORE + DONE,
        (".u64 out", MAP.removeprefix(".param ")),
        shared=4096,
    )
    made.kernel().launch((1,), [np.zeros(32, np.uint32), Mapped(kept, BOX)])
    assert kept[16:32].view(np.uint32).ravel().tolist() == [i // 32 for i in range(256)]
    assert np.array_equal(np.delete(kept, slice(16, 32), 0), np.delete(SOURCE, slice(16, 32), 0))


def test_a_store_of_what_the_async_proxy_does_not_see() -> None:
    refused(FILL + "    bar.sync 0;\n" + STORE + DONE, "written without a proxy fence since")


def test_a_store_of_what_was_never_written() -> None:
    refused(
        "    fence.proxy.async;\n    bar.sync 0;\n" + STORE + DONE,
        "reads shared memory that was never written",
    )


def test_an_overwrite_of_what_a_store_reads() -> None:
    ready = FILL + "    fence.proxy.async;\n    bar.sync 0;\n" + STORE
    run(
        ready + "    @%p1 cp.async.bulk.wait_group.read 0;\n    bar.sync 0;\n" + FILL.replace("FILL", "AGAIN")
    )
    refused(
        ready + FILL.replace("FILL", "AGAIN").replace("%r20, 0;", "%r20, 3;") + DONE,
        "without synchronization after",
    )


def test_a_store_in_flight_at_the_exit() -> None:
    refused(FILL + "    fence.proxy.async;\n    bar.sync 0;\n" + STORE, "exits while a store of 1024 bytes")


def test_a_place_that_tma_can_not_reach() -> None:
    refused(
        BARRIER + LOAD.replace("mov.u32 %r11, 0;", "mov.u32 %r11, 0;\n    add.u32 %r5, %r5, 16;") + WAIT,
        "not a multiple of 128",
    )


def test_a_tensor_map_of_nothing() -> None:
    made = kernel(ROLES + BARRIER + LOAD + WAIT, (".u64 out", MAP.removeprefix(".param ")), shared=4160)
    with pytest.raises(HazardError, match="a tensor map is none"):
        made.kernel().launch((1,), [np.zeros(32, np.uint32), bytes(128)])


def test_what_a_tensor_map_must_keep() -> None:
    made = kernel(ROLES + BARRIER + LOAD + WAIT, (".u64 out", MAP.removeprefix(".param ")), shared=4160)
    with pytest.raises(HazardError, match="stride of 60 bytes is not a multiple of 16"):
        made.kernel().launch(
            (1,),
            [np.zeros(32, np.uint32), Mapped(SOURCE.copy(), TensorMap(0, "f16", (30, 64), (60,), (32, 16)))],
        )


# --- cp.async ---------------------------------------------------------------------------------------------

COPY = "    cp.async.ca.shared.global [%r6], [%d1], 4;\n    cp.async.commit_group;\n"


def test_a_copy_is_waited_for() -> None:
    run(COPY + "    cp.async.wait_group 0;\n" + READ, threads=32)
    refused(COPY + READ, "read without synchronization after its write by cp.async of warp 0", threads=32)


def test_a_copy_is_known_to_other_warps_by_a_barrier() -> None:
    copy = "    @%p2 cp.async.ca.shared.global [%r6], [%d1], 4;\n    cp.async.wait_all;\n"
    run(copy + "    bar.sync 0;\n" + READ)
    refused(copy + READ, "read without synchronization after its write by cp.async of warp 0")


def test_an_mbarrier_waits_for_copies() -> None:
    arrive = (
        "    @%p1 cp.async.ca.shared.global [%r6], [%d1], 4;\n    @%p1"
        " cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n"
    )
    only = READ.replace("ld.shared.u32 %r20, [%r6]", "ld.shared.u32 %r20, [tile]")
    run(BARRIER + arrive + WAIT + only)
    refused(
        BARRIER + arrive + "    @%p1 ld.shared.u32 %r20, [tile];\n",
        "read without synchronization after its write by cp.async",
    )


# --- wgmma ------------------------------------------------------------------------------------------------

ACCUMULATORS = "{%f0, %f1, %f2, %f3}"
PREPARE = """
    mov.u32 %r20, 0;
    shl.b32 %r21, %r1, 2;
    add.u32 %r21, %r21, %r5;
FILL:
    st.shared.u32 [%r21], 0x3c003c00;
    add.u32 %r21, %r21, 512;
    add.u32 %r20, %r20, 1;
    setp.lt.u32 %p6, %r20, 8;
    @%p6 bra FILL;
    {fence}
    bar.sync 0;
    shr.u32 %r22, %r5, 4;
    cvt.u64.u32 %d20, %r22;
    or.b64 %d20, %d20, 0x0000001000080000;
    add.u64 %d21, %d20, 128;
"""
"""Ones in 4096 bytes. %d20 describes A, 64 by 16, %d21 B, 8 by 16: no swizzle, 128 bytes between pieces along
K, 256 along rows."""
MMA = """
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d20, %d21, {adds}, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
"""
START, END = "    wgmma.fence.sync.aligned;\n", "    wgmma.wait_group.sync.aligned 0;\n"
RESULT = "    cvt.rzi.u32.f32 %r23, %f0;\n    st.global.u32 [%d1], %r23;\n"


def ready(fence: str = "fence.proxy.async;") -> str:
    return PREPARE.replace("{fence}", fence)


def mma(adds: int = 0) -> str:
    flag = f"    setp.ne.u32 %p8, {adds}, 0;\n"
    return flag + MMA.replace("{adds}", "%p8")


def test_a_wgmma() -> None:
    assert set(run(ready() + START + mma() + END + RESULT, threads=128).tolist()) == {16}


def test_a_wgmma_that_adds() -> None:
    zero = "".join(f"    mov.f32 %f{i}, 0f3F800000;\n" for i in range(4))
    assert set(run(zero + ready() + START + mma(1) + mma(1) + END + RESULT, threads=128).tolist()) == {33}


def test_a_result_that_is_not_waited_for() -> None:
    refused(ready() + START + mma() + RESULT, "never written, or that has not arrived", threads=128)


def test_operands_that_the_async_proxy_does_not_see() -> None:
    refused(ready("") + START + mma() + END, "written without a proxy fence since", threads=128)


def test_an_accumulator_that_was_never_written() -> None:
    refused(ready() + START + mma(1) + END, "adds to an accumulator that was never written", threads=128)


def test_a_wgmma_with_no_fence() -> None:
    refused(ready() + mma() + END, "the first wgmma has no wgmma.fence", threads=128)
    written = "".join(f"    add.f32 %f{i}, 0f00000000, 0f00000000;\n" for i in range(4))
    refused(ready() + START + written + mma(1) + END, "written with no wgmma.fence since", threads=128)


def test_an_accumulator_written_in_flight() -> None:
    refused(
        ready() + START + mma() + "    mov.f32 %f2, 0f00000000;\n" + END,
        "written while a wgmma on it is in flight",
        threads=128,
    )


def test_operands_overwritten_in_flight() -> None:
    over = "    @%p2 st.shared.u32 [%r6], 1;\n"
    run(ready() + START + mma() + END + "    bar.sync 0;\n    @%p2 st.shared.u32 [%r6], 1;\n", threads=128)
    refused(ready() + START + mma() + over + END, "without synchronization after", threads=128)


def test_a_in_registers_overwritten_in_flight() -> None:
    fragment = "".join(f"    mov.u32 %r{30 + i}, 0x3c003c00;\n" for i in range(4))
    issue = mma().replace("%d20, %d21", "{%r30, %r31, %r32, %r33}, %d21").replace("1, 1, 0, 0", "1, 1, 0")
    assert set(run(ready() + fragment + START + issue + END + RESULT, threads=128).tolist()) == {16}
    refused(
        ready() + fragment + START + issue + "    mov.u32 %r31, 0;\n" + END,
        "a register with A was written while",
        threads=128,
    )


def test_a_warpgroup_that_is_not_whole() -> None:
    refused(
        ready().replace("bar.sync 0", "bar.sync 0")
        + START
        + "    @%p2 bra SKIP;\n"
        + mma()
        + END
        + "SKIP:\n",
        "deadlock",
        threads=128,
    )


def test_a_descriptor_with_reserved_bits() -> None:
    refused(ready() + "    or.b64 %d20, %d20, 0x4000;\n" + START + mma() + END, "reserved bits", threads=128)


# --- polling ----------------------------------------------------------------------------------------------

POLL = """
POLL:
    mbarrier.test_wait.parity.shared.b64 %p5, [%r10], 0;
    @!%p5 bra POLL;
"""


def test_a_poll_lets_others_go_on() -> None:
    assert run(BARRIER + LOAD + POLL + READ).view(np.float16)[:64].tolist() == SOURCE[16:18].ravel().tolist()


def test_a_poll_in_vain() -> None:
    refused(BARRIER + POLL, "deadlock")
