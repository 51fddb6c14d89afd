"""What the text of one statement is made in: where its operands are, and the lines written so far.

Takes a program, one of its groups and a statement's reads and writes. Scalars, indices and pointers stay
expressions; tiles of numbers become arrays, which the compiler takes apart into registers. `operations`
appends TTGIR operations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeGuard

from twill.diagnostics import DefectError
from twill.ir.channels import BEHIND, Buffer, Channel, SlotTensor
from twill.ir.loop import Function, Op, SharedLinear, Tensor, Value
from twill.ir.operands import Read, Register, Slot, TensorMemory, Write
from twill.ir.program import Program, WarpProgram
from twill.ir.statements import Compute, ProducerLoad, walk
from twill.ops.axis_info import AxisAnalysis
from twill.ops.c import c_type, computed
from twill.ops.pointer_loads import all_equal
from twill.ops.row import Role
from twill.ops.table import role
from twill.targets.cuda.expressions import atom, bare, plus
from twill.targets.cuda.loops.positions import NOTHING_KEPT, Positions
from twill.targets.cuda.mmas.plain_dot import too_large
from twill.targets.cuda.mmas.tensor_memory import Stream
from twill.targets.cuda.names import c_name, channel, count, local
from twill.targets.cuda.registers import moving_vectors
from twill.targets.cuda.registers.elements import (
    barrier_name,
    by_thread,
    constant_type,
    iteration,
    plain,
    read_repeated,
    read_together,
    refuse,
    thread_words,
    variable,
    written,
)
from twill.targets.cuda.registers.fragments import Fragment, holding, linear
from twill.targets.cuda.registers.fragments import scratch as exchanged_bytes
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import (
    Elements,
    Held,
    Transposed,
    declaration,
    held,
    number,
    point,
)
from twill.targets.cuda.shared.in_shared import InShared
from twill.targets.cuda.shared.own_words import OwnWords
from twill.targets.cuda.shared.shared_tiles import Shared, addressed, dense, loaded, read_kept, shared
from twill.targets.cuda.shared.shared_tiles import operand as as_operand
from twill.targets.cuda.values.arithmetic import constant
from twill.targets.cuda.values.exchange import WHOLE, ColumnRange, Room
from twill.warp.dataflow import captured

NO_SCRATCH = "no_scratch_buffer"
"""In place of the address of a scratch buffer, for a group without one."""
Form = str | Shared | Elements
"""Of a value: a scalar's expression, a tile in shared memory, a tile in registers."""


@cache
def equal_loads(function: Function) -> frozenset[int]:
    """The tiles, by value id, that a load fills with one number."""
    analysis = AxisAnalysis(function)
    loads = (op for op in function.walk() if role(op) == "pointer_load")
    return frozenset(op.result.id for op in loads if all_equal(analysis, op))


@cache
def equal_comparisons(function: Function) -> frozenset[int]:
    """The tiles of truth values, by value id, of comparisons that have one result for all elements: whether
    numbers from a multiple of a tile's size on are below another multiple, for instance."""
    analysis = AxisAnalysis(function)

    def equal(tile: Value) -> bool:
        runs, shape = analysis.of(tile).constancy, tile.type.shape if isinstance(tile.type, Tensor) else (0,)
        return min(shape) > 0 and all(run % size == 0 for run, size in zip(runs, shape, strict=True))

    comparisons = (op for op in function.walk() if role(op) == "compare")
    return frozenset(op.result.id for op in comparisons if equal(op.result))


def tensor_address(program: Program, location: TensorMemory) -> str:
    """The address of a tile in tensor memory."""
    tile = next(tile for tile in program.tensor_memory if tile.id == location.tile)
    first = plus("tensor_memory", tile.column)
    if tile.buffers == 1:
        return first
    number = count(tile.counter) if tile.counter else atom(iteration(location.iteration))
    return f"{first} + {number} % {tile.buffers} * {tile.columns}"


@dataclass(slots=True)
class ScratchHalves:
    """Which half of a group's scratch buffer no warp reads any more, as the text goes on. Between the two
    barriers of an exchange in one half all warps have read what lay in the other: the next exchange, there,
    needs no barrier before it. (An iteration of fla's ttt_bwd_h has 15 exchanges, each behind the last.)"""

    free: int | None = None
    """Its offset in the buffer; None where all of the buffer may be read."""

    def forget(self) -> None:
        """What follows may be reached from elsewhere, or is printed elsewhere."""
        self.free = None


HALF = 128
"""A half of a scratch buffer begins at a multiple of so many bytes: all banks."""


@dataclass(slots=True)
class Scope:
    """One statement on its way to C."""

    program: Program
    group: WarpProgram
    values: dict[int, Form]
    targets: Mapping[int, str] = field(default_factory=dict[int, str])
    """Variables that results are written to at once, by value id."""
    lines: list[str] = field(default_factory=list[str])
    span: ColumnRange = WHOLE
    """Which slices of the elements of tiles."""
    positions: Positions = NOTHING_KEPT
    """What the loop that is printed keeps of channels."""
    streaming: bool = False
    """Each element of a tile is computed where it goes: to tensor memory, in chunks, or into an address."""
    streams: list[Stream] = field(default_factory=list[Stream])
    """What these chunks are computed from."""
    read_from: dict[int, str | Shared] = field(default_factory=dict[int, "str | Shared"])
    """Where values that were read lie in shared memory, by value id: the address of a tile that lies row by
    row, or the tile in its swizzle."""
    float_pairs: bool = False
    """One instruction computes two float32 elements."""
    fused: frozenset[int] = frozenset()
    """Multiplications, by value id, that are part of the addition which reads them."""
    deferred: bool = False
    """Each thread keeps the result of a reduction of its own elements: a later statement finalizes it."""
    beside_copies: frozenset[tuple[str, int]] = frozenset()
    """Tensors that TMA loads to slots which threads copy to, too: channel and number."""
    unawaited: list[tuple[Slot, str]] | None = None
    """Reads of slots to be awaited at the end of the statement, so that each needs a register only until it
    is used; None: each is awaited at once, as what is read inside of braces must be."""
    loads: dict[int, tuple[Read, Slot]] = field(default_factory=dict[int, "tuple[Read, Slot]"])
    """Tiles in slots that are read in the layouts which they are converted to, by value id."""
    halves: ScratchHalves = field(default_factory=ScratchHalves)
    """Of the statements before it."""
    read_late: list[str] | None = None
    """Where the lines go that read the vector which is exchanged last, behind the next barrier of the group;
    it is read at once if None."""
    received: set[int] = field(default_factory=set[int])
    """What comes in a slot, by value id: the statement does not have what it was computed from."""
    in_branches: Mapping[tuple[int, int], Sequence[Op]] = field(
        default_factory=dict[tuple[int, int], "Sequence[Op]"]
    )
    """Loads that a branch of an `if` begins with, by the index of that and the number of the region."""

    def bind(self, reads: Iterable[Read], ops: Iterable[Op] = ()) -> None:
        """Where the operations find what they read."""
        ops = tuple(ops)
        for read in reads:
            if isinstance(read.location, Slot):
                self.received.add(read.value)
            if isinstance(read.location, Slot) and self._converted(read, read.location, ops):
                self.loads[read.value] = read, read.location
            else:
                self.values[read.value] = self._located(read)

    def _located(self, read: Read) -> Form:
        try:
            return self._found(read)
        except ValueError as problem:
            maker = self.program.value(read.value).producer
            if maker is None:
                raise
            raise refuse(self.program, self.program.op(maker), str(problem)) from problem

    def _converted(self, read: Read, slot: Slot, ops: Sequence[Op]) -> bool:
        """Whether all that uses a tile in shared memory changes its layout, to one that it can be read in."""
        users = [op for op in ops if any(value.id == read.value for value in captured(op))]
        if users and all(role(op) == "buffer_load" for op in users):
            return True
        one = self.program.channel(slot.channel)
        read_there = one.tensors[slot.tensor].encoding is not None or not self.alike(one)
        return read_there and bool(users) and all(role(op) == "layout" for op in users) and not self.narrow

    def converted(self, value: Value, result: Tensor) -> Form:
        """A tile in a slot, read in another layout than it was loaded in; one of which a thread has no
        registers for its part stays there."""
        read, slot = self.loads[value.id]
        return self._in_place(read, slot, result) if too_large(result) else self._read_as(read, slot, result)

    def _in_place(self, read: Read, slot: Slot, tile: Tensor) -> InShared:
        """Each element of a tile is read where it is used."""
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        rows = dense(one.part, one.encoding)
        place = self._address(slot) if rows else self.operand(read, slot, shared)
        name = f"read_{len(self.lines)}_at"
        address = place if isinstance(place, str) else place.address
        self.lines.append(f"const uint32_t {name} = {address};")
        return InShared(tile, name, None if isinstance(place, str) else place, slot)

    def await_in_place(self, tiles: Iterable[Elements], name: str) -> None:
        """What is computed from tiles in slots, `name`, is complete before the slots are released."""
        for slot in [one.slot for one in tiles if isinstance(one, InShared) and one.slot][:1]:
            self.lines += self._awaited(slot, name)

    def _found(self, read: Read) -> Form:
        value = self.program.value(read.value)
        match read.location:
            case Register() as register:
                if (own := self.own_words(register.variable)) is not None:
                    return own
                name = variable(register)
                return self.held(name, value.type) if isinstance(value.type, Tensor) else name
            case Slot() as slot:
                return self._tile(read, value, slot)
            case TensorMemory() as tile:
                return tensor_address(self.program, tile)

    def operand(self, read: Read, slot: Slot, made: Callable[..., Shared] = as_operand) -> Shared:
        """A tile where it is in shared memory, as MMAs and TMA read it, or as `made` has it."""
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        try:
            return made(self._address(slot), one.part, one.dtype, one.encoding)
        except ValueError as problem:
            value = self.program.value(read.value)
            op = (
                self.program.op(value.producer)
                if value.producer is not None
                else next(self.program.function.walk())
            )
            raise refuse(self.program, op, f"{value.name} {problem}") from problem

    def dense(self, slot: Slot, op: Op) -> str:
        """The address of a tile in shared memory that `op` reads there row by row, or as a linear layout of
        its own operand says. Raises TwillError for one in a swizzle."""
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        if not dense(one.shape, one.encoding) and not isinstance(one.encoding, SharedLinear):
            raise refuse(self.program, op, f"{one.name} does not lie row by row in shared memory")
        return self._address(slot)

    def _address(self, slot: Slot) -> str:
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        at = self.positions.of(slot.channel, slot.iteration)
        return plus(f"{channel(slot.channel)}.slot({at})", one.offset)

    def _tile(self, read: Read, value: Value, slot: Slot) -> Form:
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        if not isinstance(value.type, Tensor):
            return self._scalar_at(value, slot) if one.encoding is None else self.operand(read, slot)
        return self._read_as(read, slot, value.type)

    def _read_as(self, read: Read, slot: Slot, tile: Tensor) -> Form:
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        if one.repeated > 1:
            return self._read_repeated(one, slot, tile)
        if not dense(one.part, one.encoding):
            place = self.read_from[read.value] = self.operand(read, slot, shared)
            lines, found = loaded(tile, place, f"read_{len(self.lines)}")
            self.lines += [*lines, *self._awaited(slot, found.name)]
            return found
        name = f"read_{len(self.lines)}"
        if read.value in equal_loads(self.program.function):
            kind = c_type(tile)
            first = number(tile, f"shared_at<{kind}>({self._address(slot)})")
            self.lines += [f"const {computed(tile)} {name} = {first};", *self._awaited(slot, name)]
            return lambda point: name
        at = f"const uint32_t {name}_at = {self._address(slot)};"
        if self.narrow and self.program.channel(slot.channel).filled_by != "tma":
            self.lines.append(at)
            return lambda point: number(tile, plain(tile, f"{name}_at", point))
        self.lines += [declaration(tile, name), at]
        alike = self.alike(self.program.channel(slot.channel))
        if alike and (words := thread_words(tile)):
            self.lines += [*words.read(name, f"{name}_at"), *self._awaited(slot, name)]
            return held(name, tile)
        kept = by_thread(tile, f"{name}_at") if alike else None
        self.read_from |= {} if kept else {read.value: f"{name}_at"}
        together = None if kept or self.narrow else read_together(tile, name)
        self.lines += together or written(
            tile, name, lambda one: number(tile, kept(one) if kept else plain(tile, f"{name}_at", one))
        )
        self.lines += self._awaited(slot, name)
        return held(name, tile)

    def _read_repeated(self, one: SlotTensor, slot: Slot, tile: Tensor) -> Form:
        """A tile of which one of several equal rows lies in the slot."""
        if self.narrow:
            raise ValueError("is read by a group that holds no tiles")
        name, address = f"read_{len(self.lines)}", self._address(slot)
        if one.encoding is None:
            lines = [f"const uint32_t {name}_at = {address};", *read_repeated(tile, name, one.repeated)]
        else:
            lines = read_kept(tile, addressed(address, one), name, one.repeated)
        self.lines += [declaration(tile, name), *lines, *self._awaited(slot, name)]
        return held(name, tile)

    def _awaited(self, slot: Slot, name: str) -> list[str]:
        """Reads of a slot have arrived before it is released, where that must be waited for."""
        if not awaited(self.program, self.group, slot, self.beside_copies):
            return []
        if self.unawaited is None:
            return [f"await_reads({name});"]
        self.unawaited.append((slot, name))
        return []

    def _scalar_at(self, value: Value, slot: Slot) -> str:
        name = f"read_{len(self.lines)}"
        kind = c_type(value.type)
        first = f"const {kind} {name} = shared_at<{kind}>({self._address(slot)});"
        self.lines += [first, *self._awaited(slot, name)]
        return name

    @property
    def narrow(self) -> bool:
        return self.group.only_moves

    def alike(self, channel: Channel) -> bool:
        """Whether threads write and read what a channel holds, in groups that all share tiles as MMAs do."""
        ends = (channel.producer, *channel.consumers)
        moving = any(group.only_moves for group in self.program.groups if group.id in ends)
        return channel.filled_by == "threads" and not moving

    def layout(self, type: Tensor) -> Fragment | Spread:
        """How the group shares a tile."""
        return linear(type, 32 * self.group.warps) if self.narrow else holding(type)

    def scalar(self, value: Value) -> str:
        form = self.form(value)
        assert isinstance(form, str)
        return form

    def form(self, value: Value) -> Form:
        """Raises DefectError where nothing says what it is."""
        if value.id in self.values:
            return self.values[value.id]
        if any(value is arg for arg in self.program.function.args):
            return c_name(self.program.name(value.id))
        maker = self.program.op(value.producer) if value.producer is not None else None
        if maker is not None and role(maker) == "constant":
            return self._constant(maker)
        raise DefectError(f"{value.name} has no location", maker.location if maker else None)

    def _constant(self, op: Op) -> Form:
        try:
            text = constant(op.attributes["value"], op.result.type)
        except ValueError as problem:
            raise refuse(self.program, op, str(problem)) from problem
        return (lambda point: text) if isinstance(op.result.type, Tensor) else text

    def elements(self, value: Value) -> Elements:
        form = self.form(value)
        if isinstance(form, str):
            return lambda point: form
        assert not isinstance(form, Shared)
        return form

    def named(self, value: Value, text: str) -> None:
        """A scalar, computed now."""
        name = self.name(value)
        self.lines.append(
            f"{name} = {bare(text)};"
            if value.id in self.targets
            else f"{constant_type(value.type)} {name} = {bare(text)};"
        )
        self.values[value.id] = name

    def name(self, value: Value) -> str:
        return self.targets.get(value.id, local(self.program.name(value.id)))

    def keeps(self, value: Value) -> bool:
        """Whether a tile is computed now, into variables."""
        return not self.narrow and (not self.streaming or value.id in self.targets)

    def kept(self, value: Value, elements: Elements) -> Elements:
        """The tile, computed now; a group that only moves data computes each element where it goes."""
        assert isinstance(value.type, Tensor)
        if not self.keeps(value):
            return elements
        name = self.name(value)
        if value.id not in self.targets:
            self.lines.append(declaration(value.type, name))
        self.lines += written(value.type, name, elements, self.span)
        return held(name, value.type)

    def held(self, name: str, type: Tensor) -> Held:
        """The elements of a tile that the group keeps in a variable."""
        form = self.layout(type)
        return moving_vectors.held(name, type, form) if self._moving(form) else held(name, type)

    def own_words(self, name: str) -> OwnWords | None:
        """A variable that lies in shared memory; None for one in registers."""
        one = next((each for each in self.group.variables if each.id == name and each.buffer), None)
        if one is None:
            return None
        buffer = next(each for each in self.program.buffers if each.id == one.buffer)
        kind = one.stored or one.type
        assert isinstance(kind, Tensor)
        return OwnWords(kind, plus("memory", buffer.offset), 32 * self.group.warps)

    def _moving(self, form: Fragment | Spread) -> TypeGuard[Fragment]:
        return self.narrow and isinstance(form, Fragment)

    def in_registers(self, value: Value) -> Form:
        """A tile as it is; in variables of its own where only a formula of its elements is known."""
        form = self.form(value)
        return form if isinstance(form, str | Shared | Held | Transposed) else self.kept(value, form)

    @property
    def scratch(self) -> str:
        """Where the group's scratch buffer is, of which any part is used; without one, a name that no file
        declares."""
        self.halves.forget()
        buffer = self._scratch_buffer()
        return plus("memory", buffer.offset) if buffer else NO_SCRATCH

    def _scratch_buffer(self) -> Buffer | None:
        return next((one for one in self.program.buffers if one.id == f"scratch{self.group.id}"), None)

    def _behind(self, op: Op) -> Buffer | None:
        """The buffer of the group for an operation behind loops, where it has one apart."""
        name = f"{BEHIND}scratch{self.group.id}"
        return next((one for one in self.program.buffers if one.id == name and op.index in one.ops), None)

    def room(self, op: Op) -> Room:
        """Where an operation's exchange, which is printed now, takes place: in the buffer that it has for
        itself, or in a half of the group's scratch buffer if it has room."""
        own, buffer, free = self._behind(op), self._scratch_buffer(), self.halves.free
        if own is not None:
            self.halves.forget()
            return Room(plus("memory", own.offset), [self.group_barrier()], self.group_barrier())
        half = buffer.bytes // 2 // HALF * HALF if buffer and not buffer.overlays else 0
        if buffer is None or exchanged_bytes(op) > half:
            fits = buffer is not None and exchanged_bytes(op) <= buffer.bytes
            place = self.scratch if fits else NO_SCRATCH
            return Room(place, [self.group_barrier()], self.group_barrier())
        at = free or 0
        self.halves.free = half - at
        before = [self.group_barrier()] if free is None else []
        return Room(plus("memory", buffer.offset + at), before, self.group_barrier())

    def group_barrier(self) -> str:
        """All warps of the group."""
        if self.group.warps == 1:
            return "__syncwarp();"
        return f"named_barrier_sync({barrier_name(self.group.id)}, {32 * self.group.warps});"

    def assign(self, writes: Iterable[Write]) -> None:
        """Keep results that are not in their variables yet. Raises TwillError, with its line, for one whose
        elements can not be had."""
        for write in writes:
            if write.value in self.targets and not callable(self.values[write.value]):
                continue
            value = self.program.value(write.value)
            try:
                if (own := self.own_words(write.register.variable)) is not None:
                    self.lines += own.written(self.elements(value), self.span)
                    continue
                self.assigned(value, variable(write.register), self.values[write.value])
            except ValueError as problem:
                if value.producer is None:
                    raise
                raise refuse(self.program, self.program.op(value.producer), str(problem)) from problem

    def assigned(self, value: Value, name: str, form: Form) -> None:
        """Keep a value in a variable, if it is not there."""
        if isinstance(form, str) and not isinstance(value.type, Tensor):
            self.lines += [f"{name} = {form};"] if form != name else []
        elif isinstance(value.type, Tensor) and not isinstance(form, Shared):
            elements: Elements = (lambda one: form) if isinstance(form, str) else form
            layout = self.layout(value.type)
            one = point(layout, "i_")
            if elements(one) == self.held(name, value.type)(one):
                return
            if self._moving(layout):
                self.lines += moving_vectors.assigned(value.type, name, layout, elements)
            else:
                self.lines += written(value.type, name, elements, self.span)


MEMORY: frozenset[Role] = frozenset({"pointer_load", "pointer_store", "atomic", "atomic_exchange"})
"""What threads do in global memory."""


def awaited(
    program: Program, group: WarpProgram, slot: Slot, beside_copies: frozenset[tuple[str, int]]
) -> bool:
    """Whether reads of a slot must have arrived before it is released: TMA fills it again, and the group's
    threads access global memory, behind which reads may be late."""
    by_tma = (slot.channel, slot.tensor) in beside_copies or program.channel(slot.channel).filled_by == "tma"
    return by_tma and group.id in accessing_memory(program)


@cache
def accessing_memory(program: Program) -> frozenset[int]:
    """The groups whose threads load, store or update global memory anywhere in their programs; of copies,
    those of groups that read what they load."""
    return frozenset(group.id for group in program.groups if _accesses_memory(program, group))


def _accesses_memory(program: Program, group: WarpProgram) -> bool:
    statements = (one for one in walk(group.body) if isinstance(one, Compute))
    ops = (program.op(index) for one in statements for index in one.ops)
    fills = (one for one in walk(group.body) if isinstance(one, ProducerLoad) and one.slots)
    copied = any(load.vector for one in fills for load in one.loads)
    return copied or any(role(one) in MEMORY for op in ops for one in (op, *op.inner()))
