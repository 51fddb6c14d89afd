"""One row of the table of operations: the fields, and the kinds of function that they hold.

Guarantees nothing about which operations there are: `twill.ops.table` collects the rows and looks them up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from twill.ir.graph import Kind
from twill.ir.loop import Op, Type, Value
from twill.ops.values import Array, Operand, Pointers

# --- what it is --------------------------------------------------------------------------------------------

Access = Literal[
    "none", "load", "load_copy", "store", "reduce", "alloc", "store_buffer", "load_buffer", "mma"
]
"""What an operation does to memory. load: reads global memory. load_copy: the same, into a buffer that it
names. store, reduce: write global memory (reductions commute). alloc, store_buffer, load_buffer: of shared or
tensor memory. mma: reads A and B, writes D."""

Role = Literal[
    "value",
    "constant",
    "poison",
    "program_id",
    "num_programs",
    "range",
    "splat",
    "broadcast",
    "expand",
    "reshape",
    "transpose",
    "join",
    "split",
    "unpack",
    "scan",
    "gather",
    "histogram",
    "concatenate",
    "view",
    "bitcast",
    "round",
    "select",
    "add",
    "subtract",
    "multiply",
    "shift_left",
    "divide",
    "divide_up",
    "remainder",
    "int_to_ptr",
    "extreme",
    "compare",
    "integer_cast",
    "atomic_exchange",
    "assert",
    "layout",
    "address",
    "reduce",
    "descriptor",
    "tensor_map",
    "pointer_load",
    "pointer_store",
    "atomic",
    "tma_load",
    "tma_store",
    "tma_reduce",
    "alloc",
    "buffer_transpose",
    "buffer_reshape",
    "buffer_index",
    "buffer_slice",
    "buffer_load",
    "wgmma",
    "dot",
    "tensor_memory_mma",
    "tensor_memory_alloc",
    "tensor_memory_store",
    "tensor_memory_load",
    "for",
    "while",
    "if",
    "yield",
    "condition",
    "combine",
    "return",
    "specialize",
    "subtiled",
    "assume",
    "barrier",
    "async_copy",
]
"""What later stages tell apart by more than kind and access. value: none of the others. view: another view
of a tile. add, subtract, multiply, shift_left, divide, divide_up, remainder, extreme (minima and maxima),
compare, integer_cast: of integers. round: to a narrower float. unpack: of two elements from each byte.
address: arithmetic on pointers. buffer_index, buffer_slice: a part of a buffer. combine: the end of the
region of a reduction. specialize, subtiled: regions for groups of warps, for sub-tiles. assume: a fact for a
compiler. barrier: of the threads of a block."""

# --- how it is written -------------------------------------------------------------------------------------

Operands: TypeAlias = tuple[Value, ...]
Types: TypeAlias = tuple[Type, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """How the text of an operation departs from `results = name operands {attributes} : types -> types`."""

    words: tuple[str, ...] = ()
    """Attribute names of its bare words, in order; further ones go under `words`."""
    string: str = "text"
    """Attribute name of its quoted string."""
    integers: str = "integers"
    """Attribute name of the integers in brackets behind the operands."""
    early: bool = False
    """The attribute dictionary follows the name directly."""
    order: Callable[[Operands], Operands] | None = None
    """Operands as they are written to operands as they are declared."""
    operands: int = 0
    """Operands without which it means nothing; later stages rely on them."""
    results: Callable[[Types], Types] | None = None
    """Result types from the listed ones, where they are not simply the last of these."""
    implied: Types = ()
    """Types of its results where the text gives no type at all."""
    behind_operands: bool = False
    """The attribute dictionary follows the operands, before the words."""
    token: bool = False
    """Its only result is a token, whose type the text leaves out."""


# --- what it computes -------------------------------------------------------------------------------------

Values: TypeAlias = tuple[Operand, ...]
"""Of results or operands."""


class Environment(Protocol):
    """What an operation acts on besides its operands."""

    def program(self, name: str) -> int:
        """`pid.x`, `grid.x`, ..."""
        ...

    def evaluate(self, op: Op, operands: Sequence[Operand]) -> Values:
        """Executes an operation of a region."""
        ...

    def pointed(self, number: int, type: str) -> Pointers:
        """An address in memory as a pointer to elements of that type."""
        ...

    def undefined(self, what: str) -> None:
        """Notes that an operation gives numbers here that Triton does not define, and why."""
        ...

    def read(self, pointers: Pointers, offsets: Array, mask: Array | None, other: Operand = 0) -> Array:
        """Elements of global memory at `offsets` where `mask` holds, `other` elsewhere."""
        ...

    def write(
        self, pointers: Pointers, offsets: Array, values: Array, mask: Array | None, *, add: bool = False
    ) -> None:
        """Stores, or adds to, the elements at `offsets` where `mask` holds."""
        ...


Meaning: TypeAlias = Callable[[Op, Sequence[Operand], Environment], Values]
"""The results of an operation. Raises TwillError where its attributes or types have no meaning here."""

# --- what it is in CUDA ------------------------------------------------------------------------------------

Expression: TypeAlias = Callable[[Op, Sequence[str]], str | None]
"""The C expression of one element of the result from those of the operands; None where there is none for
these types.

Elements of tiles and scalars have the type `twill.ops.c.computed` gives: f16, bf16 and 8-bit floats are
`float`, and are rounded to their type where they are kept."""


# --- what is wrong with it --------------------------------------------------------------------------------

Complaint: TypeAlias = str | None
"""What is wrong with an operation, behind its name."""

Rule: TypeAlias = Callable[[Op], Complaint]


# --- another way to compute it --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Polynomial:
    """How a polynomial computes some of the elements of a float32 tile, as exactly as the instruction that
    computes the others (docs/costs.md)."""

    cost: str
    """The operation in machines/*.toml that says what its elements cost."""
    function: str
    """The runtime's template of the parts: `FUNCTION<PARTS>(register, x)`."""
    pair: str
    """The same of two elements."""
    factor: str = ""
    """What the operand is multiplied by first, as C; empty: nothing."""


# --- the row ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operation of TTGIR."""

    name: str
    """`arith.addf`, ..."""
    kind: Kind
    """What it is to a scheduler."""
    word: str
    """The short word that names its nodes."""
    role: Role = "value"
    access: Access = "none"
    repeatable: bool = False
    """It may be executed anywhere, and more than once. Loads through pointers count: a kernel that reads what
    it wrote is ordered by its own operations."""
    scheduled: bool = True
    """False where it cannot be in a loop to be scheduled: control flow, and what a pipeliner makes."""
    pipelined: str = ""
    """What it does, where only a pipeliner puts it there."""
    cost: str = ""
    """The operation whose cost in machines/*.toml is also its own; empty: under its own name."""
    syntax: Syntax = Syntax()
    counts: tuple[int, int, int | None] | None = None
    """Operands at least and at most, and results where their number is fixed; None where they are not
    checked."""
    rule: Rule | None = None
    """What its types and attributes must be; None where they are not checked."""
    meaning: Meaning | None = None
    """Its results in NumPy; None where it cannot be simulated."""
    c: Expression | None = None
    """Its CUDA; None where it is not elementwise or cannot be generated."""
    index_c: Expression | None = None
    """Its C where an overflow can not matter, as plain as a person writes it."""
    further: tuple[Expression, ...] = ()
    """The same of its further results."""
    polynomial: Polynomial | None = None
    """None where there is no other way to compute it."""
    identity: Mapping[str, str] | str | None = None
    """What a reduction by this operation starts from, as C: one text, or by element type."""

    @property
    def reads_global(self) -> bool:
        return self.access in ("load", "load_copy", "reduce")

    @property
    def writes_global(self) -> bool:
        return self.access in ("store", "reduce")
