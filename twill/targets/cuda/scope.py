"""What the text of one statement is made in: where its operands are, and the lines written so far.

Takes a program, one of its groups and a statement's reads and writes; executes TTGIR operations by appending
C. Scalars, indices and pointers stay expressions; tiles of numbers become arrays, which the compiler takes
apart into registers.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from twill.diagnostics import TwillError
from twill.ir.loop import Attribute, MemDesc, Op, Scalar, Tensor, Type, Value
from twill.ir.program import SLICES, Iteration, Program, Read, Register, Slot, SlotTensor, TensorMemory, WarpProgram, Write
from twill.ops.table import role
from twill.ops.values import element
from twill.targets.cuda import linear_tiles
from twill.targets.cuda.arithmetic import ATOMICS, constant, expressions, indices
from twill.targets.cuda.exchange import WHOLE, ColumnRange, each, exchanged, gathered, reduced, shared_between
from twill.targets.cuda.expressions import atom, bare, plus, times
from twill.targets.cuda.fragments import Fragment, axes, holding, linear, moves
from twill.targets.cuda.linear_tiles import Spread, literal
from twill.targets.cuda.names import c_name, channel, count
from twill.targets.cuda.register_tiles import (
    BITS,
    PACK,
    AnyPoint,
    Elements,
    Held,
    Transposed,
    c_type,
    declaration,
    held,
    packed,
    point,
)
from twill.targets.cuda.shared_tiles import UNROLL, Shared, loaded, scattered, shared, stored, unrolled

Form = str | Shared | Elements
"""Of a value: a scalar's expression, a tile in shared memory, a tile in registers."""


def refuse(program: Program, op: Op, what: str) -> TwillError:
    """An error at the operation's line."""
    return TwillError(f"{op.name}: {what}", op.location, text=program.module.text.splitlines()[op.location.line - 1])


def variable(register: Register) -> str:
    """The name of an instance: older ones carry their age."""
    name = c_name(register.variable)
    return name if register.age == 0 else f"{name}_age{register.age}"


def iteration(where: Iteration) -> str:
    """The iteration as an expression of the loop counter i and the trip count n."""
    match where.base:
        case "first":
            return str(where.offset)
        case "newest":
            return plus("i", -where.offset)
        case "last":
            return plus("n", -1 - where.offset)
        case "once":
            return "0"


def sequence(name: str, where: Iteration) -> str:
    """The sequence number of a slot."""
    return plus(count(name), iteration(where))


def written(type: Tensor, name: str, elements: Elements, span: ColumnRange = WHOLE) -> list[str]:
    """Assign some slices of the elements of a tile in registers. Raises ValueError where another thread has
    them."""
    form = holding(type)
    pack = packed(type)
    if (
        isinstance(elements, Held)
        and elements.pack == pack
        and isinstance(elements.layout, Fragment)
        and elements.layout.alike(form)
        and pack
    ):
        return [UNROLL, f"{each(form.registers // 2, span)} {name}[i_ / 4][i_ % 4] = {elements.name}[i_ / 4][i_ % 4];"]
    if pack:
        low, high = (elements(point(form, plus("2 * i_", half))) for half in (0, 1))
        return [UNROLL, f"{each(form.registers // 2, span)} {name}[i_ / 4][i_ % 4] = {pack}({low}, {high});"]
    return [UNROLL, f"{each(form.registers, span)} {name}[i_] = {cast(type, elements(point(form, 'i_')))};"]


def number(type: Type, text: str) -> str:
    """A C value of an element type, as tiles compute with it."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    return f"float({text})" if isinstance(dtype, Scalar) and dtype.name in PACK else text


def cast(type: Type, text: str) -> str:
    """The other way round: as it is stored."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    return f"{c_type(type)}({text})" if isinstance(dtype, Scalar) and dtype.name in PACK else text


def plain(type: Tensor, address: str, one: AnyPoint) -> str:
    """An element of a tile that lies row by row in shared memory."""
    if isinstance(one, linear_tiles.Point):
        return f"shared_at<{c_type(type)}>({address} + {one.flat()} * sizeof({c_type(type)}))"
    along = one.layout.axes
    row, column = (one.along((axis,)).coordinate() for axis in (0, 1)) if along == (0, 1) else ("0", one.coordinate())
    index = f"({row} * {type.shape[-1]} + {column})" if along == (0, 1) else column
    return f"shared_at<{c_type(type)}>({address} + {index} * sizeof({c_type(type)}))"


def once(form: Fragment | Spread) -> str:
    """Which of the threads that hold the same element stores it."""
    if isinstance(form, Spread):
        return form.owner()
    if form.threads:
        count = prod(form.shape)
        return f"thread.index + {form.threads} * i_ < {count}" if count % form.threads else "true"
    match form.axes:
        case (0,):
            return "thread.lane % 4 == 0" + (f" && thread.row < {16 * form.down}" if form.across > 1 else "")
        case (1,):
            return f"thread.row % {16 * form.down} == 0" if form.across > 1 else "thread.row == 0"
        case _:
            return "true"


def guard(*conditions: str) -> str:
    """In front of a statement: only where all of them hold."""
    needed = [one for one in conditions if one != "true"]
    return f"if ({' && '.join(needed)}) " if needed else ""


FOLDED = {"add": plus, "multiply": times}
"""Indices whose terms that change nothing are not printed."""


def constant_type(type: Type) -> str:
    """Of a scalar that does not change."""
    name = c_type(type)
    return f"{name} const" if name.endswith("*") else f"const {name}"


def barrier_name(group: int) -> str:
    """The named barrier of a group's own warps."""
    return f"group_{group}_barrier"


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
    deferred: bool = False
    """Each thread keeps the result of a reduction of its own elements: a later statement finalizes it."""

    def bind(self, reads: Iterable[Read]) -> None:
        for read in reads:
            self.values[read.value] = self._found(read)

    def _found(self, read: Read) -> Form:
        value = self.program.value(read.value)
        match read.location:
            case Register() as register:
                name = variable(register)
                return held(name, value.type) if isinstance(value.type, Tensor) else name
            case Slot() as slot:
                return self._tile(read, value, slot)
            case TensorMemory(tile):
                raise TwillError(f"{tile} lies in tensor memory, which this target does not have", self.program.function.location)

    def operand(self, read: Read, slot: Slot) -> Shared:
        """A tile where it is in shared memory."""
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        try:
            return shared(self._address(slot), one.shape, one.dtype, one.encoding)
        except ValueError as problem:
            value = self.program.value(read.value)
            op = self.program.op(value.producer) if value.producer is not None else next(self.program.function.walk())
            raise refuse(self.program, op, f"{value.name} {problem}") from problem

    def _address(self, slot: Slot) -> str:
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        return plus(f"{channel(slot.channel)}.slot({sequence(slot.channel, slot.iteration)})", one.offset)

    def _tile(self, read: Read, value: Value, slot: Slot) -> Form:
        one = self.program.channel(slot.channel).tensors[slot.tensor]
        if not isinstance(value.type, Tensor):
            return self._scalar_at(value, slot) if one.encoding is None else self.operand(read, slot)
        if one.encoding is not None:
            lines, found = loaded(value.type, self.operand(read, slot), f"read_{len(self.lines)}")
            self.lines += lines
            return found
        name, tile = f"read_{len(self.lines)}", value.type
        self.lines += [declaration(tile, name), f"const uint32_t {name}_at = {self._address(slot)};"]
        self.lines += written(tile, name, lambda one: number(tile, plain(tile, f"{name}_at", one)))
        return held(name, tile)

    def _scalar_at(self, value: Value, slot: Slot) -> str:
        name = f"read_{len(self.lines)}"
        kind = c_type(value.type)
        self.lines.append(f"const {kind} {name} = shared_at<{kind}>({self._address(slot)});")
        return name

    def put(self, value: int, tensor: SlotTensor, address: str) -> None:
        """Write a value to shared memory. Raises ValueError where a line of a swizzle pattern would be
        torn."""
        found, form = self.program.value(value), self.values[value]
        if isinstance(form, str) and not isinstance(found.type, Tensor):
            self.lines.append(f"if (thread.leader) shared_at<{c_type(found.type)}>({address}) = {form};")
            return
        maker = self.program.op(found.producer) if found.producer is not None else None
        kind = maker.operands[0].type if maker is not None and isinstance(found.type, MemDesc) else found.type
        assert isinstance(kind, Tensor)
        transposed, elements = isinstance(form, Transposed), self.elements(found)
        source = form.source if isinstance(form, Transposed) else elements
        fragment = source.layout if isinstance(source, Held) else self.layout(kind)
        if tensor.encoding is None:
            one = point(fragment, "i_")
            body = f"{guard(once(fragment))}{plain(kind, address, one)} = {cast(kind, elements(one))};"
            self.lines += [unrolled(fragment), f"for (int i_ = 0; i_ < {fragment.registers}; ++i_)", f"    {body}"]
            return
        tile = shared(address, tensor.shape, tensor.dtype, tensor.encoding)
        tile = replace(tile, transposed=tile.transposed != transposed)
        if isinstance(source, Held) and isinstance(fragment, Fragment) and not tile.transposed:
            self.lines += stored(source, tile)
        else:
            self.lines += scattered(source, fragment, tile, c_type(kind))

    @property
    def narrow(self) -> bool:
        return self.group.only_moves

    def layout(self, type: Tensor) -> Fragment | Spread:
        """How the group shares a tile."""
        return linear(type, 32 * self.group.warps) if self.narrow else holding(type)

    def scalar(self, value: Value) -> str:
        form = self.form(value)
        assert isinstance(form, str)
        return form

    def form(self, value: Value) -> Form:
        """Raises TwillError where nothing says what it is."""
        if value.id in self.values:
            return self.values[value.id]
        if any(value is arg for arg in self.program.function.args):
            return c_name(self.program.name(value.id))
        maker = self.program.op(value.producer) if value.producer is not None else None
        if maker is not None and role(maker) == "constant":
            return self._constant(maker)
        raise TwillError(f"{value.name} has no location", maker.location if maker else None)

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

    def execute(self, op: Op) -> None:
        """Append one operation. Raises TwillError, with its line, for what can not be generated."""
        try:
            self._execute(op)
        except ValueError as problem:
            raise refuse(self.program, op, str(problem)) from problem

    def _execute(self, op: Op) -> None:
        if op.name in VIEWS:
            self.values[op.result.id] = VIEWS[op.name](self, op)
        else:
            _STATEMENTS.get(op.name, Scope._elementwise)(self, op)

    def _elementwise(self, op: Op) -> None:
        """Each result has an expression of its own. Raises TwillError where there is none."""
        probes = expressions(op, ["{}"] * len(op.operands))
        if not op.results or None in probes:
            raise refuse(self.program, op, "can not be generated")
        index = op.index in indices(self.program.function)
        for position, result in enumerate(op.results):
            if isinstance(result.type, Tensor):
                self.values[result.id] = self._tile_of(op, position, result, result.type)
            else:
                forms = [(value, self.form(value)) for value in op.operands]
                given = [number(value.type, form) for value, form in forms if isinstance(form, str)]
                folded = FOLDED.get(role(op)) if index else None
                text = folded(*given) if folded else expressions(op, given, index=index)[position] or ""
                self._named(result, cast(result.type, text))

    def _tile_of(self, op: Op, position: int, result: Value, type: Tensor) -> Elements:
        """A tile of numbers is computed now; of indices and conditions, each element where it is used."""
        operands = [self.elements(value) for value in op.operands]
        index = op.index in indices(self.program.function)

        def elements(point: AnyPoint) -> str:
            return expressions(op, [one(point) for one in operands], index=index)[position] or ""

        if element(type) not in BITS:
            return elements
        if 1 in type.shape or self.narrow:
            return lambda point: number(type, cast(type, elements(point)))
        return self.kept(result, elements)

    def _named(self, value: Value, text: str) -> None:
        """A scalar, computed now."""
        name = self.name(value)
        self.lines.append(f"{name} = {bare(text)};" if value.id in self.targets else f"{constant_type(value.type)} {name} = {bare(text)};")
        self.values[value.id] = name

    def name(self, value: Value) -> str:
        return self.targets.get(value.id, f"{c_name(self.program.name(value.id))}_")

    def kept(self, value: Value, elements: Elements) -> Elements:
        """The tile, computed now; a group that only moves data computes each element where it goes."""
        assert isinstance(value.type, Tensor)
        if self.narrow:
            return elements
        name = self.name(value)
        if value.id not in self.targets:
            self.lines.append(declaration(value.type, name))
        self.lines += written(value.type, name, elements, self.span)
        return held(name, value.type)

    def _reduce(self, op: Op) -> None:
        source, result = op.operands[0].type, op.result.type
        assert isinstance(source, Tensor)
        assert isinstance(result, Tensor)
        name, elements = self.name(op.result), self.elements(op.operands[0])
        if op.result.id not in self.targets:
            self.lines.append(declaration(result, name))
        form, complete = holding(source), self.span[1] == SLICES and not self.deferred
        if isinstance(form, Spread):
            index = held(name, result).register(form.point().without(int(str(op.attributes["axis"]))))
            self.lines += reduced(op, name, form, index, elements, self.span)
            if complete:
                vector = holding(result)
                assert isinstance(vector, Spread)
                self.lines += shared_between(op, name, form, vector, self.scratch, self.group_barrier())
        else:
            self.lines += gathered(op, name, form, elements, self.span)
            self.lines += exchanged(op, name, form, self.scratch, self.group_barrier()) if complete else []
        self.values[op.result.id] = held(name, result)

    def _convert(self, op: Op) -> None:
        """Through shared memory where elements change threads."""
        source, result = op.operands[0].type, op.result.type
        form = self.form(op.operands[0])
        if self.narrow or isinstance(form, str | Shared | Transposed) or not moves(source, result):
            self.values[op.result.id] = form
            return
        assert isinstance(source, Tensor)
        assert isinstance(result, Tensor)
        name, one, fragment = self.name(op.result), point(holding(source), "i_"), holding(source)
        self.lines += [self.group_barrier(), UNROLL, f"for (int i_ = 0; i_ < {fragment.registers}; ++i_)"]
        self.lines.append(f"    {guard(once(fragment))}{plain(source, self.scratch, one)} = {cast(source, form(one))};")
        self.lines += [self.group_barrier(), *([] if op.result.id in self.targets else [declaration(result, name)])]
        self.lines += written(result, name, lambda one: number(result, plain(result, self.scratch, one)))
        self.values[op.result.id] = held(name, result)

    @property
    def scratch(self) -> str:
        """Where the group's scratch buffer is."""
        buffer = next((buffer for buffer in self.program.buffers if buffer.id == f"scratch{self.group.id}"), None)
        return plus("memory", buffer.offset) if buffer else "memory"

    def group_barrier(self) -> str:
        """All warps of the group."""
        return f"named_barrier_sync({barrier_name(self.group.id)}, {32 * self.group.warps});"

    def _atomic(self, op: Op) -> None:
        """By one of the threads that hold an element, and with no thread behind the fence if others are to
        see what came before."""
        kind, (pointers, value, *masks) = str(op.attributes["atomic_rmw_op"]), op.operands
        word = ATOMICS.get(kind)
        if word is None or any(result.id in _read(self.program) for result in op.results):
            raise refuse(self.program, op, f"an atomic {kind}, or one whose result is used, can not be generated")
        if op.attributes.get("sem") != "relaxed":
            self.lines.append("__threadfence();")
        if not isinstance(value.type, Tensor):
            mask = "".join(f" && {self.scalar(one)}" for one in masks)
            self.lines.append(f"if (thread.leader{mask}) {word}({self.scalar(pointers)}, {cast(value.type, self.scalar(value))});")
            return
        form = self.layout(value.type)
        one = point(form, "i_")
        masked = [self.elements(each)(one) for each in masks]
        target, source = self.elements(pointers)(one), cast(value.type, self.elements(value)(one))
        self.lines += [UNROLL, f"for (int i_ = 0; i_ < {form.registers}; ++i_)"]
        self.lines.append(f"    {guard(once(form), *masked)}{word}({target}, {source});")

    def _load(self, op: Op) -> None:
        pointers, *rest = op.operands
        if not isinstance(op.result.type, Tensor):
            text, forms = f"*{self.scalar(pointers)}", [self.scalar(value) for value in rest]
            self._named(op.result, f"({forms[0]} ? {text} : {forms[1] if len(forms) > 1 else '0'})" if forms else text)
            return
        address, masks = self.elements(pointers), [self.elements(value) for value in rest]

        def elements(one: AnyPoint) -> str:
            text, limits = number(op.result.type, f"*{address(one)}"), [mask(one) for mask in masks]
            return f"({limits[0]} ? {text} : {limits[1] if len(limits) > 1 else '0'})" if limits else text

        self.values[op.result.id] = self.kept(op.result, elements)

    def _if(self, op: Op) -> None:
        """Both branches write the same new variables."""
        for result in op.results:
            self.lines.append(declaration(result.type, self.name(result)))
        for i, (region, head) in enumerate(zip(op.regions, (f"if ({self.scalar(op.operands[0])}) {{", "} else {"), strict=True)):
            inner = Scope(self.program, self.group, dict(self.values))
            *ops, last = region.blocks[0].ops
            for one in ops:
                inner.execute(one)
            for result, value in zip(op.results, last.operands, strict=True):
                inner.assigned(result, self.name(result), inner.form(value))
            self.lines += [head, *(f"    {line}" for line in inner.lines), *(["}"] if i else [])]
        for result in op.results:
            name = self.name(result)
            self.values[result.id] = held(name, result.type) if isinstance(result.type, Tensor) else name

    def _store(self, op: Op) -> None:
        value = op.operands[1]
        if not isinstance(value.type, Tensor):
            self.lines.append(f"if (thread.leader) *{self.scalar(op.operands[0])} = {self.scalar(value)};")
            return
        form = self.layout(value.type)
        one = point(form, "i_")
        target, source = self.elements(op.operands[0])(one), cast(value.type, self.elements(value)(one))
        masked = [self.elements(mask)(one) for mask in op.operands[2:]]
        self.lines += [UNROLL, f"for (int i_ = 0; i_ < {form.registers}; ++i_)"]
        self.lines.append(f"    {guard(once(form), *masked)}*{target} = {source};")

    def assign(self, writes: Iterable[Write]) -> None:
        """Keep results that are not in their variables yet. Raises TwillError, with its line, for one whose
        elements can not be had."""
        for write in writes:
            if write.value in self.targets and not callable(self.values[write.value]):
                continue
            value = self.program.value(write.value)
            try:
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
            one = point(holding(value.type), "i_")
            if elements(one) != held(name, value.type)(one):
                self.lines += written(value.type, name, elements, self.span)


def _read(program: Program) -> frozenset[int]:
    """The values that any operation reads."""
    return frozenset(value.id for op in program.function.walk() for value in op.operands)


# --- operations that only change how a value is seen --------------------------------------------------------------------


def _same(scope: Scope, op: Op) -> Form:
    return scope.form(op.operands[0])


def _map(scope: Scope, op: Op, source: Callable[[linear_tiles.Point], linear_tiles.Point], otherwise: Form | None = None) -> Form:
    """A view of a tile in a linear layout, by which element of the operand each of its elements is."""
    form = scope.form(op.operands[0])
    if not callable(form) or isinstance(form, Transposed) or not any(literal(value.type) for value in (op.operands[0], op.result)):
        return form if otherwise is None else otherwise
    elements = form

    def seen(one: AnyPoint) -> str:
        if isinstance(one, linear_tiles.Point):
            return elements(source(one))
        if otherwise is None:
            return elements(one)
        assert callable(otherwise)
        return otherwise(one)

    return seen


def _expand(scope: Scope, op: Op) -> Form:
    axis = int(str(op.attributes["axis"]))
    return _map(scope, op, lambda one: one.without(axis))


def _broadcast(scope: Scope, op: Op) -> Form:
    source = op.operands[0].type
    assert isinstance(source, Tensor)
    return _map(scope, op, lambda one: one.collapsed(source.shape))


def _join(scope: Scope, op: Op) -> Form:
    """The last coordinate chooses."""
    first, second = (scope.elements(value) for value in op.operands)

    def elements(one: AnyPoint) -> str:
        if not isinstance(one, linear_tiles.Point):
            raise ValueError("can not be generated in a group of one warp")
        last = len(one.shape) - 1
        return f"({one.coordinate(last)} ? {second(one.without(last))} : {first(one.without(last))})"

    return elements


def _split(scope: Scope, op: Op) -> None:
    source = scope.elements(op.operands[0])

    def half(which: int) -> Elements:
        def elements(one: AnyPoint) -> str:
            if not isinstance(one, linear_tiles.Point):
                raise ValueError("can not be generated in a group of one warp")
            return source(one.extended(which))

        return elements

    for which, result in enumerate(op.results):
        scope.values[result.id] = scope.kept(result, half(which))


def _splat(scope: Scope, op: Op) -> Form:
    text = scope.scalar(op.operands[0])
    return lambda point: text


def _range(scope: Scope, op: Op) -> Form:
    assert isinstance(op.result.type, Tensor)
    start, along = op.attributes["start"], axes(op.result.type)

    def elements(one: AnyPoint) -> str:
        place = one.coordinate(0) if isinstance(one, linear_tiles.Point) else one.along(along).coordinate()
        return atom(plus(str(start), place))

    return elements


def _transpose(scope: Scope, op: Op) -> Form:
    tile = scope.form(op.operands[0])
    if not isinstance(tile, Shared):
        raise refuse(scope.program, op, "only a tile in shared memory can be transposed")
    return replace(tile, transposed=not tile.transposed)


def _reshape(scope: Scope, op: Op) -> Form:
    source, result = op.operands[0].type, op.result.type
    assert isinstance(source, Tensor)
    assert isinstance(result, Tensor)
    if tuple(n for n in source.shape if n > 1) == tuple(n for n in result.shape if n > 1):
        return _map(scope, op, lambda one: one.reshaped(source.shape), scope.form(op.operands[0]))
    return _map(scope, op, lambda one: one.reshaped(source.shape), _nowhere)


def _nowhere(one: AnyPoint) -> str:
    raise ValueError("its elements lie in other threads")


def _transpose_registers(scope: Scope, op: Op) -> Form:
    form = scope.form(op.operands[0])
    if isinstance(form, Shared | str):
        raise refuse(scope.program, op, "can not be generated")
    if literal(op.result.type):
        order = tuple(int(str(axis)) for axis in _order(op))
        return _map(scope, op, lambda one: one.permuted(order), _nowhere)
    return form.source if isinstance(form, Transposed) else Transposed(form)


def _order(op: Op) -> tuple[Attribute, ...]:
    """Of `tt.trans`; the dimensions exchanged where it names none."""
    order = op.attributes.get("order")
    return order if isinstance(order, tuple) else (1, 0)


VIEWS = {
    "tt.reshape": _reshape,
    "tt.trans": _transpose_registers,
    "ttg.local_alloc": _same,
    "tt.broadcast": _broadcast,
    "tt.splat": _splat,
    "tt.make_range": _range,
    "tt.expand_dims": _expand,
    "tt.join": _join,
    "ttg.memdesc_trans": _transpose,
}

_STATEMENTS = {
    "tt.reduce": Scope._reduce,
    "tt.split": _split,
    "tt.store": Scope._store,
    "tt.load": Scope._load,
    "ttg.convert_layout": Scope._convert,
    "tt.atomic_rmw": Scope._atomic,
    "scf.if": Scope._if,
}
"""What computes by more than a formula for each element."""
