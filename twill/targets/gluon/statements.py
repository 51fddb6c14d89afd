"""One recipe for each kind of statement of a warp program, as lines of Gluon.

Takes a `Program`, a group and a statement. What Gluon lacks is left to Triton: slices of a tile operation are
executed together at the last of them, a deferred reduction is complete at once, and scheduling fences are
omitted. Ordering barriers are mbarriers. All values are those of the statements.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import assert_never

from twill.diagnostics import TwillError
from twill.ir.effects import at, drained_after
from twill.ir.loop import Op, Pointer, Scalar, Tensor
from twill.ir.operands import Read, Register
from twill.ir.statements import (
    SLICES,
    Advance,
    Alternate,
    BarrierArrive,
    BarrierWait,
    Compute,
    ConsumerRelease,
    ConsumerWait,
    FinalizeReduction,
    For,
    If,
    InitializeCarried,
    LocalLoad,
    MmaIssue,
    MmaWait,
    Move,
    OrderBarrierArrive,
    OrderBarrierWait,
    Pipelined,
    ProducerLoad,
    ProducerStore,
    SchedulingFence,
    Statement,
    StoreTile,
    StoreWait,
    TensorMemorySync,
    While,
    walk,
)
from twill.targets.cuda.emitter import indented
from twill.targets.cuda.expressions import atom, literal, plus
from twill.targets.cuda.registers.elements import variable
from twill.targets.gluon.emitter import Emitter
from twill.targets.gluon.mma import as_tokens, issue, wait
from twill.targets.gluon.scope import (
    counter,
    safe,
)
from twill.targets.gluon.tile_stores import store_tile
from twill.targets.gluon.transfers import (
    consumer_release,
    consumer_wait,
    dependence_wait,
    order_wait,
    producer_load,
    producer_store,
    tensor_memory_sync,
)


def lines_of(emitter: Emitter, statements: Sequence[Statement]) -> list[str]:
    """Raises TwillError, with its line, for what can not be exported."""
    return [line for statement in statements for line in _lines_of_one(emitter, statement)]


def _lines_of_one(emitter: Emitter, statement: Statement) -> list[str]:
    match statement:
        case Compute():
            return _compute(emitter, statement)
        case InitializeCarried() | LocalLoad():
            return _initialize(emitter, statement)
        case Move(name, age):
            return emitter.assigned(Register(name, age), safe(variable(Register(name, age - 1))))
        case FinalizeReduction() | SchedulingFence():
            return []
        case MmaIssue():
            return issue(emitter, statement)
        case MmaWait(pending):
            return wait(emitter, pending)
        case ProducerLoad():
            return producer_load(emitter, statement)
        case ProducerStore():
            return producer_store(emitter, statement)
        case ConsumerWait(channel, when):
            return consumer_wait(emitter, channel, when.iteration)
        case ConsumerRelease(channel, when):
            return consumer_release(emitter, channel, when.iteration)
        case Advance(channel, loop):
            grown = "1" if loop is None else emitter.trip_count(loop)
            return [f"{counter(channel)} += {grown}"]
        case OrderBarrierWait(order):
            return order_wait(emitter, order)
        case OrderBarrierArrive(order):
            return [f"mbarrier.arrive({order}, count=1)"]
        case BarrierArrive(barrier, when):
            return [f"mbarrier.arrive({emitter.dependence(barrier, when.iteration)}, count=1)"]
        case BarrierWait():
            return dependence_wait(emitter, statement)
        case TensorMemorySync():
            return tensor_memory_sync(emitter)
        case StoreTile():
            return store_tile(emitter, statement)
        case StoreWait():
            return ["tma.store_wait(0)"]
        case Pipelined() | For() | While() | If() | Alternate():
            return _structure(emitter, statement)
        case _:
            assert_never(statement)


def _structure(emitter: Emitter, statement: Pipelined | For | While | If | Alternate) -> list[str]:
    match statement:
        case Pipelined():
            return _pipelined(emitter, statement)
        case For():
            return _for(emitter, statement)
        case While():
            return _while(emitter, statement)
        case If():
            return _if(emitter, statement)
        case Alternate():
            raise TwillError(
                "several tiles in flight are not exported",
                emitter.file.program.function.location,
                help="generate with --tiles-in-flight 1",
            )


def _compute(emitter: Emitter, it: Compute) -> list[str]:
    if it.end < SLICES:
        return []
    scope = emitter.begin(it.reads, it.at.iteration)
    read = {one.location for one in it.reads}
    scope.targets = {one.value: safe(variable(one.register)) for one in it.writes if one.register not in read}
    for index in it.ops:
        scope.execute(emitter.file.program.op(index))
    scope.write(it.writes)
    emitter.defined |= {safe(variable(one.register)) for one in it.writes}
    return [emitter.comment(it.at.cycle, it.at.stage, it.ops, it.node), *scope.lines]


def _initialize(emitter: Emitter, it: InitializeCarried | LocalLoad) -> list[str]:
    scope = emitter.begin([Read(it.value, it.source)] if it.source else [], it.at.iteration)
    text = scope.text(emitter.file.program.value(it.value))
    return [*scope.lines, *emitter.assigned(it.register, text)]


def _bounds(emitter: Emitter, op: Op, reads: Sequence[Read]) -> tuple[list[str], str, str, str]:
    scope = emitter.begin(reads)
    lower, upper, step = (scope.text(value) for value in op.operands[:3])
    return scope.lines, lower, upper, step


def _pipelined(emitter: Emitter, it: Pipelined) -> list[str]:
    op = emitter.file.program.op(it.op)
    lines, lower, upper, step = _bounds(emitter, op, it.bounds)
    induction = op.regions[0].blocks[0].args[0]
    emitter.trips, emitter.least = emitter.trip_count(it.op), it.stages - 1
    count = f"gl.to_tensor(gl.maximum({_span(lower, upper, step)}, 0))"
    before = emitter.defined
    lines += [
        f"# {it.path}: {it.stages} stages, an iteration every {it.interval} cycles",
        f"{emitter.trips} = {count}{'' if induction.type == Scalar('i32') else '.to(gl.int32)'}",
        *_declared(emitter, it),
    ]
    emitter.affine[induction.id] = (lower, step)
    whole = [*_prologue_and_loop(emitter, it), *lines_of(emitter, it.epilogue), *_drained(emitter)]
    lines += [f"if {emitter.trips} >= {emitter.least}:", *indented(whole)] if emitter.least else whole
    emitter.least = 0
    statements = _predicated(emitter, it) if it.predicated else lines_of(emitter, it.short)
    short = [*statements, *_drained(emitter)] if it.short else []
    last = f"{emitter.trips} + {drained_after(it)}" if it.predicated else emitter.trips
    each = [f"for i in range(0, {last}):", *indented(short)]
    return [*lines, *(["else:", *indented(each)] if short else []), *_at_none(emitter, it, before)]


def _predicated(emitter: Emitter, it: Pipelined) -> list[str]:
    """The steady state, each statement only for iterations that there are."""
    emitter.predicated, lines = True, list[str]()
    for condition, statements in groupby(it.short, partial(_present, emitter)):
        own = lines_of(emitter, tuple(statements))
        lines += [f"if {condition}:", *indented(own)] if condition and own else own
    emitter.predicated = False
    return lines


def _present(emitter: Emitter, statement: Statement) -> str:
    """The condition that a statement's iteration exists."""
    return "" if isinstance(statement, Move) else emitter.exists(at(statement).iteration)


def _at_none(emitter: Emitter, it: Pipelined, before: frozenset[str]) -> list[str]:
    """What a loop without iterations leaves in the accumulators that had a value `before`, or lie in
    tensor memory; the others were declared as zeros."""
    stale = [
        one
        for one in it.zeroed
        if (isinstance(one, Compute) and one.stores)
        or (isinstance(one, InitializeCarried) and safe(variable(one.register)) in before)
    ]
    return [f"if {emitter.trips} == 0:", *indented(lines_of(emitter, stale))] if stale else []


def _prologue_and_loop(emitter: Emitter, it: Pipelined) -> list[str]:
    """The steady state is written twice: the first time only for what is in flight at its end."""
    lines = lines_of(emitter, it.prologue)
    flying, tokens, names = emitter.in_flight, emitter.tokens, set(emitter.scope.names)
    lines_of(emitter, it.steady)
    queue, ending = emitter.in_flight, emitter.tokens
    emitter.tokens, emitter.scope.names = tokens, names
    emitter.in_flight = queue if len(queue) >= len(flying) else flying
    lines += as_tokens(emitter, tokens | ending)
    steady = [*lines_of(emitter, it.steady), *as_tokens(emitter, tokens | ending)]
    return [*lines, f"for i in range({emitter.least}, {emitter.trips}):", *indented(steady or ["pass"])]


def _drained(emitter: Emitter) -> list[str]:
    return wait(emitter, 0) if emitter.tokens or emitter.in_flight else []


def _declared(emitter: Emitter, it: Pipelined) -> list[str]:
    """Zeros for the variables that only some paths through the loop assign: Triton's front end wants a
    value of each on every path."""
    lines = list[str]()
    for register in sorted(_registers((it,)), key=variable):
        kind, name = emitter.group.variable(register.variable).type, safe(variable(register))
        if name in emitter.defined or _of_pointers(kind):
            continue
        lines.append(f"{name} = {emitter.scope.zeros(kind)}")
        emitter.defined |= {name}
    return lines


def _for(emitter: Emitter, it: For) -> list[str]:
    op = emitter.file.program.op(it.op)
    lines, lower, upper, step = _bounds(emitter, op, it.bounds)
    index = op.regions[0].blocks[0].args[0]
    name = emitter.scope.fresh(emitter.file.program.name(index.id))
    emitter.scope.inductions[index.id] = name
    before = emitter.defined
    body = lines_of(emitter, it.body)
    emitter.defined = before
    return [*lines, f"for {name} in range({lower}, {upper}, {step}):", *indented(body or ["pass"])]


def _while(emitter: Emitter, it: While) -> list[str]:
    """The condition is computed before the loop, and at the end of each iteration."""
    op = emitter.file.program.op(it.op)
    going, before = emitter.scope.fresh("going"), emitter.defined
    first = [*lines_of(emitter, it.before), *_condition(emitter, op, it.condition, going)]
    body = [
        *lines_of(emitter, it.body),
        *lines_of(emitter, it.before),
        *_condition(emitter, op, it.condition, going),
    ]
    emitter.defined = before
    return [*first, f"while {going}:", *indented(body)]


def _condition(emitter: Emitter, op: Op, read: Read | None, going: str) -> list[str]:
    scope = emitter.begin([read] if read else [])
    end = op.regions[0].blocks[0].ops[-1]
    return [*scope.lines, f"{going} = {scope.text(end.operands[0])}"]


def _if(emitter: Emitter, it: If) -> list[str]:
    scope, op = emitter.begin([it.condition] if it.condition else []), emitter.file.program.op(it.op)
    head = [*scope.lines, f"if {scope.text(op.operands[0])}:"]
    before = emitter.defined
    then, otherwise = lines_of(emitter, it.then), lines_of(emitter, it.otherwise)
    emitter.defined = before
    lines = [*head, *indented(then or ["pass"])]
    return [*lines, *(["else:", *indented(otherwise)] if otherwise else [])]


def _registers(statements: Sequence[Statement]) -> set[Register]:
    """What statements at any depth assign."""
    found = set[Register]()
    for one in walk(tuple(statements)):
        match one:
            case Compute():
                found |= {write.register for write in one.writes}
            case InitializeCarried() | LocalLoad():
                found.add(one.register)
            case Move(name, age):
                found.add(Register(name, age))
            case MmaIssue(accumulator=Register() as register):
                found.add(register)
            case _:
                pass
    return found


def _of_pointers(kind: object) -> bool:
    return isinstance(kind, Pointer) or (isinstance(kind, Tensor) and isinstance(kind.dtype, Pointer))


def _span(lower: str, upper: str, step: str) -> str:
    """Iterations of a loop; 0 or less for an empty range."""
    span = upper if lower == "0" else f"{atom(upper)} - {atom(lower)}"
    if step == "1":
        return span
    rounding = plus(atom(span), int(step) - 1) if literal(step) is not None else f"{span} + {atom(step)} - 1"
    return f"({rounding}) // {atom(step)}"
