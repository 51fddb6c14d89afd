# pyright: basic, reportMissingImports=false
"""Launches of kernels that work on chunks of 64 tokens of linear attention, and of plain products.

Arrays of the first are as wide as a row of keys, but for those that `wide` names: states, of which there is
one for each chunk.
"""

from math import ceil
from typing import Any

from benchmarks.launches.arrays import Array, Case, by, case, decays, positive

TOKENS, HEADS, BATCH = 4096, 16, 2
CHUNKS, SEQUENCES = TOKENS // 64, HEADS * BATCH


def small_integers(size: int) -> Any:
    import torch

    return torch.randint(-8, 8, (size,))


def chunked(
    grid: tuple[int, ...],
    bf16: str,
    f32: str = "",
    sums: str = "",
    wide: str = "",
    zeros: str = "",
    **numbers: float,
) -> Case:
    """Arrays by their names in the source; `sums` are of logarithms of gates."""
    rows = BATCH * TOKENS * HEADS
    arrays: dict[str, Array] = {
        **dict.fromkeys(bf16.split(), ("bf16", rows * 128, 0.3)),
        **dict.fromkeys(f32.split(), ("f32", rows * 128, 0.3)),
        **{name: ("f32", rows * 128, decays(64, 128)) for name in sums.split()},
    }
    for name in wide.split():
        arrays[name] = (arrays[name][0], rows * 256, 0.1)
    for name in zeros.split():
        arrays[name] = (*arrays[name][:2], "zeros")
    return case(by(BATCH, TOKENS), grid, {"T": TOKENS, **numbers}, **arrays)


def product(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int],
    types: tuple[str, str, str] = ("f16", "f16", "f16"),
    names: tuple[str, str, str] = ("a_ptr", "b_ptr", "c_ptr"),
    splits: int = 1,
    transposed: bool = False,
    grid: tuple[int, ...] = (),
    strides: tuple[str, str, str] = ("stride_am", "stride_bk", "stride_cm"),
    more: dict[str, Array] | None = None,
    **numbers: float,
) -> Case:
    """A row-major product of one program for each tile, or for each of `splits` of it."""
    a, b, c = names
    across = dict(zip(strides, (k, k if transposed else n, n), strict=True)) if strides[0] else {}
    arrays: dict[str, Array] = {
        a: (types[0], m * k, 0.3),
        b: (types[1], k * n, 0.3),
        c: (types[2], m * n, "zeros"),
        **(more or {}),
    }
    tiles = ceil(m / tile[0]), ceil(n / tile[1])
    place = grid or (tiles[0] * tiles[1] * splits,)
    return case(by(m, n, k), place, {"M": m, "N": n, "K": k, **across, **numbers}, **arrays)


def three_products(m: int, n: int, k: int) -> Case:
    arrays: dict[str, Array] = {}
    for one in ("1", "2", "3"):
        arrays |= {
            f"A{one}": ("bf16", m * k, 0.3),
            f"B{one}": ("bf16", k * n, 0.3),
            f"C{one}": ("bf16", m * n, "zeros"),
        }
    return case(by(m, n, k), (m // 128, n // 128), {"M": m, "N": n, "K": k}, **arrays)


def two_scores(blocks: int, trips: int) -> Case:
    rows = blocks * trips * 128
    return case(
        f"{blocks}x{trips}",
        (blocks,),
        {"T": trips, "scale": 0.125},
        X=("f16", rows * 64, 0.5),
        Y=("f16", rows * 64, 0.5),
        W1=("f16", 64 * 64, 0.3),
        W2=("f16", 64 * 64, 0.3),
        V=("f16", 64 * 64, 0.3),
        Out=("bf16", blocks * 128 * 64, "zeros"),
    )


def taylor_in_parallel(batch: int, heads: int, tokens: int) -> Case:
    rows = batch * heads * tokens
    return case(
        by(batch, heads, tokens),
        (4, ceil(tokens / 128), batch * heads),
        {"T": tokens, "scale": 0.25},
        q=("bf16", rows * 16, 0.3),
        k=("bf16", rows * 16, 0.3),
        v=("bf16", rows * 128, 0.3),
        o=("bf16", rows * 128, "zeros"),
        z=("f32", rows, "zeros"),
    )


CASES = {
    "v_delta_qk": [chunked((CHUNKS, SEQUENCES), "q k v o A q_new k_new A_local", "beta", scale=0.088)],
    "v_oja_gk": [chunked((2, CHUNKS * 4, SEQUENCES), "k dk", "beta dA dg db", "g", zeros="dg db", B=BATCH)],
    "v_oja_dqk": [
        chunked(
            (2, CHUNKS, SEQUENCES), "q k h gv dq dk do", "A dA", wide="h", zeros="dA", B=BATCH, scale=0.088
        )
    ],
    "v_gdn2_dqkg": [
        chunked(
            (CHUNKS, SEQUENCES),
            "q k v v_new b w_gate A h do dh dq dk dv dv2 dw",
            "dg db dA",
            "g",
            wide="h dh",
            scale=0.088,
        )
    ],
    "v_gdn2_wu": [chunked((CHUNKS, SEQUENCES), "q k qg kg v b w_gate w u A", "", "gk")],
    "v_dplr_dAu": [chunked((CHUNKS, SEQUENCES), "v do v_new A_qb dA_qk dA_qb dv_new")],
    "v_dplr_dv": [chunked((2, CHUNKS, SEQUENCES), "A_qk kg do dv dh", wide="dh")],
    "v_dplr_A_bwd": [
        chunked(
            (2, TOKENS // 16, SEQUENCES),
            "q k a b dq dk da dqg dkg dag dbg",
            "dAqk dAqb dAak dAab db dgk dgk_offset",
            "gi ge",
        )
    ],
    "v_iplr_h": [chunked((1, 2, SEQUENCES), "k v d b u v_new h", "h0 ht", wide="h")],
    "v_iplr_o": [chunked((2, CHUNKS, SEQUENCES), "q k v u b h o", wide="h", scale=0.088)],
    "v_ll_dkg": [chunked((CHUNKS, SEQUENCES), "dh k v dk", "dg_last dg", "g", wide="dh")],
    "v_kda_sub": [chunked((CHUNKS, 4, SEQUENCES), "q k Aqk Akk", "beta", "g", scale=0.088)],
    "v_abc_bwd_KV": [chunked((2, CHUNKS * 4, SEQUENCES), "v A do dv", "z")],
    "v_based_par": [taylor_in_parallel(4, 16, 2048)],
    "v_triple": [three_products(4096, 4096, 2048), three_products(384, 256, 320)],
    "v_waitorder": [two_scores(264, 64), two_scores(3, 1)],
    "u_abc_intra_V": [chunked((2, CHUNKS * 16, SEQUENCES), "q k", "z A", zeros="A", scale=0.088)],
    "u_abc_bintra_K": [chunked((2, CHUNKS * 16, SEQUENCES), "v do", "z dA", zeros="dA", scale=0.088)],
    "u_dplr_safe": [chunked((CHUNKS, SEQUENCES), "", "A_ab A_ab_inv")],
    "u_gsa_dvg": [chunked((2 * CHUNKS * 4, SEQUENCES), "v o A do dv", "dg", "g")],
    "u_gsa_inter": [chunked((2 * CHUNKS, SEQUENCES), "q k h o A", "", "g", wide="h", scale=0.088)],
    "u_tut12_stock": [product(4096, 4096, 4096, (128, 256)), product(1008, 1040, 1104, (128, 256))],
    "u_tb_partk": [
        product(
            512,
            512,
            8192,
            (64, 64),
            types=("f16", "f16", "f32"),
            names=("a_ptr", "b_ptr", "c_buf_ptr"),
            splits=16,
            strides=("stride_am", "stride_bk", "stride_cb_m"),
            more={"c_buf_ptr": ("f32", 512 * 512 * 16, "zeros")},
            PK=16,
            PK_SIZE=512,
            stride_cb_m=512 * 16,
            stride_cb_n=16,
        )
    ],
    "u_be_w8a16": [
        product(
            4096,
            4096,
            4096,
            (128, 128),
            types=("f16", "int8", "f16"),
            strides=("", "", ""),
            grid=(32, 32),
            more={"scale_ptr": ("f32", 4096, positive), "b_ptr": ("int8", 4096 * 4096, small_integers)},
        )
    ],
}
