"""Operands of MMAs that stay the same during a loop: in shared memory, or kept in registers.

Takes the code of a function, its scheduled loops and the groups; gives the code with the buffers that a group
fills before its loops. A tile that TMA loads before the loop lies in shared memory already. One that a group
computes or loads through pointers is staged there where the registers that the schedule grants do not hold it
too: costs take it to be in shared memory. Otherwise it stays in registers, from which an MMA reads it faster.
B, A through a view (transposed), A of elements of other than 16 bits, A of an MMA into tensor memory, A
of one whose warps share rows (each of them needs all of K, and has a part of the columns), and A that threads
hold as it is laid out are always read from shared memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import prod

from twill.ir.loop import Linear, MemDesc, NvidiaMma, Op, Tensor, Value
from twill.ir.schedule import Group
from twill.ops.mma import inputs
from twill.ops.table import role
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import ALLOC, BUFFER_VIEWS, MMAS, Code, loaded
from twill.warp.slot_tensors import bits, tensors
from twill.warp.tasks import Scheduled
from twill.warp.thread_block import copying, most_registers


def with_resident(code: Code, loops: Sequence[Scheduled], granted: Sequence[Group]) -> Code:
    """The code with the buffers that are staged before the loops."""
    tasks = [[node.ops for node in one.graph.nodes] for one in loops]
    most = most_registers(granted, loops[0], copying(loops[0].machine.copies, code, tasks))
    inside = {op.index for one in loops for op in one.loop.op.inner()}
    buffers = {
        _buffer(code, value).id
        for op in code.ops.values()
        if role(op) == "tensor_memory_mma"
        for value in inputs(op)
    }
    staged, kept = _fragments(code, inside), dict[int, dict[int, int]]()
    for group, mma, position, read in _operands(code, loops):
        value = _buffer(code, read)
        maker = code.maker(value)
        if maker is None or maker.name != ALLOC or maker.index in inside or loaded(code, value):
            continue
        if not maker.operands:
            continue
        viewed = read.id != value.id
        never = position or viewed or _element_bits(value) != 16 or value.id in buffers or _shared_rows(mma)
        if never or _as_laid_out(maker.operands[0]):
            staged.add(value.id)
        kept.setdefault(group.id, {})[value.id] = _registers(value, group.warps)
    for group in granted:
        own = {value: size for value, size in kept.get(group.id, {}).items() if value not in staged}
        if group.registers + sum(own.values()) > most[group.id]:
            staged |= own.keys()
    return replace(code, resident=frozenset(staged))


def _fragments(code: Code, inside: Set[int]) -> set[int]:
    """Buffers that are filled outside of the loops, and that these read into registers in every iteration."""
    reads = (op for op in code.ops.values() if role(op) == "buffer_load" and op.index in inside)
    makers = (code.maker(op.operands[0]) for op in reads)
    filled = (one for one in makers if one is not None and one.name == ALLOC and one.operands)
    return {one.result.id for one in filled if one.index not in inside}


def _operands(code: Code, loops: Sequence[Scheduled]) -> Iterator[tuple[Group, Op, int, Value]]:
    """What every MMA in a loop reads, with its group and the MMA."""
    for one in loops:
        groups = {group.id: group for group in one.solution.groups}
        made = ((node, code.ops[index]) for node in one.graph.nodes for index in node.ops)
        for node, op in ((node, op) for node, op in made if op.name in MMAS):
            read = inputs(op) if role(op) == "tensor_memory_mma" else op.operands[:2]
            for position, value in enumerate(read):
                yield groups[one.group(node.id)], op, position, value


def _shared_rows(mma: Op) -> bool:
    """Whether warps share the rows of an accumulator in registers."""
    kind = mma.results[0].type if mma.results else None
    encoding = kind.encoding if isinstance(kind, Tensor) else None
    return isinstance(encoding, NvidiaMma) and prod(encoding.warps_per_cta[1:]) > 1


def _as_laid_out(value: Value) -> bool:
    """Whether threads hold a tile as its layout says, and not as an MMA reads it."""
    layout = value.type.encoding if isinstance(value.type, Tensor) else None
    return isinstance(layout, Linear) and layout.exact


def _buffer(code: Code, value: Value) -> Value:
    """What a buffer is a view of."""
    maker = code.maker(value)
    while maker is not None and role(maker) in BUFFER_VIEWS:
        value = maker.operands[0]
        maker = code.maker(value)
    return value


def _element_bits(buffer: Value) -> int:
    assert isinstance(buffer.type, MemDesc)
    return bits(buffer.type.dtype)


def _registers(buffer: Value, warps: int) -> int:
    """Of a thread that holds its part of a tile."""
    assert isinstance(buffer.type, MemDesc)
    return prod(buffer.type.shape) * _element_bits(buffer) // 32 // (32 * warps)


def channels(
    code: Code, leaves: Mapping[int, frozenset[int]], fillers: Mapping[int, int]
) -> Iterable[ChannelPlan]:
    """One of one slot for every group that reads a buffer staged before the loops: it fills it by itself, or
    the group among `fillers` does, for all for which it does."""
    for buffer in (op.result for op in staging(code)):
        readers = [group for group in sorted(leaves) if buffer.id in leaves[group]]
        held = tensors(code, [buffer])
        for filler in sorted({fillers.get(group, group) for group in readers}):
            own = tuple(group for group in readers if fillers.get(group, group) == filler)
            yield ChannelPlan(code.names[buffer.id], filler, own, held, "threads", 1, ((buffer,),), once=True)


def staging(code: Code) -> Iterator[Op]:
    """The operations that fill these buffers."""
    return (op for op in code.ops.values() if op.name == ALLOC and op.result.id in code.resident)
