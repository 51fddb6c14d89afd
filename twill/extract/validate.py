"""Whether the operations of a module are of the form that TTGIR gives them: operands, shapes, element types,
attributes, layouts.

Takes a `Module` and one of its functions; raises TwillError at the first operation that is not. Operations
whose row has no rule pass: who uses them judges them.
"""

from collections.abc import Iterator, Sequence
from math import prod

from twill.diagnostics import TwillError
from twill.extract.reader.types import width
from twill.ir.loop import (
    Blocked,
    DotOperand,
    Encoding,
    Function,
    Linear,
    MemDesc,
    Module,
    NvidiaMma,
    NvmmaShared,
    Op,
    Scalar,
    Slice,
    Tensor,
    TensorDesc,
)
from twill.ops.row import Complaint
from twill.ops.table import lookup


def validate(module: Module, function: Function) -> None:
    """Raises TwillError, at the operation."""
    lines = module.text.splitlines()
    for op, complaint in _complaints(module, function):
        raise TwillError(
            f"{op.name} {complaint}",
            op.location,
            text=lines[op.location.line - 1],
            help="the module is not valid TTGIR",
        )


def valid(module: Module, function: Function) -> bool:
    """Whether `validate` accepts a function: what analyses of values take for granted."""
    return not any(_complaints(module, function))


def _complaints(module: Module, function: Function) -> Iterator[tuple[Op, str]]:
    for op in function.walk():
        if complaint := _counts(op) or _layouts(op, module) or _ruled(op):
            yield op, complaint


def _counts(op: Op) -> Complaint:
    """The number of operands and results."""
    row = lookup(op.name)
    least, most, results = (
        row.counts if row is not None and row.counts is not None else (0, len(op.operands), None)
    )
    if not least <= len(op.operands) <= most:
        return f"has {len(op.operands)} operands"
    return f"has {len(op.results)} results" if results is not None and len(op.results) != results else None


def _ruled(op: Op) -> Complaint:
    row = lookup(op.name)
    return row.rule(op) if row is not None and row.rule is not None else None


# --- layouts ----------------------------------------------------------------------------------------------


def _layouts(op: Op, module: Module) -> Complaint:
    """Of results: as many dimensions as the tile has, every one a power of two or a multiple of 16
    (`extract.frontend.tiles`), and all threads of the module."""
    for value in op.results:
        if isinstance(value.type, TensorDesc | MemDesc) and (complaint := _swizzle(value.type)):
            return complaint
        if not isinstance(value.type, Tensor):
            continue
        if any(size < 1 or (size % 16 and size & (size - 1)) for size in value.type.shape):
            return f"has a result of shape {value.type.shape}, and sizes are powers of two or multiples of 16"
        if complaint := _layout(value.type.encoding, len(value.type.shape), module):
            return complaint
    return None


def _swizzle(kind: TensorDesc | MemDesc) -> Complaint:
    """Rows are whole swizzle patterns: those of a size that is no power of two may not be."""
    encoding, shape = kind.encoding, kind.alloc_shape if isinstance(kind, MemDesc) else kind.shape
    if not isinstance(encoding, NvmmaShared) or not isinstance(kind.dtype, Scalar) or len(shape) < 2:
        return None
    size = shape[-2] if encoding.transposed else shape[-1]
    line = size * width(kind.dtype) // 8
    if size & (size - 1) and encoding.swizzle_bytes and line % encoding.swizzle_bytes:
        return f"has a tile with rows of {line} bytes, no multiple of its swizzle of {encoding.swizzle_bytes}"
    return None


def _layout(encoding: Encoding | None, rank: int, module: Module) -> Complaint:
    match encoding:
        case Blocked():
            return _blocked(encoding, rank, module)
        case Slice(dim, parent):
            return (
                f"has a layout sliced along {dim} of {rank + 1} dimensions"
                if dim > rank
                else _layout(parent, rank + 1, module)
            )
        case NvidiaMma():
            return _mma(encoding, rank, module)
        case DotOperand(index, parent):
            return (
                f"has a layout of operand {index}" if index not in (0, 1) else _layout(parent, rank, module)
            )
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
        return (
            f"has a layout of {prod(layout.threads_per_warp)} threads for each warp, and a warp has"
            f" {module.threads_per_warp}"
        )
    return _warps(layout.warps_per_cta, module)


def _mma(layout: NvidiaMma, rank: int, module: Module) -> Complaint:
    if rank not in (2, 3) or len(layout.warps_per_cta) != rank or len(layout.instr_shape) not in (2, 3):
        return f"has an MMA layout of other than {rank} dimensions"
    if any(size < 1 or size & (size - 1) for size in layout.warps_per_cta) or any(
        size < 1 for size in layout.instr_shape
    ):
        return "has an MMA layout with a size that can not be"
    return _warps(layout.warps_per_cta, module)


def _warps(warps: Sequence[int], module: Module) -> Complaint:
    return (
        None
        if prod(warps) == module.num_warps
        else f"has a layout of {prod(warps)} warps, and the module has {module.num_warps}"
    )
