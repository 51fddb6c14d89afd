"""First operands of MMAs that are not generated from registers: tf32, 8 bits, and halves of loaded tiles.

Takes a module; gives the same in which such a tile, where an MMA takes it from registers, is copied to a
buffer in shared memory first: in the layout in which it is computed, and once for all MMAs of a block that
take the same elements. Lines stay where they are.
"""

from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise

from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited
from twill.extract.rewrite.text.type_text import type_text
from twill.ir.loop import Block, Function, Module, Op, Scalar, Tensor, Value
from twill.ops.table import is_elementwise, named, role

LINE = 128
"""Bytes of a line of the widest swizzle pattern (PTX ISA, wgmma, shared memory matrix layout)."""
STAGED = {"f32": 32, "i8": 8, "f8E4M3FN": 8, "f8E5M2": 8}
"""The element types, with their bits."""
HALVED = {"f16": 16, "bf16": 16}
"""Those of which only halves of loaded tiles are staged: nothing computes them into registers."""
_VIEWS = ("layout", "reshape", "transpose", "split", "bitcast")


def staged_operands(module: Module) -> Module:
    """The module itself where no MMA needs it."""
    return edited(module, (edit for function in module.functions for edit in _of_function(module, function)))


def _of_function(module: Module, function: Function) -> Iterator[Edit]:
    makers = {value.id: op for op in function.walk() for value in op.results}
    contents, copied, staged = _Contents(makers), set[int](), set[int]()
    for block in function.blocks():
        for buffer in _of_block(module, block, contents):
            yield from buffer.edits
            staged.add(buffer.dot.index)
            copied.add(buffer.source.id)
    gone = _unread(function, staged, copied)
    for block in function.blocks():
        for op, following in pairwise(block.ops):
            if op.index in gone:
                yield blanked(module, op.span.start, following.span.start)


@dataclass(frozen=True, slots=True)
class _Staged:
    """An MMA that takes its first operand from a buffer, to which `source` is copied."""

    dot: Op
    source: Value
    edits: tuple[Edit, ...]


def _of_block(module: Module, block: Block, contents: "_Contents") -> Iterator[_Staged]:
    buffers = dict[Hashable, tuple[str, Value]]()
    for dot in (op for op in block.ops if role(op) == "wgmma"):
        operand = dot.operands[0]
        tile, text = operand.type, type_text(module, operand.type)
        if not isinstance(tile, Tensor) or not isinstance(tile.dtype, Scalar) or text is None:
            continue
        bits = STAGED.get(tile.dtype.name)
        if bits is None and _half_of_loaded(contents, operand):
            bits = HALVED.get(tile.dtype.name)
        at = module.text.find(text, dot.span.start, dot.span.end)
        name = module.text.find(operand.name, dot.span.start, dot.span.end)
        if bits is None or at < 0 or name < 0 or _read_as_loaded(contents, operand):
            continue
        buffer, what, edits = buffer_text(tile, tile.dtype.name, bits), contents.of(operand), list[Edit]()
        if what not in buffers:
            buffers[what] = own, source = (
                f"%twill_operand{dot.index}",
                _as_computed(module, contents, operand),
            )
            kind = type_text(module, source.type)
            made = f"{own} = {named('alloc')} {source.name} : ({kind}) -> {buffer} {UNKNOWN} "
            edits.append(Edit(dot.span.start, dot.span.start, made))
        own, source = buffers[what]
        edits += [Edit(name, name + len(operand.name), own), Edit(at, at + len(text), buffer)]
        yield _Staged(dot, source, tuple(edits))


def _unread(function: Function, staged: Set[int], copied: Set[int]) -> Set[int]:
    """The operations, by index, that nothing reads but MMAs which take another tile in place of the result:
    they would be executed for nothing."""
    users, gone = function.users(), set[int]()

    def passed_over(value: Value) -> bool:
        readers = users.get(value.id, ())
        return bool(readers) and all(
            user.index in gone or (user.index in staged and value not in user.operands[1:])
            for user in readers
        )

    for op in reversed(list(function.walk())):
        pure = is_elementwise(op) or role(op) == "layout"
        if pure and all(value.id not in copied and passed_over(value) for value in op.results):
            gone.add(op.index)
    return gone


def buffer_text(tile: Tensor, dtype: str, bits: int) -> str:
    """The type of a buffer that an MMA reads."""
    line = tile.shape[-1] * bits // 8
    layout = (
        f"#ttg.nvmma_shared<{{swizzlingByteWidth = {min(LINE, line & -line)}, transposed = false,"
        f" elementBitWidth = {bits}}}>"
    )
    shape = "".join(f"{size}x" for size in tile.shape)
    return f"!ttg.memdesc<{shape}{dtype}, {layout}, #ttg.shared_memory>"


def _read_as_loaded(contents: "_Contents", value: Value) -> bool:
    """Bytes that are loaded and only called another type: the MMA reads them where the load puts them."""
    maker, called = contents.makers.get(value.id), False
    while maker is not None and role(maker) in ("layout", "bitcast"):
        called |= role(maker) == "bitcast"
        maker = contents.makers.get(maker.operands[0].id)
    return called and maker is not None and role(maker) == "pointer_load"


def _half_of_loaded(contents: "_Contents", value: Value) -> bool:
    """One result of a split of a loaded tile, or a view of one."""
    maker, halved = contents.makers.get(value.id), False
    while maker is not None and role(maker) in _VIEWS:
        halved |= role(maker) == "split"
        maker = contents.makers.get(maker.operands[0].id)
    return halved and maker is not None and role(maker) in ("pointer_load", "tma_load")


def _as_computed(module: Module, contents: "_Contents", value: Value) -> Value:
    """The tile before changes of its layout, which would take it through shared memory once more."""
    while (maker := contents.makers.get(value.id)) is not None and role(maker) == "layout":
        if type_text(module, maker.operands[0].type) is None:
            break
        value = maker.operands[0]
    return value


@dataclass(frozen=True, slots=True)
class _Contents:
    """What tiles hold, whatever their layouts are."""

    makers: Mapping[int, Op]
    """By the id of their results."""
    known: dict[int, Hashable] = field(default_factory=dict[int, Hashable])
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])

    def of(self, value: Value) -> Hashable:
        """Equal for tiles whose elements follow from the same values by the same elementwise operations."""
        if value.id not in self.known:
            self.known[value.id] = self._found(value)
        return self.known[value.id]

    def _found(self, value: Value) -> Hashable:
        maker = self.makers.get(value.id)
        if maker is not None and role(maker) == "layout":
            return self.of(maker.operands[0])
        if maker is None or not is_elementwise(maker) or not isinstance(value.type, Tensor):
            return value.id
        attributes = tuple(sorted((name, repr(one)) for name, one in maker.attributes.items()))
        kind = (maker.name, attributes, value.type.shape, value.type.dtype, value.position)
        key = (*kind, *(self.of(operand) for operand in maker.operands))
        return "computed", self.numbers.setdefault(key, len(self.numbers))
