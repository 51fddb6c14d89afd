"""MMAs outside of counted loops as loops of one iteration.

Scheduling and lowering work on counted loops. Code with MMAs that none repeats, or that a `while` loop
repeats, is scheduled as a loop of one iteration, so its tiles are loaded, staged and awaited by the same
rules. Takes a module; gives the same with an `scf.for` of one iteration around the MMAs of each stretch of
code between loops, with the tiles that feed them and all that depends on these. What the stretch computes
otherwise stands before the loop, and its results leave it as carried values. Lines stay where they are,
except for operations moved before the loop.
"""

from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from twill.extract.dependence.loops import LOOPS
from twill.extract.dependence.tiles import registers_of
from twill.extract.rewrite.text.edits import UNKNOWN, Edit, blanked, constant, edited, text_of
from twill.extract.rewrite.text.type_text import type_text, zero_text
from twill.ir.loop import Block, DotOperand, Function, MemDesc, Module, NvidiaMma, Op, Tensor, Token, Value
from twill.ir.problem import Limits
from twill.ir.slicing import all_operands, backward_slice
from twill.ops.row import Role
from twill.ops.table import is_mma, lookup, named, names, repeatable, role, writes_global

_MMAS: frozenset[Role] = frozenset({"wgmma", "dot", "tensor_memory_mma"})
WARPGROUPS = 3
"""The version of the MMAs of warpgroups: its operands in registers are in one thread each."""
TOKEN = "!ttg.async.token"
_VIEWS: frozenset[Role] = frozenset({"buffer_transpose", "buffer_reshape"})
_LOADS: frozenset[Role] = frozenset({"pointer_load", "tma_load"})


def in_loops(module: Module) -> Module:
    """The module itself where every MMA is in a loop."""
    edits = list[Edit]()
    for function in module.functions:
        for number, stretch in enumerate(_stretches(function)):
            edits += _edits(module, function, *stretch, number)
    return edited(module, edits) if edits else module


# --- where --------------------------------------------------------------------------------------------------


def _stretches(function: Function) -> Iterator[tuple[tuple[Op, ...], Op]]:
    """Operations that follow each other outside of innermost loops, from the first tile of an MMA to the last
    MMA, or to where its result is loaded from tensor memory; and the operation behind them."""
    for block in function.body.blocks if function.body else ():
        for straight in (part for whole in _straight(block) for part in _fitting(whole)):
            stretch = _around_mmas(straight[:-1])
            if stretch:
                yield stretch, straight[len(straight) - straight[::-1].index(stretch[-1])]


def _straight(block: Block) -> Iterator[tuple[Op, ...]]:
    """The stretches of a block, and of blocks in it, between loops and branches with loops or MMAs; each with
    the operation behind it."""
    run = list[Op]()
    for op in block.ops:
        if role(op) not in LOOPS and not any(role(inner) in LOOPS or is_mma(inner) for inner in op.inner()):
            run.append(op)
            continue
        yield (*run, op)
        run = []
        if role(op) != "for" or any(role(inner) in LOOPS for inner in op.inner()):
            for inner in (block for region in op.regions for block in region.blocks):
                yield from _straight(inner)
    yield tuple(run)


def _fitting(straight: tuple[Op, ...]) -> Iterator[tuple[Op, ...]]:
    """A stretch whole, or cut behind stores where a thread has no registers for all accumulators at once and
    no MMA behind the store follows from one before it; each part with the operation behind it. (vLLM's
    relative projections: four products with a common operand, each of which is stored.)"""
    sums = (op.results[0] for op in straight if role(op) in _MMAS and op.results)
    if sum(map(registers_of, sums)) <= Limits().registers_per_thread:
        yield straight
        return
    begin, made = 0, set[int]()
    for i, op in enumerate(straight[:-1]):
        if role(op) in _MMAS or any(value.id in made for value in all_operands(op)):
            made |= {value.id for value in op.results}
        if role(op) == "pointer_store" and made and _apart(straight[i + 1 :], made):
            yield straight[begin : i + 2]
            begin, made = i + 1, set[int]()
    yield straight[begin:]


def _apart(behind: Sequence[Op], made: Container[int]) -> bool:
    """Whether there are MMAs among these operations, and none follows from values that are `made` before."""
    mmas = [one for one in behind if role(one) in _MMAS]
    needed = _needed(behind, mmas)
    used = (value.id for one in behind if one.index in needed for value in all_operands(one))
    return bool(mmas) and not any(value in made for value in used)


def _around_mmas(straight: tuple[Op, ...]) -> tuple[Op, ...]:
    mmas = [i for i, op in enumerate(straight) if role(op) in _MMAS]
    if not mmas:
        return ()
    needed = _needed(straight, [straight[i] for i in mmas])
    first = next(i for i, op in enumerate(straight) if op.index in needed and _begins(op))
    written = {straight[i].operands[2].id for i in mmas}
    loads = [i for i, op in enumerate(straight) if _loads_one(op, written)]
    return straight[first : max(mmas[-1], *loads, 0) + 1]


def _loads_one(op: Op, buffers: Set[int]) -> bool:
    """It loads a buffer of tensor memory."""
    return role(op) == "tensor_memory_load" and op.operands[0].id in buffers


def _begins(op: Op) -> bool:
    """A tile comes from memory, or an MMA starts."""
    tile = any(isinstance(value.type, Tensor) and len(value.type.shape) > 1 for value in op.results)
    return role(op) in (*_MMAS, "alloc", "tensor_memory_alloc") or (role(op) in _LOADS and tile)


def _needed(ops: Sequence[Op], roots: Iterable[Op]) -> set[int]:
    """The operations that the roots need, by index."""
    makers = {value.id: op for op in ops for value in op.results}
    found = {op.index: op for op in roots}
    used = (value for op in found.values() for value in all_operands(op))
    return {*found, *backward_slice(used, lambda value: makers.get(value.id), all_operands)}


# --- what stays in the loop -------------------------------------------------------------------------------


def _shared(function: Function, stretch: tuple[Op, ...]) -> set[int]:
    """The operations, by index, that make buffers which are read after the stretch too: they stand before the
    loop, which can not hand on a buffer."""
    inside = {inner.index for op in stretch for inner in (op, *op.inner())}
    read = {value.id for op in function.walk() if op.index not in inside for value in op.operands}
    buffers = (op for op in stretch if any(isinstance(v.type, MemDesc) and v.id in read for v in op.results))
    return _needed(stretch, buffers)


def _staying(stretch: tuple[Op, ...], shared: set[int]) -> tuple[Op, ...]:
    """The operations of the loop: the tiles of its MMAs, what depends on them, and what can not be moved."""
    needed = _needed(stretch, (op for op in stretch if role(op) in _MMAS))
    made, found, ordered = set[int](), list[Op](), False
    for op in stretch:
        used = {value.id for value in all_operands(op)}
        own = op.index in needed and (_begins(op) or _repeats(op))
        allocates = role(op) in ("alloc", "tensor_memory_alloc")
        if op.index in shared and not used & made and (allocates or _moves(op, ordered=ordered)):
            continue
        if own or used & made or not _moves(op, ordered=ordered):
            made |= {value.id for value in op.results}
            found.append(op)
        ordered = ordered or any(writes_global(inner) for inner in (op, *op.inner()))
    return tuple(found)


def _repeats(op: Op) -> bool:
    """It hands an MMA of warps, or a dot without a tensor core, a tile that several threads hold each element
    of: before the loop, a thread would keep all such tiles at once, in more registers than it has of what
    they are made from."""
    kind = op.result.type if role(op) == "layout" else None
    form = kind.encoding if isinstance(kind, Tensor) else None
    if not isinstance(form, DotOperand):
        return False
    return not isinstance(form.parent, NvidiaMma) or form.parent.version[0] < WARPGROUPS


def _moves(op: Op, *, ordered: bool) -> bool:
    """It may stand before the loop; loads only where nothing before them in it writes memory (`ordered`)."""
    row = lookup(op.name)
    if row is None or op.regions or role(op) == "alloc" or (ordered and role(op) in _LOADS):
        return False
    return repeatable(row, op) or role(op) in ("constant", "descriptor", "assume", "tma_load")


# --- the text ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """A value that is read after the loop."""

    value: Value
    type: str
    begin: str
    """What the loop begins with: a constant of zero, or the name of the token from before the loop."""


def _edits(
    module: Module, function: Function, stretch: tuple[Op, ...], following: Op, number: int
) -> Iterator[Edit]:
    staying = _staying(stretch, _shared(function, stretch))
    staged = _staged_again(function, staying)
    behind = {op.index for op in staged} - _read_inside(staying, staged)
    staying = tuple(op for op in staying if op.index not in behind)
    again = (*_loaded_again(function, staying), *staged)
    kept = _kept(module, function, staying, again)
    if kept is None:
        return
    inside = {op.index for op in staying}
    moved = [op for op in stretch if op.index not in inside | behind]
    prefix = f"%twill_once{number}"
    before = "".join(f"{text_of(module, op)} {UNKNOWN} " for op in moved)
    begin = stretch[0].span.start
    yield Edit(begin, begin, before + _head(prefix, kept))
    for op, after in zip(stretch, (*stretch[1:], following), strict=True):
        if op.index not in inside:
            yield blanked(module, op.span.start, after.span.start)
    end = following.span.start
    yield Edit(end, end, _tail(kept) + "".join(f"{text_of(module, op)} {UNKNOWN} " for op in again))


def _read_after(function: Function, staying: Sequence[Op]) -> set[int]:
    """The values that other operations read than those of the loop."""
    inside = {inner.index for op in staying for inner in (op, *op.inner())}
    return {value.id for op in function.walk() if op.index not in inside for value in op.operands}


def _loaded_again(function: Function, staying: Sequence[Op]) -> tuple[Op, ...]:
    """The tiles that are read after the loop too, and are loaded again there: in the loop the loading group
    has them, and what a loop carries stays in the group that reads it. Only where the loop writes no
    memory."""
    if any(writes_global(inner) for op in staying for inner in (op, *op.inner())):
        return ()
    read, made = _read_after(function, staying), {value.id for op in staying for value in op.results}
    loads = (op for op in staying if role(op) in _LOADS and any(value.id in read for value in op.results))
    return tuple(op for op in loads if not any(value.id in made for value in op.operands))


def _staged_again(function: Function, staying: Sequence[Op]) -> tuple[Op, ...]:
    """What stages computed tiles that MMAs after the loop read, with views of these buffers: a loop hands on
    tiles in registers, not buffers."""
    read, found = _read_after(function, staying), list[Op]()
    for op in reversed(staying):
        staged = role(op) == "alloc" and op.operands and all(isinstance(v.type, Tensor) for v in op.operands)
        if (staged or role(op) in _VIEWS) and any(value.id in read for value in op.results):
            read |= {value.id for value in op.operands}
            found.append(op)
    return tuple(found[::-1])


def _read_inside(staying: Sequence[Op], staged: Sequence[Op]) -> set[int]:
    """Those of the staged tiles, by index, that the loop reads too."""
    views = {op.index for op in staged}
    read = {
        value.id
        for op in staying
        if op.index not in views
        for one in (op, *op.inner())
        for value in one.operands
    }
    found = set[int]()
    for op in reversed(staged):
        if any(value.id in read for value in op.results):
            read |= {value.id for value in op.operands}
            found.add(op.index)
    return found


def _kept(
    module: Module, function: Function, staying: Sequence[Op], again: Sequence[Op]
) -> tuple[_Kept, ...] | None:
    """None where a value that is read after the loop can not be carried out of it."""
    read = _read_after(function, staying) | {value.id for op in again for value in op.operands}
    read -= {value.id for op in again for value in op.results}
    found = list[_Kept]()
    for value in (value for op in staying for value in op.results if value.id in read):
        ordering = isinstance(value.type, Token)
        kind = TOKEN if ordering else type_text(module, value.type)
        begin = _token_before(staying, value) if ordering else zero_text(module, value.type)
        if kind is None or begin is None or "#" in value.name:
            return None
        found.append(_Kept(value, kind, begin))
    return tuple(found)


def _token_before(staying: Sequence[Op], value: Value) -> str | None:
    """The token from before the loop that a token of it follows; None where its buffer is the loop's own."""
    makers = {made.id: op for op in staying for made in op.results}
    while (maker := makers.get(value.id)) is not None:
        before = next((one for one in maker.operands if isinstance(one.type, Token)), None)
        if before is None or "#" in before.name:
            return None
        value = before
    return value.name


def _head(prefix: str, kept: Sequence[_Kept]) -> str:
    """Constants and the loop's header. Results keep the names that the values have inside."""
    bounds = [f"{prefix}_{name} = {constant(number, 'i32')}" for name, number in (("lower", 0), ("upper", 1))]
    zeros = [
        f"{prefix}_zero{i} = {named('constant')} {one.begin}"
        for i, one in enumerate(kept)
        if not isinstance(one.value.type, Token)
    ]
    pairs = ", ".join(
        f"{prefix}_arg{i} = {one.begin if isinstance(one.value.type, Token) else f'{prefix}_zero{i}'}"
        for i, one in enumerate(kept)
    )
    types = ", ".join(one.type for one in kept)
    results = ", ".join(one.value.name for one in kept)
    carried = f"iter_args({pairs}) -> ({types}) " if kept else ""
    loop = (
        f"{f'{results} = ' if kept else ''}{named('for')} {prefix} = {prefix}_lower to {prefix}_upper"
        f" step {prefix}_upper {carried} : i32 {{ "
    )
    return "".join(f"{line} {UNKNOWN} " for line in (*bounds, *zeros)) + loop


def _tail(kept: Sequence[_Kept]) -> str:
    values, types = ", ".join(one.value.name for one in kept), ", ".join(one.type for one in kept)
    word = names("yield")[0]
    yielded = f"{word} {values} : {types}" if kept else word
    return f"{yielded} {UNKNOWN} }} {UNKNOWN} "
