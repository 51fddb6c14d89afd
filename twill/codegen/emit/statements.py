"""One recipe for each kind of statement of a warp program.

Takes a `Program`, a group and a statement; gives lines of C++. Every statement begins with a comment: its cycle, its stage and the TTGIR
line of its operation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twill.codegen.emit.scope import UNROLL, Scope, identifier, iteration, matrix_address, refuse, sequence, variable, written
from twill.codegen.emit.tiles import BITS, Packed, Shared, packed
from twill.ir.loop import MemDesc, Op, Scalar, Tensor, TensorDesc
from twill.ir.program import (
    Advance,
    At,
    Compute,
    Consumed,
    Copy,
    For,
    Get,
    If,
    MmaIssue,
    MmaWait,
    Move,
    OrderSignal,
    OrderWait,
    Pipelined,
    Program,
    PutLoad,
    Read,
    Register,
    Statement,
    StoreTile,
    StoreWait,
    TileLoad,
    WarpProgram,
    Write,
)

NAMES = {"f16": "f16", "bf16": "bf16", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f32": "tf32"}
"""Of operand types in the words for wgmma."""
Flying = tuple[str, ...]
"""Accumulators of the commit groups in flight, oldest first."""


@dataclass(slots=True)
class Emitter:
    """The statements of one group; `flying` and `inductions` change as the text goes on."""

    program: Program
    group: WarpProgram
    flying: Flying = ()
    inductions: dict[int, str] | None = None

    def scope(self, reads: Iterable[Read] = (), writes: Iterable[Write] = (), at: At | None = None) -> Scope:
        """Results go straight to their variables where these are not read by the same statement."""
        reads = tuple(reads)
        read = {read.place.variable for read in reads if isinstance(read.place, Register)}
        targets = {write.value: variable(write.register) for write in writes if write.register.variable not in read}
        scope = Scope(self.program, self.group, {}, targets)
        for value, text in (self.inductions or {}).items():
            scope.values[value] = f"({text.format(iteration(at.iteration) if at else 'i')})"
        scope.bind(reads)
        return scope

    def all(self, statements: Sequence[Statement]) -> list[str]:
        return [line for statement in statements for line in self.one(statement)]

    def one(self, statement: Statement) -> list[str]:
        match statement:
            case Compute():
                return self._compute(statement)
            case Copy(value, source, register):
                return self._copy(statement, value, Read(value, source) if source else None, register)
            case Move(name, age):
                return self._move(name, age)
            case MmaIssue():
                return self._issue(statement)
            case MmaWait(pending):
                return self._wait(pending)
            case PutLoad():
                return self._put(statement)
            case Get(channel, at):
                return [f"{channel}.wait_full({sequence(channel, at.iteration)});"]
            case Consumed(channel, at):
                return self._consumed(channel, at)
            case Advance(channel, loop):
                return [f"n_{channel} += {'1' if loop is None else f'n{loop}'};"]
            case OrderWait(order):
                return [f"named_barrier_sync({order}, {self.threads(order)});"]
            case OrderSignal(order):
                return [f"named_barrier_arrive({order}, {self.threads(order)});"]
            case StoreTile():
                return self._store(statement)
            case StoreWait():
                return ["if (place.leader) tma_wait_read<0>();", self._meet()]
            case Pipelined():
                return self._pipelined(statement)
            case For(op, body, bounds):
                return self._for(self.program.op(op), body, bounds)
            case If(op, condition, then, otherwise):
                return self._if(self.program.op(op), condition, then, otherwise)
            case _:
                raise refuse(self.program, next(self.program.function.walk()), f"{type(statement).__name__} can not be generated")

    # --- computing ------------------------------------------------------------------------------------------------

    def _comment(self, at: At, ops: Sequence[int], name: str) -> str:
        where = f"cycle {at.cycle}, stage {at.stage}: " if at.cycle is not None else ""
        return f"// {where}{name} ({self.program.op(ops[-1]).location})"

    def _compute(self, it: Compute) -> list[str]:
        scope = self.scope(it.reads, it.writes, it.at)
        for index in it.ops:
            scope.execute(self.program.op(index))
        scope.assign(it.writes)
        return [self._comment(it.at, it.ops, it.node), "{", *indented(scope.lines), "}"]

    def _copy(self, it: Copy, value: int, read: Read | None, register: Register) -> list[str]:
        scope = self.scope([read] if read else [], at=it.at)
        found = next(v for op in self.program.function.walk() for v in (*op.operands, *op.results) if v.id == value)
        if isinstance(found.type, Tensor):
            return written(found.type, variable(register), scope.elements(found))
        return [f"{variable(register)} = {scope.scalar(found)};"]

    def _move(self, name: str, age: int) -> list[str]:
        new, old = variable(Register(name, age)), variable(Register(name, age - 1))
        kind = self.group.variable(name).type
        if not isinstance(kind, Tensor):
            return [f"{new} = {old};"]
        if packed(kind):
            return [UNROLL, f"for (int i_ = 0; i_ < {kind.shape[1] // 4}; ++i_) {new}[i_ / 4][i_ % 4] = {old}[i_ / 4][i_ % 4];"]
        return written(kind, new, lambda point: f"{old}[{point.register}]")

    # --- tensor core ----------------------------------------------------------------------------------------------

    def _issue(self, it: MmaIssue) -> list[str]:
        dot = self.program.op(it.ops[-1])
        scope = self.scope(it.reads, at=it.at)
        for index in it.ops[:-1]:
            op = self.program.op(index)
            if not isinstance(op.result.type, Tensor):
                scope.execute(op)
        left, right = dot.operands[0], dot.operands[1]
        shape = dot.result.type
        assert isinstance(shape, Tensor)
        assert isinstance(left.type, Tensor | MemDesc)
        assert isinstance(right.type, MemDesc)
        if shape.shape[0] != 16 * self.group.warps or shape.shape[1] > 256:
            raise refuse(self.program, dot, f"a product of {shape.shape} for {self.group.warps} warps can not be generated")
        assert isinstance(left.type.dtype, Scalar)
        assert isinstance(right.type.dtype, Scalar)
        step = 256 // BITS[left.type.dtype.name]
        word = f"wgmma_{NAMES[left.type.dtype.name]}_{NAMES[right.type.dtype.name]}_n{shape.shape[1]}"
        b = scope.form(right)
        assert isinstance(b, Shared)
        lines = [self._comment(it.at, it.ops, it.node), "{", f"    const uint64_t b = {_descriptor(b, _major_b(b), 0)};"]
        sixteen = step == 16
        if isinstance(left.type, MemDesc):
            a = scope.form(left)
            assert isinstance(a, Shared)
            rows = a.rows * 128 if a.transposed else 8192
            lines.append(f"    const uint64_t a = {_descriptor(a, a.transposed, rows)};")
            majors = f"<{_major(a.transposed)}, {_major(_major_b(b))}>" if sixteen else ""
        else:
            majors = f"<{_major(_major_b(b))}>" if sixteen else ""
        lines.append("    wgmma_fence();")
        for k in range(it.begin, it.end, step):
            add = "1" if k else {"always": "1", "never": "0", "not_first": f"({iteration(it.at.iteration)}) != 0"}[it.accumulate]
            other = f"descriptor_advance(b, {_advance(b, _major_b(b), k)})"
            if isinstance(left.type, MemDesc):
                assert isinstance(a, Shared)  # pyright: ignore[reportPossiblyUnboundVariable]
                one = f"descriptor_advance(a, {_advance(a, a.transposed, k)})"
            else:
                one = f"{self._registers(it, dot)}[{k // step}]"
            lines.append(f"    {word}{majors}({variable(it.accumulator)}, {one}, {other}, {add});")
        self.flying = (*self.flying, variable(it.accumulator))
        return [*lines, "    wgmma_commit();", "}"]

    def _registers(self, it: MmaIssue, dot: Op) -> str:
        """The variable that holds A."""
        accumulator = dot.operands[2].id
        for read in it.reads:
            if isinstance(read.place, Register) and read.value != accumulator:
                return variable(read.place)
        raise refuse(self.program, dot, "its left operand is in no register")

    def _wait(self, pending: int) -> list[str]:
        done = self.flying[: len(self.flying) - pending] if pending else self.flying
        self.flying = self.flying[len(done) :]
        left = set(self.flying)
        return [f"wgmma_wait<{pending}>();", *(f"registers_fence({name});" for name in sorted(set(done) - left))]

    # --- channels -------------------------------------------------------------------------------------------------

    def _put(self, it: PutLoad) -> list[str]:
        n = sequence(it.channel, it.at.iteration)
        lines = [line for load in it.loads for line in self._tile(it, load)]
        expect = f"mbarrier_arrive_expect({it.channel}.full({n}), {it.bytes});"
        head = self._comment(it.at, it.loads[-1].ops, f"load {it.channel}")
        return [head, f"{it.channel}.wait_empty({n});", "if (place.leader) {", *indented([expect, *lines]), "}"]

    def _tile(self, it: PutLoad, load: TileLoad) -> list[str]:
        scope = self.scope(load.reads, at=it.at)
        op = self.program.op(load.ops[-1])
        for index in load.ops[:-1]:
            scope.execute(self.program.op(index))
        tensor = self.program.channel(it.channel).tensors[load.tensor]
        n = sequence(it.channel, it.at.iteration)
        row, column = (scope.scalar(value) for value in op.operands[1:])
        wide = box_columns(op.operands[0].type)
        for part in range(tensor.shape[1] // wide):
            to = f"{it.channel}.slot({n}) + {tensor.offset + part * tensor.shape[0] * 128}"
            at = f"{column} + {part * wide}, {row}"
            scope.lines.append(f"tma_load({to}, &{map_name(op)}, {it.channel}.full({n}), {at});")
        return ["{", *indented(scope.lines), "}"]

    def _consumed(self, channel: str, at: At) -> list[str]:
        text = f"{channel}.release({sequence(channel, at.iteration)});"
        late = at.iteration.base == "newest" and at.iteration.offset
        return [f"if ({iteration(at.iteration)} >= 0) {text}" if late else text]

    def threads(self, order: str) -> int:
        """Of the two groups that an order joins."""
        one = next(one for one in self.program.orders if one.id == order)
        return sum(32 * group.warps for group in self.program.groups if group.id in (one.signaller, one.waiter))

    def _meet(self) -> str:
        """All warps of the group."""
        barrier = 1 + len(self.program.orders) + [group.id for group in self.program.groups].index(self.group.id)
        return f"named_barrier_sync({barrier}, {32 * self.group.warps});"

    # --- results --------------------------------------------------------------------------------------------------

    def _store(self, it: StoreTile) -> list[str]:
        op = self.program.op(it.ops[-1])
        scope = self.scope(it.reads, at=it.at)
        for index in it.ops[:-1]:
            scope.execute(self.program.op(index))
        tile = op.operands[1]
        if op.name != "tt.descriptor_store" or not isinstance(tile.type, Tensor) or not packed(tile.type):
            raise refuse(self.program, op, "only tiles of 16-bit numbers can be stored")
        form = scope.elements(tile)
        words = form if isinstance(form, Packed) else scope.kept(tile, form)
        assert isinstance(words, Packed)
        buffer = next(buffer for buffer in self.program.buffers if buffer.id == it.buffer)
        corner = [scope.scalar(value) for value in op.operands[2:]]
        for part in range(it.parts):
            scope.lines += self._leave(op, words, (tile.type.shape[0], tile.type.shape[1] // it.parts), buffer.offset, part, corner)
        return [self._comment(it.at, it.ops, "store"), "{", *indented(scope.lines), "}"]

    def _leave(self, op: Op, words: Packed, shape: tuple[int, int], offset: int, part: int, corner: list[str]) -> list[str]:
        """One part of a tile: registers to shared memory, then to global memory."""
        (rows, columns), first = shape, part * shape[1]
        at = f"memory + {offset} + {matrix_address(rows)}"
        four = ", ".join(f"{words.name}[{first // 16} + j][{i}]" for i in range(4))
        boxes = [
            f"    tma_store(&{map_name(op)}, memory + {offset + box * rows * 128}, {corner[1]} + {first + 64 * box}, {corner[0]});"
            for box in range(columns // 64)
        ]
        stored = [UNROLL, f"for (int j = 0; j < {columns // 16}; ++j)", f"    stmatrix_x4({at}, {four});"]
        free = ["if (place.leader) tma_wait_read<0>();", self._meet()]
        return [*free, *stored, "fence_async_shared();", self._meet(), "if (place.leader) {", *boxes, "    tma_commit();", "}"]

    # --- structure ------------------------------------------------------------------------------------------------

    def _bounds(self, op: Op, reads: Sequence[Read]) -> tuple[str, str, str]:
        scope = self.scope(reads)
        lower, upper, step = (scope.scalar(value) for value in op.operands[:3])
        return lower, upper, step

    def _pipelined(self, it: Pipelined) -> list[str]:
        op = self.program.op(it.op)
        lower, upper, step = self._bounds(op, it.bounds)
        self.inductions = {**(self.inductions or {}), op.regions[0].blocks[0].args[0].id: f"{lower} + ({{}}) * {step}"}
        least = it.stages - 1
        lines = [f"// {it.path}: {it.stages} stages, an iteration every {it.interval} cycles"]
        lines += [f"const int32_t n = n{it.op};", f"if (n >= {least}) {{"]
        lines += indented(self.all(it.prologue))
        self._settle(it.steady)
        lines += indented([f"for (int32_t i = {least}; i < n; ++i) {{", *indented(self.all(it.steady)), "}"])
        lines += indented(self.all(it.epilogue))
        self.flying = ()
        short = self.all(it.short)
        lines += ["} else {", *indented(["for (int32_t i = 0; i < n; ++i) {", *indented(short), "}"]), "}"] if short else ["}"]
        if it.zeroed:
            lines += ["if (n == 0) {", *indented(self.all(it.zeroed)), "}"]
        return [f"n{it.op} = max(0, ({upper} - {lower} + {step} - 1) / {step});", "{", *indented(lines), "}"]

    def _settle(self, steady: Sequence[Statement]) -> None:
        """What is in flight when the loop turns, rather than when it is entered."""
        self.all(steady)

    def _for(self, op: Op, body: Sequence[Statement], bounds: Sequence[Read]) -> list[str]:
        lower, upper, step = self._bounds(op, bounds)
        counter = op.regions[0].blocks[0].args[0]
        name = identifier(counter.name)
        self.inductions = {**(self.inductions or {}), counter.id: name}
        head = f"for (int32_t {name} = {lower}; {name} < {upper}; {name} += {step}) {{"
        return [head, *indented(self.all(body)), "}"]

    def _if(self, op: Op, condition: Read | None, then: Sequence[Statement], otherwise: Sequence[Statement]) -> list[str]:
        scope = self.scope([condition] if condition else [])
        lines = [f"if ({scope.scalar(op.operands[0])}) {{", *indented(self.all(then))]
        return [*lines, *(["} else {", *indented(self.all(otherwise))] if otherwise else []), "}"]


def indented(lines: Iterable[str]) -> list[str]:
    """One level deeper; preprocessor lines too, so that the text reads well."""
    return [f"    {line}" for line in lines]


def map_name(op: Op) -> str:
    """The tensor map that a descriptor operation works on."""
    return f"map_{identifier(op.operands[0].name)}"


def box_columns(type: object) -> int:
    """Elements in 128 bytes: the columns of one box."""
    assert isinstance(type, TensorDesc)
    assert isinstance(type.dtype, Scalar)
    return 1024 // BITS[type.dtype.name]


def _major(outer: bool) -> str:
    return "MN_MAJOR" if outer else "K_MAJOR"


def _major_b(tile: Shared) -> bool:
    """B is K x N: contiguous along N unless it is seen transposed."""
    return not tile.transposed


def _descriptor(tile: Shared, outer: bool, warpgroup: int) -> str:
    address = f"{tile.address} + place.warpgroup * {warpgroup}" if warpgroup else tile.address
    return f"descriptor_128({address}, {tile.rows * 128}, 1024)" if outer else f"descriptor_128({address})"


def _advance(tile: Shared, outer: bool, k: int) -> int:
    """Bytes to element k of the contraction."""
    if outer:
        return k * 128
    column, inside = divmod(k * tile.bits // 8, 128)
    return column * tile.rows * 128 + inside
