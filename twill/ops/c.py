"""The C types of TTGIR's elements, and how the C expressions of rows are written.

A row's C is a format text per family of element types: `{0}`, `{1}`, ... are the operands, `{t}` is the C
type of the first operand, `{u}` its unsigned form, `{r}` the C type of the result, `{all}` all operands as a
call takes them.
"""

from collections.abc import Mapping, Sequence

from twill.ir.loop import Op, Pointer, Tensor, Type
from twill.ops.row import Expression
from twill.ops.values import element

C_TYPES: Mapping[str, str] = {
    "i1": "bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "f32": "float",
    "f64": "double",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f8E4M3FN": "__nv_fp8_e4m3",
    "f8E5M2": "__nv_fp8_e5m2",
    "index": "int64_t",
    **{f"si{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}_t" for bits in (8, 16, 32, 64)},
}
"""As elements are stored; descriptors of integers say whether they have a sign."""

NARROW = frozenset({"f16", "bf16", "f8E4M3FN", "f8E5M2"})
"""Floats that are computed with as `float`, and rounded where they are kept."""

WIDTHS: Mapping[str, int] = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}


def c_type(type: Type) -> str:
    """As it is stored: a scalar, a pointer, or the elements of a tile. Raises KeyError for what has none."""
    return C_TYPES[element(type)] if element(type) != "ptr" else f"{c_type(_pointee(type))}*"


def _pointee(type: Type) -> Type:
    inner = type.dtype if isinstance(type, Tensor) else type
    assert isinstance(inner, Pointer)
    return inner.pointee


def computed(type: Type) -> str:
    """As expressions have it. Raises KeyError for what has none."""
    return "float" if element(type) in NARROW else c_type(type)


def stored(name: str, text: str) -> str:
    """An expression of an element of type `name` with the bits and the size of that type: narrow floats are
    `float` in expressions, and a literal is an `int` whatever its type."""
    return f"{C_TYPES[name]}({text})" if name in NARROW or text.lstrip("-").isdigit() else text


def families(name: str) -> tuple[str, ...]:
    """What a row may call an element type, the most special first."""
    if name in WIDTHS:
        wide = {"i1": (), "i8": ("short", "int"), "i16": ("short", "int")}.get(name, ("int",))
        return (name, *wide, "any")
    return (name, "f32", "any") if name in NARROW else (name, "any")


def form(texts: Mapping[str, str] | str) -> Expression:
    """An expression by the element type of the first operand: its name, `f32` for narrow floats too, `short`
    for i8 and i16, `int` for integers but i1, `any`. None where no text is given for a type."""
    known = {"any": texts} if isinstance(texts, str) else texts

    def expression(op: Op, operands: Sequence[str]) -> str | None:
        return written(
            next((known[name] for name in families(element(op.operands[0].type)) if name in known), None),
            op,
            operands,
        )

    return expression


def written(text: str | None, op: Op, operands: Sequence[str]) -> str | None:
    """A format text with everything in its place; None for none, and for types that C has no name for."""
    if text is None:
        return None
    try:
        t, r = computed(op.operands[0].type), computed(op.results[0].type)
    except KeyError:
        return None
    return text.format(*operands, t=t, u=f"u{t}", r=r, all=", ".join(operands))


def floats(name: str, double: str | None = None) -> Expression:
    """A call of `{name}f` for floats of up to 32 bits, and of the same without the f for doubles."""
    return form({"f32": _call(f"{name}f"), "f64": _call(double or name)})


def _call(name: str) -> str:
    return name + "({all})"
