"""Which values of a kernel are divided into sub-tiles, and along which dimension.

Takes a `Function` and the number of sub-tiles; gives a `Division`. It starts from the M dimension of an MMA
and follows the dataflow in both directions: what is computed from a divided value is divided, and so is what
it is computed with. Tiles of indices and constants (`free`) are made once for each use, so a range that
numbers rows and columns alike is divided for the rows only. Control flow carries divided values as it carries
whole ones. Raises TwillError, with the line, where an operation combines rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from twill.diagnostics import TwillError
from twill.extract.rewrite.subtile.dimensions import Cut, Slot, cut_of, shape
from twill.ir.loop import Function, MemDesc, Module, Op, Tensor, TensorDesc, Token, Value
from twill.ops.row import Role
from twill.ops.table import is_mma, lookup, repeatable, role

_MADE: frozenset[Role] = frozenset({"constant", "poison", "splat", "range", "descriptor", "tensor_map"})
"""Operations that make a tile, or a descriptor, from scalars."""
WHOLE = -1
"""In place of a dimension: a copy of the whole tile for each sub-tile."""
_CONTROL: frozenset[Role] = frozenset({"for", "if", "yield"})
LEAST_ROWS, LEAST_TENSOR_ROWS, LEAST_COLUMNS, LEAST_K_BYTES = 64, 128, 8, 32
"""The smallest MMA: wgmma has 64 rows and 8 columns, 32 bytes of K; tensor memory has 128 lanes (PTX ISA,
wgmma.mma_async and tcgen05.mma)."""


@dataclass(frozen=True, slots=True)
class Division:
    """What is divided."""

    count: int
    """Sub-tiles."""
    dims: Mapping[int, int]
    """The dimension along which a value is divided, by its id, or `WHOLE`; values of `free` operations are
    not here."""
    cuts: Mapping[int, Cut]
    """How each operation is divided, by its index."""
    tokens: frozenset[int] = frozenset()
    """The tokens, by id, of which there is one for each sub-tile."""
    needs: Mapping[int, frozenset[int | None]] = field(default_factory=dict[int, frozenset[int | None]])
    """How the values of free operations are read, by id: divided along a dimension, or whole (None)."""

    def parts(self, size: int) -> int:
        return size // self.count


@dataclass(frozen=True, slots=True)
class Facts:
    """A function, and who makes and reads each value."""

    module: Module
    function: Function
    ops: tuple[Op, ...]
    makers: Mapping[int, Op]
    readers: Mapping[int, tuple[tuple[Op, int], ...]]
    links: Mapping[int, tuple[Value, ...]]
    """The values that control flow makes one: a carried value's initial value, argument, yielded value and
    result."""
    ends: frozenset[int]
    """The operations, by index, that end regions of these."""
    free: frozenset[int]
    """The values, by id, of operations that may be made once for each use."""

    def refuse(self, op: Op, message: str) -> NoReturn:
        line = self.module.text.splitlines()[op.location.line - 1]
        raise TwillError(message, op.location, text=line, span=len(op.name), help="use --subtile 1")


def facts(module: Module, function: Function) -> Facts:
    ops = tuple(function.walk())
    readers: dict[int, list[tuple[Op, int]]] = {}
    for op in ops:
        for position, value in enumerate(op.operands):
            readers.setdefault(value.id, []).append((op, position))
    links: dict[int, list[Value]] = {}
    for group in (group for op in ops for group in linked(op)):
        for value in group:
            links.setdefault(value.id, []).extend(group)
    return Facts(
        module,
        function,
        ops,
        {value.id: op for op in ops for value in op.results},
        {value: tuple(found) for value, found in readers.items()},
        {value: tuple(found) for value, found in links.items()},
        frozenset(end.index for op in ops for end in _ends(op)),
        _free(function, ops),
    )


def linked(op: Op) -> Iterator[tuple[Value, ...]]:
    """The values of a loop or branch that are one, for each of its results."""
    ends = [end.operands for end in _ends(op)]
    for i, result in enumerate(op.results if role(op) in ("for", "if") else ()):
        entry = (op.operands[3 + i], op.regions[0].blocks[0].args[1 + i]) if role(op) == "for" else ()
        yield (*entry, *(end[i] for end in ends), result)


def _ends(op: Op) -> Iterator[Op]:
    """The ends of the regions of a loop or branch."""
    for block in (block for region in op.regions for block in region.blocks):
        if role(op) in ("for", "if") and block.ops and role(block.ops[-1]) == "yield":
            yield block.ops[-1]


def _free(function: Function, ops: Sequence[Op]) -> frozenset[int]:
    found = {value.id for value in function.args if isinstance(value.type, TensorDesc)}
    for op in ops:
        tiles = [value for value in op.operands if shape(value)]
        row = lookup(op.name)
        pure = row is not None and repeatable(row, op) and row.access == "none" and not op.regions
        computed = pure and tiles and all(value.id in found for value in tiles)
        if role(op) in _MADE or computed:
            found |= {value.id for value in op.results if shape(value)}
    return frozenset(found)


def division(module: Module, function: Function, count: int) -> Division:
    """Divides the rows of as many MMAs as can be divided together. Raises TwillError where none can be."""
    known = facts(module, function)
    mmas = [op for op in known.ops if is_mma(op)]
    found, errors = list[Division](), list[TwillError]()
    for op in mmas:
        if any(_by_rows(one, op) for one in found):
            continue
        try:
            found.append(_Spread(known, count).from_mma(op))
        except TwillError as error:
            errors.append(error)
    if not found:
        raise (
            errors[0]
            if errors
            else TwillError(
                f"{function.name} has no MMA whose rows could be divided",
                function.location,
                help="leave --subtile out",
            )
        )
    ordered = sorted(found, key=lambda one: (-sum(_by_rows(one, op) for op in mmas), _accumulating(one)))
    chosen = ordered[0]
    for one in ordered[1:]:
        if not chosen.dims.keys() & one.dims.keys() and not chosen.cuts.keys() & one.cuts.keys():
            chosen = Division(count, {**chosen.dims, **one.dims}, {**chosen.cuts, **one.cuts})
    chosen = _copied(known, chosen)
    tokens = _tokens(known, chosen)
    chosen = Division(count, chosen.dims, chosen.cuts, tokens)
    return Division(count, chosen.dims, chosen.cuts, tokens, _needs(known, chosen))


def _by_rows(one: Division, mma: Op) -> bool:
    cut = one.cuts.get(mma.index)
    return cut is not None and cut.dim(0) == 0


def _accumulating(one: Division) -> int:
    return sum(cut.accumulates for cut in one.cuts.values())


# --- along the dataflow -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Spread:
    """Follows the dataflow from one value."""

    facts: Facts
    count: int
    dims: dict[int, int] = field(default_factory=dict[int, int])
    cuts: dict[int, Cut] = field(default_factory=dict[int, Cut])
    todo: list[tuple[Value, int, Op]] = field(default_factory=list[tuple[Value, int, Op]])
    """Values to divide, each with the operation that wants it."""

    def from_mma(self, op: Op) -> Division:
        """From the rows of an MMA. Raises TwillError where these can not be divided."""
        self._divide(op, 0, 0)
        while self.todo:
            self._value(*self.todo.pop())
        return Division(self.count, self.dims, self.cuts)

    def _value(self, value: Value, dim: int, op: Op) -> None:
        if value.id in self.facts.free:
            return
        if value.id in self.dims:
            if self.dims[value.id] != dim:
                self.facts.refuse(op, f"sub-tiles: {value.name} would be divided along two dimensions")
            return
        self.dims[value.id] = dim
        maker = self.facts.makers.get(value.id)
        if maker is None and value.id not in self.facts.links:
            self.facts.refuse(op, f"sub-tiles: {value.name} is carried by other control flow than scf.for")
        if maker is not None and role(maker) not in _CONTROL:
            self._divide(maker, -1 - maker.results.index(value), dim)
        self.todo += [(one, dim, op) for one in self.facts.links.get(value.id, ())]
        for reader, position in self.facts.readers.get(value.id, ()):
            if reader.index not in self.facts.ends and role(reader) not in ("for", "if"):
                self._divide(reader, position, dim)

    def _divide(self, op: Op, slot: Slot, dim: int) -> None:
        cut = cut_of(op, slot, dim)
        if cut is None:
            self.facts.refuse(op, f"sub-tiles: {op.name} combines rows or mixes them with others")
        if self.cuts.setdefault(op.index, cut) != cut:
            self.facts.refuse(op, f"sub-tiles: {op.name} would be divided along two dimensions")
        self._check(op, cut)
        for one, along in cut.dims:
            self.todo.append((op.operands[one] if one >= 0 else op.results[-1 - one], along, op))

    def _check(self, op: Op, cut: Cut) -> None:
        for slot, dim in cut.dims:
            value = op.operands[slot] if slot >= 0 else op.results[-1 - slot]
            size = shape(value)[dim]
            if size % self.count or size < self.count:
                self.facts.refuse(op, f"sub-tiles: {size} rows do not divide into {self.count} sub-tiles")
        complaint = _too_small(op, cut, self.count) if is_mma(op) else None
        if complaint:
            self.facts.refuse(op, f"sub-tiles: {complaint}")


def _too_small(op: Op, cut: Cut, count: int) -> str | None:
    """Why the parts of an MMA are no MMAs."""
    a, b = op.operands[0], op.operands[1]
    if cut.accumulates:
        size = shape(a)[1] // count
        return f"{size} of K are too few for an MMA" if size * _bits(a) < 8 * LEAST_K_BYTES else None
    if cut.dim(0) is None:
        size = shape(b)[1] // count
        return f"{size} columns are too few for an MMA" if size < LEAST_COLUMNS else None
    size, least = shape(a)[0] // count, LEAST_TENSOR_ROWS if role(op) == "tensor_memory_mma" else LEAST_ROWS
    return f"an MMA of {least} rows is the smallest, and {size} would be left" if size < least else None


def _bits(value: Value) -> int:
    name = str(getattr(value.type.dtype, "name", "")) if isinstance(value.type, Tensor | MemDesc) else ""
    digits = "".join(c for c in name.partition("E")[0] if c.isdecimal())
    return int(digits or 8)


# --- whole tiles that sub-tiles read -----------------------------------------------------------------------


def _copied(known: Facts, made: Division) -> Division:
    """Whole tiles that loops compute in registers, and sub-tiles read, are computed for each sub-tile: the
    groups that compute these then hand none of them to each other. Loaded tiles stay shared."""
    inside = {inner.index for op in known.ops if role(op) == "for" for inner in op.inner()}
    dims, cuts = dict(made.dims), dict(made.cuts)
    todo = [
        value for op in known.ops if op.index in made.cuts and op.index in inside for value in op.operands
    ]
    while todo:
        value = todo.pop()
        maker = known.makers.get(value.id)
        if not isinstance(value.type, Tensor) or value.id in dims or value.id in known.free:
            continue
        group = known.links.get(value.id, ())
        if group and (maker is None or role(maker) in _CONTROL):
            dims |= {one.id: WHOLE for one in _carriers(known, group)}
            todo += group
        elif maker is not None and maker.index in inside and _pure(maker):
            dims |= {one.id: WHOLE for one in maker.results}
            cuts[maker.index] = Cut(tuple((-1 - i, WHOLE) for i in range(len(maker.results))))
            todo += maker.operands
    return Division(made.count, dims, cuts)


def _carriers(known: Facts, group: Sequence[Value]) -> Iterator[Value]:
    """The arguments and results of a loop or branch among linked values."""
    for value in group:
        maker = known.makers.get(value.id)
        if maker is None or role(maker) in ("for", "if"):
            yield value


def _pure(op: Op) -> bool:
    """It computes tiles in registers from others."""
    row = lookup(op.name)
    return row is not None and repeatable(row, op) and row.access == "none" and not is_mma(op)


# --- tokens -----------------------------------------------------------------------------------------------


def _tokens(known: Facts, made: Division) -> frozenset[int]:
    """Divided operations have a token for each sub-tile, and so has what carries it."""
    found = set[int]()
    for op in known.ops:
        if op.index in made.cuts and not made.cuts[op.index].accumulates:
            found |= {value.id for value in op.results if isinstance(value.type, Token)}
    while more := {
        one.id
        for value in found
        for one in known.links.get(value, ())
        if isinstance(one.type, Token) and one.id not in found
    }:
        found |= more
    for op in known.ops:
        cut = made.cuts.get(op.index)
        whole = role(op) not in _CONTROL and (cut is None or cut.accumulates)
        if whole and any(value.id in found for value in op.operands):
            known.refuse(op, f"sub-tiles: {op.name} orders whole tiles after sub-tiles")
    return frozenset(found)


# --- what is made once for each use -----------------------------------------------------------------------


def _needs(known: Facts, made: Division) -> Mapping[int, frozenset[int | None]]:
    """How free values are read, from the last operation to the first."""
    found: dict[int, set[int | None]] = {}

    def need(value: Value, dim: int | None) -> None:
        if value.id in known.free:
            found.setdefault(value.id, set()).add(dim)

    for group in (group for op in known.ops for group in linked(op)):
        dim = made.dims.get(group[-1].id)
        for value in group:
            need(value, None if dim == WHOLE else dim)
    for op in reversed(known.ops):
        ways = () if role(op) in _CONTROL else _ways(known, made, op, found)
        for cut in ways:
            for slot, value in enumerate(op.operands):
                dim = cut.dim(slot) if cut else None
                need(value, None if dim == WHOLE else dim)
    return {value: frozenset(dims) for value, dims in found.items()}


def _ways(
    known: Facts, made: Division, op: Op, found: Mapping[int, set[int | None]]
) -> tuple[Cut | None, ...]:
    """The cuts under which an operation is made; None is the whole operation."""
    if not any(value.id in known.free for value in op.results):
        return (made.cuts.get(op.index),)
    needs = {value.id: frozenset(found[value.id]) for value in op.results if value.id in found}
    for slot, value in enumerate(op.results):
        if any(dim is not None and cut_of(op, -1 - slot, dim) is None for dim in needs.get(value.id, ())):
            known.refuse(op, f"sub-tiles: {op.name} combines rows or mixes them with others")
    return free_cuts(op, needs)


def free_cuts(op: Op, needs: Mapping[int, frozenset[int | None]]) -> tuple[Cut | None, ...]:
    """The cuts under which a free operation is made, the whole operation (None) first."""
    wanted = {(slot, dim) for slot, value in enumerate(op.results) for dim in needs.get(value.id, {None})}
    ordered = sorted(wanted, key=lambda one: (one[0], -1 if one[1] is None else one[1]))
    return tuple(dict.fromkeys(None if dim is None else cut_of(op, -1 - slot, dim) for slot, dim in ordered))
