"""tcgen05: how Blackwell issues an MMA, and how its completion reaches mbarriers.

Takes `MmaIssue` of a group; gives lines of C++. An accumulator lies in tensor memory, A there or in shared
memory, B in shared memory. One thread issues, and commits to the barriers that the completion arrives on (PTX
ISA, "TensorCore 5th Generation Family Instructions").
"""

from collections.abc import Mapping
from dataclasses import dataclass

from twill.ir.loop import MemDesc, Op, Scalar, Tensor, TensorMemory
from twill.ir.program import MbarrierArrival, MmaIssue, Program, Read, Slot
from twill.ir.program import TensorMemory as Location
from twill.ops.table import role
from twill.targets.cuda.elements import refuse, sequence
from twill.targets.cuda.expressions import plus
from twill.targets.cuda.mma import accumulates, advance
from twill.targets.cuda.names import channel
from twill.targets.cuda.operations import execute
from twill.targets.cuda.positions import Positions
from twill.targets.cuda.register_tiles import BITS
from twill.targets.cuda.scope import tensor_address
from twill.targets.cuda.shared_tiles import Shared
from twill.targets.cuda.statements import Emitter

KINDS: Mapping[str, tuple[str, str]] = {
    "f16": ("f16", "F16"),
    "bf16": ("f16", "BF16"),
    "f32": ("tf32", "TF32"),
    "f8E4M3FN": ("f8f6f4", "E4M3"),
    "f8E5M2": ("f8f6f4", "E5M2"),
}
"""Kind of instruction and code of its operands, by element type."""
ROWS = 128
"""M of an MMA of one thread block."""
WIDEST = 256
"""N of one at most."""


def unsupported(op: Op) -> str | None:
    """Why an MMA can not be generated, by its types; None for one that may be, and for other operations."""
    if role(op) != "tensor_memory_mma":
        return None
    types = [value.type for value in op.operands[:3]]
    names = [t.dtype.name for t in types if isinstance(t, MemDesc) and isinstance(t.dtype, Scalar)]
    if len(names) != 3 or names[0] not in KINDS or names[1] not in KINDS or names[2] != "f32":
        return f"of {' and '.join(names[:2])} that adds to {names[-1]} can not be generated"
    if KINDS[names[0]][0] != KINDS[names[1]][0]:
        return f"of {names[0]} and {names[1]} can not be generated"
    left, right, result = types
    assert isinstance(left, MemDesc)
    assert isinstance(right, MemDesc)
    assert isinstance(result, MemDesc)
    encoding = result.encoding
    if not isinstance(encoding, TensorMemory) or encoding.two_ctas or encoding.block_m != ROWS:
        return "of another number of rows than 128 in a thread block can not be generated"
    rows, columns = result.shape[-2:]
    if len(result.shape) != 2 or rows != ROWS or columns > WIDEST or columns % 16:
        return f"into {'x'.join(map(str, result.shape))} can not be generated"
    if left.space == "tmem" and BITS[names[0]] == 8:
        return "of 8-bit A in tensor memory can not be generated"
    return None


@dataclass(slots=True)
class TcgenPrinter:
    """The tcgen05 of one group."""

    def restart(self) -> None:
        """Nothing is in flight that later text depends on."""

    def wait(self, pending: int) -> list[str]:
        raise AssertionError(f"MMAs that arrive on mbarriers are not waited for by number ({pending})")

    def issue(self, emitter: Emitter, statement: MmaIssue) -> list[str]:
        """The MMA of all of K, and its commits, by one thread."""
        program, dot = emitter.program, emitter.program.op(statement.ops[-1])
        a, b = _operands(emitter, statement)
        assert isinstance(statement.accumulator, Location)
        into = tensor_address(program, statement.accumulator)
        kind, descriptor, step = _instruction(program, dot, a, b)
        lines = [f"const uint64_t descriptor_b = {_descriptor(b, not b.transposed)};"]
        if isinstance(a, Shared):
            lines.append(f"const uint64_t descriptor_a = {_descriptor(a, a.transposed)};")
        for k in range(statement.begin, statement.end, step):
            add = "1" if k else accumulates(statement, emitter.least)
            right = _advanced("descriptor_b", advance(b, not b.transposed, k))
            left = (
                _advanced("descriptor_a", advance(a, a.transposed, k))
                if isinstance(a, Shared)
                else plus(a, 8 * k // step)
            )
            lines.append(f"tcgen05_mma_{kind}({into}, {left}, {right}, {descriptor}, {add});")
        lines += _commits(emitter.positions, statement)
        head = emitter.comment(statement.at, statement.ops, statement.node)
        only = "thread.warp == 0 && " if emitter.group.warps > 1 else ""
        return [
            head,
            f"if ({only}elect_one()) {{",
            *(f"    {line}" for line in lines),
            "}",
            "__syncwarp();",
        ]


def _commits(positions: Positions, statement: MmaIssue) -> list[str]:
    assert isinstance(statement.completion, MbarrierArrival)
    slots = (
        f"tcgen05_commit({channel(slot.channel)}.empty({positions.of(slot.channel, slot.iteration)}));"
        for slot in statement.completion.slots
    )
    barriers = (
        f"{phase.barrier}.completed({sequence(phase.barrier, phase.iteration)});"
        for phase in statement.completion.barriers
    )
    return [*slots, *barriers]


def _operands(emitter: Emitter, it: MmaIssue) -> tuple[Shared | str, Shared]:
    """A in shared memory, or its address in tensor memory, and B. What comes before the MMA only changes how
    they are seen."""
    program, scope = emitter.program, emitter.scope((), at=it.at)
    for read in it.reads:
        scope.values[read.value] = (
            scope.operand(read, read.location) if isinstance(read.location, Slot) else _address(program, read)
        )
    for index in it.ops[:-1]:
        op = program.op(index)
        if not isinstance(op.result.type, Tensor):
            execute(scope, op)
    dot = program.op(it.ops[-1])
    a, b = scope.form(dot.operands[0]), scope.form(dot.operands[1])
    assert isinstance(b, Shared)
    assert isinstance(a, Shared | str)
    return a, b


def _address(program: Program, read: Read) -> str:
    assert isinstance(read.location, Location)
    return tensor_address(program, read.location)


def _instruction(program: Program, dot: Op, a: Shared | str, b: Shared) -> tuple[str, str, int]:
    """The kind, the instruction descriptor, and K of one instruction."""
    left, right, result = (value.type for value in dot.operands[:3])
    assert isinstance(left, MemDesc)
    assert isinstance(right, MemDesc)
    assert isinstance(result, MemDesc)
    assert isinstance(left.dtype, Scalar)
    assert isinstance(right.dtype, Scalar)
    (kind, one), (_, other) = KINDS[left.dtype.name], KINDS[right.dtype.name]
    outer = [isinstance(a, Shared) and a.transposed, not b.transposed]
    if BITS[left.dtype.name] != 16 and any(outer):
        raise refuse(
            program, dot, "operands of less or more than 16 bits must be contiguous along K in shared memory"
        )
    words = ", ".join("true" if one else "false" for one in outer)
    rows, columns = result.shape[-2:]
    text = f"instruction_descriptor({one}, {other}, {words}, {rows}, {columns})"
    return kind, text, 256 // BITS[left.dtype.name]


def _descriptor(tile: Shared, outer: bool) -> str:
    return f"tcgen05_descriptor<{tile.width}>({tile.address}{f', {tile.box}' if outer else ''})"


def _advanced(descriptor: str, bytes: int) -> str:
    return f"descriptor_advance({descriptor}, {bytes})" if bytes else descriptor
