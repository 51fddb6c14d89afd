"""tcgen05: how Blackwell issues an MMA, and how its completion reaches mbarriers.

Takes `MmaIssue` of a group; gives lines of C++. An accumulator lies in tensor memory, A there or in shared
memory, B in shared memory. One thread issues, and commits to the barriers that the completion arrives on (PTX
ISA, "TensorCore 5th Generation Family Instructions").
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from twill.ir.loop import MemDesc, Op, Scalar, Tensor, TensorMemory, Value
from twill.ir.operands import Read, Slot
from twill.ir.operands import TensorMemory as Location
from twill.ir.program import Program
from twill.ir.statements import InitializeCarried, MbarrierArrival, MmaIssue
from twill.ops.mma import copied_scales, inputs, packed
from twill.ops.table import role
from twill.targets.blackwell.scales import codes, copies, scale_address, scaled_kind
from twill.targets.cuda.emitter import FIRST, Emitter
from twill.targets.cuda.expressions import plus
from twill.targets.cuda.loops.positions import Positions
from twill.targets.cuda.mmas.mma import accumulates, advance
from twill.targets.cuda.names import channel
from twill.targets.cuda.operations import execute
from twill.targets.cuda.registers.elements import refuse, sequence
from twill.targets.cuda.scope import tensor_address
from twill.targets.cuda.shared.shared_tiles import Shared
from twill.warp.dataflow import BUFFER_VIEWS

KINDS: Mapping[str, tuple[str, str]] = {
    "f16": ("f16", "F16"),
    "bf16": ("f16", "BF16"),
    "f32": ("tf32", "TF32"),
    "f8E4M3FN": ("f8f6f4", "E4M3"),
    "f8E5M2": ("f8f6f4", "E5M2"),
    "i8": ("i8", "S8"),
}
"""Kind of instruction and code of its operands, by element type. `tl.dot` takes no unsigned integers."""
DEPTHS: Mapping[str, int] = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
"""K of an instruction, by kind."""
SUMS: Mapping[str, Mapping[str, str]] = {
    "f16": {"f32": "F32_SUMS", "f16": "F16_SUMS"},
    "tf32": {"f32": "F32_SUMS"},
    "f8f6f4": {"f32": "F32_SUMS", "f16": "F16_SUMS"},
    "i8": {"i32": "S32_SUMS"},
}
"""Codes of the element types of D, by kind. bf16 adds to f32 alone."""
ROWS = (64, 128)
"""M of an MMA of one thread block; of a block-scaled one, the last."""
WIDEST = 256
"""N of one at most."""


def unsupported(op: Op) -> str | None:
    """Why an MMA can not be generated, by its types; None for one that may be, and for other operations."""
    if role(op) != "tensor_memory_mma":
        return None
    left, right, result = (value.type for value in op.operands[:3])
    assert isinstance(left, MemDesc)
    assert isinstance(right, MemDesc)
    assert isinstance(result, MemDesc)
    scaled = len(inputs(op)) > 2
    reason = _unsupported_scales(op) if scaled else _unsupported_types(left, right, result)
    return reason or _unsupported_shape(result, ROWS[-1:] if scaled else ROWS)


def _unsupported_types(left: MemDesc, right: MemDesc, result: MemDesc) -> str | None:
    names = [t.dtype.name for t in (left, right, result) if isinstance(t.dtype, Scalar)]
    known = len(names) == 3 and names[0] in KINDS and names[1] in KINDS
    if not known or names[2] not in SUMS[KINDS[names[0]][0]] or ("bf16" in names and names[2] == "f16"):
        return f"of {' and '.join(names[:2])} that adds to {names[-1]} can not be generated"
    if KINDS[names[0]][0] != KINDS[names[1]][0]:
        return f"of {names[0]} and {names[1]} can not be generated"
    if left.space == "tmem" and names[0] == "i8":
        return "of 8-bit integers A in tensor memory can not be generated"
    return None


def _unsupported_scales(op: Op) -> str | None:
    """Of a block-scaled MMA."""
    left, _, *scales = inputs(op)
    if any(map(_in_tensor_memory, scales)):
        return "with scale factors that are stored to tensor memory by threads can not be generated"
    if _in_tensor_memory(left) and packed(op, 0) and not packed(op, 1):
        return "of 4-bit floats in tensor memory beside 8-bit ones can not be generated"
    try:
        kind = scaled_kind(op)
        codes(op, kind)
        blocks = [list(copies(one)) for one in scales]
    except ValueError as problem:
        return f"{problem} can not be generated"
    return None if all(blocks) else "without scale factors can not be generated"


def _in_tensor_memory(value: Value) -> bool:
    return isinstance(value.type, MemDesc) and value.type.space == "tmem"


def _unsupported_shape(result: MemDesc, possible: Collection[int]) -> str | None:
    encoding = result.encoding
    if not isinstance(encoding, TensorMemory) or encoding.two_ctas or encoding.block_m not in possible:
        known = " or ".join(map(str, possible))
        return f"of another number of rows than {known} in a thread block can not be generated"
    rows, columns = result.shape[-2:]
    if len(result.shape) != 2 or rows != encoding.block_m or columns > WIDEST or columns % 16:
        return f"into {'x'.join(map(str, result.shape))} can not be generated"
    return None


@dataclass(slots=True)
class TcgenPrinter:
    """The tcgen05 of one group."""

    def copied(self, emitter: Emitter, name: str, copy: str) -> list[str]:
        """Accumulators lie in tensor memory."""
        return []

    def initialized(self, emitter: Emitter, it: InitializeCarried) -> list[str]:
        """Accumulators lie in tensor memory."""
        return []

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
        lines = [f"const uint64_t descriptor_b = {_descriptor(b, not b.transposed)};"]
        if isinstance(a, Shared):
            lines.append(f"const uint64_t descriptor_a = {_descriptor(a, a.transposed)};")
        form = _scaled(emitter, statement, a, b) if statement.scales else _plain(program, dot, a, b)
        lines += form.before
        for number, k in enumerate(range(statement.begin, statement.end, form.step)):
            add = "1" if k else accumulates(statement, emitter.least)
            element = k // form.packed
            right = _advanced("descriptor_b", advance(b, not b.transposed, element))
            left = (
                _advanced("descriptor_a", advance(a, a.transposed, element))
                if isinstance(a, Shared)
                else plus(a, 8 * k // form.step)
            )
            operands = ", ".join([into, left, right, *form.operands(number), add])
            lines.append(f"tcgen05_mma_{form.kind}{'<2>' if program.pairs else ''}({operands});")
        lines += _commits(program, emitter.positions, statement)
        head = emitter.comment(statement.at, statement.ops, statement.node)
        only = "thread.warp == 0 && " if emitter.group.warps > 1 else ""
        only = f"{FIRST} && {only}" if program.pairs else only
        return [
            head,
            f"if ({only}elect_one()) {{",
            *(f"    {line}" for line in lines),
            "}",
            "__syncwarp();",
        ]


def _commits(program: Program, positions: Positions, statement: MmaIssue) -> list[str]:
    """On the barriers of both thread blocks of a pair."""
    assert isinstance(statement.completion, MbarrierArrival)
    commit, both, completed = (
        ("tcgen05_commit_pair", ", 3", "completed_pair")
        if program.pairs
        else ("tcgen05_commit", "", "completed")
    )
    slots = (
        f"{commit}({channel(slot.channel)}.empty({positions.of(slot.channel, slot.iteration)}){both});"
        for slot in statement.completion.slots
    )
    barriers = (
        f"{phase.barrier}.{completed}({sequence(phase.barrier, phase.iteration)});"
        for phase in statement.completion.barriers
    )
    return [*slots, *barriers]


def _operands(emitter: Emitter, it: MmaIssue) -> tuple[Shared | str, Shared]:
    """A in shared memory, or its address in tensor memory, and B. What comes before the MMA only changes how
    they are seen."""
    program, scope = emitter.program, emitter.scope((), at=it.at)
    dot = program.op(it.ops[-1])
    scales = {value.id for chain in _scale_chains(program, dot) for value in chain}
    for read in it.reads:
        if read.value in scales:
            continue
        scope.values[read.value] = (
            scope.operand(read, read.location) if isinstance(read.location, Slot) else _address(program, read)
        )
    for index in it.ops[:-1]:
        op = program.op(index)
        if not isinstance(op.result.type, Tensor) and op.result.id not in scales:
            execute(scope, op)
    a, b = scope.form(dot.operands[0]), scope.form(dot.operands[1])
    assert isinstance(b, Shared)
    assert isinstance(a, Shared | str)
    return a, b


def _address(program: Program, read: Read) -> str:
    assert isinstance(read.location, Location)
    return tensor_address(program, read.location)


@dataclass(frozen=True, slots=True)
class _Form:
    """What the instructions of one MMA have in common."""

    kind: str
    step: int
    """Elements along K of one instruction."""
    operands: Callable[[int], list[str]]
    """Of instruction number n, behind D, A and B."""
    before: tuple[str, ...] = ()
    """Lines in front of them."""
    packed: int = 1
    """Elements along K of A and B in one of the buffer."""


def _scale_chains(program: Program, dot: Op) -> list[list[Value]]:
    """For each buffer of scale factors: itself and what it is a view of, down to the loaded tile."""
    found = list[list[Value]]()
    for value, _ in copied_scales(dot):
        chain = [value]
        while chain[-1].producer is not None:
            maker = program.op(chain[-1].producer)
            if role(maker) not in BUFFER_VIEWS | {"alloc"}:
                break
            chain.append(maker.operands[0])
        found.append(chain)
    return found


def _scaled(emitter: Emitter, it: MmaIssue, a: Shared | str, b: Shared) -> _Form:
    """A block-scaled MMA, and the copies of its scale factors to tensor memory."""
    program, dot = emitter.program, emitter.program.op(it.ops[-1])
    scope, kind = emitter.scope((), at=it.at), scaled_kind(dot)
    slots = {read.value: read.location for read in it.reads if isinstance(read.location, Slot)}
    lines, names = list[str](), ("scales_a", "scales_b")
    for name, chain, tile in zip(names, _scale_chains(program, dot), it.scales, strict=True):
        slot = next(slots[value.id] for value in chain if value.id in slots)
        lines.append(f"const uint32_t {name} = {tensor_address(program, tile)};")
        lines.append(f"const uint32_t {name}_at = {scope.dense(slot, dot)};")
        for offset, column in copies(chain[0]):
            copy = "tcgen05_copy<2>" if program.pairs else "tcgen05_copy"
            lines.append(f"{copy}({plus(name, column)}, {plus(f'{name}_at', offset)});")
    codes_of = ", ".join(codes(dot, kind))
    majors = _majors(program, dot, a, b, "4" if packed(dot, 0) or packed(dot, 1) else "")
    m, n = _shape(program, dot)
    rows = [_rows(value) for value, _ in copied_scales(dot)]

    def operands(number: int) -> list[str]:
        (first, byte), (second, other) = (scale_address(0, kind, number, one) for one in rows)
        text = f"{codes_of}, {majors}, {m}, {n}, {kind.scale}, {byte}, {other}"
        return [f"scaled_instruction_descriptor({text})", plus(names[0], first), plus(names[1], second)]

    return _Form(kind.name, kind.k, operands, tuple(lines), 2 if kind.k == 64 else 1)


def _rows(scales: Value) -> int:
    assert isinstance(scales.type, MemDesc)
    return scales.type.shape[-2]


def _shape(program: Program, dot: Op) -> tuple[int, int]:
    """M and N of the instructions: M is that of both thread blocks of a pair."""
    result = dot.operands[2].type
    assert isinstance(result, MemDesc)
    return result.shape[-2] * (1 + program.pairs), result.shape[-1]


def _plain(program: Program, dot: Op, a: Shared | str, b: Shared) -> _Form:
    """An MMA without scale factors."""
    left, right, into = (_element(value) for value in dot.operands[:3])
    (kind, one), (_, other) = KINDS[left], KINDS[right]
    majors = _majors(program, dot, a, b, "32" if kind == "tf32" else "")
    rows, columns = _shape(program, dot)
    sums = f", {SUMS[kind][into]}" if into != "f32" else ""
    text = f"instruction_descriptor({one}, {other}, {majors}, {rows}, {columns}{sums})"
    return _Form(kind, DEPTHS[kind], lambda number: [text])


def _majors(program: Program, dot: Op, a: Shared | str, b: Shared, bits: str) -> str:
    """Whether A and B are MN-major, in words. Raises TwillError where they can not be, for `bits`, which is
    empty where all elements have 8 or 16 (PTX ISA, "Transpose and Negate operation")."""
    outer = (isinstance(a, Shared) and a.transposed, not b.transposed)
    if any(outer) and bits:
        listed = ": the PTX ISA lists no MMA that reads others" if bits == "4" else ""
        text = f"operands of {bits} bits must be contiguous along K in shared memory{listed}"
        raise refuse(program, dot, text)
    if outer[1] and b.bits == 8 and _shape(program, dot)[1] % _MN_MAJOR_BYTES[program.pairs]:
        raise refuse(program, dot, "B of 8 bits, contiguous along N, has too few columns")
    return ", ".join("true" if one else "false" for one in outer)


_MN_MAJOR_BYTES = (16, 32)
"""What N is a multiple of where B of 8 bits is contiguous along N: of one thread block, and of a pair (PTX
ISA, tcgen05.mma, restrictions on N)."""


def _element(value: Value) -> str:
    """The element type of a buffer."""
    assert isinstance(value.type, MemDesc)
    assert isinstance(value.type.dtype, Scalar)
    return value.type.dtype.name


def _descriptor(tile: Shared, outer: bool) -> str:
    return f"tcgen05_descriptor<{tile.width}>({tile.address}{f', {tile.box}' if outer else ''})"


def _advanced(descriptor: str, bytes: int) -> str:
    return f"descriptor_advance({descriptor}, {bytes})" if bytes else descriptor
