"""What every TTGIR operation computes, in NumPy: the one place that both the direct execution and the warp
programs use.

Takes an operation with the values of its operands; gives the values of its results. Tiles are arrays of their
shape (layouts do not matter), scalars arrays of no dimensions, pointers `Pointers`, descriptors `Descriptor`.
"""

from collections.abc import Callable, Mapping, Sequence
from math import erf
from typing import Any

import numpy as np

from twill.diagnostics import TwillError
from twill.ir.loop import MemDesc, Op, Tensor, TensorDesc, Type
from twill.simulate.global_memory import Descriptor, Memory
from twill.simulate.values import Array, Pointers, dtype, element, rounded

Values = tuple[Any, ...]

_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.subf": np.subtract,
    "arith.subi": np.subtract,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.divf": np.divide,
    "arith.divsi": lambda a, b: np.trunc(a / b).astype(np.int64),
    "arith.divui": lambda a, b: a // b,
    "arith.remsi": lambda a, b: np.fmod(a, b),
    "arith.remui": lambda a, b: a % b,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.remf": np.fmod,
    "tt.precise_divf": np.divide,
}
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "arith.negf": np.negative,
    "math.exp2": np.exp2,
    "math.exp": np.exp,
    "math.log2": np.log2,
    "math.log": np.log,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda a: 1 / np.sqrt(a),
    "math.absf": np.abs,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tanh": np.tanh,
    "math.erf": np.vectorize(erf, otypes=[float]),
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.absi": np.abs,
    "tt.precise_sqrt": np.sqrt,
}
_CASTS = frozenset(
    {
        *("arith.extf", "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"),
        *("arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui", "tt.fp_to_fp"),
    }
)
_SAME = frozenset({"ttg.convert_layout", "ttg.local_alloc", "ttg.local_load"})
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    **dict.fromkeys(["slt", "ult", "olt"], np.less),
    **dict.fromkeys(["sle", "ule", "ole"], np.less_equal),
    **dict.fromkeys(["sgt", "ugt", "ogt"], np.greater),
    **dict.fromkeys(["sge", "uge", "oge"], np.greater_equal),
    "oeq": np.equal,
    "une": np.not_equal,
}


def shape_of(type: Type) -> tuple[int, ...]:
    return type.shape if isinstance(type, Tensor | MemDesc | TensorDesc) else ()


def constant(op: Op) -> Array:
    """The value of an `arith.constant`. Raises TwillError for one that is no number everywhere the same."""
    value = op.attributes.get("value")
    if not isinstance(value, bool | int | float):
        raise TwillError("a constant of several values can not be simulated", op.location)
    return np.full(shape_of(op.result.type), value, dtype(element(op.result.type)))


def evaluate(op: Op, operands: Sequence[Any], memory: Memory, program: Mapping[str, int]) -> Values:
    """The results of one operation without regions (a `tt.reduce` excepted). `program` has `pid.x`, `grid.x`,
    ...

    Raises TwillError for an operation that is not known.
    """
    with np.errstate(all="ignore"):
        if op.name in _BINARY and not isinstance(operands[0], Pointers):
            return (_typed(op, _BINARY[op.name](*operands)),)
        if op.name in _UNARY:
            return (_typed(op, _UNARY[op.name](operands[0])),)
        if op.name in _CASTS:
            return (_typed(op, operands[0]),)
        if op.name in _SAME:
            return (operands[0],)
        return _other(op, operands, memory, program)


def _typed(op: Op, value: Any) -> Array:
    return rounded(value, element(op.result.type))


def _other(op: Op, operands: Sequence[Any], memory: Memory, program: Mapping[str, int]) -> Values:
    match op.name:
        case "arith.constant":
            return (constant(op),)
        case "llvm.intr.assume":
            return ()
        case "arith.cmpi" | "arith.cmpf":
            return (_COMPARE[str(op.attributes["predicate"])](*operands),)
        case "arith.select":
            return (_typed(op, np.where(*operands)),)
        case "tt.get_program_id":
            return (np.asarray(program[f"pid.{op.attributes['axis']}"], np.int32),)
        case "tt.get_num_programs":
            return (np.asarray(program[f"grid.{op.attributes['axis']}"], np.int32),)
        case "tt.make_range":
            return (np.arange(op.attributes["start"], op.attributes["end"], dtype=np.int32),)  # pyright: ignore
        case "tt.splat" | "tt.broadcast" | "tt.expand_dims" | "tt.reshape" | "tt.trans" | "ttg.memdesc_trans":
            return (_view(op, operands[0]),)
        case "tt.addptr":
            return (Pointers(operands[0].argument, operands[0].offset + np.asarray(operands[1], np.int64)),)
        case "ttng.warp_group_dot":
            return (product(operands[0], operands[1]) + np.asarray(operands[2], np.float32),)
        case "tt.reduce":
            return _reduce(op, operands, memory, program)
        case _:
            return _memory(op, operands, memory)


def product(a: Array, b: Array) -> Array:
    """A matrix product in float32."""
    return np.asarray(a, np.float32) @ np.asarray(b, np.float32)


def _view(op: Op, value: Any) -> Any:
    if isinstance(value, Pointers):
        return Pointers(value.argument, _view(op, value.offset))
    match op.name:
        case "tt.expand_dims":
            return np.expand_dims(value, op.attributes["axis"])  # pyright: ignore
        case "tt.reshape":
            return np.reshape(value, shape_of(op.result.type))
        case "tt.trans" | "ttg.memdesc_trans":
            return np.transpose(value, op.attributes["order"])  # pyright: ignore
        case _:
            return np.broadcast_to(value, shape_of(op.result.type))


def _reduce(op: Op, operands: Sequence[Any], memory: Memory, program: Mapping[str, int]) -> Values:
    """Halves joined until one element is left, as threads do it."""
    axis = int(op.attributes["axis"])  # pyright: ignore
    block = op.regions[0].blocks[0]
    parts = tuple(operands)
    while (size := parts[0].shape[axis]) > 1:
        half = size // 2
        low = [np.take(part, range(half), axis) for part in parts]
        high = [np.take(part, range(half, 2 * half), axis) for part in parts]
        joined = run(block.ops, dict(zip((arg.id for arg in block.args), [*low, *high], strict=True)), memory, program)
        odd = [np.take(part, range(2 * half, size), axis) for part in parts]
        parts = tuple(np.concatenate([j, o], axis) for j, o in zip(joined, odd, strict=True))
    return tuple(np.squeeze(part, axis) for part in parts)


def run(ops: Sequence[Op], values: dict[int, Any], memory: Memory, program: Mapping[str, int]) -> Values:
    """A straight line of operations; the operands of the last one, which returns."""
    for op in ops[:-1]:
        results = evaluate(op, [values[operand.id] for operand in op.operands], memory, program)
        values.update(zip((result.id for result in op.results), results, strict=True))
    return tuple(values[operand.id] for operand in ops[-1].operands)


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory(op: Op, operands: Sequence[Any], memory: Memory) -> Values:
    match op.name:
        case "tt.make_tensor_descriptor":
            return (_descriptor(op, operands),)
        case "tt.descriptor_load":
            descriptor: Descriptor = operands[0]
            offsets, inside = descriptor.offsets(tuple(int(index) for index in operands[1:]))
            return (memory.read(descriptor.pointers, offsets, inside).reshape(shape_of(op.result.type)),)
        case "tt.descriptor_store" | "tt.descriptor_reduce":
            _store_block(op, operands, memory)
            return ()
        case "tt.load":
            rest = list(operands[1:])
            return (memory.read(operands[0], operands[0].offset, rest[0] if rest else None, rest[1] if len(rest) > 1 else 0),)
        case "tt.store":
            memory.write(operands[0], operands[0].offset, operands[1], operands[2] if len(operands) > 2 else None)
            return ()
        case "tt.atomic_rmw":
            if op.attributes["atomic_rmw_op"] not in ("add", "fadd"):
                raise TwillError(f"an atomic {op.attributes['atomic_rmw_op']} can not be simulated", op.location)
            mask = operands[2] if len(operands) > 2 else None
            before = memory.read(operands[0], operands[0].offset, mask)
            memory.write(operands[0], operands[0].offset, operands[1], mask, add=True)
            return (before,)
        case _:
            raise TwillError(f"{op.name} can not be simulated", op.location)


def _descriptor(op: Op, operands: Sequence[Any]) -> Descriptor:
    rank = len(shape_of(op.result.type))
    sizes = [int(value) for value in operands[1 : 1 + 2 * rank]]
    return Descriptor(operands[0], tuple(sizes[:rank]), tuple(sizes[rank:]), shape_of(op.result.type))


def _store_block(op: Op, operands: Sequence[Any], memory: Memory) -> None:
    if op.name == "tt.descriptor_reduce" and op.attributes.get("kind") != "add":
        raise TwillError(f"a {op.attributes.get('kind')} reduction can not be simulated", op.location)
    tile = next(value for value, operand in zip(operands, op.operands, strict=True) if isinstance(operand.type, Tensor))
    corner = tuple(int(v) for v, operand in zip(operands[1:], op.operands[1:], strict=True) if not isinstance(operand.type, Tensor))
    descriptor: Descriptor = operands[0]
    offsets, inside = descriptor.offsets(corner)
    memory.write(descriptor.pointers, offsets, tile, inside, add=op.name == "tt.descriptor_reduce")
