"""What the text of one statement is made in: where its operands are, and the lines written so far.

Takes a program, one of its groups and a statement's reads and writes; executes TTGIR operations by appending C. Scalars, indices and
pointers stay expressions; tiles of numbers become arrays, which the compiler takes apart into registers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from re import sub

from twill.codegen.emit.arithmetic import REDUCTIONS, constant, expression, neutral
from twill.codegen.emit.shared import UNROLL, Shared, loaded, shared
from twill.codegen.emit.tiles import BITS, Elements, Held, Layout, Point, axes, c_type, declaration, held, layout, packed, registers
from twill.diagnostics import TwillError
from twill.ir.loop import Op, Scalar, Tensor, Value
from twill.ir.program import Iteration, Program, Read, Register, Slot, WarpProgram, Write

Form = str | Shared | Elements
"""Of a value: a scalar's expression, a tile in shared memory, a tile in registers."""


def refuse(program: Program, op: Op, what: str) -> TwillError:
    """An error at the operation's line."""
    return TwillError(f"{op.name}: {what}", op.location, text=program.module.text.splitlines()[op.location.line - 1])


def identifier(name: str) -> str:
    """Of a value's name."""
    name = sub(r"\W", "_", name.lstrip("%"))
    return name if name[:1].isalpha() else f"v{name}"


def variable(register: Register) -> str:
    """The name of an instance: older ones carry their age."""
    return register.variable if register.age == 0 else f"{register.variable}_age{register.age}"


def iteration(where: Iteration) -> str:
    """The iteration as an expression of the loop counter i and the trip count n."""
    match where.base:
        case "first":
            return str(where.offset)
        case "newest":
            return f"i - {where.offset}" if where.offset else "i"
        case "last":
            return f"n - {1 + where.offset}"
        case "once":
            return "0"


def sequence(channel: str, where: Iteration) -> str:
    """The sequence number of a slot."""
    return f"n_{channel}" if where.base == "once" else f"n_{channel} + {iteration(where)}"


def written(type: Tensor, name: str, elements: Elements) -> list[str]:
    """Assign every element of a tile in registers. Raises ValueError where another thread has them."""
    form = layout(type)
    pack = packed(type)
    if isinstance(elements, Held) and elements.pack == pack and elements.layout.alike(form) and pack:
        return [UNROLL, f"for (int i_ = 0; i_ < {form.registers // 2}; ++i_) {name}[i_ / 4][i_ % 4] = {elements.name}[i_ / 4][i_ % 4];"]
    if pack:
        low, high = (elements(Point(form, f"2 * i_ + {half}")) for half in (0, 1))
        return [UNROLL, f"for (int i_ = 0; i_ < {form.registers // 2}; ++i_) {name}[i_ / 4][i_ % 4] = {pack}({low}, {high});"]
    return [UNROLL, f"for (int i_ = 0; i_ < {form.registers}; ++i_) {name}[i_] = {elements(Point(form, 'i_'))};"]


def once(form: Layout) -> str:
    """Which of the threads that hold the same element stores it."""
    match form.axes:
        case (0,):
            return "place.lane % 4 == 0" + (f" && place.row < {16 * form.down}" if form.across > 1 else "")
        case (1,):
            return f"place.row % {16 * form.down} == 0" if form.across > 1 else "place.row == 0"
        case _:
            return "true"


@dataclass(slots=True)
class Scope:
    """One statement on its way to C."""

    program: Program
    group: WarpProgram
    values: dict[int, Form]
    targets: Mapping[int, str] = field(default_factory=dict[int, str])
    """Variables that results are written to at once, by value id."""
    lines: list[str] = field(default_factory=list[str])

    def bind(self, reads: Iterable[Read]) -> None:
        for read in reads:
            self.values[read.value] = self._found(read)

    def _found(self, read: Read) -> Form:
        value = _values(self.program)[read.value]
        match read.place:
            case Register() as register:
                name = variable(register)
                return held(name, value.type) if isinstance(value.type, Tensor) else name
            case Slot(channel, tensor, where):
                return self._tile(value, channel, tensor, where)

    def _tile(self, value: Value, channel: str, tensor: int, where: Iteration) -> Form:
        one = self.program.channel(channel).tensors[tensor]
        try:
            tile = shared(f"{channel}.slot({sequence(channel, where)}) + {one.offset}", one.shape, one.dtype, one.encoding)
            return self._loaded(value.type, tile) if isinstance(value.type, Tensor) else tile
        except ValueError as problem:
            op = self.program.op(value.producer) if value.producer is not None else next(self.program.function.walk())
            raise refuse(self.program, op, f"{value.name} {problem}") from problem

    def _loaded(self, type: Tensor, tile: Shared) -> Elements:
        lines, found = loaded(type, tile, f"read_{len(self.lines)}")
        self.lines += lines
        return found

    def scalar(self, value: Value) -> str:
        form = self.form(value)
        assert isinstance(form, str)
        return form

    def form(self, value: Value) -> Form:
        """Raises TwillError where nothing says what it is."""
        if value.id in self.values:
            return self.values[value.id]
        if any(value is arg for arg in self.program.function.args):
            return identifier(value.name)
        maker = self.program.op(value.producer) if value.producer is not None else None
        if maker is not None and maker.name == "arith.constant":
            return self._constant(maker)
        raise TwillError(f"{value.name} has no place", maker.location if maker else None)

    def _constant(self, op: Op) -> Form:
        try:
            text = constant(op.attributes["value"])
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
        elif op.name == "tt.reduce":
            self._reduce(op)
        elif op.name == "tt.store":
            self._store(op)
        else:
            self._elementwise(op)

    def _elementwise(self, op: Op) -> None:
        tile = op.results[0].type if op.results else None
        forms = None if isinstance(tile, Tensor) else [self.form(value) for value in op.operands]
        text = expression(op, ["{}"] * len(op.operands)) if op.results else None
        if text is None:
            raise refuse(self.program, op, "can not be generated")
        if forms is not None:
            self._scalar(op, [form for form in forms if isinstance(form, str)])
            return
        operands = [self.elements(value) for value in op.operands]
        elements: Elements = lambda point: expression(op, [operand(point) for operand in operands]) or ""  # noqa: E731
        assert isinstance(tile, Tensor)
        number = isinstance(tile.dtype, Scalar) and tile.dtype.name in BITS and 1 not in tile.shape
        self.values[op.result.id] = self.kept(op.result, elements) if number else elements

    def _scalar(self, op: Op, operands: list[str]) -> None:
        name = self.name(op.result)
        if op.result.id not in self.targets:
            self.lines.append(f"{c_type(op.result.type)} const {name} = {expression(op, operands)};")
        else:
            self.lines.append(f"{name} = {expression(op, operands)};")
        self.values[op.result.id] = name

    def name(self, value: Value) -> str:
        return self.targets.get(value.id, f"{identifier(value.name)}_")

    def kept(self, value: Value, elements: Elements) -> Elements:
        """The tile, computed now."""
        assert isinstance(value.type, Tensor)
        name = self.name(value)
        if value.id not in self.targets:
            self.lines.append(declaration(value.type, name))
        self.lines += written(value.type, name, elements)
        return held(name, value.type)

    def _reduce(self, op: Op) -> None:
        combine = op.regions[0].blocks[0].ops[0]
        start, source = neutral(combine.name), op.operands[0].type
        if op.attributes["axis"] != 1 or start is None or len(op.results) != 1:
            raise refuse(self.program, op, "only sums, maxima and minima of rows can be generated")
        assert isinstance(source, Tensor)
        assert isinstance(op.result.type, Tensor)
        name, elements = self.name(op.result), self.elements(op.operands[0])
        if op.result.id not in self.targets:
            self.lines.append(declaration(op.result.type, name))
        form = layout(source)
        if form.across > 1:
            raise refuse(self.program, op, "rows shared by several warpgroups can not be reduced")
        rows, point = registers(op.result.type), Point(form, "i_")
        at = f"{name}[{point.along((0,)).register}]"
        self.lines += [" = ".join([*(f"{name}[{r}]" for r in range(rows)), f"{start};"]), UNROLL]
        self.lines.append(f"for (int i_ = 0; i_ < {form.registers}; ++i_) {at} = {expression(combine, [at, elements(point)])};")
        self.lines += [f"{name}[{r}] = {REDUCTIONS[combine.name]}({name}[{r}]);" for r in range(rows)]
        self.values[op.result.id] = held(name, op.result.type)

    def _store(self, op: Op) -> None:
        value = op.operands[1]
        if not isinstance(value.type, Tensor):
            self.lines.append(f"if (place.leader) *{self.scalar(op.operands[0])} = {self.scalar(value)};")
            return
        point = Point(layout(value.type), "i_")
        target, source = self.elements(op.operands[0])(point), self.elements(value)(point)
        mask = f" && {self.elements(op.operands[2])(point)}" if len(op.operands) > 2 else ""
        self.lines += [UNROLL, f"for (int i_ = 0; i_ < {point.layout.registers}; ++i_)"]
        self.lines.append(f"    if ({once(point.layout)}{mask}) *{target} = {source};")

    def assign(self, writes: Iterable[Write]) -> None:
        """Keep results that are not in their variables yet."""
        for write in writes:
            if write.value in self.targets and not callable(self.values[write.value]):
                continue
            value, name = _values(self.program)[write.value], variable(write.register)
            form = self.values[write.value]
            if isinstance(form, str):
                self.lines += [f"{name} = {form};"] if form != name else []
            elif isinstance(value.type, Tensor) and not isinstance(form, Shared):
                point = Point(layout(value.type), "i_")
                if form(point) != held(name, value.type)(point):
                    self.lines += written(value.type, name, form)


def _values(program: Program) -> Mapping[int, Value]:
    """Every value by its id."""
    found = {arg.id: arg for arg in program.function.args}
    for op in program.function.walk():
        found.update((value.id, value) for value in op.results)
        found.update((arg.id, arg) for region in op.regions for block in region.blocks for arg in block.args)
    return found


# --- operations that only change how a value is seen --------------------------------------------------------------------


def _same(scope: Scope, op: Op) -> Form:
    return scope.form(op.operands[0])


def _splat(scope: Scope, op: Op) -> Form:
    text = scope.scalar(op.operands[0])
    return lambda point: text


def _range(scope: Scope, op: Op) -> Form:
    assert isinstance(op.result.type, Tensor)
    start, along = op.attributes["start"], axes(op.result.type)
    return lambda point: f"({start} + {point.along(along).coordinate()})"


def _transpose(scope: Scope, op: Op) -> Form:
    tile = scope.form(op.operands[0])
    if not isinstance(tile, Shared):
        raise refuse(scope.program, op, "only a tile in shared memory can be transposed")
    return replace(tile, transposed=not tile.transposed)


VIEWS = {
    "ttg.convert_layout": _same,
    "ttg.local_alloc": _same,
    "tt.broadcast": _same,
    "tt.splat": _splat,
    "tt.make_range": _range,
    "tt.expand_dims": _same,
    "ttg.memdesc_trans": _transpose,
}
