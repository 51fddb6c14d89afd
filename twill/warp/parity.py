"""How the programs of two neighbouring thread blocks differ: which of their values are the same.

A program and its neighbour have the ids 2 q and 2 q + 1 along x, and the number of programs there is even.
Where more has to be even, such as a number of tiles, `assumptions` finds which numbers; launches in which
these are odd do without what is shown here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum

from twill.diagnostics import TwillError
from twill.ir.loop import GRID, Block, Op, Scalar
from twill.ops.table import lookup, repeatable, role
from twill.warp.dataflow import Code, carries, final


class Parity(Enum):
    """A value in the programs 2 q and 2 q + 1."""

    EVEN = "the same, and even"
    SAME = "the same"
    PAIR = "even and not negative, and one more"
    OTHER = "anything"


_JOINS = {frozenset({Parity.EVEN, Parity.SAME}): Parity.SAME}
COMMON = (Parity.EVEN, Parity.SAME)


def _join(one: Parity | None, other: Parity) -> Parity:
    if one is None or one is other:
        return other
    return _JOINS.get(frozenset({one, other}), Parity.OTHER)


def parities(code: Code, even: frozenset[int] = frozenset()) -> Mapping[int, Parity]:
    """Of all values of a function, by id; those in `even` are taken for even."""
    found = dict.fromkeys(even, Parity.EVEN)
    for value, attributes in zip(code.function.args, code.function.arg_attributes, strict=True):
        found[value.id] = Parity.EVEN if attributes.get(GRID) == 0 else Parity.SAME
    body = code.function.body
    before = None
    while body and found != before:
        before = dict(found)
        _block(body.blocks[0], found, even)
    return found


def _block(block: Block, found: dict[int, Parity], even: frozenset[int]) -> None:
    for op in block.ops:
        if any(value.id in even for value in op.results):
            continue
        if role(op) == "for":
            _for(op, found, even)
        elif role(op) == "if":
            _if(op, found, even)
        elif op.regions:
            _anything(op, found)
        else:
            made = _made(op, [found.get(value.id, Parity.OTHER) for value in op.operands])
            for value in op.results:
                found[value.id] = _join(found.get(value.id), made)


def _made(op: Op, operands: Sequence[Parity]) -> Parity:
    match role(op), tuple(operands):
        case "program_id", _:
            return Parity.PAIR if op.attributes.get("axis") == "x" else Parity.SAME
        case "num_programs", _:
            return Parity.EVEN if op.attributes.get("axis") == "x" else Parity.SAME
        case "constant", _:
            value = op.attributes.get("value")
            whole = isinstance(value, int) and not isinstance(value, bool)
            return Parity.EVEN if whole and int(str(value)) % 2 == 0 else Parity.SAME
        case "divide", (Parity.PAIR, Parity.EVEN):
            return Parity.SAME
        case "remainder", (Parity.PAIR, Parity.EVEN):
            return Parity.PAIR
        case "add" | "subtract" | "extreme", (Parity.EVEN, Parity.EVEN):
            return Parity.EVEN
        case "multiply", (one, other) if Parity.EVEN in (one, other) and {one, other} <= set(COMMON):
            return Parity.EVEN
        case _:
            row = lookup(op.name)
            pure = row is not None and (repeatable(row, op) or role(op) == "descriptor")
            pure = pure and role(op) != "pointer_load"
            return Parity.SAME if pure and all(one in COMMON for one in operands) else Parity.OTHER


def _for(op: Op, found: dict[int, Parity], even: frozenset[int]) -> None:
    """Where both programs run it equally often; otherwise nothing is known of what it computes."""
    block = op.regions[0].blocks[0]
    induction = block.args[0]
    if not as_often(op, found):
        _anything(op, found)
        return
    lower, _, step = (found.get(value.id, Parity.OTHER) for value in op.operands[:3])
    made = lower if step is Parity.EVEN else Parity.SAME
    found[induction.id] = _join(found.get(induction.id), made)
    for one in carries(op):
        found[one.arg.id] = _join(found.get(one.arg.id), found.get(one.init.id, Parity.OTHER))
    _block(block, found, even)
    for one in carries(op):
        found[one.arg.id] = _join(found[one.arg.id], found.get(one.yielded.id, Parity.OTHER))
    for result, arg in final(op):
        found[result.id] = _join(found.get(result.id), found[arg.id])


def as_often(op: Op, found: Mapping[int, Parity]) -> bool:
    """Whether a loop has as many iterations in both programs: its bounds are the same, or it goes from 2 q
    and 2 q + 1 in even steps to an even end."""
    bounds = [found.get(value.id, Parity.OTHER) for value in op.operands[:3]]
    return all(one in COMMON for one in bounds) or bounds == [Parity.PAIR, Parity.EVEN, Parity.EVEN]


def _if(op: Op, found: dict[int, Parity], even: frozenset[int]) -> None:
    blocks = [region.blocks[0] for region in op.regions if region.blocks]
    for block in blocks:
        _block(block, found, even)
    same = found.get(op.operands[0].id) in COMMON
    for position, result in enumerate(op.results):
        for block in blocks:
            value = found.get(block.ops[-1].operands[position].id, Parity.OTHER)
            found[result.id] = _join(found.get(result.id), value if same else Parity.OTHER)


def _anything(op: Op, found: dict[int, Parity]) -> None:
    for inner in (op, *op.inner()):
        values = [*inner.results, *(arg for r in inner.regions for b in r.blocks for arg in b.args)]
        found.update((value.id, Parity.OTHER) for value in values)


def assumptions(code: Code, show: Callable[[frozenset[int]], object]) -> tuple[int, ...]:
    """Numbers, by value id, that follow from the arguments of a launch, and must be even: the fewest of the
    quotients (numbers of tiles) with which `show` raises nothing. Raises the TwillError of `show` where none
    suffice."""
    try:
        show(frozenset())
    except TwillError:
        needed = quotients(code)
        if not _shown(show, frozenset(needed)):
            raise
        for value in needed:
            rest = tuple(one for one in needed if one != value)
            needed = rest if _shown(show, frozenset(rest)) else needed
        return needed
    return ()


def quotients(code: Code) -> tuple[int, ...]:
    """The values, by id, that the host can compute by a division: numbers of tiles."""
    return tuple(op.result.id for op in _of_arguments(code) if role(op) == "divide")


def _of_arguments(code: Code) -> Iterator[Op]:
    """The operations on scalars that the host can execute."""
    known = {value.id for value in code.function.args}
    for op in _unconditional(code.function.body.blocks[0]) if code.function.body else ():
        row = lookup(op.name)
        pure = row is not None and repeatable(row, op) and not op.regions and role(op) not in _OF_PROGRAM
        if pure and all(value.id in known for value in op.operands):
            known |= {value.id for value in op.results}
            if op.operands and all(isinstance(value.type, Scalar) for value in op.results):
                yield op


def _unconditional(block: Block) -> Iterator[Op]:
    """The operations of a block and of the loops in it: a kernel made persistent has its own in a loop."""
    for op in block.ops:
        yield op
        if role(op) == "for":
            yield from _unconditional(op.regions[0].blocks[0])


_OF_PROGRAM = ("program_id", "num_programs", "pointer_load")


def _shown(show: Callable[[frozenset[int]], object], even: frozenset[int]) -> bool:
    try:
        show(even)
    except TwillError:
        return False
    return True


def parents(code: Code) -> Mapping[int, Op]:
    """By operation: the one around it."""
    return {inner.index: op for op in code.function.walk() for inner in _directly(op)}


def _directly(op: Op) -> list[Op]:
    return [inner for region in op.regions for block in region.blocks for inner in block.ops]


def differing(op: Op, found: Mapping[int, Parity], around: Mapping[int, Op]) -> Op | None:
    """The innermost loop or condition around an operation that the programs may execute differently often;
    None where both execute the operation equally often."""
    outer = around.get(op.index)
    while outer is not None and _alike(outer, found):
        outer = around.get(outer.index)
    return outer


def _alike(op: Op, found: Mapping[int, Parity]) -> bool:
    if role(op) == "for":
        return as_often(op, found)
    return role(op) == "if" and found.get(op.operands[0].id) in COMMON
