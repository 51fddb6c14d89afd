"""Numbers that both loads and computations follow from, carried once for each.

A loop may walk around (`i = i + 1 if i + 1 < n else 0`): where it loads, and what it masks and stores, follow
from one carried number, which is no sum. What a loop carries stays in one warp group, which would have to
load and to compute. Takes a module; gives the same where loads follow from copies of such numbers, which
iterations change by the same operations on numbers. Where the number itself is only added to, one is carried
for each by `own_offsets`. Lines stay where they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from twill.extract.dependence.loops import loops
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, edited, listed, renamed, text_of
from twill.extract.rewrite.text.loop_heads import head_of, number_type
from twill.extract.rewrite.text.makers import Makers, makers_of
from twill.ir.loop import Carried, Loop, Module, Op, Scalar, Value
from twill.ir.slicing import all_operands, reached
from twill.ops.row import Role
from twill.ops.table import is_mma, lookup, repeatable, role, writes_global

_LOADS: frozenset[Role] = frozenset({"pointer_load", "tma_load"})


def own_numbers(module: Module) -> Module:
    """The module itself where no loop to be scheduled carries such a number."""
    for number, path in enumerate([loop.path for loop in loops(module) if loop.innermost]):
        loop = next(one for one in loops(module) if one.path == path)
        if loop.tensor_ops and role(loop.op) == "for" and (copies := _copies(module, loop)):
            module = edited(module, _edits(module, loop, copies, f"%twill_numbers{number}_"))
    return module


# --- which numbers ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Copies:
    """What loads are to have copies of."""

    carried: tuple[Carried, ...]
    ops: tuple[Op, ...]
    """What changes those numbers, and is between them and what the loads alone follow from."""
    moved: frozenset[int]
    """Positions of other carried values that loads alone follow from: copies change these."""


def _copies(module: Module, loop: Loop) -> _Copies | None:
    """None where loads and other operations follow from no number together, or such a number changes by more
    than operations on numbers."""
    makers = makers_of(loop.body.walk())
    read = [value for op in loop.body.ops if role(op) in _LOADS for value in op.operands]
    of_loads = _followed(loop, makers, read)
    kept = [one.yielded for one in loop.carried if one.arg.id not in of_loads]
    done = [value for op in loop.body.ops if is_mma(op) or _writes(op) for value in all_operands(op)]
    of_others = _followed(loop, makers, [*kept, *done])
    both = tuple(one for one in loop.carried if one.arg.id in of_loads & of_others)
    if not both or not all(_of_numbers(makers, one) for one in both):
        return None
    moved = [one for one in loop.carried if one.arg.id in of_loads - of_others]
    needed = _needed(makers, [*read, *(one.yielded for one in (*both, *moved))])
    ops = tuple(_between(loop, both, needed))
    if not all(_repeated(module, op) for op in ops):
        return None
    return _Copies(both, ops, frozenset(loop.carried.index(one) for one in moved))


def _followed(loop: Loop, makers: Makers, values: Sequence[Value]) -> frozenset[int]:
    """What these follow from in any iteration, by id, but for what is loaded."""
    carried = {one.arg.id: one.yielded for one in loop.carried}

    def sources(value: Value) -> Sequence[Value]:
        return (carried[value.id],) if value.id in carried else _sources(makers, value)

    return reached(values, sources)


def _needed(makers: Makers, values: Sequence[Value]) -> frozenset[int]:
    """What these follow from within an iteration, by id, but for what is loaded."""
    return reached(values, lambda value: _sources(makers, value))


def _sources(makers: Makers, value: Value) -> Sequence[Value]:
    made = makers.by_value.get(value.id)
    return () if made is None or role(made) in _LOADS else all_operands(made)


def _writes(op: Op) -> bool:
    return any(writes_global(one) for one in (op, *op.inner()))


def _of_numbers(makers: Makers, one: Carried) -> bool:
    """Whether numbers alone say how a carried one changes, and nothing that is loaded."""
    made = (makers.by_value[value] for value in _needed(makers, [one.yielded]) if value in makers.by_value)
    return isinstance(one.arg.type, Scalar) and all(
        role(op) not in _LOADS and isinstance(op.result.type, Scalar) for op in made
    )


def _between(loop: Loop, both: Sequence[Carried], needed: frozenset[int]) -> Iterator[Op]:
    """The operations on the way from numbers to what is needed."""
    following = {one.arg.id for one in both}
    for op in loop.ops:
        if role(op) not in _LOADS and following & {value.id for value in all_operands(op)}:
            following |= {value.id for value in op.results}
            if needed & {value.id for value in op.results}:
                yield op


def _repeated(module: Module, op: Op) -> bool:
    """Whether an operation can be written twice."""
    row = lookup(op.name)
    plain = row is not None and repeatable(row, op) and not op.regions and len(op.results) == 1
    return plain and "\n" not in text_of(module, op)


# --- the text ---------------------------------------------------------------------------------------------


def _edits(module: Module, loop: Loop, copies: _Copies, prefix: str) -> Iterator[Edit]:
    values = (*(one.arg for one in copies.carried), *(op.result for op in copies.ops))
    names = {value.name: f"{prefix}{i}" for i, value in enumerate(values)}
    yield _header(module, loop, copies, names)
    copied = {op.index for op in copies.ops}
    for op, behind in pairwise(loop.body.ops):
        if role(op) in _LOADS:
            yield Edit(op.span.start, op.span.end, renamed(text_of(module, op), names))
        elif op.index in copied:
            text = f"{renamed(text_of(module, op), names)} {UNKNOWN} "
            yield Edit(behind.span.start, behind.span.start, text)
    last = loop.body.ops[-1]
    yielded = [
        names.get(value.name, value.name) if i in copies.moved else value.name
        for i, value in enumerate(last.operands)
    ]
    yielded += [names.get(one.yielded.name, one.yielded.name) for one in copies.carried]
    types = [*listed(text_of(module, last).rpartition(" : ")[2]), *map(number_type, copies.carried)]
    yield Edit(last.span.start, last.span.end, f"{last.name} {', '.join(yielded)} : {', '.join(types)}")


def _header(module: Module, loop: Loop, copies: _Copies, names: Mapping[str, str]) -> Edit:
    """The loop's beginning, with the copies behind what it carries."""
    head = head_of(module, loop)
    more = [f"{names[one.arg.name]} = {one.init.name}" for one in copies.carried]
    return head.edit([*head.pairs, *more], [*head.types, *map(number_type, copies.carried)])
