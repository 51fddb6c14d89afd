"""Types as TTGIR writes them.

Takes a `Module`, whose aliases name its layouts, and a type; gives the text. None for what has no text here:
a layout without an alias, types of memory.
"""

from twill.ir.loop import DotOperand, Encoding, Module, Pointer, Scalar, Slice, Tensor, Type


def type_text(module: Module, type: Type) -> str | None:
    """A scalar, a pointer, or a tile of these in registers."""
    match type:
        case Scalar(name):
            return name
        case Pointer(pointee):
            inner = type_text(module, pointee)
            return None if inner is None else f"!tt.ptr<{inner}>"
        case Tensor(shape, dtype, encoding):
            element, layout = type_text(module, dtype), layout_text(module, encoding)
            if element is None or layout is None:
                return None
            return f"tensor<{''.join(f'{size}x' for size in shape)}{element}, {layout}>"
        case _:
            return None


def zero_text(module: Module, type: Type) -> str | None:
    """A constant of this type whose elements are zero, with its type; None where there is none."""
    dtype, kind = type.dtype if isinstance(type, Tensor) else type, type_text(module, type)
    if kind is None or not isinstance(dtype, Scalar):
        return None
    value = "false" if dtype.name == "i1" else "0" if dtype.name[0] == "i" else "0.000000e+00"
    return f"{f'dense<{value}>' if isinstance(type, Tensor) else value} : {kind}"


def layout_text(module: Module, encoding: Encoding | None) -> str | None:
    """A layout with an alias, a slice of one, or an operand of its MMAs."""
    alias = next((name for name, named in module.encodings.items() if named == encoding), None)
    if alias is not None:
        return alias
    match encoding:
        case Slice(dim, parent):
            inner = layout_text(module, parent)
            return inner and f"#ttg.slice<{{dim = {dim}, parent = {inner}}}>"
        case DotOperand(index, parent, k_width):
            inner, width = layout_text(module, parent), f", kWidth = {k_width}" if k_width else ""
            return inner and f"#ttg.dot_op<{{opIdx = {index}, parent = {inner}{width}}}>"
        case _:
            return None
