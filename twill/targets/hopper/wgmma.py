"""wgmma: how Hopper issues an MMA and waits for it.

Takes `MmaIssue` and `MmaWait` of a group; gives lines of C++. An accumulator lies in the registers of its
group, A there or in shared memory, B in shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix
Multiply-Accumulate Operation").
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twill.diagnostics import DefectError
from twill.ir.loop import MemDesc, Op, Scalar, Tensor
from twill.ir.operands import At, Read, Register, Slot
from twill.ir.program import Program
from twill.ir.statements import Compute, InitializeCarried, MmaIssue, walk
from twill.ops.table import named, role
from twill.ops.values import element
from twill.targets.cuda.emitter import Emitter
from twill.targets.cuda.expressions import plus
from twill.targets.cuda.mmas import warp_mma
from twill.targets.cuda.mmas.mma import accumulates, advance, major
from twill.targets.cuda.operations import execute
from twill.targets.cuda.registers.elements import refuse, variable, written
from twill.targets.cuda.registers.fragments import Fragment, layout
from twill.targets.cuda.registers.linear_tiles import literal
from twill.targets.cuda.registers.register_tiles import BITS, declaration, packed
from twill.targets.cuda.scope import Form, Scope
from twill.targets.cuda.shared.shared_tiles import Shared

NAMES = {"f16": "f16", "bf16": "bf16", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f32": "tf32"}
"""Operand types in the names of the runtime functions."""
KINDS = {"f16": "half", "i32": "s8"}
"""The same where the type of the accumulator says them."""
WIDTHS = {**BITS, "i8": 8}
"""Bits of the elements of operands."""
INTO: Mapping[str, frozenset[str]] = {
    "f32": frozenset(NAMES),
    "f16": frozenset({"f16"}),
    "i32": frozenset({"i8"}),
}
"""Operand types by that of the accumulator."""

LEFT = "left_"
"""The variable of an A whose words are brought in order for one MMA."""


def instructions(program: Program) -> list[str]:
    """The declarations of the wgmma that a program uses."""
    return sorted(
        {
            _instruction(program.op(s.ops[-1]))
            for g in program.groups
            for s in walk(g.body)
            if isinstance(s, MmaIssue)
        }
    )


def unsupported(op: Op) -> str | None:
    """Why an MMA can not be generated, by the types of its operands; None for one that may be, and for other
    operations."""
    if role(op) == "dot":
        return warp_mma.unsupported(op)
    if op.name != named("wgmma"):
        return None
    kinds = [getattr(operand.type, "dtype", None) for operand in op.operands[:3]]
    names = [kind.name for kind in kinds if isinstance(kind, Scalar)]
    if len(names) < 3:
        return "has operands of pointers"
    known = INTO.get(names[2], frozenset())
    if names[0] == "i8" and isinstance(op.operands[0].type, Tensor):
        return "of i8 whose first operand is in registers can not be generated"
    fits = set(names[:2]) <= known and WIDTHS[names[0]] == WIDTHS[names[1]]
    return None if fits else f"of {' and '.join(names[:2])} that adds to {names[-1]} can not be generated"


def _instruction(dot: Op) -> str:
    left, right, result = dot.operands[0].type, dot.operands[1].type, dot.result.type
    assert isinstance(left, Tensor | MemDesc)
    assert isinstance(right, MemDesc)
    assert isinstance(result, Tensor)
    assert isinstance(left.dtype, Scalar)
    assert isinstance(right.dtype, Scalar)
    assert isinstance(result.dtype, Scalar)
    bits, columns = WIDTHS[left.dtype.name], result.shape[1] // layout(result).across
    if result.dtype.name == "f16":
        return f"TWILL_WGMMA_HALF({columns}, {columns // 2})"
    if result.dtype.name == "i32":
        return f"TWILL_WGMMA_INTEGER({columns})"
    if bits == 8:
        return f"TWILL_WGMMA_8({columns}, {NAMES[left.dtype.name]}, {NAMES[right.dtype.name]})"
    return (
        f"TWILL_WGMMA_16({columns}, {NAMES[left.dtype.name]})" if bits == 16 else f"TWILL_WGMMA_32({columns})"
    )


@dataclass(slots=True)
class WgmmaPrinter:
    """The wgmma of one group."""

    in_flight: tuple[str, ...] = ()
    """Accumulators of the commit groups in flight, oldest first."""

    def restart(self) -> None:
        self.in_flight = ()

    def issue(self, emitter: Emitter, statement: MmaIssue) -> list[str]:
        """The wgmma of elements `begin` to `end` of K, closed as one commit group."""
        program, dot = emitter.program, emitter.program.op(statement.ops[-1])
        form, (a, b, made) = _form(emitter, dot), _operands(emitter, statement)
        lines = [emitter.comment(statement.at, statement.ops, statement.node), "{", *made]
        lines.append(f"    const uint64_t descriptor_b = {_second(program, dot, b, form)};")
        lines += [f"    const uint64_t descriptor_a = {_first(a, form)};"] if isinstance(a, Shared) else []
        word, step = _instruction_name(program, dot, form, a, b)
        assert isinstance(statement.accumulator, Register)
        if any(
            r.value == dot.operands[2].id and r.location != statement.accumulator for r in statement.reads
        ):
            raise DefectError("this MMA adds to other registers than its accumulator's", dot.location)
        into = variable(statement.accumulator)
        definite = _arithmetic(emitter, statement.accumulator) and statement.accumulate != "never"
        lines += [f"    registers_fence({into});"] if definite else []
        lines.append("    wgmma_fence();")
        for k in range(statement.begin, statement.end, step):
            add = "1" if k else accumulates(statement, emitter.least)
            right = f"descriptor_advance(descriptor_b, {advance(b, not b.transposed, k)})"
            for band in range(form.bands):
                whole = form.bands == 1 and packed(dot.result.type) is None
                part = into if whole else f"part<{band}, {form.bands}>({into})"
                lines.append(f"    {word}({part}, {_left(dot, form, a, band, k, step)}, {right}, {add});")
        self.in_flight = (*self.in_flight, into)
        return [*lines, "    wgmma_commit();", "}"]

    def wait(self, pending: int) -> list[str]:
        """After the wait, the registers of accumulators that are complete may be used."""
        done = self.in_flight[: len(self.in_flight) - pending] if pending else self.in_flight
        self.in_flight = self.in_flight[len(done) :]
        left = set(self.in_flight)
        return [
            f"wgmma_wait<{pending}>();",
            *(f"registers_fence({name});" for name in sorted(set(done) - left)),
        ]

    def copied(self, emitter: Emitter, name: str, copy: str) -> list[str]:
        """Without a fence the compiler may copy an accumulator behind the issue of the MMA that writes it
        again: ptxas then serializes all MMAs of the loop (C7514). One that arithmetic begins anew has other
        registers then, and a fence of its copy would make ptxas write these late (C7519)."""
        issues = (s for s in walk(emitter.group.body) if isinstance(s, MmaIssue))
        accumulators = (s.accumulator for s in issues if isinstance(s.accumulator, Register))
        found = any(one.variable == name and not _arithmetic(emitter, one) for one in accumulators)
        return [f"registers_fence({copy});"] if found else []

    def initialized(self, emitter: Emitter, it: InitializeCarried) -> list[str]:
        """An accumulator that starts a loop as computed values, a bias for example, gets registers of its own
        in front of the loop. Without a fence ptxas makes the copies of elements with one value, which a
        broadcast has, behind the first issue: it then serializes all MMAs of the loop (C7519, C7511)."""
        if it.at != At() or not isinstance(it.source, Register):
            return []
        statements = tuple(walk(emitter.group.body))
        accumulates = any(isinstance(s, MmaIssue) and s.accumulator == it.register for s in statements)
        writes = (write.register for s in statements if isinstance(s, Compute) for write in s.writes)
        return [f"registers_fence({variable(it.register)});"] if accumulates and it.source in writes else []


def _arithmetic(emitter: Emitter, accumulator: Register) -> bool:
    """Whether arithmetic of the group writes an accumulator. Without a fence the compiler may compute such a
    value, or make the copies of a common one, behind wgmma.fence; ptxas then injects a second one (C7519)."""
    written = (w.register for s in walk(emitter.group.body) if isinstance(s, Compute) for w in s.writes)
    begun = (s.register for s in walk(emitter.group.body) if isinstance(s, InitializeCarried))
    return any(one.variable == accumulator.variable for one in (*written, *begun))


def _operands(emitter: Emitter, it: MmaIssue) -> tuple[Shared | str, Shared, list[str]]:
    """A in shared memory, or the variable that holds it, B, and the lines that make that variable. What comes
    before the MMA only changes how they are seen."""
    scope = emitter.scope((read for read in it.reads if isinstance(read.location, Register)), at=it.at)
    for read in it.reads:
        if isinstance(read.location, Slot):
            scope.values[read.value] = _at(emitter, scope.operand(read, read.location), read.location)
    held = (read.value for read in it.reads if isinstance(read.location, Register))
    turned = {value for value in held if literal(emitter.program.value(value).type)}
    for index in it.ops[:-1]:
        op = emitter.program.op(index)
        seen = scope.values.get(op.operands[0].id) if role(op) in ("layout", "bitcast") else None
        if isinstance(seen, Shared):
            scope.values[op.result.id] = seen
        elif op.operands[0].id in turned or any(not isinstance(one.type, Tensor) for one in op.results):
            execute(scope, op)
            turned.update(one.id for one in op.results if isinstance(one.type, Tensor))
    dot = emitter.program.op(it.ops[-1])
    a, b = scope.values.get(dot.operands[0].id), scope.form(dot.operands[1])
    assert isinstance(b, Shared)
    if isinstance(a, Shared):
        return a, b, []
    source = _left_registers(emitter.program, it, dot)
    if not literal(emitter.program.value(source.value).type):
        assert isinstance(source.location, Register)
        return variable(source.location), b, []
    return LEFT, b, _packed(emitter.program, scope, dot)


def _packed(program: Program, scope: Scope, dot: Op) -> list[str]:
    """A, held in a linear layout, with its words in the order in which wgmma takes them."""
    tile, form = dot.operands[0].type, scope.values.get(dot.operands[0].id)
    if not isinstance(tile, Tensor) or literal(tile) or not packed(tile) or not callable(form) or scope.lines:
        raise refuse(program, dot, "its left operand lies in other threads")
    try:
        lines = written(tile, LEFT, form)
    except ValueError as problem:
        raise refuse(program, dot, f"its left operand: {problem}") from problem
    return [f"    {line}" for line in (declaration(tile, LEFT), *lines, f"registers_fence({LEFT});")]


def _at(emitter: Emitter, operand: Form, slot: Slot) -> Form:
    """An operand as ptxas sees it: one that is in the same place in every iteration of a loop seems to move.
    ptxas takes the halves of a descriptor that stays apart, and makes three instructions of each advance of
    it (UIADD3, UIADD3.X, UMOV) where there is one (UIADD3.64)."""
    stays = slot.iteration.base != "newest" or emitter.program.channel(slot.channel).depth == 1
    if not (emitter.in_loop and stays and isinstance(operand, Shared)):
        return operand
    return replace(operand, address=plus(operand.address, "zero_in(i)"))


def _instruction_name(
    program: Program, dot: Op, form: Fragment, a: Shared | str, b: Shared
) -> tuple[str, int]:
    """The runtime function, with its template arguments, and K of one instruction."""
    types = [value.type.dtype for value in dot.operands[:2] if isinstance(value.type, Tensor | MemDesc)]
    left, right = (one.name for one in types if isinstance(one, Scalar))
    step = 256 // WIDTHS[left]
    majors = [*([major(a.transposed)] if isinstance(a, Shared) else []), major(not b.transposed)]
    if step != 16 and "MN_MAJOR" in majors:
        raise refuse(
            program, dot, "operands of less or more than 16 bits must be contiguous along K in shared memory"
        )
    choice = f"<{', '.join(majors)}>" if step == 16 else ""
    kinds = KINDS.get(element(dot.result.type), f"{NAMES.get(left)}_{NAMES.get(right)}")
    return f"wgmma_{kinds}_n{form.shape[1] // form.across}{choice}", step


def _left(dot: Op, form: Fragment, a: Shared | str, band: int, k: int, step: int) -> str:
    """A from element k of K on, of one band of rows."""
    if isinstance(a, Shared):
        down = band * form.down // 4 * _rows(a)
        return f"descriptor_advance(descriptor_a, {advance(a, a.transposed, k) + down})"
    whole = dot.operands[0].type  # a buffer that is not used where its tile is kept in registers
    assert isinstance(whole, Tensor | MemDesc)
    return f"{a}[{band * (whole.shape[1] // step) + k // step}]"


def _form(emitter: Emitter, dot: Op) -> Fragment:
    """How the group shares the result of an MMA."""
    assert isinstance(dot.result.type, Tensor)
    form = layout(dot.result.type)
    columns = form.shape[1] // form.across
    if (
        form.down * form.across != emitter.group.warps
        or form.shape[0] % (16 * form.down)
        or columns > 256
        or columns % (16 if packed(dot.result.type) else 8)
    ):
        raise refuse(
            emitter.program,
            dot,
            f"an MMA of {form.shape} for {emitter.group.warps} warps can not be generated",
        )
    return form


def _first(tile: Shared, form: Fragment) -> str:
    """The matrix descriptor of A: each warpgroup has its rows."""
    groups, apart = form.down // 4, _rows(tile)
    group = f"thread.warpgroup % {groups}" if form.across > 1 else "thread.warpgroup"
    return _descriptor(
        tile, tile.transposed, plus(tile.address, f"{group} * {apart}") if groups > 1 else tile.address
    )


def _second(program: Program, dot: Op, tile: Shared, form: Fragment) -> str:
    """The matrix descriptor of B: warpgroups that share rows have their columns. Where these begin inside a
    line of the swizzle pattern, the line is that of their addresses, as where MMAs advance along K."""
    if form.across == 1:
        return _descriptor(tile, not tile.transposed, tile.address)
    columns, group = form.shape[1] // form.across, f"thread.warpgroup / {form.down // 4}"
    size = columns * tile.bits // 8
    if tile.transposed:
        begin = f"{group} * {columns * tile.width}"
    elif size % tile.width == 0:
        begin = f"{group} * {size // tile.width * tile.box}"
    elif form.across * size <= tile.width:
        begin = f"{group} * {size}"
    else:
        raise refuse(program, dot, "its columns are cut inside a line of the swizzle pattern")
    return _descriptor(tile, not tile.transposed, plus(tile.address, begin))


def _left_registers(program: Program, it: MmaIssue, dot: Op) -> Read:
    """The registers that hold A, or what A is a view of. A buffer that is not used has the threads of its
    source, which share the columns where warps share rows."""
    accumulator, result = dot.operands[2].id, dot.result.type
    assert isinstance(result, Tensor)
    if isinstance(dot.operands[0].type, MemDesc) and layout(result).across > 1:
        raise refuse(program, dot, "its left operand lies in other threads")
    for read in it.reads:
        if isinstance(read.location, Register) and read.value != accumulator:
            return read
    raise refuse(program, dot, "its left operand is in no register")


def _rows(a: Shared) -> int:
    """Bytes between the rows of A that two warpgroups have."""
    return a.rows * 64 * a.bits // 8 if a.transposed else 64 * a.width


def _descriptor(tile: Shared, outer: bool, address: str) -> str:
    return f"matrix_descriptor<{tile.width}>({address}{f', {tile.box}' if outer else ''})"
