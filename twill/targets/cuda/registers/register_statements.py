"""Recipes of the statements that compute, copy or read values in registers.

Takes the `Emitter` of a group and a statement; gives lines of C++. `statements` has the others.
"""

from collections.abc import Sequence

from twill.ir.loop import Tensor
from twill.ir.operands import Read, Register
from twill.ir.statements import Compute, FinalizeReduction, InitializeCarried, LocalLoad, Move
from twill.ops.table import role
from twill.targets.cuda.emitter import Emitter, indented
from twill.targets.cuda.loads.branch_loads import loaded_in_branches
from twill.targets.cuda.operations import execute
from twill.targets.cuda.registers.elements import variable, written
from twill.targets.cuda.registers.fragments import holding
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import held
from twill.targets.cuda.values.exchange import WHOLE, ColumnRange, exchanged, shared_between
from twill.warp.dataflow import pure


def compute(emitter: Emitter, it: Compute) -> list[str]:
    head, first, rest = computed(emitter, it)
    lines = [] if _loads_for_others(emitter, it) else [*first, *rest]
    return [head, "{", *indented(lines), "}"]


def _loads_for_others(emitter: Emitter, it: Compute) -> bool:
    """Whether nothing is left of it but addresses: what it loads is loaded where it is read, by each lane
    its own."""
    ops = (emitter.program.op(index) for index in it.ops)
    unused = not (it.writes or it.stores or it.deferred)
    return unused and all(pure(op) or role(op) == "pointer_load" for op in ops)


def computed(emitter: Emitter, it: Compute, first: Sequence[int] = ()) -> tuple[str, list[str], list[str]]:
    """The comment, the lines of its `first` operations with what these write, and the others."""
    ops = [emitter.program.op(index) for index in it.ops]
    late = not any(op.regions for op in ops)
    span = ColumnRange(it.begin, it.end, it.by_rows)
    scope = emitter.scope(it.reads, it.writes, it.at, span, it.ops, late=late)
    scope.deferred = it.deferred
    scope.streaming = bool(it.stores) and not it.writes
    early = [op for op in ops if op.index in first]
    for op in early:
        execute(scope, op)
    made = {value.id for op in early for value in op.results}
    scope.assign(write for write in it.writes if write.value in made)
    behind = len(scope.lines) if early else 0
    if early:  # between these lines and the others, lines of other statements may come
        emitter.halves.forget()
    later = [op for op in ops if op.index not in first]
    if span == WHOLE:
        scope.in_branches = loaded_in_branches(later, {write.value for write in it.writes})
    sunk = {op.index for loads in scope.in_branches.values() for op in loads}
    for op in later:
        if op.index not in sunk:
            execute(scope, op)
    scope.assign(write for write in it.writes if write.value not in made)
    awaited = [emitter.awaited(slot, name) for slot, name in scope.unawaited or ()]
    head = emitter.comment(it.at, it.ops, it.node)
    return head, scope.lines[:behind], [*scope.lines[behind:], *awaited]


def finalize(emitter: Emitter, it: FinalizeReduction) -> list[str]:
    op, scope = emitter.program.op(it.op), emitter.scope()
    source, result = op.operands[0].type, op.results[0].type
    assert isinstance(source, Tensor)
    form, name = holding(source), variable(it.register)
    if isinstance(form, Spread):
        assert isinstance(result, Tensor)
        vector = holding(result)
        assert isinstance(vector, Spread)
        return shared_between(op, name, form, vector, lambda: scope.room(op))
    return exchanged(op, name, form, lambda: scope.room(op))


def initialize_carried(emitter: Emitter, it: InitializeCarried) -> list[str]:
    scope = emitter.scope([Read(it.value, it.source)] if it.source else [], at=it.at)
    found, name = emitter.program.value(it.value), variable(it.register)
    if not isinstance(found.type, Tensor):
        return [f"{name} = {scope.scalar(found)};"]
    if scope.narrow:
        scope.assigned(found, name, scope.elements(found))
        return scope.lines
    if (own := scope.own_words(it.register.variable)) is not None:
        return own.written(scope.elements(found))
    lines = written(found.type, name, scope.elements(found))
    return [*lines, *emitter.mma.initialized(emitter, it)]


def local_load(emitter: Emitter, it: LocalLoad) -> list[str]:
    value = emitter.program.value(it.value)
    assert value.producer is not None
    assert isinstance(value.type, Tensor)
    scope = emitter.scope([Read(it.value, it.source)], at=it.at)
    lines = written(value.type, variable(it.register), scope.elements(value))
    head = emitter.comment(it.at, (value.producer,), f"read {it.register.variable}")
    return [head, "{", *indented([*scope.lines, *lines]), "}"]


def move(emitter: Emitter, it: Move) -> list[str]:
    name = it.variable
    new, old = variable(Register(name, it.age)), variable(Register(name, it.age - 1))
    kind = emitter.group.variable(name).type
    if not isinstance(kind, Tensor):
        return [f"{new} = {old};"]
    return [*written(kind, new, held(old, kind)), *emitter.mma.copied(emitter, name, new)]
