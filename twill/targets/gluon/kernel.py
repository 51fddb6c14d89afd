"""The whole Gluon file of a program: layouts, a function for each group, and the kernel that starts them.

Takes a `Program`; gives Python that Triton 3.7 to 3.9 compile. The kernel takes the arguments of the TTGIR
function and makes its tensor descriptors itself. Raises TwillError, with the operation and its line, for what
is not exported.
"""

import re
from collections.abc import Mapping

from twill.diagnostics import TwillError
from twill.ir.channels import Buffer, Channel
from twill.ir.loop import GRID, Op, Scalar, TensorDesc
from twill.ir.names import identifier
from twill.ir.program import Program, WarpProgram
from twill.ir.schedule import WARPGROUP
from twill.ir.statements import MmaIssue, StoreTile, walk
from twill.targets.cuda.emitter import indented
from twill.targets.gluon.emitter import Emitter
from twill.targets.gluon.layouts import Layouts, dtype
from twill.targets.gluon.scope import (
    TENSOR_MEMORY,
    File,
    Scope,
    allocated,
    counter,
    empty,
    full,
    safe,
    tensor_name,
)
from twill.targets.gluon.statements import lines_of
from twill.targets.gluon.tile_stores import buffer_name, divided
from twill.targets.gluon.transfers import SYNC, SYNC_COUNT, by_copies, drained

HEAD = """\
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)

tma_load = getattr(tma, "async_load", tma.async_copy_global_to_shared)
tma_store = getattr(tma, "async_store", tma.async_copy_shared_to_global)
copy_async = getattr(async_copy, "async_load", async_copy.async_copy_global_to_shared)
PUBLIC_REINTERPRET = gl.constexpr(hasattr(gl.shared_memory_descriptor, "reinterpret"))
PROPAGATE = gl.constexpr(tl.PropagateNan.ALL)
"""
WAITS = '''\
@gluon.jit
def reinterpreted(slots, dtype: gl.constexpr, shape: gl.constexpr, layout: gl.constexpr):
    """Shared memory taken as a tile."""
    if PUBLIC_REINTERPRET:
        return slots.reinterpret(dtype, shape, layout)
    else:
        return slots._reinterpret(dtype, shape, layout)


@gluon.jit
def producer_acquire(empty, number, slots: gl.constexpr):
    """Waits until the slot of tile `number` is empty."""
    mbarrier.wait(empty.index(number % slots), ((number // slots) & 1) ^ 1)


@gluon.jit
def consumer_wait(full, number, slots: gl.constexpr):
    """Waits until the slot of tile `number` is full."""
    mbarrier.wait(full.index(number % slots), (number // slots) & 1)
'''
LAUNCH = '''\
def launch(grid, *arguments):
    """Launches the kernel. The descriptors that it makes lie in memory that Triton allocates."""
    import torch

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    kernel[grid](*arguments, num_warps=NUM_WARPS)
'''


BLACKWELL = """\
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
    tensor_memory_descriptor,
)

PUBLIC_TENSOR_MEMORY = gl.constexpr(hasattr(tensor_memory_descriptor, "reinterpret"))
"""
TILES = '''\
@gluon.jit
def tensor_tile(
    memory,
    dtype: gl.constexpr,
    whole: gl.constexpr,
    first: gl.constexpr,
    columns: gl.constexpr,
    layout: gl.constexpr,
):
    """Columns of tensor memory, of which there are `whole` of this type, taken as a tile."""
    if PUBLIC_TENSOR_MEMORY:
        return memory.reinterpret(dtype, [memory.shape[0], whole], layout).slice(first, columns)
    else:
        return memory._reinterpret(dtype, [memory.shape[0], whole], layout).slice(first, columns)


@gluon.jit
def tensor_buffer(
    memory,
    dtype: gl.constexpr,
    layout: gl.constexpr,
    count: gl.constexpr,
    columns: gl.constexpr,
    index,
):
    """One of `count` equal parts of tensor memory, taken as a tile."""
    if PUBLIC_TENSOR_MEMORY:
        return memory.reinterpret(dtype, [count, memory.shape[0], columns], layout).index(index)
    else:
        return memory._reinterpret(dtype, [count, memory.shape[0], columns], layout).index(index)
'''
"""What kernels with tensor memory have besides."""


def source(program: Program) -> str:
    """The file."""
    _refuse(program)
    _refuse_handed_over(program)
    file = File(program, Layouts(program.module.encodings))
    groups = _in_order(program)
    functions = {group.id: _function(file, group) for group in groups}
    kernel = _kernel(file, groups, functions)
    helpers = [f"@gluon.jit\ndef {name}(a, b):\n{text}\n" for name, text in sorted(file.helpers.items())]
    notes = [f"# {note}" for note in (*program.notes, *program.warnings)]
    head = [f'"""{program.function.name}, written by twill from {program.module.file}."""', "", HEAD]
    head += [BLACKWELL] if program.tensor_memory else []
    head += [f"NUM_WARPS = {groups[0].warps}", *file.layouts.lines, *notes]
    texts = [text for _, text in functions.values()]
    tiles = [TILES] if program.tensor_memory else []
    return "\n\n".join(["\n".join(head) + "\n", WAITS, *tiles, *helpers, *texts, kernel, LAUNCH])


def _refuse(program: Program) -> None:
    for argument, attributes in zip(program.function.args, program.function.arg_attributes, strict=True):
        if GRID in attributes:
            raise TwillError(
                f"{argument.name} is the size of the grid: a kernel made persistent is not exported",
                program.function.location,
                help="leave --persistent out, or write the kernel as a loop over tiles",
            )
    if any(one.multistage for one in program.groups):
        raise TwillError(
            "a group that computes and loads is not exported",
            program.function.location,
            help="leave --multistage out",
        )


def _refuse_handed_over(program: Program) -> None:
    """Triton moves a load from tensor memory behind the arrival that says it is done, in attention backward,
    where a group of eight warps hands tensor memory to the MMAs of another one."""
    warps = {group.id: group.warps for group in program.groups}
    for one in program.dependences:
        if one.by == "threads" and one.signaller != one.waiter and warps[one.signaller] > WARPGROUP:
            raise TwillError(
                f"tensor memory from {warps[one.signaller]} warps to MMAs of another group is not exported",
                program.function.location,
                help=f"compile the kernel with num_warps={WARPGROUP}, or use `twill codegen`",
            )


def _in_order(program: Program) -> tuple[WarpProgram, ...]:
    """The groups: first the one that runs in the warps that the kernel is launched with."""
    fitting = [g for g in program.groups if g.warps == program.module.num_warps and not g.only_moves]
    if not fitting:
        raise TwillError(
            f"no group has the {program.module.num_warps} warps that the kernel was compiled for",
            program.function.location,
            help="compile the kernel with num_warps of one compute group",
        )
    return (fitting[0], *(group for group in program.groups if group is not fitting[0]))


# --- groups -------------------------------------------------------------------------------------------------


def _function(file: File, group: WarpProgram) -> tuple[tuple[str, ...], str]:
    """The parameters and the text of a group's function."""
    program = file.program
    emitter = Emitter(file, group, Scope(file, group.warps))
    emitter.scope.names |= {safe(one.id) for one in group.variables}
    emitter.scope.names |= {safe(program.name(one.id)) for one in program.function.args}
    body = lines_of(emitter, group.body)
    text = "\n".join(body)
    used = {counter(one.id) for one in (*program.channels, *program.dependences)} | {SYNC_COUNT}
    used |= {f"{one.id}_waits" for one in program.orders}
    counters = [f"{name} = gl.to_tensor(0)" for name in sorted(used) if _names(text, name)]
    parameters = tuple(name for name in _shared_names(file) if _names(text, name))
    head = f"@gluon.jit\ndef group_{group.id}({', '.join(parameters)}):"
    lines = [f'"""{group.warps} warps."""', *counters, *body]
    return parameters, "\n".join([head, *indented(lines)]) + "\n"


def _names(text: str, name: str) -> bool:
    """Whether a text names something."""
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def _shared_names(file: File) -> list[str]:
    """What groups take from the kernel, in the order of its text."""
    program = file.program
    names = [safe(program.name(one.id)) for one in program.function.args]
    names += [name for name, _ in _descriptors(file)]
    for channel in program.channels:
        names += [tensor_name(channel.id, i) for i in range(len(channel.tensors))]
        names += [full(channel.id), empty(channel.id)]
    names += [one.id for one in (*program.orders, *program.dependences)]
    names += [TENSOR_MEMORY, SYNC, *map(drained, program.groups)]
    return [*names, *(buffer_name(one) for one in program.buffers)]


# --- the kernel ---------------------------------------------------------------------------------------------


def _kernel(
    file: File, groups: tuple[WarpProgram, ...], functions: Mapping[int, tuple[tuple[str, ...], str]]
) -> str:
    program = file.program
    needed = {name for parameters, _ in functions.values() for name in parameters}
    scope = Scope(file, groups[0].warps, {safe(program.name(a.id)) for a in program.function.args})
    lines = [
        f"{name} = gl.to_tensor({name}).to({dtype(one.type)})"
        for one in program.function.args
        if isinstance(one.type, Scalar) and (name := safe(program.name(one.id)))
    ]
    lines += _made_descriptors(file, scope, needed)
    for channel in program.channels:
        lines += _channel(file, groups, channel)
    for order in program.orders:
        lines += [f"{order.id} = {ALLOCATED.format(shape='[1]')}", f"mbarrier.init({order.id}, count=1)"]
    lines += _tensor_memory(program)
    lines += [line for one in program.buffers for line in _buffer(file, one)]
    lines += ["gl.warp_specialize(", "    ["]
    lines += [f"        (group_{g.id}, ({', '.join(functions[g.id][0])},))," for g in groups]
    workers = groups[1:]
    lines += ["    ],", f"    {[g.warps for g in workers]},", f"    {[g.registers for g in workers]},", ")"]
    arguments = ", ".join(safe(program.name(one.id)) for one in program.function.args)
    named = identifier(program.function.name)
    head = f"@gluon.jit\ndef {named}({arguments}):"
    return "\n".join([head, *indented(lines), "", "", f"kernel = {named}", ""])


ALLOCATED = "gl.allocate_shared_memory(gl.int64, {shape}, mbarrier.MBarrierLayout())"


def _channel(file: File, groups: tuple[WarpProgram, ...], channel: Channel) -> list[str]:
    """Slots and barriers of a channel; the full barrier counts the arrival that expects the bytes, that of
    the group that writes, or those of the threads that copy."""
    copying = next(32 * g.warps for g in groups if g.id == channel.producer)
    arrivals = copying if by_copies(file, channel) else 1
    lines = list[str]()
    for i, tensor in enumerate(channel.tensors):
        form = file.layouts.name(tensor.encoding, tensor.shape)
        shape = [channel.depth, *tensor.shape]
        given = f"{dtype(tensor.dtype)}, {shape}, {form}"
        lines.append(f"{tensor_name(channel.id, i)} = gl.allocate_shared_memory({given})")
    released = len(channel.releasing) + len(channel.by_mma)
    for name, count in ((full(channel.id), arrivals), (empty(channel.id), released)):
        lines.append(f"{name} = {ALLOCATED.format(shape=[channel.depth, 1])}")
        lines += [
            f"for slot in gl.static_range({channel.depth}):",
            f"    mbarrier.init({name}.index(slot), count={count})",
        ]
    return lines


def _tensor_memory(program: Program) -> list[str]:
    """The columns, the barriers that order accesses to them, and those that all groups meet at."""
    if not program.tensor_memory:
        return []
    columns = allocated(program)
    form = f"TensorMemoryLayout(({LANES}, {columns}), 1)"
    lines = [f"{TENSOR_MEMORY} = allocate_tensor_memory(gl.float32, [{LANES}, {columns}], {form})"]
    for one in program.dependences:
        lines += [
            f"{one.id} = {ALLOCATED.format(shape=[one.depth, 1])}",
            f"for slot in gl.static_range({one.depth}):",
            f"    mbarrier.init({one.id}.index(slot), count=1)",
        ]
    counts = {
        drained(group): 1 for group in program.groups if group.id in program.synchronized and _issues(group)
    }
    if program.synchronized:
        counts[SYNC] = len(program.synchronized)
    for name, count in counts.items():
        lines += [f"{name} = {ALLOCATED.format(shape='[1]')}", f"mbarrier.init({name}, count={count})"]
    return lines


def _issues(group: WarpProgram) -> bool:
    return any(isinstance(one, MmaIssue) for one in walk(group.body))


LANES = 128
"""Rows of tensor memory."""


def _buffer(file: File, buffer: Buffer) -> list[str]:
    """A buffer of its own, for the largest tile that goes through it."""
    if buffer.overlays is not None:
        return []
    stores = [
        (file.program.op(one.ops[-1]), one.parts)
        for group in file.program.groups
        for one in walk(group.body)
        if isinstance(one, StoreTile) and one.buffer == buffer.id
    ]
    if not stores:
        return []
    op, parts = stores[0]
    kind = op.operands[0].type
    assert isinstance(kind, TensorDesc)
    shape = (*kind.shape[:-1], kind.shape[-1] // parts)
    return [
        f"{buffer_name(buffer)} = gl.allocate_shared_memory("
        f"{dtype(kind.dtype)}, {[*shape]}, {file.layouts.name(kind.encoding, shape)})"
    ]


def _descriptors(file: File) -> list[tuple[str, tuple[Op, int]]]:
    """The descriptors, each for the parts of columns that stores divide its tile into."""
    program, found = file.program, dict[str, tuple[Op, int]]()
    in_parts = {
        (program.op(one.ops[-1]).operands[0].id, divided(file, one))
        for group in program.groups
        for one in walk(group.body)
        if isinstance(one, StoreTile)
    }
    for one in program.descriptors:
        op = program.op(one.ops[-1])
        name = safe(program.name(op.result.id))
        found[f"{name}_map"] = (op, 1)
        for value, parts in sorted(in_parts):
            if value == op.result.id and parts > 1:
                found[f"{name}_map_{parts}"] = (op, parts)
    return [*found.items()]


def _made_descriptors(file: File, scope: Scope, needed: set[str]) -> list[str]:
    program = file.program
    for one in program.descriptors:
        for index in one.ops[:-1]:
            if program.op(index).result.id not in scope.values:
                scope.execute(program.op(index))
    lines = list(scope.lines)
    for name, (op, parts) in _descriptors(file):
        if name in needed:
            lines.append(f"{name} = {_made(file, scope, op, parts)}")
    return lines


def _made(file: File, scope: Scope, op: Op, parts: int) -> str:
    kind = op.result.type
    assert isinstance(kind, TensorDesc)
    rank = len(kind.shape)
    data, *numbers = (scope.text(value) for value in op.operands[: 1 + 2 * rank])
    block = (*kind.shape[:-1], kind.shape[-1] // parts)
    form = scope.attempt(op, lambda: file.layouts.name(kind.encoding, block))
    sizes, strides = ", ".join(numbers[:rank]), ", ".join(numbers[rank:])
    return f"tma.make_tensor_descriptor({data}, [{sizes}], [{strides}], {[*block]}, {form})"
