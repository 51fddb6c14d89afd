"""Pairs of thread blocks: two neighbours along x whose MMAs are one of twice the rows (cta_group::2).

Each block of a pair executes a program of its own. Their MMAs have the same B, of which each block loads
half; the first block issues them for both. That is right where B, and how often each loop runs, is the same
in both programs. This module shows it from the values' dependence on the program id: a program and its
neighbour have ids 2 q and 2 q + 1 along x, and the number of programs there is even. Where that does not
suffice, it finds numbers of tiles that must be even too. The launcher refuses other numbers. Raises
TwillError, with the operation, where it can not be shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from twill.diagnostics import TwillError
from twill.ir.loop import GRID, Block, NvmmaShared, Op, Scalar, TensorDesc, Value
from twill.ops.mma import inputs
from twill.ops.table import lookup, repeatable, role
from twill.ops.values import shape_of
from twill.warp.channels import ALIGNMENT, ChannelPlan, bits
from twill.warp.dataflow import BUFFER_VIEWS, LOAD, MMAS, Code, carries, final
from twill.warp.tasks import Scheduled, Task

# --- how the programs of a pair differ --------------------------------------------------------------------


class Parity(Enum):
    """A value in the programs 2 q and 2 q + 1."""

    EVEN = "the same, and even"
    SAME = "the same"
    PAIR = "even and not negative, and one more"
    OTHER = "anything"


_JOINS = {frozenset({Parity.EVEN, Parity.SAME}): Parity.SAME}
_COMMON = (Parity.EVEN, Parity.SAME)


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


def _block(block: Block, found: dict[int, Parity], even: frozenset[int] = frozenset()) -> None:
    for op in block.ops:
        if any(value.id in even for value in op.results):
            continue
        if role(op) == "for":
            _for(op, found)
        elif role(op) == "if":
            _if(op, found)
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
        case "multiply", (one, other) if Parity.EVEN in (one, other) and {one, other} <= set(_COMMON):
            return Parity.EVEN
        case _:
            row = lookup(op.name)
            pure = row is not None and (repeatable(row, op) or role(op) == "descriptor")
            pure = pure and role(op) != "pointer_load"
            return Parity.SAME if pure and all(one in _COMMON for one in operands) else Parity.OTHER


def _for(op: Op, found: dict[int, Parity]) -> None:
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
    _block(block, found)
    for one in carries(op):
        found[one.arg.id] = _join(found[one.arg.id], found.get(one.yielded.id, Parity.OTHER))
    for result, arg in final(op):
        found[result.id] = _join(found.get(result.id), found[arg.id])


def as_often(op: Op, found: Mapping[int, Parity]) -> bool:
    """Whether a loop has as many iterations in both programs: its bounds are the same, or it goes from 2 q
    and 2 q + 1 in even steps to an even end."""
    bounds = [found.get(value.id, Parity.OTHER) for value in op.operands[:3]]
    return all(one in _COMMON for one in bounds) or bounds == [Parity.PAIR, Parity.EVEN, Parity.EVEN]


def _if(op: Op, found: dict[int, Parity]) -> None:
    blocks = [region.blocks[0] for region in op.regions if region.blocks]
    for block in blocks:
        _block(block, found)
    same = found.get(op.operands[0].id) in _COMMON
    for position, result in enumerate(op.results):
        for block in blocks:
            value = found.get(block.ops[-1].operands[position].id, Parity.OTHER)
            found[result.id] = _join(found.get(result.id), value if same else Parity.OTHER)


def _anything(op: Op, found: dict[int, Parity]) -> None:
    for inner in (op, *op.inner()):
        values = [*inner.results, *(arg for r in inner.regions for b in r.blocks for arg in b.args)]
        found.update((value.id, Parity.OTHER) for value in values)


# --- what each block loads half of ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Checked:
    """A kernel whose MMAs become those of pairs."""

    code: Code
    found: Mapping[int, Parity]
    parents: Mapping[int, Op]
    """By operation: the one around it."""


def halved(
    code: Code, channels: Sequence[ChannelPlan], loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]
) -> tuple[ChannelPlan, ...]:
    """The channels, with half of each B in the slots. Raises TwillError where the MMAs of a kernel can not be
    those of pairs."""
    inside = {index for _, tasks in loops for task in tasks for index in task.ops}
    for op in (one for one in code.ops.values() if one.name in MMAS and one.index not in inside):
        raise code.refuse("an MMA outside of the scheduled loops can not be that of a pair", op)
    axes = _axes(code, frozenset(assumptions(code)))
    _only_as_b(code, axes)
    return tuple(_halved(code, one, axes) if one.by_mma else one for one in channels)


def halved_loads(code: Code) -> frozenset[int]:
    """The loads, by `Op.index`, of which each block of a pair executes half: those of B. Raises TwillError
    as `halved`."""
    axes = _axes(code, frozenset(assumptions(code)))
    return frozenset(v.producer for v in _values(code) if v.id in axes and v.producer is not None)


def assumptions(code: Code) -> tuple[int, ...]:
    """Numbers, by value id, that follow from the arguments of a launch, and must be even: the fewest of the
    quotients (numbers of tiles) with which it can be shown that the programs of a pair have the same B.
    Raises TwillError where none suffice."""
    try:
        _axes(code, frozenset())
    except TwillError:
        quotients = [op.result.id for op in _of_arguments(code) if role(op) == "divide"]
        if not _shown(code, frozenset(quotients)):
            raise
        for value in list(quotients):
            rest = [one for one in quotients if one != value]
            quotients = rest if _shown(code, frozenset(rest)) else quotients
        return tuple(quotients)
    return ()


def _of_arguments(code: Code) -> Iterator[Op]:
    """The operations on scalars that the host can execute."""
    known = {value.id for value in code.function.args}
    for op in code.function.body.blocks[0].ops if code.function.body else ():
        row = lookup(op.name)
        pure = row is not None and repeatable(row, op) and not op.regions and role(op) not in _OF_PROGRAM
        if pure and all(value.id in known for value in op.operands):
            known |= {value.id for value in op.results}
            if op.operands and all(isinstance(value.type, Scalar) for value in op.results):
                yield op


_OF_PROGRAM = ("program_id", "num_programs", "pointer_load")


def _shown(code: Code, even: frozenset[int]) -> bool:
    try:
        _axes(code, even)
    except TwillError:
        return False
    return True


def _axes(code: Code, even: frozenset[int]) -> dict[int, int]:
    """Along which axis each tile is halved, by the id of the loaded value."""
    parents = {inner.index: op for op in code.function.walk() for inner in _directly(op)}
    checked, axes = _Checked(code, parities(code, even), parents), dict[int, int]()
    for op in (one for one in code.ops.values() if one.name in MMAS):
        _runs_alike(checked, op)
        value, axis = _loaded_b(checked, op)
        axes[value.id] = axis
    return axes


def _directly(op: Op) -> list[Op]:
    return [inner for region in op.regions for block in region.blocks for inner in block.ops]


def _runs_alike(checked: _Checked, op: Op) -> None:
    """All that is around it is executed equally often in both programs."""
    around = checked.parents.get(op.index)
    while around is not None:
        condition = checked.found.get(around.operands[0].id) if around.operands else None
        alike = (
            as_often(around, checked.found)
            if role(around) == "for"
            else role(around) == "if" and condition in _COMMON
        )
        if not alike:
            raise checked.code.refuse(
                "both thread blocks of a pair must execute it equally often, which can not be shown", around
            )
        around = checked.parents.get(around.index)


def _loaded_b(checked: _Checked, op: Op) -> tuple[Value, int]:
    """The loaded tile that is B of an MMA, and its axis along N."""
    code, value, axis = checked.code, inputs(op)[1], 1
    while (maker := code.maker(value)) is not None and role(maker) in BUFFER_VIEWS | {"alloc"}:
        if role(maker) == "buffer_transpose":
            axis = 1 - axis
        value = maker.operands[0]
    if maker is None or maker.name != LOAD or len(shape_of(maker.result.type)) != 2:
        raise code.refuse("B of an MMA of a pair must be a tile that TMA loads through a descriptor", op)
    if any(checked.found.get(one.id) not in _COMMON for one in maker.operands):
        raise code.refuse(
            "both thread blocks of a pair must load the same B, which can not be shown",
            maker,
            help="let neighbours along x, programs 2 q and 2 q + 1, compute tiles of the same columns"
            " (--persistent keeps that order)",
        )
    return value, axis


def _only_as_b(code: Code, axes: Mapping[int, int]) -> None:
    """No operation but MMAs, as B, reads what is halved, and no other load has the same descriptor."""
    for op in code.ops.values():
        if op.name in MMAS:
            others = [_origin(code, value) for value in (*inputs(op)[:1], *inputs(op)[2:])]
        elif role(op) in BUFFER_VIEWS | {"alloc"}:
            others = []
        else:
            others = list(op.operands)
        if any(value.id in axes for value in others):
            raise code.refuse("B of an MMA of a pair can not be read otherwise", op)
    halves = {
        code.ops[v.producer].operands[0].id for v in _values(code) if v.id in axes and v.producer is not None
    }
    for op in code.ops.values():
        shared = op.name == LOAD and op.result.id not in axes and op.operands[0].id in halves
        if shared or (role(op) in ("tma_store", "tma_reduce") and op.operands[0].id in halves):
            raise code.refuse("the descriptor of B of an MMA of a pair can not have other uses", op)


def _values(code: Code) -> list[Value]:
    return [value for op in code.ops.values() for value in op.results]


def _origin(code: Code, value: Value) -> Value:
    while (maker := code.maker(value)) is not None and role(maker) in BUFFER_VIEWS | {"alloc"}:
        if not maker.operands:
            break
        value = maker.operands[0]
    return value


def _halved(code: Code, plan: ChannelPlan, axes: Mapping[int, int]) -> ChannelPlan:
    """A channel that MMAs read: TMA fills it. What threads read too is filled again and again by loads of a
    loop, so that they can wait for it there."""
    values = [value for use in plan.sources for value in use]
    loads = [code.ops[value.producer] for value in values if value.producer is not None]
    at = loads[0] if loads else next(iter(code.ops.values()))
    if plan.filled_by != "tma" or any(op.name != LOAD for op in loads):
        raise code.refuse("operands of an MMA of a pair must be loaded by TMA through descriptors", at)
    if plan.by_threads and plan.once:
        raise code.refuse("a tile from before a loop can not be read by MMAs of a pair and by threads", at)
    offset, tensors = 0, list(plan.tensors)
    for i, tensor in enumerate(tensors):
        ways = {axes.get(use[i].id) for use in plan.sources}
        if len(ways) > 1:
            raise code.refuse("a tile is B of an MMA in one loop and something else in another", loads[i])
        axis = ways.pop()
        if axis is not None:
            _divisible(code, loads[i], axis)
        size = tensor.bytes // (1 if axis is None else 2)
        tensors[i] = replace(tensor, halved=axis, offset=offset, bytes=size)
        offset = -(-(offset + size) // ALIGNMENT) * ALIGNMENT
    return replace(plan, tensors=tuple(tensors))


def _divisible(code: Code, load: Op, axis: int) -> None:
    """Half of a tile consists of whole patterns of the swizzle."""
    kind = load.operands[0].type
    encoding = kind.encoding if isinstance(kind, TensorDesc) else None
    shape, line = (
        shape_of(load.result.type),
        encoding.swizzle_bytes if isinstance(encoding, NvmmaShared) else 0,
    )
    assert isinstance(kind, TensorDesc)
    whole = 16 if axis == 0 else 2 * line * 8 // bits(kind.dtype)
    if not line or shape[axis] % whole:
        raise code.refuse(f"half of a tile of {'x'.join(map(str, shape))} is no operand of an MMA", load)
