"""Numbers that a loop only counts, counted by a loop of their own behind it.

A loop may carry numbers that nothing in it reads (`count += 1 + k`, for what stands behind it): no operation
of its schedule computes them. They follow from the number of the iteration and from each other alone, so
that a loop of numbers, which is not scheduled, counts them for whoever reads them. Numbers that grow by the
same in every iteration need no loop (`induction`). Takes a module; gives the same with such loops. Lines stay
where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from re import sub

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.carried.induction import (
    following,
    renumbered,
    without_carried,
    without_stale,
    yielding,
)
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, edited, renamed, text_of
from twill.extract.rewrite.text.loop_heads import RESULTS, head_of, number_type
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.ir.loop import Carried, Loop, Module, Op, Scalar
from twill.ir.slicing import all_operands, reached
from twill.ops.table import lookup, repeatable, role


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    positions: tuple[int, ...]
    """Of the numbers, among the carried values."""
    ops: tuple[Op, ...]
    """What an iteration computes for them."""


def counted_apart(module: Module) -> Module:
    """The module itself where no loop to be scheduled only counts a number."""
    for number, path in enumerate([loop.path for loop in loops(module) if loop.innermost]):
        loop = next(one for one in loops(module) if one.path == path)
        if loop.tensor_ops and role(loop.op) == "for" and (counted := _counted(module, loop)):
            module = edited(module, _edits(module, loop, counted, f"%twill_counted{number}"))
    return module


# --- which numbers ----------------------------------------------------------------------------------------


def _counted(module: Module, loop: Loop) -> _Counted | None:
    """None where the loop counts nothing for what is behind it alone."""
    makers, used = makers_of(loop.body.ops), {v.id for op in loop.function.walk() for v in op.operands}
    found = [one for one in loop.carried if isinstance(one.arg.type, Scalar) and one.result.id in used]
    while True:
        ops = _computing(loop, makers, found)
        kept = [
            one for one in found if _alone(module, loop, makers, found, one) and not _read(loop, ops, one)
        ]
        if len(kept) == len(found):
            break
        found = kept
    positions = tuple(i for i, one in enumerate(loop.carried) if one in found)
    return _Counted(positions, ops) if found else None


def _computing(loop: Loop, makers: Makers, counted: Sequence[Carried]) -> tuple[Op, ...]:
    """What an iteration computes for numbers, in its order."""
    needed = _needed(makers, counted)
    return tuple(op for op in loop.body.ops if any(value.id in needed for value in op.results))


def _needed(makers: Makers, counted: Sequence[Carried]) -> frozenset[int]:
    return reached(
        [one.yielded for one in counted],
        lambda value: all_operands(made) if (made := makers.by_value.get(value.id)) else (),
    )


def _alone(module: Module, loop: Loop, makers: Makers, counted: Sequence[Carried], one: Carried) -> bool:
    """Whether a number follows from the number of the iteration and other counted ones alone, by operations
    on numbers."""
    others = {other.arg.id for other in loop.carried if other not in counted}
    ops = _computing(loop, makers, [one])
    return bool(ops) and not _needed(makers, [one]) & others and all(_repeated(module, op) for op in ops)


def _repeated(module: Module, op: Op) -> bool:
    """Whether it computes a number from numbers, and may stand elsewhere too."""
    row = lookup(op.name)
    numbers = all(isinstance(value.type, Scalar) for value in (*op.operands, *op.results))
    plain = row is not None and repeatable(row, op) and role(op) != "pointer_load" and not op.regions
    return plain and numbers and len(op.results) == 1 and "\n" not in text_of(module, op)


def _read(loop: Loop, ops: Sequence[Op], one: Carried) -> bool:
    """Whether an operation of the loop reads the number, or what follows from it, for anything else."""
    made, last = {one.arg.id}, loop.body.ops[-1]
    inside = {op.index for op in ops}
    for op in loop.body.ops:
        if op is not last and made & {value.id for value in all_operands(op)}:
            if op.index not in inside:
                return True
            made |= {value.id for value in op.results}
    return False


# --- the text ---------------------------------------------------------------------------------------------


def _edits(module: Module, loop: Loop, counted: _Counted, prefix: str) -> Iterator[Edit]:
    gone = frozenset(counted.positions)
    yield without_carried(module, loop, gone)
    yield yielding(module, loop, gone, {})
    yield from without_stale(module, loop)
    several = len(counted.positions) > 1
    for op, after in _gone(loop, counted):
        yield blanked(module, op.span.start, after.span.start)
    results = {at: f"{prefix}#{i}" if several else prefix for i, at in enumerate(counted.positions)}
    behind = following(loop)[0].span.start
    yield Edit(behind, behind, _loop(module, loop, counted, prefix))
    yield from renumbered(module, loop, set(gone), results)


def _gone(loop: Loop, counted: _Counted) -> Iterator[tuple[Op, Op]]:
    """What follows from the numbers in the loop, which nothing else there reads, each with the operation
    behind it."""
    made = {loop.carried[i].arg.id for i in counted.positions}
    for op, behind in pairwise(loop.body.ops):
        if made & {value.id for value in all_operands(op)}:
            made |= {value.id for value in op.results}
            yield op, behind


def _loop(module: Module, loop: Loop, counted: _Counted, prefix: str) -> str:
    """The loop of numbers. What stays in the other loop has names of its own here."""
    carried = [loop.carried[i] for i in counted.positions]
    values = (loop.body.args[0], *(one.arg for one in carried), *(op.result for op in counted.ops))
    names = {value.name: f"{prefix}_{i}" for i, value in enumerate(values)}
    types = [number_type(one) for one in carried]
    ops = "".join(f"{renamed(text_of(module, op), names)} {UNKNOWN} " for op in counted.ops)
    yielded = ", ".join(names.get(one.yielded.name, one.yielded.name) for one in carried)
    head = _head(module, loop, carried, names, types, prefix)
    return f"{head} {ops}{loop.body.ops[-1].name} {yielded} : {', '.join(types)} {UNKNOWN} }} {UNKNOWN} "


def _head(
    module: Module,
    loop: Loop,
    carried: Sequence[Carried],
    names: Mapping[str, str],
    types: Sequence[str],
    prefix: str,
) -> str:
    """As the loop begins, with what it counts alone."""
    pairs = [f"{names[one.arg.name]} = {one.init.name}" for one in carried]
    text = head_of(module, loop).carrying(pairs, types)
    text = renamed(text.partition("{")[0], {loop.body.args[0].name: names[loop.body.args[0].name]})
    several = f":{len(carried)}" if len(carried) > 1 else ""
    return sub(RESULTS, f"{prefix}{several} = ", text) + "{"
