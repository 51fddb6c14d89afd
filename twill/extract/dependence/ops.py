"""What each TTGIR operation is to a scheduler: one row per operation.

Takes nothing; gives `row(op)`. Guarantees that an operation without a row is refused with its place, never guessed, except those of
the `arith` and `math` dialects, which are elementwise by definition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from twill.diagnostics import TwillError
from twill.ir.graph import Kind
from twill.ir.loop import Op

Access = Literal["none", "load", "load_copy", "store", "reduce", "alloc", "store_buffer", "load_buffer", "mma"]
"""What it does to memory. load: from global memory. load_copy: the same, into a buffer it names. store, reduce: to global memory
(reductions commute). alloc, store_buffer, load_buffer: of shared or tensor memory. mma: reads A and B, writes D."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation: its kind, the short word that names its nodes, and what it does to memory."""

    kind: Kind
    word: str
    access: Access = "none"


def _rows(kind: Kind, access: Access, **words: str) -> dict[str, Row]:
    """Rows of one kind, `word="tt.name tt.other"`."""
    return {op: Row(kind, word, access) for word, ops in words.items() for op in ops.split()}


OPS: Mapping[str, Row] = {
    **_rows("load", "load", load="tt.load tt.descriptor_load", gather="tt.descriptor_gather"),
    **_rows("store", "store", store="tt.store tt.descriptor_store", scatter="tt.descriptor_scatter"),
    **_rows("store", "reduce", reduce="tt.descriptor_reduce"),
    **_rows("atomic", "reduce", atomic="tt.atomic_rmw tt.atomic_cas"),
    **_rows("mma", "mma", dot="tt.dot tt.dot_scaled ttng.warp_group_dot ttng.tc_gen5_mma ttng.tc_gen5_mma_scaled"),
    **_rows("shared_store", "alloc", stage="ttg.local_alloc"),
    **_rows("shared_store", "store_buffer", stage="ttg.local_store"),
    **_rows("shared_load", "load_buffer", fetch="ttg.local_load"),
    **_rows("tensor_store", "alloc", put="ttng.tmem_alloc"),
    **_rows("tensor_store", "store_buffer", put="ttng.tmem_store"),
    **_rows("tensor_store", "store_buffer", put="ttng.tmem_copy"),
    **_rows("tensor_load", "load_buffer", get="ttng.tmem_load"),
    **_rows("convert", "none", convert="ttg.convert_layout", gather="tt.gather"),
    **_rows("reduce", "none", reduce="tt.reduce"),
    **_rows("scan", "none", scan="tt.scan"),
    **_rows("branch", "none", branch="scf.if"),
    **_rows(
        "elementwise",
        "none",
        cast="tt.fp_to_fp ttg.fp4_to_fp tt.int_to_ptr tt.ptr_to_int",
        clamp="tt.clampf",
        asm="tt.elementwise_inline_asm",
        call="tt.extern_elementwise",
        addptr="tt.addptr",
        mulhi="tt.mulhiui",
        range="tt.make_range",
    ),
    **_rows(
        "view",
        "none",
        view="""tt.splat tt.unsplat tt.broadcast tt.expand_dims tt.reshape tt.trans tt.bitcast arith.bitcast tt.join tt.split tt.cat
        ttg.memdesc_trans ttg.memdesc_reshape ttg.memdesc_reinterpret ttg.memdesc_index ttg.memdesc_subslice ttng.tmem_subslice""",
        constant="arith.constant ub.poison",
    ),
    **_rows("scalar", "none", id="tt.get_program_id tt.get_num_programs", descriptor="tt.make_tensor_descriptor"),
    **_rows("scalar", "none", hint="tt.assert tt.print llvm.intr.assume"),
}

_WORDS = {
    "maxnumf": "max",
    "maximumf": "max",
    "minnumf": "min",
    "minimumf": "min",
    "addf": "add",
    "subf": "sub",
    "mulf": "mul",
    "divf": "div",
    "negf": "neg",
    "truncf": "trunc",
    "extf": "ext",
    "cmpf": "cmp",
    "cmpi": "cmp",
}


def row(op: Op) -> Row:
    """The row of an operation. Raises TwillError with its place where there is none."""
    known = OPS.get(op.name)
    if known:
        return known
    dialect, _, name = op.name.partition(".")
    if dialect in ("arith", "math"):
        return Row("elementwise", _WORDS.get(name, name))
    raise TwillError(
        f"operation {op.name} cannot be scheduled",
        op.location,
        span=len(op.name),
        help="Twill reads loops as they are before pipelining and warp specialization; other operations need a row in twill/ops",
    )
