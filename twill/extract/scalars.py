"""What the scalar arguments of a function are for: bounds of loops, extents of arrays, or neither (strides,
factors).

Takes a `Function`; gives ids of arguments. An argument counts where its value reaches an operand through
arithmetic, not through memory.
"""

from collections.abc import Iterable, Mapping, Sequence

from twill.ir.loop import Function, Op, Tensor, Value
from twill.ir.slicing import reached
from twill.ops.row import Role
from twill.ops.table import role

_COMPARED: frozenset[Role] = frozenset({"compare", "extreme", "divide", "divide_up", "remainder"})
_DIVISIONS: frozenset[Role] = frozenset({"divide", "divide_up", "remainder"})
_DIVISOR = "tt.divisibility"
"""The attribute of arguments and values that are multiples of something."""
_PROMISES: frozenset[Role] = frozenset({"assume", "assert"})
"""What they compare bounds nothing."""
_MEMORY: frozenset[Role] = frozenset({"pointer_load", "tma_load", "atomic", "atomic_exchange"})


def bounding(function: Function) -> frozenset[int]:
    """The arguments from which bounds and steps of loops follow."""
    loops = [op for op in function.walk() if role(op) == "for"]
    return reaching(function, (operand for op in loops for operand in op.operands[:3]))


def stepping(function: Function) -> frozenset[int]:
    """The arguments from which steps of loops follow."""
    loops = [op for op in function.walk() if role(op) == "for"]
    return reaching(function, (op.operands[2] for op in loops))


def extents(function: Function) -> frozenset[int]:
    """The arguments that bound something: a loop, a mask, a descriptor's shape, or a division of indices."""
    promised = {operand.id for op in function.walk() if role(op) in _PROMISES for operand in op.operands}
    used = (op for op in function.walk() if not any(result.id in promised for result in op.results))
    return bounding(function) | reaching(function, (operand for op in used for operand in _limits(op)))


def masking(function: Function) -> frozenset[int]:
    """The arguments that numbers of tiles are compared with, and that the kernel promises nothing of: neither
    where they are declared nor of a value that follows from them. What others are divided by, or a descriptor
    is made from, is none."""
    compared, others = list[Value](), list[Value]()
    for op in function.walk():
        if role(op) == "compare" and isinstance(op.operands[0].type, Tensor):
            compared += op.operands
        elif role(op) in _DIVISIONS:
            others.append(op.operands[1])
        elif _DIVISOR in op.attributes or role(op) in (*_PROMISES, "descriptor"):
            others += (*op.operands, *op.results)
    pairs = zip(function.args, function.arg_attributes, strict=True)
    declared = {arg.id for arg, attributes in pairs if _DIVISOR in attributes}
    return reaching(function, compared) - reaching(function, others) - declared


def _limits(op: Op) -> tuple[Value, ...]:
    if role(op) == "descriptor":
        return op.operands[1 : 1 + len(getattr(op.result.type, "shape", ()))]
    return op.operands if role(op) in _COMPARED else ()


def reaching(function: Function, values: Iterable[Value]) -> frozenset[int]:
    """The arguments from which some values follow."""
    seen = _seen(function, values)
    return frozenset(arg.id for arg in function.args if arg.id in seen)


def axes(function: Function, values: Iterable[Value]) -> frozenset[str]:
    """The axes of the grid, "x" and so on, from whose numbers of programs some values follow."""
    seen = _seen(function, values)
    counted = (op for op in function.walk() if role(op) == "num_programs" and op.result.id in seen)
    return frozenset(str(op.attributes["axis"]) for op in counted)


def _seen(function: Function, values: Iterable[Value]) -> frozenset[int]:
    """The values from which some values follow, without memory, by their ids."""
    makers: Mapping[int, Op] = {op.index: op for op in function.walk()}

    def sources(value: Value) -> Sequence[Value]:
        maker = makers.get(value.producer) if value.producer is not None else None
        if maker is None or maker.regions or role(maker) in _MEMORY:
            return ()
        return maker.operands

    return reached(values, sources)
