"""Warpgroup MMA of sm_90a (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").

Four consecutive warps issue it together. Operands in shared memory are found by descriptors, read when the
group is waited for, and until then noted as being read. Accumulators are undefined from the issue to the
wait.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twill.emulate.decode import Control, Decoder, Ref, Step, control, guard_of, mask_of, step, uniform
from twill.emulate.faults import Fault
from twill.emulate.machine.warp import ALL, Warp
from twill.emulate.memory.clocks import ORDERED, Array
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.operands import Descriptor, matrix, pieces, values
from twill.emulate.ptx.syntax import Instruction, Operand, Register, Vector

# --- operands in shared memory -----------------------------------------------------------------------------


SWIZZLES = (0, 128, 64, 32)
_RESERVED = 0x3 << 14 | 0x3 << 30 | 0x7 << 46 | 0x3FF << 52


def descriptor(word: int) -> Descriptor:
    """Raises Fault for bits that no descriptor has."""
    if word & _RESERVED:
        raise Fault(f"the matrix descriptor {word:#018x} has reserved bits set")
    if word >> 49 & 7:
        raise Fault("matrix descriptors with a base offset are not supported")
    return Descriptor(
        (word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4, SWIZZLES[word >> 62]
    )


def located(one: Descriptor, rows: int, transposed: bool) -> Array:
    """Offsets of the pieces of an operand with 32 bytes of K, or transposed with 16 elements of 2 bytes."""
    return pieces(one, rows, transposed, 16, rows // 8 if transposed else 2)


# --- fragments in registers -------------------------------------------------------------------------------


def fragment(words: Array, type: str) -> Array:
    """A's 16 rows of one warp, from four registers (4, 32): (16, K)."""
    each = {"f16": 2, "bf16": 2, "tf32": 1}.get(type, 4)
    octets = np.ascontiguousarray(words).view(np.uint8).reshape(2, 2, 8, 4, 4)
    ordered = octets.transpose(1, 2, 0, 3, 4).reshape(16, -1)
    return values(np.ascontiguousarray(ordered), type).reshape(16, 8 * each)


def accumulator(rows: Array, kind: str) -> Array:
    """D's 16 rows of one warp, from registers: (16, N)."""
    if kind == "f16":
        return rows.view(np.float16).reshape(-1, 2, 8, 4, 2).transpose(1, 2, 0, 3, 4).reshape(16, -1)
    return rows.reshape(-1, 2, 2, 8, 4).transpose(1, 3, 0, 4, 2).reshape(16, -1)


def registers(tile: Array, kind: str) -> Array:
    """The registers of D's 16 rows of one warp, as 32-bit words."""
    parts = tile.reshape(2, 8, -1, 4, 2)
    if kind == "f16":
        return (
            np.ascontiguousarray(parts.transpose(2, 0, 1, 3, 4).astype(np.float16))
            .view(np.uint32)
            .reshape(-1, 32)
        )
    made = np.ascontiguousarray(parts.transpose(2, 0, 4, 1, 3)).reshape(-1, 32)
    return made.view(np.uint32)


# --- one instruction --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """A wgmma as it stands in the text."""

    line: int
    columns: int
    kind: str
    """Of D: f32, f16 or s32."""
    a_type: str
    b_type: str
    d: tuple[int, ...]
    """Registers."""
    a: tuple[int, ...] | None
    """Registers, where A is not in shared memory."""
    a_transposed: bool
    b_transposed: bool
    a_sign: int
    b_sign: int
    saturate: bool


@dataclass(slots=True)
class Issued:
    """A wgmma of a warpgroup, which its warps have begun to issue."""

    form: Form
    warps: list[Warp] = field(default_factory=list[Warp])
    accumulate: bool = True
    a: Descriptor | None = None
    b: Descriptor | None = None
    fragments: dict[int, Array] = field(default_factory=dict[int, "Array"])
    """A's registers at the issue, by warp."""
    clocks: list[Array] = field(default_factory=list["Array"])
    groups: list[int] = field(default_factory=list[int])
    """Of each warp, the number of the group that it belongs to."""
    done: bool = False


@dataclass(slots=True)
class Group:
    """What a warpgroup has issued."""

    issued: list[Issued] = field(default_factory=list[Issued])
    begun: int = 0
    """The first that is not computed yet."""


@dataclass(slots=True)
class Own:
    """What one warp has in flight."""

    component: int
    count: int = 0
    """Issued ever."""
    commits: list[int] = field(default_factory=list[int])
    """`count` at each commit."""
    waited: int = 0
    """How many are known to be complete."""
    flying: dict[int, int] = field(default_factory=dict[int, int])
    """The last that writes a register in flight."""
    fenced: bool = False
    """There was a wgmma.fence."""
    unfenced: set[int] = field(default_factory=set[int])
    """Registers of wgmma that were written otherwise since the last wgmma.fence."""


def own(warp: Warp) -> Own:
    if "wgmma" not in warp.state:
        warp.state["wgmma"] = Own(warp.cta.cluster.clocks.add(f"wgmma of {warp.name}"))
    return warp.state["wgmma"]


def group(warp: Warp) -> Group:
    return warp.cta.state.setdefault(("wgmma", warp.index // 4), Group())


def _signs(operands: Sequence[Operand]) -> list[int]:
    return [immediate(operand) for operand in operands]


def _form(one: Instruction) -> tuple[Form, Operand, Operand, Operand | None]:
    """The form, A, B and scale-d. Raises ValueError for what is not known."""
    parts = [
        part for part in one.modifiers if part not in ("mma_async", "sync", "aligned", "satfinite", "sp")
    ]
    if "sp" in one.modifiers or len(parts) != 4:
        raise ValueError("this form")
    shape, kind, a_type, b_type = parts
    columns = int(shape[1:].partition("n")[2].partition("k")[0])
    d, a, b, *rest = one.operands
    scale = rest[0] if rest else None
    numbers = _signs(rest[1:])
    from_registers = isinstance(a, Vector)
    sign_a, sign_b = numbers[:2] if kind != "s32" and numbers else (1, 1)
    transposed = [bool(number) for number in numbers[2:]]
    a_turned = transposed[0] if transposed and not from_registers else False
    b_turned = transposed[-1] if transposed else False
    registers_a = _numbers(a) if from_registers else None
    saturate = "satfinite" in one.modifiers
    form = Form(
        one.line,
        columns,
        kind,
        a_type,
        b_type,
        _numbers(d),
        registers_a,
        a_turned,
        b_turned,
        sign_a,
        sign_b,
        saturate,
    )
    if (
        a_type not in _TYPES
        or kind not in ("f32", "f16", "s32")
        or len(form.d) != columns // (4 if kind == "f16" else 2)
    ):
        raise ValueError("this form")
    return form, a, b, scale


_TYPES: Mapping[str, int] = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


def _numbers(operand: Operand) -> tuple[int, ...]:
    if not isinstance(operand, Vector):
        raise ValueError(f"{operand} is no vector of registers")
    return tuple(item.index for item in operand.items if isinstance(item, Register) and item.bits == 32)


@control("wgmma.mma_async", waits=True)
def _mma(one: Instruction, decoder: Decoder) -> Control:
    form, a, b, scale = _form(one)
    a_word = decoder.source(a, "u64") if form.a is None else None
    b_word = decoder.source(b, "u64")
    accumulate = guard_of(scale, decoder) if scale is not None else None

    def run(warp: Warp) -> int:
        if blocked := warp.gather(ALL, "wgmma"):
            return blocked
        if warp.mask != ALL:
            raise Fault("wgmma is executed by a part of a warp")
        issue(warp, form, a_word, b_word, accumulate)
        return warp.fragment.pc + 1

    return run


def issue(warp: Warp, form: Form, a: Ref | None, b: Ref, accumulate: tuple[Ref, bool] | None) -> None:
    """A warp's part of an issue; the last of the four makes it one."""
    mine, together = own(warp), group(warp)
    if accumulate is not None:
        warp.require(0, accumulate[0].index, "scale-d")
    adds = accumulate is None or mask_of(warp, accumulate) == ALL
    if mine.count == len(together.issued):
        together.issued.append(Issued(form, accumulate=adds))
    one = together.issued[mine.count]
    found_a = descriptor(uniform(warp, a, "a matrix descriptor")) if a else None
    found_b = descriptor(uniform(warp, b, "a matrix descriptor"))
    if one.warps and (one.form, one.accumulate, one.a, one.b) != (form, adds, found_a, found_b):
        raise Fault("the warps of a warpgroup issue different wgmma")
    one.a, one.b = found_a, found_b
    _registers_ready(warp, mine, form, adds, one)
    one.warps.append(warp)
    one.clocks.append(warp.clock.copy())
    one.groups.append(len(mine.commits) + 1)
    mine.count += 1
    mine.flying.update(dict.fromkeys(form.d, mine.count))
    valid = warp.valid[2]
    for index in form.d:
        valid[index] = 0
    if len(one.warps) == 4:
        _check_operands(one)


def _registers_ready(warp: Warp, mine: Own, form: Form, adds: bool, one: Issued) -> None:
    """Raises Fault where a register of the accumulator or of A is not fit to be read."""
    valid, used = warp.valid[2], form.d + (form.a or ())
    if not mine.fenced:
        raise Fault(
            "the first wgmma has no wgmma.fence before it",
            help="wgmma.fence.sync.aligned comes before the wgmma",
        )
    if mine.unfenced and not mine.unfenced.isdisjoint(used):
        raise Fault(
            "a register of wgmma was written with no wgmma.fence since",
            help="wgmma.fence.sync.aligned comes before the wgmma",
        )
    for index in form.d:
        flies = index in mine.flying
        if flies and valid[index]:
            raise Fault("an accumulator was written while a wgmma on it is in flight")
        if adds and not flies and valid[index] != ALL:
            raise Fault("wgmma adds to an accumulator that was never written")
    if form.a is not None:
        for index in form.a:
            warp.require(2, index, "A of wgmma")
        one.fragments[warp.index] = warp.files[32][list(form.a)]


def _check_operands(one: Issued) -> None:
    """What the four warps read in shared memory must be ordered before, for each of them, and is being read
    until each has waited."""
    cta, clock = one.warps[0].cta, np.minimum.reduce(one.clocks)
    for found, rows, transposed in _operands(one):
        at = located(found, rows, transposed)
        cta.shared.inside(int(at.min()), int(at.max()) + 16)
        octets = at.reshape(-1, 1) + np.arange(16)
        if (cta.shared.check_read(octets, clock, proxy=True) <= 0).any():
            raise Fault("wgmma reads shared memory that was never written")
        for warp, number in zip(one.warps, one.groups, strict=True):
            component = own(warp).component
            cta.shared.mark_read(
                octets, component, cta.cluster.clocks.event(component, number, one.form.line, generic=False)
            )


def _operands(one: Issued) -> list[tuple[Descriptor, int, bool]]:
    assert one.b
    found = [(one.b, one.form.columns, one.form.b_transposed)]
    return [(one.a, 64, one.form.a_transposed), *found] if one.a else found


# --- completion -------------------------------------------------------------------------------------------


def compute(one: Issued) -> None:
    """Reads the operands, and writes the accumulators of the four warps."""
    form, cta, one.done = one.form, one.warps[0].cta, True
    assert one.b
    b = matrix(cta, located(one.b, form.columns, form.b_transposed), form.b_type, form.b_transposed)
    warps = sorted(one.warps, key=lambda warp: warp.index)
    if one.a:
        a = matrix(cta, located(one.a, 64, form.a_transposed), form.a_type, form.a_transposed)
    else:
        a = np.concatenate([_kept(one, warp) for warp in warps])
    dot = a @ b.T
    if form.a_sign * form.b_sign < 0:
        dot = -dot
    index = np.array(form.d)
    for i, warp in enumerate(warps):
        _accumulate(warp, index, dot[16 * i : 16 * i + 16], one)


def _kept(one: Issued, warp: Warp) -> Array:
    assert one.form.a is not None
    held = one.fragments[warp.index]
    if not np.array_equal(held, warp.files[32][list(one.form.a)]):
        raise Fault(
            "a register with A was written while the wgmma that reads it is in flight", line=one.form.line
        )
    return fragment(held, one.form.a_type)


def _accumulate(warp: Warp, index: Array, dot: Array, one: Issued) -> None:
    kind, file = one.form.kind, warp.files[32]
    if one.accumulate:
        held = accumulator(file[index].view(_KINDS[kind]), kind)
        dot = held.astype(_SUMS[kind]) + dot
    if kind == "s32":
        whole = dot.astype(np.int64)
        dot = (np.clip(whole, -(1 << 31), (1 << 31) - 1) if one.form.saturate else whole).astype(np.int32)
    file[index] = registers(np.asarray(dot, None if kind == "s32" else np.float32), kind)


_KINDS: Mapping[str, Any] = {"f32": np.float32, "f16": np.uint32, "s32": np.int32}
_SUMS: Mapping[str, Any] = {"f32": np.float32, "f16": np.float32, "s32": np.float64}


@step("wgmma.fence")
def _fence(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        mine = own(warp)
        mine.fenced = True
        mine.unfenced.clear()

    return run


@step("wgmma.commit_group")
def _commit(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        mine = own(warp)
        mine.commits.append(mine.count)

    return run


@control("wgmma.wait_group")
def _wait(one: Instruction, decoder: Decoder) -> Control:
    pending = immediate(one.operands[0])

    def run(warp: Warp) -> int:
        if blocked := warp.gather(ALL, "wgmma.wait_group"):
            return blocked
        mine, together = own(warp), group(warp)
        complete = len(mine.commits) - pending
        last = mine.commits[complete - 1] if complete > 0 else 0
        if any(len(issued.warps) < 4 for issued in together.issued[together.begun : last]):
            return warp.wait(
                lambda: all(len(issued.warps) == 4 for issued in together.issued[:last]),
                lambda: "the other warps of a warpgroup to issue wgmma",
            )
        finish(warp, mine, together, complete, last)
        return warp.fragment.pc + 1

    return run


def finish(warp: Warp, mine: Own, together: Group, complete: int, last: int) -> None:
    """The first `complete` groups, with `last` wgmma, are done as far as this warp knows."""
    for issued in together.issued[together.begun : last]:
        compute(issued)
    together.begun = max(together.begun, last)
    valid = warp.valid[2]
    for index in [index for index, number in mine.flying.items() if number <= last]:
        if valid[index]:
            raise Fault("an accumulator was written while a wgmma on it is in flight")
        valid[index] = ALL
        del mine.flying[index]
    mine.waited = max(mine.waited, last)
    warp.clock[ORDERED, mine.component] = max(int(warp.clock[ORDERED, mine.component]), complete)


def watched(instructions: Sequence[Instruction]) -> set[int]:
    """Registers that a wgmma reads or writes: other instructions that write them must lie before a
    wgmma.fence."""
    vectors = [
        operand
        for one in instructions
        if one.opcode.startswith("wgmma.mma_async")
        for operand in one.operands
        if isinstance(operand, Vector)
    ]
    return {item.index for vector in vectors for item in vector.items if isinstance(item, Register)}


def noting_writes(inner: Step, written: Sequence[int]) -> Step:
    """A step that writes registers of wgmma."""
    indices = tuple(written)

    def run(warp: Warp) -> None:
        inner(warp)
        own(warp).unfenced.update(indices)

    return run
