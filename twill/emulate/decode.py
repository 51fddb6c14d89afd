"""From a function's instructions to blocks of Python functions over a warp.

Each opcode has a row in `TABLE`, which the modules of `twill.emulate.opcodes` fill: a function from an
instruction to a step, which works on the active lanes, or to a control, which also says what comes next. An
operand is a row of the register file, also where it is a constant, a special register or a variable's
address: those rows are filled when a warp starts.
"""

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from twill.emulate.faults import Fault, unknown
from twill.emulate.machine.warp import BLOCKED, CODES, Block, Warp, bits, size
from twill.emulate.memory.shared import RESERVED
from twill.emulate.ptx.syntax import (
    Address,
    Function,
    Instruction,
    Integer,
    Label,
    Module,
    Negated,
    Operand,
    Real,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

Step: TypeAlias = Callable[[Warp], None]
Control: TypeAlias = Callable[[Warp], int]


@dataclass(frozen=True, slots=True)
class Ref:
    """A row of the register file, seen as a type."""

    type: str
    code: int
    """Position of its size in `Warp.valid`."""
    index: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """One instruction, ready to run."""

    step: Step | None = None
    control: Control | None = None


Row: TypeAlias = "Callable[[Instruction, Decoder], Decoded]"
TABLE: dict[str, Row] = {}
"""By opcode without modifiers; a longer one, as `mbarrier.try_wait`, comes before a shorter."""


def step(
    *names: str,
) -> "Callable[[Callable[[Instruction, Decoder], Step]], Callable[[Instruction, Decoder], Step]]":
    """Enters a row for instructions that never wait and never branch."""

    def enter(make: "Callable[[Instruction, Decoder], Step]") -> "Callable[[Instruction, Decoder], Step]":
        TABLE.update(dict.fromkeys(names, lambda one, decoder: Decoded(step=make(one, decoder))))
        return make

    return enter


WAITING = set[str]()
"""Rows of instructions that may wait, each of which is a block of its own."""


def control(
    *names: str, waits: bool = True
) -> "Callable[[Callable[[Instruction, Decoder], Control]], Callable[[Instruction, Decoder], Control]]":
    """Enters a row for instructions that may wait or branch."""
    WAITING.update(names if waits else ())

    def enter(
        make: "Callable[[Instruction, Decoder], Control]",
    ) -> "Callable[[Instruction, Decoder], Control]":
        TABLE.update(dict.fromkeys(names, lambda one, decoder: Decoded(control=make(one, decoder))))
        return make

    return enter


@dataclass(slots=True)
class Code:
    """A kernel, decoded."""

    blocks: Sequence[Block]
    counts: Mapping[int, int]
    """Rows of the register file by size."""
    rows: Sequence[tuple[int, int, Callable[[Warp], object]]]
    """Size, index and value of rows that hold no register."""
    shared: int
    """Bytes of static shared memory."""
    local: int
    """Bytes of local memory of a thread."""
    instructions: Sequence[Instruction]
    attributes: Mapping[str, tuple[int, ...]]
    clusters: tuple[int, int, int] | None

    def line(self, block: int) -> int:
        """PTX line of a block's end."""
        index = self.blocks[block].lines[-1] if block < len(self.blocks) else len(self.instructions) - 1
        return self.instructions[index].line

    def entry_registers(self, threads: int) -> int:
        """Registers per thread at the start: what .maxnreg says, or as many as ptxas may use for the launch
        bounds (a multiple of 8, at most 256 and what the SM has for the CTAs that must fit)."""
        if "maxnreg" in self.attributes:
            return -(-self.attributes["maxnreg"][0] // 8) * 8
        most = 1
        for extent in self.attributes.get("maxntid", self.attributes.get("reqntid", (threads,))):
            most *= extent
        fit = 65536 // (-(-most // 128) * 128 * max(1, *self.attributes.get("minnctapersm", (1,))))
        return min(256, fit // 8 * 8)


@dataclass(slots=True)
class Decoder:
    """What rows of the table need: operands as rows, and variables."""

    module: Module
    function: Function
    counts: dict[int, int]
    parameters: Mapping[str, int]
    """Offsets in the launch's parameters."""
    shared: Mapping[str, int]
    """Offsets in the CTA's shared memory."""
    local: Mapping[str, int]
    blocks: Mapping[int, int]
    """Block that starts at an instruction."""
    rows: list[tuple[int, int, Callable[[Warp], object]]] = field(
        default_factory=list[tuple[int, int, Callable[[Warp], object]]]
    )
    known: dict[object, int] = field(default_factory=dict[object, int])
    watched: frozenset[int] = frozenset()
    """32-bit registers that wgmma uses."""
    writers: Counter[str] = field(default_factory=Counter[str])
    """By register: the instructions whose first operand it is, or is a part of."""

    def __post_init__(self) -> None:
        for one in self.function.instructions:
            first = one.operands[0] if one.operands else None
            parts = first.items if isinstance(first, Vector) else (first,)
            self.writers.update(part.name for part in parts if isinstance(part, Register))

    def fail(self, one: Instruction, what: str = "") -> Exception:
        return unknown(one, self.module.file, self.module.lines, what)

    # --- rows ----------------------------------------------------------------------------------------------

    def row(self, size: int, key: object, value: Callable[[Warp], object]) -> int:
        """A row that is filled when a warp starts."""
        if key not in self.known:
            index = self.counts.get(size, 0)
            self.counts[size] = index + 1
            self.rows.append((size, index, value))
            self.known[key] = index
        return self.known[key]

    def constant(self, value: int, type: str) -> Ref:
        width = size(type)
        value &= (1 << width) - 1
        return Ref(type, CODES[width], self.row(width, (width, value), lambda warp: value))

    def scratch(self, type: str) -> Ref:
        """A row for results that are not wanted."""
        width = size(type)
        return Ref(type, CODES[width], self.row(width, ("scratch", width), lambda warp: 0))

    def source(self, operand: Operand, type: str) -> Ref:
        """An operand, as a type; a register of another size is seen with its own. Raises KeyError or
        ValueError for what is no value."""
        match operand:
            case Register(_, width, index):
                return Ref(type if size(type) == width else natural(width, type), CODES[width], index)
            case Integer(value):
                return self.constant(
                    _pattern(float(value), type) if _real(type) and abs(value) < 1 << 24 else value, type
                )
            case Real(value, pattern, width):
                return self.constant(
                    pattern if pattern is not None and width == size(type) else _pattern(value, type), type
                )
            case Special(name):
                return self._special(name, type)
            case Symbol(name):
                return self._symbol(name, type)
            case _:
                raise ValueError(f"the operand {operand} is no value")

    def target(self, operand: Operand, type: str) -> Ref:
        if isinstance(operand, Sink):
            return self.scratch(type)
        if not isinstance(operand, Register):
            raise ValueError(f"the operand {operand} is no register")
        return self.source(operand, type)

    def _special(self, name: str, type: str) -> Ref:
        from twill.emulate.machine.special import SPECIALS

        if name not in SPECIALS:
            raise ValueError(f"the special register {name} is not known")
        width = size(type)
        return Ref(type, CODES[width], self.row(width, (name, width), SPECIALS[name]))

    def _symbol(self, name: str, type: str) -> Ref:
        width = size(type)
        return Ref(type, CODES[width], self.row(width, ("symbol", name, width), self.address_of(name)))

    def address_of(self, name: str) -> Callable[[Warp], int]:
        """The address of a variable in its own space, or the number of threads of a warp (PTX ISA, WARP_SZ).
        Raises ValueError for an unknown name."""
        if name == "WARP_SZ":
            return lambda warp: 32
        if name in self.shared:
            offset = self.shared[name] + RESERVED
            return lambda warp: warp.cta.base + offset
        for known in (self.parameters, self.local):
            if name in known:
                place = known[name]
                return lambda warp: place
        if name in self.module.variables:
            return lambda warp: warp.cta.launch.symbols[name]
        raise ValueError(f"the name {name} is not known")

    def space_of(self, operand: Operand) -> str | None:
        """The space of a variable that an operand names."""
        if isinstance(operand, Symbol):
            for space, known in (("shared", self.shared), ("param", self.parameters), ("local", self.local)):
                if operand.name in known:
                    return space
            if operand.name in self.module.variables:
                return "global"
        return None

    def block(self, label: Operand) -> int:
        if not isinstance(label, Label):
            raise ValueError(f"{label} is no label of this function")
        return self.blocks[label.target]


def natural(width: int, like: str) -> str:
    """The type of a register's own size, signed as another is."""
    if width == 1:
        return "pred"
    if like[0] == "f" and width in (32, 64) and like in ("f32", "f64"):
        return f"f{width}"
    return f"{'s' if like[0] == 's' else 'u' if like[0] == 'u' else 'b'}{width}"


def _real(type: str) -> bool:
    return type in ("f16", "f32", "f64")


def _pattern(value: float, type: str) -> int:
    match type:
        case "f64" | "b64" | "u64" | "s64":
            return int(struct.unpack("<Q", struct.pack("<d", value))[0])
        case "f16":
            return int(struct.unpack("<H", struct.pack("<e", value))[0])
        case _:
            return int(struct.unpack("<I", struct.pack("<f", value))[0])


# --- functions --------------------------------------------------------------------------------------------


def decode(module: Module, function: Function) -> Code:
    """A kernel, ready to run. Raises UnknownError for an instruction that the table does not have."""
    from twill.emulate.opcodes.wgmma import watched

    shared, static = _layout(
        [
            one
            for one in (*module.variables.values(), *function.variables)
            if one.space == "shared" and one.count is not None
        ]
    )
    for one in module.variables.values():
        if one.space == "shared" and one.count is None:
            shared[one.name] = -(-static // max(16, one.align)) * max(16, one.align)
    local, size = _layout([one for one in function.variables if one.space == "local"])
    parameters = offsets(function.parameters)
    starts = _starts(function)
    blocks = {start: number for number, start in enumerate([*starts, len(function.instructions)])}
    decoder = Decoder(module, function, dict(function.registers), parameters, shared, local, blocks)
    decoder.watched = frozenset(watched(function.instructions))
    ready = [decoded(one, decoder) for one in function.instructions]
    made = [
        _block(ready, start, end, blocks)
        for start, end in zip(starts, [*starts[1:], len(ready)], strict=True)
    ]
    made.append(Block((), _exit, (len(ready) - 1,)))
    return Code(
        made,
        decoder.counts,
        decoder.rows,
        static,
        size,
        function.instructions,
        function.attributes,
        _clusters(function),
    )


def _exit(warp: Warp) -> int:
    return warp.leave(warp.mask)


def _clusters(function: Function) -> tuple[int, int, int] | None:
    given = function.attributes.get("reqnctapercluster")
    return three(given) if given else None


def three(extents: Sequence[int]) -> tuple[int, int, int]:
    """Extents along x, y and z, 1 where they are not given."""
    x, y, z = [*map(int, extents), 1, 1][:3]
    return x, y, z


def _layout(variables: Sequence[Variable]) -> tuple[dict[str, int], int]:
    """Offsets of variables, and the bytes of all."""
    at, found = 0, dict[str, int]()
    for one in variables:
        at = -(-at // one.align) * one.align
        found[one.name] = at
        at += one.bytes
    return found, at


def offsets(parameters: Sequence[Variable]) -> dict[str, int]:
    """Where the parameters of a kernel lie."""
    return _layout(parameters)[0]


def _starts(function: Function) -> list[int]:
    """The instructions at which blocks start: targets of branches, and all that may wait or branch and what
    follows them."""
    count = len(function.instructions)
    found = {0}
    for index, one in enumerate(function.instructions):
        for operand in one.operands:
            listed = operand.items if isinstance(operand, Vector) else (operand,)
            found |= {item.target for item in listed if isinstance(item, Label)}
        if _waits(one):
            found |= {index, index + 1}
        elif one.name in ("bra", "brx", "ret", "exit"):
            found.add(index + 1)
    return sorted(start for start in found if start < count)


def _waits(one: Instruction) -> bool:
    return key(one.opcode) in WAITING


@cache
def key(opcode: str) -> str | None:
    """The row of the table for an opcode: the longest of its beginnings."""
    while opcode and opcode not in TABLE:
        opcode = opcode.rpartition(".")[0]
    return opcode or None


def decoded(one: Instruction, decoder: Decoder) -> Decoded:
    name = key(one.opcode)
    if name is None:
        raise decoder.fail(one)
    try:
        made = TABLE[name](one, decoder)
    except (KeyError, ValueError, IndexError, AttributeError) as problem:
        raise decoder.fail(one, str(problem)) from problem
    if made.step and decoder.watched and (written := _written(one, decoder.watched)):
        from twill.emulate.opcodes.wgmma import noting_writes

        made = Decoded(step=noting_writes(made.step, written))
    if one.guard is None or name == "bra":
        return made
    guard = decoder.source(one.guard, "pred")
    if made.step:
        return Decoded(step=_guarded(made.step, guard.index, one.negated))
    assert made.control
    return Decoded(control=_guarded_control(made.control, guard.index, one.negated))


def _written(one: Instruction, watched: frozenset[int]) -> list[int]:
    """Registers of wgmma among an instruction's results. Moves are left out: compilers put copies of
    accumulators behind the fence, which ptxas removes."""
    if not one.operands or one.name in ("st", "red", "mov"):
        return []
    first = one.operands[0]
    items = first.items if isinstance(first, Vector) else (first,)
    return [
        item.index
        for item in items
        if isinstance(item, Register) and item.bits == 32 and item.index in watched
    ]


def _guarded(inner: Step, predicate: int, negated: bool) -> Step:
    def run(warp: Warp) -> None:
        mask = warp.mask
        chosen = warp.where(predicate)
        if negated:
            chosen = mask & ~chosen
        if chosen == mask:
            inner(warp)
        elif chosen:
            warp.only(chosen)
            inner(warp)
            warp.only(mask)

    return run


def _guarded_control(inner: Control, predicate: int, negated: bool) -> Control:
    def run(warp: Warp) -> int:
        mask = warp.mask
        chosen = warp.where(predicate)
        if negated:
            chosen = mask & ~chosen
        if not chosen:
            return warp.fragment.pc + 1
        warp.only(chosen)
        follows = inner(warp)
        if follows != BLOCKED:
            warp.only(mask)
        return follows

    return run


def _block(ready: Sequence[Decoded], start: int, end: int, blocks: Mapping[int, int]) -> Block:
    last = ready[end - 1].control
    steps = tuple(one.step for one in ready[start:end] if one.step)
    number = blocks[start]
    return Block(steps, last or (lambda warp: number + 1), tuple(range(start, end)))


def guard_of(operand: Operand, decoder: Decoder) -> tuple[Ref, bool]:
    """A predicate operand, and whether it is negated."""
    if isinstance(operand, Negated):
        return decoder.source(operand.operand, "pred"), True
    if isinstance(operand, Integer):
        return Ref(
            "pred", 0, decoder.row(1, ("pred", operand.value != 0), lambda warp: operand.value != 0)
        ), False
    return decoder.source(operand, "pred"), False


def mask_of(warp: Warp, guard: tuple[Ref, bool]) -> int:
    """The active lanes for which a predicate operand holds."""
    ref, negated = guard
    found = bits(warp.files[1][ref.index]) & warp.mask
    return warp.mask & ~found if negated else found


def uniform(warp: Warp, ref: Ref, what: str) -> int:
    """The one value that all active lanes have. Raises Fault where they differ or it is undefined."""
    warp.require(ref.code, ref.index, what)
    values = warp.views[ref.type][ref.index]
    if not warp.full:
        values = values[warp.active]
    first = values[0]
    if (values != first).any():
        raise Fault(f"{what} differs among the lanes of the warp")
    return int(first)


def address(operand: Operand) -> Address:
    if not isinstance(operand, Address):
        raise ValueError(f"{operand} is no address")
    return operand
