"""What lanes, warps and CTAs do together: shuffles, votes, atomics, clusters; and the paths of TMA."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.emulate.ptx import Array, kernel
from twill.emulate import HazardError, Mapped, TensorMap

TO_LANE = """
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r2, %r2, %r3, %r1;
    ld.param.u64 %d1, [out];
    mad.wide.u32 %d1, %r2, 4, %d1;
    setp.eq.u32 %p1, %r1, 0;
"""
MAP = ".align 64 .b8 map[128]"


def run(
    body: str, threads: int = 32, ctas: int = 1, cluster: int = 1, shared: int = 0, seed: int = 0
) -> list[int]:
    out = np.zeros(threads * ctas, np.uint32)
    kernel(TO_LANE + body, shared=shared, threads=threads).kernel().launch(
        (ctas,), [out], cluster=(cluster,), seed=seed
    )
    return out.tolist()


# --- lanes ------------------------------------------------------------------------------------------------


SHUFFLES: list[tuple[str, int, int, Callable[[int], int]]] = [
    ("idx", 5, 31, lambda lane: 5),
    ("idx", 3, 0x181F, lambda lane: lane & 24 | 3),
    ("bfly", 4, 31, lambda lane: lane ^ 4),
    ("down", 3, 31, lambda lane: lane + 3 if lane + 3 < 32 else lane),
    ("up", 3, 0, lambda lane: lane - 3 if lane >= 3 else lane),
    ("down", 2, 0x1807, lambda lane: lane + 2 if lane % 8 < 6 else lane),
]


@pytest.mark.parametrize(("mode", "b", "c", "source"), SHUFFLES)
def test_shuffles(mode: str, b: int, c: int, source: Callable[[int], int]) -> None:
    found = run(
        f"    mul.lo.u32 %r5, %r1, 7;\n    shfl.sync.{mode}.b32 %r6, %r5, {b}, {c}, -1;\n    st.global.u32"
        " [%d1], %r6;\n"
    )
    assert found == [7 * source(lane) for lane in range(32)]


ROUNDS = """
    mov.u32 %r10, tile;
    @%p1 mbarrier.init.shared.b64 [%r10], 1;
    fence.mbarrier_init.release.cluster;
    bar.warp.sync -1;
    mov.u32 %r11, 0;
ROUND:
    @!%p1 bra WAITS;
    mbarrier.arrive.shared.b64 _, [%r10];
WAITS:
    and.b32 %r12, %r11, 1;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p5, [%r10], %r12;
    @!%p5 bra WAIT;
    {sync}
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p6, %r11, 3;
    @%p6 bra ROUND;
    st.global.u32 [%d1], %r11;
"""
"""One lane completes phases that the whole warp waits for."""


@pytest.mark.parametrize("seed", range(3))
def test_lanes_that_are_kept_together_see_every_phase(seed: int) -> None:
    assert run(ROUNDS.replace("{sync}", "bar.warp.sync -1;"), shared=8, seed=seed) == [3] * 32


def test_a_lane_that_runs_ahead_leaves_the_others_behind() -> None:
    with pytest.raises(HazardError, match="deadlock"):
        run(ROUNDS.replace("{sync}", ""), shared=8, seed=1)


EACH = """
    mov.u32 %r10, tile;
    add.u32 %r10, %r10, 128;
    @%p1 mbarrier.init.shared.b64 [%r10], 32;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    and.b32 %r11, %r1, 31;
    mov.u32 %r12, tile;
    mad.lo.u32 %r13, %r11, 4, %r12;
    setp.gt.u32 %p2, %r1, 31;
    @%p2 bra READ;
    st.shared.u32 [%r13], %r1;
    setp.eq.u32 %p3, %r1, {late};
    @%p3 bra LATE;
    mbarrier.arrive.shared.b64 _, [%r10];
    bra END;
LATE:
    {arrive}
    bra END;
READ:
    mbarrier.try_wait.parity.shared.b64 %p5, [%r10], 0;
    @!%p5 bra READ;
    xor.b32 %r13, %r13, 4;
    ld.shared.u32 %r14, [%r13];
    st.global.u32 [%d1], %r14;
END:
"""
"""Every lane of a warp arrives for what it has stored, one apart from the others."""


@pytest.mark.parametrize("seed", range(3))
def test_lanes_that_arrive_one_after_the_other(seed: int) -> None:
    body = EACH.format(late=5, arrive="mbarrier.arrive.shared.b64 _, [%r10];")
    assert run(body, threads=64, shared=256, seed=seed)[32:] == [lane ^ 1 for lane in range(32)]


@pytest.mark.parametrize("seed", range(3))
def test_a_lane_that_does_not_arrive(seed: int) -> None:
    body = EACH.format(late=5, arrive="").replace("[%r10], 32", "[%r10], 31")
    with pytest.raises(HazardError, match="without synchronization after"):
        run(body, threads=64, shared=256, seed=seed)


def test_the_predicate_of_a_shuffle() -> None:
    found = run(
        "    shfl.sync.down.b32 %r6|%p2, %r1, 3, 31, -1;\n    selp.u32 %r7, 1, 0, %p2;\n    st.global.u32"
        " [%d1], %r7;\n"
    )
    assert found == [int(lane + 3 < 32) for lane in range(32)]


THIRDS = sum(1 << i for i in range(0, 32, 3))


@pytest.mark.parametrize(
    ("vote", "wanted"), [("ballot.b32", THIRDS), ("any.pred", 1), ("all.pred", 0), ("uni.pred", 0)]
)
def test_votes(vote: str, wanted: int) -> None:
    made = (
        f"vote.sync.{vote} %r6, %p2, -1;"
        if "ballot" in vote
        else f"vote.sync.{vote} %p4, %p2, -1;\n    selp.u32 %r6, 1, 0, %p4;"
    )
    assert set(
        run(
            f"    rem.u32 %r5, %r1, 3;\n    setp.eq.u32 %p2, %r5, 0;\n    {made}\n    st.global.u32 [%d1],"
            " %r6;\n"
        )
    ) == {wanted}


@pytest.mark.parametrize(
    ("name", "wanted"), [("add.u32", 496), ("max.s32", 31), ("min.u32", 0), ("xor.b32", 0), ("or.b32", 31)]
)
def test_reductions_of_a_warp(name: str, wanted: int) -> None:
    assert set(run(f"    redux.sync.{name} %r6, %r1, -1;\n    st.global.u32 [%d1], %r6;\n")) == {wanted}


def test_matches() -> None:
    found = run(
        "    and.b32 %r5, %r1, 3;\n    match.any.sync.b32 %r6, %r5, -1;\n    st.global.u32 [%d1], %r6;\n"
    )
    assert found == [0x11111111 << (lane & 3) for lane in range(32)]


def test_one_lane_is_elected() -> None:
    found = run("    elect.sync _|%p2, -1;\n    selp.u32 %r6, 1, 0, %p2;\n    st.global.u32 [%d1], %r6;\n")
    assert sum(found) == 1


# --- atomics ----------------------------------------------------------------------------------------------


def test_atomic_operations_return_what_was_there() -> None:
    body = """
    @%p1 st.shared.u32 [tile], 100;
    bar.sync 0;
    atom.shared.add.u32 %r6, [tile], 2;
    st.global.u32 [%d1], %r6;
"""
    assert sorted(run(body, threads=64, shared=16)) == [100 + 2 * i for i in range(64)]


def test_compare_and_swap() -> None:
    body = """
    @%p1 st.shared.u32 [tile], 7;
    bar.sync 0;
    atom.shared.cas.b32 %r6, [tile], 7, %r1;
    st.global.u32 [%d1], %r6;
"""
    found = run(body, threads=32, shared=16)
    assert found == [7, *[0] * 31]


def test_a_store_beside_atomic_operations() -> None:
    body = (
        "    @%p1 st.shared.u32 [tile], 7;\n    bar.sync 0;\n    red.shared.add.u32 [tile], 2;\n    @%p1"
        " st.shared.u32 [tile], 8;\n"
    )
    with pytest.raises(HazardError, match="without synchronization after"):
        run(body, threads=64, shared=16)


# --- clusters ---------------------------------------------------------------------------------------------

MEET = "    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n"
EXCHANGE = """
    mov.u32 %r5, tile;
    mov.u32 %r6, %cluster_ctarank;
    xor.b32 %r7, %r6, 1;
    mapa.shared::cluster.u32 %r8, %r5, %r7;
    mad.lo.u32 %r9, %r1, 4, %r8;
    mad.lo.u32 %r10, %r1, 4, %r5;
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_ctas_exchange_their_shared_memory(seed: int) -> None:
    body = (
        EXCHANGE
        + "    st.shared::cluster.u32 [%r9], %r2;\n"
        + MEET
        + "    ld.shared.u32 %r11, [%r10];\n    st.global.u32 [%d1], %r11;\n"
    )
    assert run(body, ctas=4, cluster=2, shared=128, seed=seed) == [
        *range(32, 64),
        *range(32),
        *range(96, 128),
        *range(64, 96),
    ]


def test_a_cluster_that_does_not_meet() -> None:
    body = EXCHANGE + "    st.shared::cluster.u32 [%r9], %r2;\n    ld.shared.u32 %r11, [%r10];\n"
    with pytest.raises(HazardError, match="without synchronization after"):
        run(body, ctas=2, cluster=2, shared=128)


def test_an_arrival_in_another_cta() -> None:
    body = (
        EXCHANGE
        + "    @%p1 mbarrier.init.shared.b64 [%r5], 1;\n    fence.mbarrier_init.release.cluster;\n"
        + MEET
        + "    @%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];\n"
        + "WAIT:\n    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r5], 0;\n    @!%p2 bra"
        " WAIT;\n" + "    st.global.u32 [%d1], %r6;\n" + MEET
    )
    assert run(body, ctas=2, cluster=2, shared=128) == [0] * 32 + [1] * 32


def test_a_store_that_completes_in_another_cta() -> None:
    body = (
        EXCHANGE
        + "    add.u32 %r12, %r5, 128;\n    add.u32 %r13, %r8, 128;\n"
        + "    @%p1 mbarrier.init.shared.b64 [%r12], 1;\n    fence.mbarrier_init.release.cluster;\n"
        + "    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r12], 128;\n"
        + MEET
        + "    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9], %r2, [%r13];\n"
        + "WAIT:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r12], 0;\n    @!%p2 bra WAIT;\n"
        + "    ld.shared.u32 %r11, [%r10];\n    st.global.u32 [%d1], %r11;\n"
        + MEET
    )
    assert run(body, ctas=2, cluster=2, shared=192) == [*range(32, 64), *range(32)]


# --- TMA --------------------------------------------------------------------------------------------------

THROUGH = """
    mov.u32 %r5, tile;
    add.u32 %r6, %r5, {bytes};
    @%p1 mbarrier.init.shared.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.b64 %d3, map;
    cvta.param.u64 %d3, %d3;
    mov.b64 %d4, to;
    cvta.param.u64 %d4, %d4;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r6], {bytes};
    @%p1 cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%d3, {from}], [%r6];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r6], 0;
    @!%p2 bra WAIT;
    @%p1 {store}.{rank}d.global.shared::cta{how}.bulk_group [%d4, {into}], [%r5];
    @%p1 cp.async.bulk.commit_group;
    @%p1 cp.async.bulk.wait_group 0;
    add.u32 %r7, %r5, 16;
    ld.shared.u32 %r8, [%r7];
    st.global.u32 [%d1], %r8;
"""


def through(one: Mapped, other: Mapped, source: list[int], target: list[int], how: str = "") -> int:
    """A box through shared memory, from one tensor to another; the word at byte 16 of it."""
    text, out = THROUGH, np.zeros(32, np.uint32)
    places = ["{" + ", ".join(map(str, place)) + "}" for place in (source, target)]
    count = one.map.box_bytes
    names = {"bytes": count, "rank": len(source), "from": places[0], "into": places[1], "how": how}
    names["store"] = "cp.reduce.async.bulk.tensor" if how else "cp.async.bulk.tensor"
    for name, value in names.items():
        text = text.replace("{" + name + "}", str(value))
    made = kernel(TO_LANE + text, [".u64 out", MAP, MAP.replace("map", "to")], shared=count + 16)
    made.kernel().launch((1,), [out, one, other])
    return int(out[0])


def tensor(array: Array, box: tuple[int, ...], swizzle: int = 0, kind: str = "f16") -> Mapped:
    shape, strides = array.shape[::-1], array.strides[::-1]
    return Mapped(array, TensorMap(0, kind, shape, strides[1:], box, swizzle))


@pytest.mark.parametrize(("swizzle", "line"), [(0, 64), (32, 16), (64, 32), (128, 64)])
def test_swizzled_tiles(swizzle: int, line: int) -> None:
    a = np.arange(64 * 64, dtype=np.float16).reshape(64, 64)
    b = np.zeros_like(a)
    word = through(tensor(a, (line, 32), swizzle), tensor(b, (line, 32), swizzle), [0, 8], [0, 16])
    assert np.array_equal(b[16:48, :line], a[8:40, :line])
    assert (word & 0xFFFF) == int(a[8, 8].view(np.uint16))


def test_a_swizzle_moves_pieces_of_a_line() -> None:
    a = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    b = np.zeros_like(a)
    through(tensor(a, (64, 16), 128, "u16"), tensor(b, (64, 16), 0, "u16"), [0, 0], [0, 0])
    for row in range(16):
        for piece in range(8):
            assert b[row, 8 * (piece ^ row % 8)] == a[row, 8 * piece]


def test_what_lies_outside_is_zero_and_not_written() -> None:
    a = np.ones((3, 20, 40), np.float32)
    b = np.full((3, 20, 40), 7, np.float32)
    through(tensor(a, (8, 8, 2), 0, "f32"), tensor(b, (8, 8, 2), 0, "f32"), [36, -3, 2], [-4, 16, 0])
    expected = np.full((3, 20, 40), 7, np.float32)
    box = np.zeros((2, 8, 8), np.float32)
    box[0, 3:, :4] = 1
    expected[0:2, 16:20, 0:4] = box[:, :4, 4:]
    assert np.array_equal(b, expected)


def test_a_reduction_adds() -> None:
    a, b = np.full((16, 64), 2, np.float16), np.arange(16 * 64, dtype=np.float16).reshape(16, 64)
    before = b.copy()
    through(tensor(a, (64, 8)), tensor(b, (64, 8)), [0, 0], [0, 4], ".add.tile")
    before[4:12] += 2
    assert np.array_equal(b, before)


def test_a_load_into_every_cta_of_a_cluster() -> None:
    body = """
    mov.u32 %r5, tile;
    add.u32 %r6, %r5, 512;
    mov.u32 %r7, %cluster_ctarank;
    @%p1 mbarrier.init.shared.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 512;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.b64 %d3, map;
    cvta.param.u64 %d3, %d3;
    setp.eq.and.u32 %p3, %r7, 0, %p1;
    mov.u16 %h1, 3;
    @%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r5], [%d3, {0, 0}], [%r6], %h1;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r6], 0;
    @!%p2 bra WAIT;
    mad.lo.u32 %r8, %r1, 4, %r5;
    ld.shared.u32 %r9, [%r8];
    st.global.u32 [%d1], %r9;
    barrier.cluster.arrive;
    barrier.cluster.wait;
"""
    a, out = np.arange(256, dtype=np.uint16).reshape(8, 32), np.zeros(64, np.uint32)
    made = kernel(TO_LANE + body, [".u64 out", MAP], shared=528)
    made.kernel().launch((2,), [out, tensor(a, (32, 8), 0, "u16")], cluster=(2,))
    assert out.tolist() == a.view(np.uint32).ravel()[:32].tolist() * 2


# --- work that is taken over ------------------------------------------------------------------------------


def test_a_cta_takes_over_the_work_of_others() -> None:
    body = """
    mov.u32 %r5, tile;
    add.u32 %r6, %r5, 16;
    @%p1 mbarrier.init.shared.b64 [%r6], 1;
    fence.mbarrier_init.release.cluster;
    bar.sync 0;
    mov.u32 %r20, %ctaid.x;
    mov.u32 %r21, 0;
WORK:
    ld.param.u64 %d1, [out];
    mad.wide.u32 %d1, %r20, 4, %d1;
    @%p1 red.global.add.u32 [%d1], 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 16;
    @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r5], [%r6];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p2, [%r6], %r21;
    @!%p2 bra WAIT;
    xor.b32 %r21, %r21, 1;
    {
    .reg .b128 response;
    .reg .pred more;
    ld.shared.b128 response, [%r5];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 more, response;
    @!more bra.uni DONE;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r20, response;
    }
    bar.sync 0;
    bra WORK;
DONE:
"""
    out = np.zeros(12, np.uint32)
    kernel(TO_LANE + body, shared=32).kernel().launch((12,), [out])
    assert out.tolist() == [1] * 12


# --- flags in shared memory -------------------------------------------------------------------------------

FLAG = """
    shr.u32 %r5, %r1, 5;
    setp.eq.u32 %p2, %r5, 0;
    @%p1 st.shared.u32 [tile+4], 0;
    bar.sync 0;
    @!%p2 bra CONSUMER;
    @%p1 st.shared.u32 [tile], 42;
    {release}
    bra END;
CONSUMER:
    {acquire}
    setp.eq.u32 %p3, %r6, 0;
    @%p3 nanosleep.u32 20;
    @%p3 bra CONSUMER;
    {behind}
    ld.shared.u32 %r7, [tile];
    st.global.u32 [%d1], %r7;
END:
"""


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("how", "fence"), [(("release", "acquire"), ""), (("relaxed", "relaxed"), "fence.acq_rel.cta;")]
)
def test_a_flag_hands_over(how: tuple[str, str], fence: str, seed: int) -> None:
    store, load = (
        f"@%p1 st.{how[0]}.cta.shared.u32 [tile+4], 1;",
        f"ld.{how[1]}.cta.shared.u32 %r6, [tile+4];",
    )
    body = (
        FLAG.replace("{release}", f"{fence}\n    {store}")
        .replace("{acquire}", load)
        .replace("{behind}", fence)
    )
    assert run(body, threads=64, shared=8, seed=seed)[32:] == [42] * 32


def test_a_flag_with_no_fence() -> None:
    store, load = "@%p1 st.relaxed.cta.shared.u32 [tile+4], 1;", "ld.relaxed.cta.shared.u32 %r6, [tile+4];"
    with pytest.raises(HazardError, match="without synchronization after"):
        run(
            FLAG.replace("{release}", store).replace("{acquire}", load).replace("{behind}", ""),
            threads=64,
            shared=8,
        )
