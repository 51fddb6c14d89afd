"""TTGIR operations on scalars and on single elements of tiles, as C expressions."""

from twill.codegen.emit.tiles import c_type
from twill.ir.loop import Op, Tensor

FORMS = {
    **dict.fromkeys(["arith.addi", "arith.addf", "tt.addptr"], "({0} + {1})"),
    **dict.fromkeys(["arith.subi", "arith.subf"], "({0} - {1})"),
    **dict.fromkeys(["arith.muli", "arith.mulf"], "({0} * {1})"),
    **dict.fromkeys(["arith.divsi", "arith.divui"], "({0} / {1})"),
    **dict.fromkeys(["arith.remsi", "arith.remui"], "({0} % {1})"),
    **dict.fromkeys(["arith.maxnumf", "arith.maximumf"], "fmaxf({0}, {1})"),
    **dict.fromkeys(["arith.minnumf", "arith.minimumf"], "fminf({0}, {1})"),
    "arith.divf": "__fdividef({0}, {1})",
    "arith.negf": "(-{0})",
    "arith.maxsi": "max({0}, {1})",
    "arith.minsi": "min({0}, {1})",
    "arith.andi": "({0} & {1})",
    "arith.ori": "({0} | {1})",
    "arith.xori": "({0} ^ {1})",
    "arith.shli": "({0} << {1})",
    "arith.shrsi": "({0} >> {1})",
    "arith.select": "({0} ? {1} : {2})",
    "math.exp2": "exp2_approx({0})",
    "math.exp": "exp2_approx({0} * 1.44269504f)",
    "math.log2": "log2_approx({0})",
    "math.log": "(log2_approx({0}) * 0.693147181f)",
    "math.sqrt": "sqrtf({0})",
    "math.absf": "fabsf({0})",
    "math.fma": "fmaf({0}, {1}, {2})",
}
CASTS = frozenset(
    {"arith.extsi", "arith.trunci", "arith.sitofp", "arith.fptosi", "arith.index_cast", "arith.extf", "arith.truncf", "tt.fp_to_fp"}
)
IDS = {"tt.get_program_id": "int32_t(blockIdx.{})", "tt.get_num_programs": "int32_t(gridDim.{})"}
_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "slt": "<",
    "sle": "<=",
    "sgt": ">",
    "sge": ">=",
    "oeq": "==",
    "une": "!=",
    "olt": "<",
    "ole": "<=",
    "ogt": ">",
    "oge": ">=",
}
_IDENTITY = {"arith.addf": "0.0f", "arith.maxnumf": "-INFINITY", "arith.minnumf": "INFINITY", "arith.maximumf": "-INFINITY"}
REDUCTIONS = {"arith.addf": "quad_sum", "arith.maxnumf": "quad_max", "arith.maximumf": "quad_max", "arith.minnumf": "quad_min"}
"""Across the four threads that share a row, by the combining operation."""


def expression(op: Op, operands: list[str]) -> str | None:
    """The value of one element; None where the operation is not elementwise."""
    if op.name in FORMS:
        return FORMS[op.name].format(*operands)
    if op.name in ("arith.cmpi", "arith.cmpf") and op.attributes["predicate"] in _COMPARE:
        return f"({operands[0]} {_COMPARE[str(op.attributes['predicate'])]} {operands[1]})"
    if op.name in CASTS:
        return operands[0] if isinstance(op.result.type, Tensor) else f"({c_type(op.result.type)})({operands[0]})"
    if op.name in IDS:
        return IDS[op.name].format(op.attributes["axis"])
    return None


def constant(value: object) -> str:
    """A literal."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}.get(str(value), f"{value!r}f")
        case _:
            raise ValueError(f"{value!r} is no number")


def neutral(combine: str) -> str | None:
    """What a reduction starts from; None for one that is not supported."""
    return _IDENTITY.get(combine)
