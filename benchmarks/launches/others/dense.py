# pyright: basic, reportMissingImports=false
"""Launches of products of dense matrices: tutorials, templates of a compiler, libraries of operators."""

from collections.abc import Mapping, Sequence
from math import ceil

from benchmarks.launches.arrays import Array, Case, by, case, described, given, positive, ragged, up
from benchmarks.launches.products import RAGGED, SMS, SQUARE, batched, grouped, product, split

CUBE = (4096, 4096, 4096)
SINGLE = (4096, 4096, 2048)
"""Of 32-bit floats, in TF32."""
EXACT = (2048, 2048, 1024)
"""Of 32-bit floats without tensor cores."""
ODD = (4099, 4101, 2051)
ODD_SMALL = (259, 389, 131)


def having(one: Case, grid: Sequence[int] = (), **numbers: float) -> Case:
    """With other numbers, and another grid where it is given."""
    return {**one, "grid": tuple(grid) or one["grid"], "numbers": one["numbers"] | numbers}


def both(full: Case, small: Case) -> tuple[Case, Case]:
    return full, ragged(small)


# --- tutorials --------------------------------------------------------------------------------------------


def columns(shape: Sequence[int], tile: Sequence[int], type: str, out: str) -> Case:
    """A stored by columns; B may be either way round."""
    return having(product(shape, tile, type, out), stride_ak=shape[0])


def retyped(one: Case, before: str, after: str) -> Case:
    """With arrays of another element type."""
    return {
        **one,
        "arrays": {
            name: (after if kind == before else kind, size, begin)
            for name, (kind, size, begin) in one["arrays"].items()
        },
    }


def strided(m: int, n: int, k: int, step: int = 16) -> Case:
    """Every element `step` behind the one before."""
    one = product((m, n, k), (64, 64))
    arrays = {name: (kind, size * step, begin) for name, (kind, size, begin) in one["arrays"].items()}
    rows = {"stride_am": k * step, "stride_bk": n * step, "stride_cm": n * step}
    steps = dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), step)
    return {**one, "arrays": arrays, "numbers": one["numbers"] | rows | steps}


def aligned(m: int, n: int, k: int) -> Case:
    """Odd sizes in rows of multiples of 16, B stored by columns."""
    row, out = up(k, 16), up(n, 16)
    tiles = ceil(m / 64) * ceil(n / 128)
    return case(
        by(m, n, k),
        (min(tiles, SMS),),
        {"M": m, "N": n, "K": k, "stride_am": row, "stride_bn": row, "stride_cm": out},
        a_ptr=("f16", m * row, 0.5),
        b_ptr=("f16", n * row, 0.5),
        c_ptr=("f16", m * out, "zeros"),
    )


def of_eights(shapes: Sequence[Sequence[int]]) -> Case:
    """Products of several shapes of 8-bit floats, with 8-bit results."""
    return {**retyped(grouped(shapes, transposed=True), "f16", "f8"), "tolerance": 3e-2}


def skinny(m: int, n: int, k: int, parts: int = 4) -> Case:
    """The sum over k is divided among programs, which add to C; few rows."""
    one = retyped(split(m, n, k, parts), "f16", "bf16")
    return having(one, (ceil(m / 16) * ceil(n / 64), parts))


# --- templates of a compiler ------------------------------------------------------------------------------


def template(
    label: str, grid: Sequence[int], inputs: str, size: int, type: str, out: str, scale: float = 0.5
) -> Case:
    """Sizes are constants; `size` elements of every matrix."""
    arrays: dict[str, Array] = {f"arg_{one}": (type, size, scale) for one in inputs}
    return case(label, grid, {}, **arrays, out_ptr=(out, size, "zeros"))


def template_odd() -> Case:
    """Without masks along k: rows are read to a multiple of 64, the last one past its end."""
    inputs: dict[str, Array] = {f"arg_{one}": ("f16", 1000 * 1000 + 64, 0.5) for one in "AB"}
    return case("1000", (16 * 8,), {}, **inputs, out_ptr=("f16", 1000 * 1000, "zeros"))


# --- libraries of operators -------------------------------------------------------------------------------


def addmm(shape: Sequence[int], tile: Sequence[int], type: str) -> Case:
    """C = alpha A B + beta I."""
    m, n, _ = shape
    one = product(shape, tile, type, type, i_ptr=(type, m * n, 0.5))
    grid = ceil(m / tile[0]), ceil(n / tile[1])
    return having(one, grid, stride_ak=m, stride_im=n, alpha=0.5, beta=2.0)


def bmm(batch: int, m: int, n: int, k: int, tile: Sequence[int], type: str) -> Case:
    numbers = {"stride_ab": m * k, "stride_bb": k * n, "stride_ob": m * n}
    numbers |= {"stride_am": k, "stride_bk": n, "stride_om": n}
    return case(
        by(batch, m, n, k),
        (ceil(m / tile[0]), ceil(n / tile[1]), batch),
        {"M": m, "N": n, "K": k, **numbers},
        A=(type, batch * m * k, 0.5),
        B=(type, batch * k * n, 0.5),
        O=(type, batch * m * n, "zeros"),
    )


def kernl(batch: int, m: int, n: int, k: int) -> Case:
    numbers = {"a_batch_stride": m * k, "b_batch_stride": k * n, "c_batch_stride": m * n}
    numbers |= {"a_m_stride": k, "b_k_stride": n, "c_m_stride": n}
    return case(
        by(batch, m, n, k),
        (ceil(m / 128) * ceil(n / 64), batch),
        {"m_size": m, "n_size": n, "k_size": k, **numbers},
        a_ptr=("f16", batch * m * k, 0.5),
        b_ptr=("f16", batch * k * n, 0.5),
        c_ptr=("f16", batch * m * n, "zeros"),
    )


def gridded(batch: int, m: int, n: int, k: int) -> Case:
    """A batch of products that could round its results to 8-bit floats, with scales, and does not."""
    one = batched(batch, m, n, k)
    one["arrays"]["scale_ptr"] = ("f32", 16, "zeros")
    grid = batch, ceil(m / 64) * ceil(n / 64)
    return having(one, grid, stride_sb=m * n // 32 // 16 * 16, stride_sm=n // 32)


def normalized(batch: int, m: int, n: int, k: int, tile: Sequence[int]) -> Case:
    """X by its weights, times W, divided by the root mean square of X's rows; k in whole blocks of 64."""
    numbers = {"stride_x_batch": m * k, "stride_x_m": k, "stride_w_n": k}
    numbers |= {"stride_out_batch": m * n, "stride_out_m": n, "start_token_position": 0}
    return case(
        by(batch, m, n, k),
        (batch, ceil(m / tile[0]) * ceil(n / tile[1])),
        {"M": m, "N": n, "K": k, **numbers},
        x_ptr=("f16", batch * m * k, 0.5),
        w_ptr=("f16", n * k, 0.5),
        rms_w_ptr=("f16", k, positive),
        out_ptr=("f16", batch * m * n, "zeros"),
    )


def squared(shape: Sequence[int], tile: Sequence[int]) -> Case:
    """The square of the positive part of A B^T, or its gradient, by descriptors; results in halves of a
    tile. `aux` has squares."""
    m, n, k = shape
    one = product(shape, tile, "bf16", "bf16", "{}", persistent=True, aux=("bf16", m * n, positive))
    half = tile[0], tile[1] // 2
    return described(
        one,
        a_desc=("a", (m, k), (tile[0], 64)),
        b_desc=("b", (n, k), (tile[1], 64)),
        c_desc=("c", (m, n), half),
        aux_desc=("aux", (m, n), half),
    )


def described_groups(sizes: Sequence[int], n: int = 2048, k: int = 4096) -> Case:
    """Rows by group, each with its own B, by descriptors. Blocks at a group's end are stored by addresses, in
    an array of their own here: a kernel may rely on arrays that do not overlap."""
    m, groups = sum(sizes), len(sizes)
    one = case(
        f"{m} rows",
        (SMS,),
        {"M": m},
        a=("bf16", m * k, 0.5),
        b=("bf16", groups * k * n, 0.5),
        c=("bf16", m * n, "zeros"),
        C=("bf16", m * n, "zeros"),
        offs=("i32", groups, given([sum(sizes[: i + 1]) for i in range(groups)])),
    )
    return described(
        one,
        a_desc=("a", (m, k), (128, 64)),
        b_desc=("b", (groups * k, n), (64, 128)),
        c_desc=("c", (m, n), (128, 128)),
    )


CASES: Mapping[str, Sequence[Case]] = {
    "gems_addmm_f32": both(addmm(EXACT, (64, 64), "f32"), addmm((208, 272, 176), (64, 64), "f32")),
    "gems_bmm_odd": both(
        bmm(8, 1021, 1027, 509, (32, 64), "f32"),
        bmm(3, 77, 131, 45, (32, 64), "f32"),
    ),
    "gems_grouped_tma": both(
        described_groups((1500, 700, 1024, 333, 2048, 0, 1500, 1087)),
        described_groups((5, 130, 0, 128, 64, 1, 200, 99)),
    ),
    "ind_bmm_f32": (template("16x1024", (512, 16, 1), "AB", 16 * 1024**2, "f32", "f32"),),
    "ind_mm_ieee": (template("4096", (4096,), "AB", 4096**2, "f32", "f32"),),
    "ind_mm_int8": (template("4096", (4096,), "AB", 4096**2, "int8", "i32", 20.0),),
    "ind_mm_m16": (template("4096", (16384,), "AB", 4096**2, "bf16", "bf16"),),
    "ind_mm_oddk": (ragged(template_odd()),),
    "ind_mm_tf32": (template("4096", (8192,), "AB", 4096**2, "f32", "f32"),),
    "ind_mmpp_f16": (template("4096", (4096,), "ABCD", 4096**2, "f16", "f16"),),
    "kernl_bmm": both(kernl(8, 2048, 2048, 1024), kernl(3, 400, 208, 112)),
    "nano_relu2": both(squared(SQUARE, (128, 256)), squared(RAGGED, (128, 256))),
    "nano_relu2_bwd": both(squared(SQUARE, (128, 256)), squared(RAGGED, (128, 256))),
    "nano_relu2_sub": both(squared(CUBE, (64, 128)), squared(RAGGED, (64, 128))),
    "sg_gfx95_bmm": both(gridded(8, 2048, 2048, 1024), gridded(3, 400, 304, 208)),
    "tb_rms_rbe": both(
        normalized(4, 1024, 4096, 4096, (64, 64)),
        normalized(2, 77, 208, 192, (64, 64)),
    ),
    "tb_rms_rbe_on": both(
        normalized(4, 1024, 4096, 4096, (32, 128)),
        normalized(2, 77, 208, 192, (32, 128)),
    ),
    "tut03_at": both(columns(CUBE, (128, 128), "bf16", "bf16"), columns(RAGGED, (128, 128), "bf16", "bf16")),
    "tut03_atbt": both(columns(CUBE, (64, 128), "bf16", "bf16"), columns(RAGGED, (64, 128), "bf16", "bf16")),
    "tut03_e5": both(product(SQUARE, (128, 128), "float8_e5m2"), product(RAGGED, (128, 128), "float8_e5m2")),
    "tut03_odd": both(product(ODD, (64, 128)), product(ODD_SMALL, (64, 128))),
    "tut03_strided": both(strided(1024, 2048, 1024), strided(112, 208, 80)),
    "tut03_tf32_at": both(columns(SINGLE, (128, 64), "f32", "f16"), columns(RAGGED, (128, 64), "f32", "f16")),
    "tut03_tf32_nn": both(product(SINGLE, (64, 128), "f32", "f16"), product(RAGGED, (64, 128), "f32", "f16")),
    "tut08_64": both(
        grouped(((2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 512), (4096, 1024, 2048))),
        grouped(((192, 320, 96), (64, 64, 32), (448, 128, 256))),
    ),
    "tut09_desc_f32": both(
        product(SINGLE, (128, 128), "f32", "f32", persistent=True),
        product(RAGGED, (128, 128), "f32", "f32", persistent=True),
    ),
    "tut09_desc_w4": both(
        product(CUBE, (64, 64), "bf16", "bf16", persistent=True),
        product(RAGGED, (64, 64), "bf16", "bf16", persistent=True),
    ),
    "tut12_m16": both(skinny(64, 8192, 8192), skinny(48, 208, 1088)),
    "x_gems_addmm_at": both(addmm(CUBE, (128, 64), "bf16"), addmm(RAGGED, (128, 64), "bf16")),
    "x_gems_bmm_div": both(
        bmm(8, 2048, 2048, 1024, (128, 128), "f16"),
        bmm(3, 384, 256, 96, (128, 128), "f16"),
    ),
    "x_tut08_w8": both(
        of_eights(((4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (512, 512, 512))),
        of_eights(((208, 336, 144), (64, 64, 32), (400, 304, 208))),
    ),
    "x_tut09_persist_odd": both(aligned(*ODD), aligned(*ODD_SMALL)),
}
"""Launches by the kernel's name."""
