"""Tensor maps that a thread block makes itself: from what it loads, or from its number.

Takes a program; gives the C that makes one. The host encodes a map of the right types and boxes (the
template), and reserves global memory for the maps of each thread block. Every group that uses a descriptor
has a map of its own: the thread that issues its TMA operations copies the template and replaces the address,
the sizes and the strides. Before it does so again, its TMA operations are complete.
"""

from math import prod

from twill.ir.loop import NvmmaShared, Op, Scalar, TensorDesc
from twill.ir.program import Program
from twill.ir.statements import Compute, StoreTile, walk
from twill.ops.table import role
from twill.targets.cuda.expressions import bare, literal, plus, times
from twill.targets.cuda.names import channel, count, tensor_map
from twill.targets.cuda.scope import Scope
from twill.warp.slot_tensors import bits

MEMORY, OWN = "tensor_maps", "own_maps"
"""The parameter that points to the maps of all thread blocks; those of this one."""


def made(program: Program) -> tuple[tuple[int, int], ...]:
    """The maps of a thread block: the group that makes each, and the index of the operation."""
    found = {
        (group.id, index)
        for group in program.groups
        for statement in walk(group.body)
        if isinstance(statement, Compute)
        for index in statement.ops
        if role(program.op(index)) == "tensor_map"
    }
    return tuple(sorted(found))


def templates(program: Program) -> tuple[int, ...]:
    """The operations whose templates the host makes."""
    return tuple(sorted({index for _, index in made(program)}))


def own(program: Program) -> list[str]:
    """Where the maps of a thread block begin."""
    block = "(int64_t(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x"
    maps = len(made(program))
    return [f"CUtensorMap* const {OWN} = {MEMORY} + ({block}) * {maps};"] if maps else []


def extents(texts: list[str], kind: TensorDesc) -> str:
    """The sizes of a tensor, innermost first, from those of a descriptor: padded 4-bit floats are two in each
    of its elements."""
    wide = [text if literal(text) is not None else f"uint64_t({bare(text)})" for text in texts[::-1]]
    room = kind.encoding.room if isinstance(kind.encoding, NvmmaShared) else 1
    return ", ".join([times(wide[0], room), *wide[1:]])


def pitches(texts: list[str], size: int) -> str:
    """The strides in bytes, innermost first but without that of the elements."""
    wide = (text if literal(text) is not None else f"uint64_t({bare(text)})" for text in texts[-2::-1])
    return ", ".join(times(text, size) for text in wide)


def execute(scope: Scope, op: Op) -> None:
    """Appends what makes a map."""
    program, group, kind = scope.program, scope.group, op.result.type
    assert isinstance(kind, TensorDesc)
    rank, size = len(kind.shape), bits(kind.dtype) // 8
    data, *numbers = (scope.scalar(value) for value in op.operands[: 1 + 2 * rank])
    place = plus(OWN, made(program).index((group.id, op.index)))
    lines = [
        f"{channel(one.id)}.copies_wait({count(one.id)});"
        for one in program.channels
        if one.producer == group.id and one.filled_by == "tma" and one.slot_owner == one.id
    ]
    if any(isinstance(statement, StoreTile) for statement in walk(group.body)):
        lines.append("tma_wait<0>();")
    template = tensor_map(program.name(op.result.id))
    given = f"{{{extents(numbers[:rank], kind)}}}, {{{pitches(numbers[rank:], size)}}}"
    lines.append(f"tensor_map_replace<{rank}>({place}, &{template}, {data}, {given});")
    name = scope.name(op.result)
    declared = "" if op.result.id in scope.targets else "const CUtensorMap* const "
    scope.lines += [
        "if (thread.leader) {",
        *(f"    {line}" for line in lines),
        "}",
        "__syncwarp();",
        f"{declared}{name} = {place};",
    ]
    scope.values[op.result.id] = name


def template_numbers(kind: TensorDesc) -> tuple[list[str], list[str]]:
    """Sizes and strides of a template, in elements: those of one block, its rows a multiple of 16 bytes."""
    assert isinstance(kind.dtype, Scalar)
    step = max(1, 16 * 8 // bits(kind.dtype))
    shape = [*kind.shape[:-1], -(-kind.shape[-1] // step) * step]
    return [str(one) for one in kind.shape], [str(prod(shape[axis + 1 :])) for axis in range(len(shape))]
