"""How the text of single operations departs from the common form.

The common form is `results = name operands {attributes} : types -> types`. Only the operations in these tables need more
than that: names for bare words, an order of operands other than the declared one, result types that the text leaves
out. An operation in no table is read by the common form alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from twill.ir import loop as ir

WORDS: Mapping[str, tuple[str, ...]] = {
    "arith.cmpi": ("predicate",),
    "arith.cmpf": ("predicate",),
    "tt.get_program_id": ("axis",),
    "tt.get_num_programs": ("axis",),
    "tt.atomic_rmw": ("atomic_rmw_op", "sem", "scope"),
    "tt.atomic_cas": ("sem", "scope"),
    "tt.descriptor_reduce": ("kind",),
    "ttng.async_tma_reduce": ("kind",),
    "gpu.thread_id": ("dimension",),
    "gpu.block_id": ("dimension",),
}
"""Attribute names of the bare words of an operation, in order; further ones go under `words`."""

STRINGS: Mapping[str, str] = {"tt.elementwise_inline_asm": "asm_string", "tt.assert": "message", "tt.print": "prefix"}
"""Attribute name of the quoted string of an operation."""

INTEGERS: Mapping[str, str] = {"ttg.memdesc_subslice": "offsets"}
"""Attribute name of the integers in brackets behind the operands; `integers` elsewhere."""

EARLY = frozenset({"arith.constant", "scf.yield", "tt.return"})
"""Operations whose attribute dictionary follows the name directly."""

Listed = tuple[ir.Type, ...]

# --- operands ---------------------------------------------------------------------------------------------------------

Operands = tuple[ir.Value, ...]


def value_second(operands: Operands) -> Operands:
    """`descriptor[indices], value` is declared as descriptor, value, indices."""
    return (operands[0], operands[-1], *operands[1:-1])


def value_behind_buffer(operands: Operands) -> Operands:
    """`value, buffer[token], predicate` is declared as buffer, token, value, predicate."""
    return (*operands[1:-1], operands[0], operands[-1])


def barrier_first(operands: Operands) -> Operands:
    """`descriptor[indices] buffer, barrier, predicate` is declared with the barrier before the buffer."""
    return (*operands[:-3], operands[-2], operands[-3], operands[-1])


ORDER: Mapping[str, Callable[[Operands], Operands]] = {
    "tt.descriptor_store": value_second,
    "tt.descriptor_reduce": value_second,
    "ttng.async_tma_copy_global_to_local": barrier_first,
    "ttng.async_tma_gather": barrier_first,
    "ttng.tmem_store": value_behind_buffer,
}
"""Operands as they are written to operands as they are declared."""

LEAST_OPERANDS: Mapping[str, int] = {
    **dict.fromkeys(["tt.dot", "ttng.warp_group_dot", "tt.dot_scaled", "arith.select", "math.fma"], 3),
    **dict.fromkeys(["ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"], 5),
    **dict.fromkeys(["tt.descriptor_store", "tt.descriptor_reduce", "ttng.tmem_store"], 3),
    **dict.fromkeys(["ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather"], 4),
    **dict.fromkeys(["tt.descriptor_load", "tt.descriptor_gather", "ttg.local_store", "tt.store", "tt.addptr"], 2),
    **dict.fromkeys(["arith.cmpi", "arith.cmpf", "arith.divf", "arith.divsi", "arith.divui", "arith.remsi", "arith.remui"], 2),
    **{f"arith.{op}{kind}": 2 for op in ("add", "sub", "mul") for kind in "fi"},
    **{f"arith.{op}{kind}": 2 for op in ("max", "min") for kind in ("numf", "imumf", "si", "ui")},
    **dict.fromkeys(["arith.truncf", "arith.extf", "arith.extsi", "arith.trunci", "arith.negf", "math.exp2", "math.log2"], 1),
    **dict.fromkeys(["tt.load", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.reduce"], 1),
    **dict.fromkeys(["ttg.convert_layout", "ttg.local_load", "ttg.memdesc_trans", "ttng.tmem_load"], 1),
}
"""Operands without which an operation means nothing; later stages rely on them."""


def given_types(name: str, operands: Operands, inputs: Listed) -> Iterable[tuple[ir.Value, ir.Type]]:
    """The types that the text gives for operands, where it gives one for each, or a single one for all.

    The condition of `arith.select` has a type of its own, which is given only for tensors.
    """
    if len(inputs) == 1 and name.startswith(("arith.", "math.")):
        values = operands[1:] if name == "arith.select" else operands
        return zip(values, inputs * len(values), strict=True)
    return zip(operands, inputs, strict=True) if len(inputs) == len(operands) and name not in ORDER else ()


# --- result types -----------------------------------------------------------------------------------------------------


def truth(type: ir.Type) -> ir.Type:
    """The type of a comparison of two values of `type`."""
    bit = ir.Scalar("i1")
    return replace(type, dtype=bit) if isinstance(type, ir.Tensor) else bit


def pointee(type: ir.Type) -> ir.Type:
    """What is loaded from a pointer, or from a tensor of pointers."""
    match type:
        case ir.Pointer():
            return type.pointee
        case ir.Tensor(dtype=ir.Pointer(pointee=dtype)):
            return replace(type, dtype=dtype)
        case _:
            return type


IMPLIED: Mapping[str, Callable[[Listed], Listed]] = {
    "arith.cmpi": lambda listed: (truth(listed[-1]),),
    "arith.cmpf": lambda listed: (truth(listed[-1]),),
    "tt.addptr": lambda listed: listed[:1],
    "tt.load": lambda listed: (pointee(listed[0]),),
    "tt.split": lambda listed: (listed[-1], listed[-1]),
}
"""Result types from the listed ones, where they are not simply the last of these."""

TOKENS = frozenset(
    {
        "ttg.async_commit_group",
        "ttg.async_copy_global_to_local",
        "ttg.async_wait",
        "ttng.tc_gen5_mma",
        "ttng.tc_gen5_mma_scaled",
        "ttng.tmem_store",
    }
)
"""Operations whose only result is a token, whose type the text leaves out."""


def result_types(name: str, count: int, inputs: Listed, outputs: Listed | None) -> Listed:
    """Types of `count` results of operation `name`, from the types before and after its arrow.

    Fewer than `count` come back where the text lists too few; results beyond the listed ones are tokens.
    """
    listed = inputs if outputs is None else outputs
    if name in TOKENS:
        return (ir.Token(),)
    if listed and name in IMPLIED:
        return IMPLIED[name](listed)
    types = listed[:count] if outputs is not None else listed[-count:]
    return (*types, *[ir.Token()] * (count - len(types))) if types else ()
