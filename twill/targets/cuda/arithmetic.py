"""TTGIR operations on scalars and on single elements of tiles, as C expressions."""

from twill.ir.loop import Op, Scalar, Tensor, Type
from twill.targets.cuda.register_tiles import BITS, c_type

FORMS = {
    **dict.fromkeys(["arith.addi", "arith.addf", "tt.addptr"], "({0} + {1})"),
    **dict.fromkeys(["arith.subi", "arith.subf"], "({0} - {1})"),
    **dict.fromkeys(["arith.muli", "arith.mulf"], "({0} * {1})"),
    "arith.divsi": "({0} / {1})",
    "arith.remsi": "({0} % {1})",
    **dict.fromkeys(["arith.maxnumf", "arith.maximumf"], "fmaxf({0}, {1})"),
    **dict.fromkeys(["arith.minnumf", "arith.minimumf"], "fminf({0}, {1})"),
    **dict.fromkeys(["arith.divf", "tt.precise_divf"], "__fdividef({0}, {1})"),
    "arith.remf": "fmodf({0}, {1})",
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
    **dict.fromkeys(["math.sqrt", "tt.precise_sqrt"], "sqrtf({0})"),
    "math.rsqrt": "rsqrtf({0})",
    "math.absf": "fabsf({0})",
    "math.absi": "abs({0})",
    "math.fma": "fmaf({0}, {1}, {2})",
    "math.floor": "floorf({0})",
    "math.ceil": "ceilf({0})",
    "math.sin": "__sinf({0})",
    "math.cos": "__cosf({0})",
    "math.tanh": "tanhf({0})",
    "math.erf": "erff({0})",
    "tt.clampf": "fminf(fmaxf({0}, {1}), {2})",
}
_UNSIGNED = {
    "arith.divui": "({0} / {1})",
    "arith.remui": "({0} % {1})",
    "arith.maxui": "max({0}, {1})",
    "arith.minui": "min({0}, {1})",
    "arith.shrui": "({0} >> {1})",
}
"""Of operands taken as unsigned."""
CASTS = frozenset(
    {
        *("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui"),
        *("arith.extf", "arith.truncf", "tt.fp_to_fp"),
    }
)
IDS = {"tt.get_program_id": "int32_t(blockIdx.{})", "tt.get_num_programs": "int32_t(gridDim.{})"}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARE = {
    **{("arith.cmpi", name): f"({{0}} {sign} {{1}})" for name, sign in _SIGNS.items()},
    **{("arith.cmpi", f"s{name}"): f"({{0}} {sign} {{1}})" for name, sign in _SIGNS.items()},
    **{("arith.cmpf", f"o{name}"): f"({{0}} {sign} {{1}})" for name, sign in _SIGNS.items() if name != "ne"},
    ("arith.cmpf", "une"): "({0} != {1})",
    **{
        ("arith.cmpf", f"u{name}"): f"!({{0}} {_SIGNS[other]} {{1}})"
        for name, other in (("lt", "ge"), ("le", "gt"), ("gt", "le"), ("ge", "lt"))
    },
}
"""By operation and predicate; a float's `u...` holds where one is no number too."""
_IDENTITY = {
    **dict.fromkeys(["arith.addf"], "0.0f"),
    **dict.fromkeys(["arith.mulf"], "1.0f"),
    **dict.fromkeys(["arith.maxnumf", "arith.maximumf"], "-INFINITY"),
    **dict.fromkeys(["arith.minnumf", "arith.minimumf"], "INFINITY"),
    **dict.fromkeys(["arith.addi", "arith.ori", "arith.xori"], "0"),
    "arith.muli": "1",
    "arith.andi": "-1",
}
ATOMICS = {"fadd": "atomicAdd", "add": "atomicAdd", "max": "atomicMax", "min": "atomicMin", "and": "atomicAnd", "or": "atomicOr"}
"""CUDA's names, by the kind of `tt.atomic_rmw`."""


def expression(op: Op, operands: list[str]) -> str | None:
    """The value of one element; None where the operation is not elementwise."""
    if op.name in FORMS:
        return FORMS[op.name].format(*operands)
    if op.name in _UNSIGNED:
        return _UNSIGNED[op.name].format(*(_unsigned(op, text) for text in operands))
    predicate = str(op.attributes.get("predicate"))
    if (op.name, predicate) in _COMPARE:
        return _COMPARE[op.name, predicate].format(*operands)
    if op.name == "arith.cmpi" and predicate[1:] in _SIGNS:
        return f"({_unsigned(op, operands[0])} {_SIGNS[predicate[1:]]} {_unsigned(op, operands[1])})"
    if op.name in CASTS:
        return _cast(op, operands[0])
    if op.name in IDS:
        return IDS[op.name].format(op.attributes["axis"])
    return None


def _element(type: Type) -> Type:
    return type.dtype if isinstance(type, Tensor) else type


def _unsigned(op: Op, text: str) -> str:
    return f"u{c_type(_element(op.operands[0].type))}({text})"


def _cast(op: Op, text: str) -> str:
    """Tiles compute with numbers of 32 bits; they are rounded to a shorter type where they are kept."""
    source, result = _element(op.operands[0].type), _element(op.result.type)
    if op.name == "arith.extsi" and source == Scalar("i1"):
        return f"(-{c_type(result)}({text}))"
    if isinstance(op.result.type, Tensor) and isinstance(result, Scalar) and result.name in BITS:
        return text if isinstance(source, Scalar) and source.name in BITS else f"float({text})"
    return f"({c_type(result)})({text})"


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
