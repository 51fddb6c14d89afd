"""What the text of one function of a Gluon file is made in: where values are, and the lines written so far.

Takes a program and its layouts; gives expressions of values and lines of operations. Raises TwillError, with
the operation's line and a way out, for what can not be written.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from keyword import iskeyword

from twill.diagnostics import TwillError
from twill.ir.channels import TensorTile
from twill.ir.loop import MemDesc, Op, Pointer, Slice, Tensor, Token, Type, Value
from twill.ir.operands import Iteration, Read, Register, Slot, TensorMemory, Write
from twill.ir.program import Program
from twill.ops.table import role
from twill.targets.cuda.expressions import atom, bare, plus
from twill.targets.cuda.registers.elements import variable
from twill.targets.gluon.layouts import Layouts, bits, dtype
from twill.targets.gluon.operations import expression, literal

_NAMES = """
NUM_WARPS PROPAGATE PUBLIC_REINTERPRET PUBLIC_TENSOR_MEMORY TensorMemoryLayout add allocate_tensor_memory
async_copy consumer_wait copy_async fence_async_shared float gl gluon i kernel launch len load max mbarrier
min print producer_acquire range reinterpreted slot store tcgen05_commit tcgen05_mma tensor_memory
tensor_buffer tensor_memory_descriptor tensor_sync tensor_sync_count tensor_tile tl tma tma_load tma_store
triton warpgroup_mma warpgroup_mma_init warpgroup_mma_wait
"""
WAY_OUT = "use `twill codegen`, which writes CUDA C++ for this program"
TENSOR_MEMORY = "tensor_memory"
"""All columns that the kernel allocates."""
DRAIN = "tensor_drain_"
"""The beginning of the names of barriers on which a group waits for all of its MMAs."""
RESERVED = frozenset(_NAMES.split())
"""Names of the file itself."""


@dataclass(slots=True)
class File:
    """What all functions of a file share."""

    program: Program
    layouts: Layouts
    helpers: dict[str, str] = field(default_factory=dict[str, str])
    """Functions that combine two elements in a reduction: their text, by their name."""

    def refuse(self, op: Op, what: str, help: str | None = None) -> TwillError:
        """An error at the operation's line."""
        text = self.program.module.text.splitlines()[op.location.line - 1]
        way_out = help or WAY_OUT
        return TwillError(f"{op.name} {what}", op.location, text=text, span=len(op.name), help=way_out)


def safe(name: str) -> str:
    """A user's identifier in the file."""
    taken = name in RESERVED or iskeyword(name) or name.startswith(DRAIN)
    return f"{name}_" if taken else name


@dataclass(slots=True)
class Scope:
    """The text of a function of one group, or of the kernel."""

    file: File
    warps: int
    names: set[str] = field(default_factory=set[str])
    """Of temporaries: each is assigned once, so that none is carried round a loop."""
    lines: list[str] = field(default_factory=list[str])
    values: dict[int, str] = field(default_factory=dict[int, str])
    """Of the statement that is written."""
    targets: dict[int, str] = field(default_factory=dict[int, str])
    """Variables that results of the statement are assigned to at once, by value id."""
    inductions: dict[int, str] = field(default_factory=dict[int, str])
    """Of the enclosing loops that are executed as they stand."""
    trips: str = ""
    """The trip count of the pipelined loop that is written."""

    @property
    def program(self) -> Program:
        return self.file.program

    # --- layouts --------------------------------------------------------------------------------------------

    def layout(self, type: Tensor, op: Op | None = None) -> str:
        """The layout of a tile in the registers of the group."""
        return self.attempt(op, lambda: self.file.layouts.name(type.encoding, type.shape, self.warps))

    def attempt(self, op: Op | None, make: Callable[[], str]) -> str:
        """With the operation's line where the text can not be made."""
        try:
            return make()
        except ValueError as problem:
            if op is None:
                raise TwillError(str(problem), self.program.function.location) from problem
            raise self.file.refuse(op, str(problem)) from problem

    def zeros(self, type: Type) -> str:
        """A tile or scalar of zeros."""
        kind = self.attempt(None, lambda: dtype(type))
        if not isinstance(type, Tensor):
            return f"gl.to_tensor(0).to({kind})"
        return f"gl.full({[*type.shape]}, 0, {kind}, {self.layout(type)})"

    # --- values ---------------------------------------------------------------------------------------------

    def slot(self, slot: Slot, number: str) -> str:
        """A tile of a channel in shared memory, of the tile with that number."""
        depth = self.program.channel(slot.channel).depth
        index = "0" if depth == 1 else f"{atom(number)} % {depth}"
        return f"{tensor_name(slot.channel, slot.tensor)}.index({index})"

    def bind(self, reads: Iterable[Read], at: Callable[[Slot], str], *, shared: bool = False) -> None:
        """The values of a statement; tiles in slots are loaded, except for MMAs (`shared`)."""
        for read in reads:
            value = self.program.value(read.value)
            match read.location:
                case Register() as register:
                    self.values[read.value] = safe(variable(register))
                case Slot() as slot:
                    buffer = self.slot(slot, at(slot))
                    loaded = isinstance(value.type, Tensor) and not shared
                    self.values[read.value] = self.loaded(value, buffer) if loaded else buffer
                case TensorMemory() as tile:
                    self.values[read.value] = self.tensor_tile(tile, value.type)

    def tensor_tile(self, where: TensorMemory, kind: Type) -> str:
        """A tile of tensor memory, with the element type and layout of a buffer."""
        assert isinstance(kind, MemDesc)
        tile = next(one for one in self.program.tensor_memory if one.id == where.tile)
        form = self.attempt(None, lambda: self.file.layouts.name(kind.encoding, kind.shape))
        element, width = self.attempt(None, lambda: dtype(kind.dtype)), 32 // bits(kind.dtype)
        whole = width * allocated(self.program)
        given = f"{TENSOR_MEMORY}, {element}, {whole}, {width * tile.column}, {kind.shape[-1]}, {form}"
        if tile.buffers > 1:
            return self._buffer_of_several(tile, where, kind, f"{element}, {form}")
        return f"tensor_tile({given})"

    def _buffer_of_several(self, tile: TensorTile, where: TensorMemory, kind: MemDesc, given: str) -> str:
        """One of several buffers, by the iteration. Raises TwillError where they do not begin at a multiple
        of their size."""
        if tile.column % tile.columns or allocated(self.program) % tile.columns:
            raise TwillError(
                f"{tile.id} has several buffers at column {tile.column} of tensor memory: not exported",
                self.program.function.location,
                help=WAY_OUT,
            )
        index = (
            f"{tile.column // tile.columns} + {atom(iteration(where.iteration, self.trips))} % {tile.buffers}"
        )
        count = allocated(self.program) // tile.columns
        return f"tensor_buffer({TENSOR_MEMORY}, {given}, {count}, {kind.shape[-1]}, {index})"

    def loaded(self, value: Value, buffer: str) -> str:
        assert isinstance(value.type, Tensor)
        name = self.fresh(self.program.name(value.id))
        self.lines.append(f"{name} = {buffer}.load({self.layout(value.type)})")
        return name

    def fresh(self, stem: str) -> str:
        """A name that was not used yet."""
        stem, further = safe(stem), count(1)
        name = stem
        while name in self.names:
            name = f"{stem}_{next(further)}"
        self.names.add(name)
        return name

    def text(self, value: Value) -> str:
        """Raises TwillError where nothing says what it is."""
        for known in (self.values, self.inductions):
            if value.id in known:
                return known[value.id]
        if any(value is arg for arg in self.program.function.args):
            return safe(self.program.name(value.id))
        maker = self.program.op(value.producer) if value.producer is not None else None
        if maker is not None and role(maker) in ("constant", "poison"):
            return self.constant(maker)
        raise TwillError(f"{value.name} has no location", maker.location if maker else None)

    def constant(self, op: Op) -> str:
        number = "0" if role(op) == "poison" else self.attempt(op, lambda: literal(op))
        return self._full(op, op.result.type, number) if isinstance(op.result.type, Tensor) else number

    def _full(self, op: Op, type: Tensor, number: str) -> str:
        kind = self.attempt(op, lambda: dtype(type))
        return f"gl.full({[*type.shape]}, {number}, {kind}, {self.layout(type, op)})"

    # --- operations -----------------------------------------------------------------------------------------

    def execute(self, op: Op) -> None:
        """One operation: a line that assigns its result, or a value that is another one."""
        match role(op):
            case "constant" | "descriptor" | "assume" | "assert":
                return
            case "pointer_store":
                self._store(op)
            case "atomic":
                self._atomic(op)
            case "alloc":
                self.values[op.result.id] = self.text(op.operands[0])
            case "splat" if isinstance(op.operands[0].type, Pointer):
                self.values[op.result.id] = self.text(op.operands[0])
            case "reduce":
                self._reduce(op)
            case "split":
                self._split(op)
            case "tensor_memory_load":
                self._tensor_load(op)
            case "tensor_memory_store":
                buffer, value, *condition = (v for v in op.operands if not isinstance(v.type, Token))
                self._tensor_store(buffer, value, *condition)
            case "tensor_memory_alloc":
                self._tensor_store(op.results[0], op.operands[0])
            case "if":
                self._branch(op)
            case _:
                self.assign(op, self.attempt(op, lambda: self._expression(op)))

    def _branch(self, op: Op) -> None:
        """A whole `scf.if`; both branches assign its results."""
        condition = self.text(op.operands[0])
        names = [self.fresh(self.program.name(result.id)) for result in op.results]
        for head, region in zip((f"if {condition}:", "else:"), op.regions, strict=False):
            outer, self.lines = self.lines, []
            ops = region.blocks[0].ops
            yielded = ops[-1].operands if ops and role(ops[-1]) == "yield" else ()
            for one in ops:
                if role(one) != "yield":
                    self.execute(one)
            self.lines += [f"{name} = {self._typed(one)}" for name, one in zip(names, yielded, strict=True)]
            self.lines = [*outer, head, *(f"    {line}" for line in self.lines or ["pass"])]
        self.values |= {result.id: name for result, name in zip(op.results, names, strict=True)}

    def _tensor_load(self, op: Op) -> None:
        result = op.results[0]
        assert isinstance(result.type, Tensor)
        name = self.targets.get(result.id) or self.fresh(self.program.name(result.id))
        self.lines.append(f"{name} = {self.text(op.operands[0])}.load({self.layout(result.type, op)})")
        self.values[result.id] = name

    def _tensor_store(self, buffer: Value, value: Value, condition: Value | None = None) -> None:
        given = "" if condition is None or self.text(condition) == "True" else f", {self.text(condition)}"
        self.lines.append(f"{self.text(buffer)}.store({self.text(value)}{given})")

    def _typed(self, value: Value) -> str:
        """A value with its type, where it may be a literal."""
        if isinstance(value.type, Tensor | Pointer):
            return self.text(value)
        return f"gl.to_tensor({self.text(value)}).to({self.attempt(None, lambda: dtype(value.type))})"

    def execute_before(self, op: Op, stored: Value) -> None:
        """One operation of a statement that writes `stored` to shared memory: the layout in which it lies in
        registers does not matter."""
        if role(op) == "layout" and op.result is stored:
            self.values[op.result.id] = self.text(op.operands[0])
        else:
            self.execute(op)

    def assign(self, op: Op, text: str) -> None:
        """Straight to the variable that keeps the result, if there is one."""
        name = self.targets.get(op.result.id) or self.fresh(self.program.name(op.result.id))
        self.lines.append(f"{name} = {bare(text)}")
        self.values[op.result.id] = name

    def _expression(self, op: Op) -> str:
        """Raises ValueError."""
        operands = [self.text(value) for value in op.operands]
        kind = op.results[0].type
        if role(op) == "buffer_transpose":
            return f"{operands[0]}.permute({_order(op)})"
        if role(op) == "pointer_load":
            return f"gl.load({', '.join(operands)})"
        return self._tile(op, kind, operands) if isinstance(kind, Tensor) else expression(op, operands)

    def _tile(self, op: Op, kind: Tensor, operands: list[str]) -> str:
        """A tile of registers."""
        match role(op):
            case "splat":
                return self._full(op, kind, operands[0])
            case "broadcast":
                return f"{operands[0]}.broadcast_to({[*kind.shape]})"
            case "expand":
                source = op.operands[0].type
                if not (isinstance(source, Tensor) and isinstance(source.encoding, Slice)):
                    raise ValueError("of a tile that is no slice of another layout is not exported")
                return f"gl.expand_dims({operands[0]}, {op.attributes['axis']})"
            case "range":
                return f"gl.arange({op.attributes['start']}, {op.attributes['end']}, {self.layout(kind, op)})"
            case "layout":
                return f"gl.convert_layout({operands[0]}, {self.layout(kind, op)})"
            case "transpose":
                return self._in_layout(op, f"gl.permute({operands[0]}, {_order(op)})")
            case "reshape":
                return self._in_layout(op, f"gl.reshape({operands[0]}, {[*kind.shape]})")
            case "dot":
                raise ValueError("on single warps (mma.sync) is not exported")
            case "join":
                return self._in_layout(op, f"gl.join({', '.join(operands)})")
            case _:
                return expression(op, operands)

    def _in_layout(self, op: Op, text: str) -> str:
        """A view whose layout Gluon infers, in the layout that the TTGIR gives it."""
        assert isinstance(op.result.type, Tensor)
        return f"gl.convert_layout({text}, {self.layout(op.result.type, op)})"

    def _store(self, op: Op) -> None:
        self.lines.append(f"gl.store({', '.join(self.text(value) for value in op.operands)})")

    def _atomic(self, op: Op) -> None:
        kind = {"fadd": "add", "exch": "xchg"}.get(
            str(op.attributes["atomic_rmw_op"]), str(op.attributes["atomic_rmw_op"])
        )
        if kind not in ("add", "and", "or", "xor", "max", "min", "xchg"):
            raise self.file.refuse(op, f"{kind} is not exported")
        pointers, value, *mask = (self.text(one) for one in op.operands)
        given = f", mask={mask[0]}" if mask else ""
        text = f'gl.atomic_{kind}({pointers}, {value}{given}, sem="relaxed")'
        self.assign(op, text)

    def _split(self, op: Op) -> None:
        names = [self.fresh(self.program.name(result.id)) for result in op.results]
        self.lines.append(f"{', '.join(names)} = gl.split({self.text(op.operands[0])})")
        for result, name in zip(op.results, names, strict=True):
            assert isinstance(result.type, Tensor)
            self.values[result.id] = f"gl.convert_layout({name}, {self.layout(result.type, op)})"

    def _reduce(self, op: Op) -> None:
        if len(op.operands) != 1:
            raise self.file.refuse(op, "of several tiles is not exported")
        helper = combination(self.file, op)
        source = self.text(op.operands[0])
        self.assign(op, f"gl.reduce({source}, {op.attributes['axis']}, {helper})")

    def write(self, writes: Iterable[Write]) -> None:
        """Results that are kept."""
        for one in writes:
            name = safe(variable(one.register))
            self.lines += [f"{name} = {self.values[one.value]}"] if self.values[one.value] != name else []


def combination(file: File, op: Op) -> str:
    """The name of the function of a reduction's region."""
    block = op.regions[0].blocks[0]
    scope = Scope(file, 1, {"a", "b"})
    scope.values = dict(zip((arg.id for arg in block.args), ("a", "b"), strict=True))
    for inner in block.ops[:-1]:
        scope.execute(inner)
    body = [*scope.lines, f"return {scope.text(block.ops[-1].operands[0])}"]
    text = "\n".join(f"    {line}" for line in body)
    for name, known in file.helpers.items():
        if known == text:
            return name
    name = f"combine_{len(file.helpers)}"
    file.helpers[name] = text
    return name


def _order(op: Op) -> list[int]:
    order = op.attributes.get("order")
    return [int(str(axis)) for axis in order] if isinstance(order, tuple) else [1, 0]


def allocated(program: Program) -> int:
    """Columns of tensor memory that the kernel allocates: a power of two (PTX ISA, tcgen05.alloc)."""
    last = max(tile.column + tile.columns * tile.buffers for tile in program.tensor_memory)
    return max(32, 1 << (last - 1).bit_length())


# --- names --------------------------------------------------------------------------------------------------


def tensor_name(channel: str, tensor: int) -> str:
    """The slots of one tensor of a channel."""
    return f"{channel}_slots_{tensor}"


def full(channel: str) -> str:
    return f"{channel}_full"


def empty(channel: str) -> str:
    return f"{channel}_empty"


def counter(channel: str) -> str:
    """A group's count of the tiles that have passed through a channel."""
    return f"{channel}_count"


def iteration(where: Iteration, trips: str) -> str:
    """As an expression of the loop counter i and the trip count."""
    match where.base:
        case "first":
            return str(where.offset)
        case "newest":
            return plus("i", -where.offset)
        case "last":
            return plus(trips, -1 - where.offset)
        case "once":
            return "0"


def number(channel: str, where: Iteration, trips: str) -> str:
    """Of a tile of a channel."""
    return plus(counter(channel), iteration(where, trips))
