"""Atomic operations whose results are used, and comparisons with exchange.

Takes an operation of a group with the word of CUDA; gives C. One of the threads that hold an element executes
it, and the others read what it found from the scratch buffer of the group. An operation that releases is
behind all that the group has written, by TMA too; one that acquires is before all that the group reads then.
Where the leader executes it alone, it fences alone, between barriers of the group: what other threads have
written before a barrier, a fence of one thread behind it orders too, and the same holds for what they read
(PTX ISA, memory consistency model, causality order; so does cooperative groups' grid.sync). A fence of the
GPU waits for memory and empties the L1 cache.
"""

from collections.abc import Sequence

from twill.ir.loop import Op, Tensor, Value
from twill.ir.statements import StoreTile, walk
from twill.ops.c import c_type
from twill.targets.cuda.expressions import bare
from twill.targets.cuda.registers.elements import guard, once, plain, written
from twill.targets.cuda.registers.register_tiles import cast, declaration, held, number, point
from twill.targets.cuda.scope import Scope
from twill.targets.cuda.shared.shared_tiles import UNROLL

FENCE = "__threadfence();"


def execute(scope: Scope, op: Op, word: str, operands: Sequence[Value], masks: Sequence[Value]) -> None:
    """Appends the operation: `word` is called with the operands."""
    if isinstance(op.result.type, Tensor):
        ordered = op.attributes.get("sem") != "relaxed"
        scope.lines += [*((*_stored_by_tma(scope), FENCE) if ordered else ()), scope.group_barrier()]
        _tile(scope, op, op.result.type, word, operands, masks, ordered=ordered)
    else:
        _scalar(scope, op, word, operands, masks)


def adds_neighbours(kind: str, tile: Tensor) -> bool:
    """Whether an operation exists that adds several neighbours (PTX ISA, red)."""
    return kind == "fadd" and c_type(tile) in ("__half", "__nv_bfloat16", "float")


def released(op: Op) -> list[str]:
    """What stands before an operation of several threads that releases: what each has written is complete."""
    return [] if op.attributes.get("sem") == "relaxed" else [FENCE]


def by_leader(scope: Scope, op: Op, masks: Sequence[Value], called: str, *, acquires: bool) -> list[str]:
    """An operation of the leader alone, behind what the group has written where it releases, before what the
    group reads behind its next barrier where that is of use (`acquires`)."""
    condition = " && ".join(["thread.leader", *(scope.scalar(mask) for mask in masks)])
    if op.attributes.get("sem") == "relaxed":
        return [f"if ({condition}) {called};"]
    fenced = [f"    {FENCE}", f"    {called};", *([f"    {FENCE}"] if acquires else [])]
    return [*_stored_by_tma(scope), scope.group_barrier(), f"if ({condition}) {{", *fenced, "}"]


def _stored_by_tma(scope: Scope) -> list[str]:
    """Tiles that TMA stores are written."""
    stores = any(isinstance(statement, StoreTile) for statement in walk(scope.group.body))
    return ["if (thread.leader) tma_wait<0>();"] if stores else []


def call(op: Op, word: str, kind: str, pointer: str, values: Sequence[str]) -> str:
    """The call of `word` on elements of the C type `kind`. CUDA has atomics of 64-bit integers for `long
    long`: signed ones for maxima and minima, else not. Maxima and minima of floats are those of their bits,
    which the pointer's type does not say."""
    extreme = word in ("atomicMax", "atomicMin")
    if kind != "int64_t" and not (extreme and kind == "int32_t"):
        return f"{word}({', '.join([pointer, *values])})"
    signed = extreme and str(op.attributes["atomic_rmw_op"]) in ("max", "min")
    own = f"{'' if signed else 'unsigned '}{'long long' if kind == 'int64_t' else 'int'}"
    passed = ", ".join(f"({own})({value})" for value in values)
    return f"{word}(reinterpret_cast<{own}*>({pointer}), {passed})"


def _scalar(scope: Scope, op: Op, word: str, operands: Sequence[Value], masks: Sequence[Value]) -> None:
    pointer, *values = (cast(value.type, scope.scalar(value)) for value in operands)
    kind = c_type(op.result.type)
    place = f"shared_at<{kind}>({scope.scratch})"
    called = f"{place} = {call(op, word, kind, pointer, values)}"
    relaxed = op.attributes.get("sem") == "relaxed"
    scope.lines += [
        *([scope.group_barrier()] if relaxed else []),
        *by_leader(scope, op, masks, called, acquires=True),
        scope.group_barrier(),
    ]
    scope.named(op.result, bare(number(op.result.type, place)))


def _tile(
    scope: Scope,
    op: Op,
    tile: Tensor,
    word: str,
    operands: Sequence[Value],
    masks: Sequence[Value],
    *,
    ordered: bool,
) -> None:
    form = scope.layout(tile)
    one = point(form, "i_")
    pointer, *values = (cast(value.type, scope.elements(value)(one)) for value in operands)
    limits = (scope.elements(mask)(one) for mask in masks)
    stored = f"{plain(tile, scope.scratch, one)} = {call(op, word, c_type(tile), pointer, values)};"
    name = scope.name(op.result)
    scope.lines += [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers}; ++i_)",
        f"    {guard(once(form), *limits)}{stored}",
        *([FENCE] if ordered else []),
        scope.group_barrier(),
        *([] if op.result.id in scope.targets else [declaration(tile, name)]),
    ]
    scope.lines += written(tile, name, lambda place: number(tile, plain(tile, scope.scratch, place)))
    scope.values[op.result.id] = held(name, tile)
