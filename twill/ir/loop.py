"""What a TTGIR file says: modules, functions, operations, values, types, and the loops found among them.

`extract.reader.ttgir.read` makes these from text and `extract.dependence.loops` finds the loops; everything
after works on them alone. All are frozen. Operations, values, blocks and loops are compared by identity (two
`%x` of sibling regions are two values); types, encodings and locations are plain values. Offsets count
characters of `Module.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from twill.diagnostics import Location

GRID = "twill.grid"
"""Attribute of an argument that is the size of the grid along an axis (0, 1, 2)."""
UNEQUAL = "twill.unequal"
"""Attribute of the same: the programs of the grid have loops of different lengths."""

# --- attributes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Raw:
    """An attribute kept as it was written (`#tt.foo<...>`, `dense<[0, 1]>`, `@symbol`), because nothing reads
    it."""

    text: str


Attribute: TypeAlias = 'bool | int | float | str | Raw | tuple["Attribute", ...] | Mapping[str, "Attribute"]'
"""`1 : i32` is an int, `0.5 : f32` a float, `unit` attributes are True, `array<i32: 1, 0>` and `[1, 0]` are
tuples.

A quoted string and a bare keyword (`predicate` of `arith.cmpi`, `axis` of `tt.get_program_id`) are both
`str`.
"""

# --- encodings ---------------------------------------------------------------------------------------------

Bases: TypeAlias = tuple[tuple[int, ...], ...]
"""Basis vectors of one input dimension of a linear layout: where bit 0, 1, 2, ... of the input moves the
element."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """`#ttg.blocked`: each thread owns `size_per_thread` elements of a tile, repeated over the tensor."""

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps_per_cta: tuple[int, ...]
    order: tuple[int, ...]
    """Dimensions, fastest first."""


@dataclass(frozen=True, slots=True)
class Slice:
    """`#ttg.slice`: the layout of a tensor reduced along `dim` from one of layout `parent`."""

    dim: int
    parent: Encoding


@dataclass(frozen=True, slots=True)
class Linear:
    """`#ttg.linear`: a linear layout over registers, lanes, warps and blocks."""

    register: Bases
    lane: Bases
    warp: Bases
    block: Bases
    exact: bool = False
    """Generated code holds the tile in just these registers. Where it is not set, it may hold it
    otherwise."""


@dataclass(frozen=True, slots=True)
class NvidiaMma:
    """`#ttg.nvidia_mma`: an accumulator in registers; major version 3 is Hopper's wgmma."""

    version: tuple[int, int]
    warps_per_cta: tuple[int, ...]
    instr_shape: tuple[int, ...]
    """M, N, K of one instruction."""


@dataclass(frozen=True, slots=True)
class DotOperand:
    """`#ttg.dot_op`: operand `index` (0 is A, 1 is B) in registers of a product whose accumulator is
    `parent`."""

    index: int
    parent: Encoding
    k_width: int | None


@dataclass(frozen=True, slots=True)
class NvmmaShared:
    """`#ttg.nvmma_shared`: shared memory as TMA writes and MMA reads it, swizzled in rows of
    `swizzle_bytes`."""

    swizzle_bytes: int
    transposed: bool
    element_bits: int
    fp4_padded: bool
    """Of 4-bit floats, two in an element: behind each eight bytes there are eight that hold nothing."""

    @property
    def room(self) -> int:
        """Bytes of shared memory that each byte takes."""
        return 2 if self.fp4_padded else 1


@dataclass(frozen=True, slots=True)
class SwizzledShared:
    """`#ttg.swizzled_shared`: shared memory for ordinary loads and stores, swizzled by `vec` elements."""

    vec: int
    per_phase: int
    max_phase: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharedLinear:
    """`#ttg.shared_linear`: shared memory addressed through a linear layout."""

    offset: Bases
    block: Bases
    alignment: int


@dataclass(frozen=True, slots=True)
class TensorMemory:
    """`#ttng.tensor_memory_encoding`: tensor memory, 128 lanes of 32-bit columns, in blocks `block_m` x
    `block_n`."""

    block_m: int
    block_n: int
    col_stride: int
    """In elements of the type: 1 is packed, 2 spends a 32-bit column on each 16-bit element (`unpacked =
    true`)."""
    two_ctas: bool


@dataclass(frozen=True, slots=True)
class TensorMemoryScales:
    """`#ttng.tensor_memory_scales_encoding`: scales of a block-scaled product, in tensor memory."""


@dataclass(frozen=True, slots=True)
class UnknownEncoding:
    """An encoding this reader has no type for, as it was written with its aliases resolved."""

    text: str


Encoding: TypeAlias = (
    Blocked
    | Slice
    | Linear
    | NvidiaMma
    | DotOperand
    | NvmmaShared
    | SwizzledShared
    | SharedLinear
    | TensorMemory
    | TensorMemoryScales
    | UnknownEncoding
)

# --- types -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scalar:
    """`i1`, `i32`, `f16`, `bf16`, `f8E4M3FN`, `index`, ..."""

    name: str

    @property
    def signless(self) -> str:
        """The name as tiles and pointers have it: descriptors say whether integers have a sign (`ui8`)."""
        return self.name.removeprefix("u").removeprefix("s")


@dataclass(frozen=True, slots=True)
class Pointer:
    """`!tt.ptr<f16>`; address space 1 is global memory."""

    pointee: Type
    address_space: int = 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value distributed over the registers of the threads."""

    shape: tuple[int, ...]
    dtype: Type
    encoding: Encoding | None = None


@dataclass(frozen=True, slots=True)
class MemDesc:
    """A view of a buffer: `space` is `smem` (shared) or `tmem` (tensor memory)."""

    shape: tuple[int, ...]
    dtype: Type
    encoding: Encoding | None
    space: str
    mutable: bool = False
    alloc_shape: tuple[int, ...] = ()
    """The shape of the whole allocation where this is a part of it; otherwise equal to `shape`."""


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """A TMA descriptor that moves blocks of `shape`; the encoding is that of the block in shared memory."""

    shape: tuple[int, ...]
    dtype: Type
    encoding: Encoding | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """`!ttg.async.token`: orders operations on memory; carries no data."""


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A type this reader has no class for, as it was written."""

    text: str


Type: TypeAlias = Scalar | Pointer | Tensor | MemDesc | TensorDesc | Token | UnknownType

# --- values, operations, blocks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """An SSA value: a result of an operation or an argument of a block or function."""

    id: int
    """Unique in the module, in the order of definition."""
    name: str
    """As printed, with `%`: `%acc`, `%12`, `%3#1`. Sibling regions may reuse it."""
    type: Type
    producer: int | None = None
    """`Op.index` of the defining operation; None for an argument."""
    position: int = 0
    """Which result of the operation, or which argument of the block."""


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Characters `start` (included) to `end` (excluded) of the module's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AttributeSlot:
    """Where attributes can be added to an operation by inserting text at `offset`.

    `entries` says what is there: None, no dictionary (insert ` {a = 1 : i32}`); otherwise the offset lies
    just behind the `{` of one with that many entries (insert `a = 1 : i32`, then `, ` unless it is empty).
    """

    offset: int
    entries: int | None
    keyword: str = ""
    """What must stand before a new dictionary (`attributes`); empty for most operations."""

    def insertion(self, attributes: str) -> str:
        """The text to insert for `attributes`, written `a = 1 : i32, b`."""
        match self.entries:
            case None:
                return f" {self.keyword} {{{attributes}}}" if self.keyword else f" {{{attributes}}}"
            case 0:
                return attributes
            case _:
                return f"{attributes}, "


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operation, with its place in the TTGIR text and in the Python source."""

    index: int
    """Unique in the module, in the order of the text (an operation comes before those of its regions)."""
    name: str
    """`tt.dot`, `arith.addf`, `scf.for`, ..."""
    operands: tuple[Value, ...]
    """In the declared order of the operation; operands of `scf.for`: lower, upper, step, then the initial
    values."""
    results: tuple[Value, ...]
    attributes: Mapping[str, Attribute]
    regions: tuple[Region, ...]
    location: Location
    span: SourceSpan
    """From the first result (or the name) to the end of the operation, its trailing `loc(...)` excluded."""
    slot: AttributeSlot
    sources: tuple[Location, ...] = ()
    """Where in Python it comes from, innermost call first; empty where the text does not say."""
    label: str | None = None
    """The Python variable it was assigned to, where the text says (`loc("acc"(...))`)."""
    symbols: tuple[str, ...] = ()
    """Symbols it names, without `@`: the callee of `tt.call`."""

    @property
    def result(self) -> Value:
        """The only result. Raises ValueError where there are none or several."""
        (value,) = self.results
        return value

    def inner(self) -> Iterator[Op]:
        """Every operation of its regions, at any depth, in the order of the text."""
        for region in self.regions:
            for block in region.blocks:
                yield from block.walk()


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A straight line of operations; the last one yields, returns or branches."""

    args: tuple[Value, ...]
    ops: tuple[Op, ...]

    def walk(self) -> Iterator[Op]:
        """Every operation at any depth, in the order of the text."""
        for op in self.ops:
            yield op
            yield from op.inner()


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """The blocks of one region, entry first; structured control flow has exactly one."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One `tt.func`."""

    name: str
    """Without the `@`."""
    args: tuple[Value, ...]
    arg_attributes: tuple[Mapping[str, Attribute], ...]
    """Parallel to `args`: `tt.divisibility` and such."""
    results: tuple[Type, ...]
    body: Region | None
    """None for a declaration."""
    attributes: Mapping[str, Attribute]
    public: bool
    location: Location
    sources: tuple[Location, ...] = ()
    parameters: tuple[str | None, ...] = ()
    """What the kernel's source calls each of `args`, where the text says; the text may call it after another
    variable that it is assigned to."""

    def walk(self) -> Iterator[Op]:
        """Every operation at any depth, in the order of the text."""
        for block in self.body.blocks if self.body else ():
            yield from block.walk()

    def blocks(self) -> Iterator[Block]:
        """Every block at any depth, outer ones first."""
        yield from self.body.blocks if self.body else ()
        for op in self.walk():
            yield from (block for region in op.regions for block in region.blocks)

    def users(self) -> Mapping[int, Sequence[Op]]:
        """By value id: the operations that have it as operand, in the order of the text."""
        return users_of(self.walk())


def users_of(ops: Iterable[Op]) -> dict[int, list[Op]]:
    """By value id: those of the operations that have it as operand, in their order."""
    found = dict[int, list[Op]]()
    for op in ops:
        for value in op.operands:
            found.setdefault(value.id, []).append(op)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """One TTGIR file. `attributes` are the module's own (`ttg.num-warps`, `ttg.target`, ...)."""

    text: str
    file: str
    attributes: Mapping[str, Attribute]
    functions: tuple[Function, ...]
    encodings: Mapping[str, Encoding] = field(default_factory=dict[str, Encoding])
    """The attribute aliases that name encodings, by name with `#`."""
    constants: Mapping[str, object] = field(default_factory=dict[str, object])
    """Numbers that the kernel was compiled with, by the names of its parameters, where they are known."""
    undivided: Module | None = None
    """The module with whole tiles and with maxima as the kernel has them, where this one has sub-tiles or
    maxima that last: what it computes is compared with that."""

    @property
    def num_warps(self) -> int:
        """Warps that the program is written for, those that specialization adds not counted."""
        return self._integer("ttg.num-warps", 4)

    @property
    def threads_per_warp(self) -> int:
        return self._integer("ttg.threads-per-warp", 32)

    @property
    def num_ctas(self) -> int:
        """Thread blocks of one cluster."""
        return self._integer("ttg.num-ctas", 1)

    @property
    def target(self) -> str | None:
        """`cuda:90`, `cuda:100`, ...; None where the text does not say."""
        target = self.attributes.get("ttg.target")
        return target if isinstance(target, str) else None

    def _integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default


# --- loops ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """A value handed from one iteration to the next."""

    arg: Value
    """What the body reads."""
    init: Value
    """What the first iteration reads."""
    yielded: Value
    """What the next iteration will read."""
    result: Value
    """What is read after the loop."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a loop is not scheduled, and where the reason stands in the text."""

    reason: str
    location: Location
    help: str | None = None
    """A way out."""


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """An `scf.for` or `scf.while` of a function."""

    path: str
    """`fa_fwd/for.0`, and `fa_fwd/for.0/for.1` for the second loop inside it."""
    function: Function
    op: Op
    depth: int
    """0 for an outermost loop."""
    innermost: bool
    tensor_ops: tuple[Op, ...]
    """The tensor core products of its body, at any depth."""
    induction: Value | None
    """None for `scf.while`, which also has no bounds and no step."""
    lower: Value | None
    upper: Value | None
    step: Value | None
    carried: tuple[Carried, ...]
    body: Block
    """Its block; for `scf.while` that of the `do` region. It ends with the yield, except where the text
    elides it."""
    refusal: Refusal | None
    """None where the loop can be scheduled."""
    most_trips: int | None = None
    """How many iterations it has at most, where that follows from its bounds."""

    @property
    def schedulable(self) -> bool:
        return self.refusal is None

    @property
    def location(self) -> Location:
        return self.op.location

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operations of the body, the final yield excluded."""
        ops = self.body.ops
        return ops[:-1] if ops and ops[-1].name == "scf.yield" else ops


FEW, MANY = 4, 16
"""A loop with fewer iterations than the one counts as so many of the other, which other loops are taken to
have."""


def shares(loops: Sequence[Loop]) -> tuple[float, ...]:
    """How much the cycles of an iteration of each loop of a kernel count in the sum over all: those of a loop
    that has few iterations count less, where another one may have many. (Causal attention has one or two
    iterations on the diagonal.)"""
    trips = [loop.most_trips for loop in loops]
    if all(most is not None and most < FEW for most in trips):
        return (1.0,) * len(trips)
    return tuple(1.0 if most is None or most >= FEW else max(1, most) / MANY for most in trips)
