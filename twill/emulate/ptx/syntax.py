"""What PTX text is read into.

Names that a block of the text declares are unique here: a register is its kind and its number in the
function, a label is the index of the instruction behind it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from twill.diagnostics import Location


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register."""

    name: str
    bits: int
    """1 for a predicate, otherwise 16 (also of 8-bit registers), 32, 64 or 128."""
    index: int
    """Among the registers of this size in the function."""


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    value: int


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point literal."""

    value: float
    bits: int | None = None
    """The bit pattern where it was given as such: 0f (32 bits) or 0d (64)."""
    size: int = 64


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter or function."""

    name: str


@dataclass(frozen=True, slots=True)
class Label:
    """A place in a function: the index of an instruction."""

    name: str
    target: int


@dataclass(frozen=True, slots=True)
class Negated:
    """!p, of a predicate."""

    operand: Register


@dataclass(frozen=True, slots=True)
class Vector:
    """{a, b, ...}; also the parenthesized lists of a call."""

    items: "tuple[Operand, ...]"


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset], with {coordinates} behind a tensor map's base."""

    base: "Operand"
    offset: int = 0
    coordinates: "tuple[Operand, ...]" = ()


@dataclass(frozen=True, slots=True)
class Sink:
    """_, a result that is not wanted."""


@dataclass(frozen=True, slots=True)
class Pair:
    """d|p, a result and a predicate."""

    first: "Operand"
    second: "Operand"


Operand: TypeAlias = (
    Register | Special | Integer | Real | Symbol | Label | Negated | Vector | Address | Sink | Pair
)


@dataclass(frozen=True, slots=True)
class Instruction:
    opcode: str
    """With its modifiers, as it stands."""
    operands: tuple[Operand, ...]
    guard: Register | None
    negated: bool
    """Of the guard."""
    line: int
    """Of the PTX text, from 1."""
    source: Location | None
    """By the nearest .loc before it."""

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or a parameter."""

    name: str
    space: str
    """param, shared, global, const or local."""
    bits: int
    """Of an element."""
    count: int | None
    """Of elements; None where the launch decides ([] of extern shared memory)."""
    align: int
    """Bytes."""
    initial: tuple[int | float | str, ...] = ()
    """Values of the first elements; a str is the address of that symbol."""
    external: bool = False

    @property
    def bytes(self) -> int:
        return (self.count or 0) * self.bits // 8


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    entry: bool
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    """Declared in the body: local, shared, and parameters of calls."""
    registers: Mapping[int, int]
    """How many of each size."""
    instructions: tuple[Instruction, ...]
    attributes: Mapping[str, tuple[int, ...]]
    """maxntid, reqntid, minnctapersm, reqnctapercluster, maxnreg and the like."""
    line: int


@dataclass(frozen=True, slots=True)
class Module:
    file: str
    lines: tuple[str, ...]
    version: str
    target: str
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
