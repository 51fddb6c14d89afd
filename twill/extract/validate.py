"""Whether the operations of a module are of the form that TTGIR gives them: operands, shapes, element types, attributes, layouts.

Takes a `Module` and one of its functions; raises TwillError at the first operation that is not. Operations without a rule here pass: who
uses them judges them. (The rules are those of Triton's and MLIR's own verifiers, TritonOps.td, TritonGPUAttrDefs.td, ArithOps.td.)
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

from twill.diagnostics import TwillError
from twill.ir.loop import (
    Blocked,
    DotOperand,
    Encoding,
    Function,
    Linear,
    MemDesc,
    Module,
    NvidiaMma,
    Op,
    Pointer,
    Scalar,
    Slice,
    Tensor,
    TensorDesc,
    Type,
    Value,
)

Complaint = str | None
"""What is wrong with an operation."""


def validate(module: Module, function: Function) -> None:
    """Raises TwillError, at the operation."""
    lines = module.text.splitlines()
    for op in function.walk():
        complaint = _operands(op) or _layouts(op, module) or RULES.get(op.name, _known)(op)
        if complaint:
            raise TwillError(f"{op.name} {complaint}", op.location, text=lines[op.location.line - 1], help="the module is not valid TTGIR")


# --- types ------------------------------------------------------------------------------------------------------------


def shape(value: Value) -> tuple[int, ...]:
    """Of a tile, a buffer or a block of a descriptor; () for a scalar."""
    return value.type.shape if isinstance(value.type, Tensor | MemDesc | TensorDesc) else ()


def element(value: Value) -> Type:
    """The element type of a tile; a scalar's own type. Descriptors tell unsigned integers apart (`ui8`), values do not."""
    return _signless(value.type.dtype if isinstance(value.type, Tensor | MemDesc | TensorDesc) else value.type)


def _signless(kind: Type) -> Type:
    return Scalar(kind.name.removeprefix("u")) if isinstance(kind, Scalar) else kind


def _float(value: Value) -> bool:
    kind = element(value)
    return isinstance(kind, Scalar) and kind.name.startswith(("f", "bf", "tf"))


def _integer(value: Value) -> bool:
    kind = element(value)
    return isinstance(kind, Scalar) and kind.name.startswith("i")


def _bits(value: Value) -> bool:
    return element(value) == Scalar("i1")


def _scalar(value: Value) -> bool:
    return isinstance(value.type, Scalar) and _integer(value)


# --- layouts ----------------------------------------------------------------------------------------------------------


def _layouts(op: Op, module: Module) -> Complaint:
    """Of results: as many dimensions as the tile has, every one a power of two, and all threads of the module."""
    for value in op.results:
        if not isinstance(value.type, Tensor):
            continue
        if any(size < 1 or size & (size - 1) for size in value.type.shape):
            return f"has a result of shape {value.type.shape}, and sizes are powers of two"
        if complaint := _layout(value.type.encoding, len(value.type.shape), module):
            return complaint
    return None


def _layout(encoding: Encoding | None, rank: int, module: Module) -> Complaint:
    match encoding:
        case Blocked():
            return _blocked(encoding, rank, module)
        case Slice(dim, parent):
            return f"has a layout sliced along {dim} of {rank + 1} dimensions" if dim > rank else _layout(parent, rank + 1, module)
        case NvidiaMma():
            return _mma(encoding, rank, module)
        case DotOperand(index, parent):
            return f"has a layout of operand {index}" if index not in (0, 1) else _layout(parent, rank, module)
        case Linear(register, lane, warp, block):
            wide = any(len(basis) != rank for bases in (register, lane, warp, block) for basis in bases)
            return f"has a linear layout of other than {rank} dimensions" if wide else None
        case _:
            return None


def _blocked(layout: Blocked, rank: int, module: Module) -> Complaint:
    parts = layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta
    if any(len(part) != rank for part in parts):
        return f"has a blocked layout of other than {rank} dimensions"
    if any(size < 1 or size & (size - 1) for part in parts for size in part):
        return "has a blocked layout with a size that is no power of two"
    if sorted(layout.order) != list(range(rank)):
        return f"has a blocked layout of order {list(layout.order)}"
    if prod(layout.threads_per_warp) != module.threads_per_warp:
        return f"has a layout of {prod(layout.threads_per_warp)} threads for each warp, and a warp has {module.threads_per_warp}"
    return _warps(layout.warps_per_cta, module)


def _mma(layout: NvidiaMma, rank: int, module: Module) -> Complaint:
    if rank not in (2, 3) or len(layout.warps_per_cta) != rank or len(layout.instr_shape) not in (2, 3):
        return f"has an MMA layout of other than {rank} dimensions"
    if any(size < 1 or size & (size - 1) for size in layout.warps_per_cta) or any(size < 1 for size in layout.instr_shape):
        return "has an MMA layout with a size that can not be"
    return _warps(layout.warps_per_cta, module)


def _warps(warps: Sequence[int], module: Module) -> Complaint:
    return None if prod(warps) == module.num_warps else f"has a layout of {prod(warps)} warps, and the module has {module.num_warps}"


# --- rules ------------------------------------------------------------------------------------------------------------

Rule = Callable[[Op], Complaint]


def _known(op: Op) -> Complaint:
    return None


def _operands(op: Op) -> Complaint:
    """The number of operands and results."""
    least, most, results = COUNTS.get(op.name, (0, 1 << 30, None))
    if not least <= len(op.operands) <= most:
        return f"has {len(op.operands)} operands"
    return f"has {len(op.results)} results" if results is not None and len(op.results) != results else None


def _alike(op: Op) -> Complaint:
    """Elementwise, all of one type."""
    types = {(shape(value), element(value)) for value in (*op.operands, *op.results)}
    return "has operands and results of different types" if len(types) > 1 else None


def _of(holds: Callable[[Value], bool], what: str) -> Rule:
    """Elementwise, on elements of a kind."""
    return lambda op: _alike(op) or (None if all(holds(value) for value in op.operands) else f"is not for anything but {what}")


def _compare(holds: Callable[[Value], bool], what: str) -> Rule:
    def rule(op: Op) -> Complaint:
        one, other = op.operands
        if (shape(one), element(one)) != (shape(other), element(other)) or shape(op.result) != shape(one) or not _bits(op.result):
            return "compares values of different types"
        if not isinstance(op.attributes.get("predicate"), str):
            return "has no predicate"
        return None if holds(one) else f"is not for anything but {what}"

    return rule


def _cast(source: Callable[[Value], bool], result: Callable[[Value], bool]) -> Rule:
    def rule(op: Op) -> Complaint:
        if shape(op.operands[0]) != shape(op.result):
            return "changes the shape"
        return None if source(op.operands[0]) and result(op.result) else "does not cast between these types"

    return rule


def _select(op: Op) -> Complaint:
    condition, one, other = op.operands
    same = shape(one) == shape(other) == shape(op.result) and element(one) == element(other) == element(op.result)
    fits = _bits(condition) and shape(condition) in ((), shape(op.result))
    return None if same and fits else "chooses between values of different types"


def _constant(op: Op) -> Complaint:
    return None if op.attributes.get("value") is not None else "has no value"


def _axis(op: Op, rank: int) -> int | None:
    axis = op.attributes.get("axis")
    return axis if isinstance(axis, int) and 0 <= axis < rank else None


def _expand(op: Op) -> Complaint:
    old, new = shape(op.operands[0]), shape(op.result)
    axis = _axis(op, len(old) + 1)
    if axis is None:
        return f"has no axis below {len(old) + 1}"
    return None if new == (*old[:axis], 1, *old[axis:]) and _same_element(op) else f"makes {new} of {old}"


def _broadcast(op: Op) -> Complaint:
    old, new = shape(op.operands[0]), shape(op.result)
    fits = len(old) == len(new) and all(one in (1, other) for one, other in zip(old, new, strict=True))
    return None if fits and _same_element(op) else f"makes {new} of {old}"


def _splat(op: Op) -> Complaint:
    return None if not shape(op.operands[0]) and _same_element(op) else "takes a scalar of the result's element type"


def _trans(op: Op) -> Complaint:
    old, new, order = shape(op.operands[0]), shape(op.result), op.attributes.get("order")
    if not isinstance(order, tuple) or sorted(order, key=str) != list(range(len(old))):
        return f"has no order of {len(old)} dimensions"
    moved = tuple(old[axis] for axis in order if isinstance(axis, int))
    return None if moved == new and _same_element(op) else f"makes {new} of {old}"


def _reshape(op: Op) -> Complaint:
    return None if prod(shape(op.operands[0])) == prod(shape(op.result)) and _same_element(op) else "changes the number of elements"


def _unchanged(op: Op) -> Complaint:
    """Another layout, or another memory, of the same tile."""
    if not op.operands:
        return None
    return None if shape(op.operands[0]) == shape(op.result) and _same_element(op) else "changes shape or element type"


def _same_element(op: Op) -> bool:
    return element(op.operands[0]) == element(op.result)


def _range(op: Op) -> Complaint:
    start, end = op.attributes.get("start"), op.attributes.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or shape(op.result) != (end - start,) or not _integer(op.result):
        return "has a start and an end that do not fit its result"
    return None


def _addptr(op: Op) -> Complaint:
    pointer, offset = op.operands
    same = shape(pointer) == shape(offset) == shape(op.result) and element(pointer) == element(op.result)
    return None if same and isinstance(element(pointer), Pointer) and _integer(offset) else "adds a number to a pointer of the same shape"


def _program(op: Op) -> Complaint:
    return None if op.attributes.get("axis") in ("x", "y", "z", 0, 1, 2) else "has no axis x, y or z"


def _reduce(op: Op) -> Complaint:
    old = shape(op.operands[0])
    axis = _axis(op, len(old))
    if axis is None:
        return f"has no axis below {len(old)}"
    if len(op.results) != len(op.operands) or any(shape(value) != old for value in op.operands):
        return "reduces tiles of different shapes"
    if any(shape(value) != (*old[:axis], *old[axis + 1 :]) for value in op.results):
        return "has results of another shape than its operands without the axis"
    blocks = op.regions[0].blocks if op.regions else ()
    fits = len(blocks) == 1 and len(blocks[0].args) == 2 * len(op.operands) and bool(blocks[0].ops)
    return None if fits else "has no region for two elements of each operand"


def _load(op: Op) -> Complaint:
    return _through_pointer(op, op.result, op.operands[1:2], op.operands[2:3])


def _store(op: Op) -> Complaint:
    return _through_pointer(op, op.operands[1], op.operands[2:3], ())


def _atomic(op: Op) -> Complaint:
    if not isinstance(op.attributes.get("atomic_rmw_op"), str):
        return "has no kind"
    return _through_pointer(op, op.operands[1], op.operands[2:3], op.results)


def _through_pointer(op: Op, moved: Value, masks: Sequence[Value], others: Sequence[Value]) -> Complaint:
    pointer = op.operands[0]
    kind = element(pointer)
    if not isinstance(kind, Pointer) or _signless(kind.pointee) != element(moved) or shape(pointer) != shape(moved):
        return "moves other elements than its pointers point to"
    if any(not _bits(mask) or shape(mask) != shape(moved) for mask in masks):
        return "has a mask of another shape or type"
    return None if all((shape(o), element(o)) == (shape(moved), element(moved)) for o in others) else "has values of different types"


def _descriptor(op: Op) -> Complaint:
    rank = len(shape(op.result))
    if not isinstance(op.result.type, TensorDesc) or not 1 <= rank <= 5 or any(size < 1 for size in shape(op.result)):
        return "makes no descriptor of one to five dimensions"
    if len(op.operands) < 1 + 2 * rank or not all(_scalar(value) for value in op.operands[1 : 1 + 2 * rank]):
        return f"takes a pointer, {rank} sizes and {rank} strides"
    pointer = element(op.operands[0])
    fits = isinstance(pointer, Pointer) and not shape(op.operands[0]) and _signless(pointer.pointee) == element(op.result)
    return None if fits else "takes a pointer to the descriptor's elements"


def _descriptor_load(op: Op) -> Complaint:
    return _block(op, op.result, op.operands[1:])


def _descriptor_store(op: Op) -> Complaint:
    tiles = [value for value in op.operands[1:] if isinstance(value.type, Tensor | MemDesc)]
    if len(tiles) != 1:
        return "stores one tile"
    if op.name == "tt.descriptor_reduce" and not isinstance(op.attributes.get("kind"), str):
        return "has no kind"
    return _block(op, tiles[0], [value for value in op.operands[1:] if value is not tiles[0]])


def _block(op: Op, tile: Value, coordinates: Sequence[Value]) -> Complaint:
    kind = op.operands[0].type
    if not isinstance(kind, TensorDesc):
        return "takes a descriptor"
    if len(coordinates) != len(kind.shape) or not all(_scalar(value) for value in coordinates):
        return f"takes {len(kind.shape)} coordinates"
    fits = prod(shape(tile)) == prod(kind.shape) and element(tile) == _signless(kind.dtype)
    return None if fits else f"moves a tile of {shape(tile)} by a descriptor of {kind.shape}"


def _dot(op: Op) -> Complaint:
    a, b, c = map(shape, op.operands[:3])
    if not len(a) == len(b) == len(c) >= 2 or (a[:-1], a[-1], b[-1]) != (c[:-1], b[-2], c[-1]) or shape(op.result) != c:
        return f"multiplies {a} by {b} and adds to {c}"
    if element(op.operands[2]) != element(op.result) or not all(isinstance(v.type, Tensor | MemDesc) for v in op.operands[:3]):
        return "has a result of another type than its accumulator"
    return None if isinstance(op.result.type, Tensor) and isinstance(op.operands[1].type, MemDesc) else "takes B from shared memory"


def _for(op: Op) -> Complaint:
    blocks = op.regions[0].blocks if op.regions else ()
    if len(blocks) != 1 or not blocks[0].args:
        return "has no body of one block"
    last = blocks[0].ops[-1] if blocks[0].ops else None
    inits, args, yielded = op.operands[3:], blocks[0].args, last.operands if last is not None and last.name == "scf.yield" else ()
    bounds = (*op.operands[:3], args[0])
    if not all(_scalar(value) for value in bounds) or len({value.type for value in bounds}) > 1:
        return "has bounds of different types"
    if not len(inits) == len(args) - 1 == len(yielded) == len(op.results):
        return "carries different numbers of values"
    groups = zip(inits, args[1:], yielded, op.results, strict=True)
    return None if all(len({v.type for v in one}) == 1 for one in groups) else "carries values that change their type"


def _if(op: Op) -> Complaint:
    if not _bits(op.operands[0]) or shape(op.operands[0]):
        return "has no condition of type i1"
    for region in op.regions if op.results else ():
        last = region.blocks[-1].ops[-1] if region.blocks and region.blocks[-1].ops else None
        if last is None or [value.type for value in last.operands] != [value.type for value in op.results]:
            return "has a branch that yields values of other types"
    return "has results and no second branch" if op.results and len([r for r in op.regions if r.blocks]) < 2 else None


_FLOATS, _INTEGERS = _of(_float, "floating point"), _of(_integer, "integers")
_ARITH_FLOAT = ("addf", "subf", "mulf", "divf", "remf", "negf", "maxnumf", "minnumf", "maximumf", "minimumf")
_ARITH_INTEGER = ("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "maxsi", "minsi", "maxui", "minui")
_ARITH_BITS = ("andi", "ori", "xori", "shli", "shrsi", "shrui")
_MATH = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "absf", "sin", "cos", "tanh", "erf", "floor", "ceil", "fma")
_UNARY = frozenset({"arith.negf", *(f"math.{name}" for name in _MATH if name != "fma")})

RULES: Mapping[str, Rule] = {
    **{f"arith.{name}": _FLOATS for name in _ARITH_FLOAT},
    **{f"arith.{name}": _INTEGERS for name in (*_ARITH_INTEGER, *_ARITH_BITS)},
    **{f"math.{name}": _FLOATS for name in _MATH},
    **dict.fromkeys(["tt.precise_divf", "tt.precise_sqrt", "tt.clampf"], _FLOATS),
    "arith.cmpi": _compare(_integer, "integers"),
    "arith.cmpf": _compare(_float, "floating point"),
    **dict.fromkeys(["arith.extf", "arith.truncf", "tt.fp_to_fp"], _cast(_float, _float)),
    **dict.fromkeys(["arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"], _cast(_integer, _integer)),
    **dict.fromkeys(["arith.sitofp", "arith.uitofp"], _cast(_integer, _float)),
    **dict.fromkeys(["arith.fptosi", "arith.fptoui"], _cast(_float, _integer)),
    "arith.select": _select,
    "arith.constant": _constant,
    "tt.expand_dims": _expand,
    "tt.broadcast": _broadcast,
    "tt.splat": _splat,
    **dict.fromkeys(["tt.trans", "ttg.memdesc_trans"], _trans),
    "tt.reshape": _reshape,
    **dict.fromkeys(["ttg.convert_layout", "ttg.local_alloc", "ttg.local_load"], _unchanged),
    "tt.make_range": _range,
    "tt.addptr": _addptr,
    **dict.fromkeys(["tt.get_program_id", "tt.get_num_programs"], _program),
    "tt.reduce": _reduce,
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic,
    "tt.make_tensor_descriptor": _descriptor,
    "tt.descriptor_load": _descriptor_load,
    **dict.fromkeys(["tt.descriptor_store", "tt.descriptor_reduce"], _descriptor_store),
    "ttng.warp_group_dot": _dot,
    "scf.for": _for,
    "scf.if": _if,
}
"""By operation."""

_ONE = (
    *("arith.extf", "arith.truncf", "tt.fp_to_fp", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.sitofp"),
    *("arith.uitofp", "arith.fptosi", "arith.fptoui", "tt.expand_dims", "tt.broadcast", "tt.splat", "tt.trans", "ttg.memdesc_trans"),
    *("tt.reshape", "ttg.convert_layout", "tt.precise_sqrt", *_UNARY),
)
_TWO = (*(f"arith.{name}" for name in (*_ARITH_FLOAT, *_ARITH_INTEGER, *_ARITH_BITS) if name != "negf"), "tt.precise_divf", "tt.addptr")

COUNTS: Mapping[str, tuple[int, int, int | None]] = {
    **dict.fromkeys(_ONE, (1, 1, 1)),
    **dict.fromkeys([*_TWO, "arith.cmpi", "arith.cmpf"], (2, 2, 1)),
    **dict.fromkeys(["arith.select", "math.fma", "tt.clampf"], (3, 3, 1)),
    **dict.fromkeys(["arith.constant", "tt.make_range", "tt.get_program_id", "tt.get_num_programs"], (0, 0, 1)),
    "ttg.local_alloc": (0, 1, 1),
    "ttg.local_load": (1, 2, 1),
    "tt.reduce": (1, 16, None),
    "tt.load": (1, 3, 1),
    "tt.store": (2, 3, 0),
    "tt.atomic_rmw": (2, 3, 1),
    "tt.make_tensor_descriptor": (3, 16, 1),
    "tt.descriptor_load": (2, 6, 1),
    **dict.fromkeys(["tt.descriptor_store", "tt.descriptor_reduce"], (3, 7, 0)),
    "ttng.warp_group_dot": (3, 4, 1),
    "scf.for": (3, 1 << 30, None),
    "scf.if": (1, 1, None),
}
"""Operands at least and at most, and results where their number is fixed, by operation."""
