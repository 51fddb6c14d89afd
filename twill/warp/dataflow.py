"""The code of a function as lowering sees it: who makes a value, what must be computed for one, and under
which name it is kept.

Takes a `Function`; gives cones (the operations behind some operands, down to values that have a location),
registers' names, and refusals that point at the operation. Nothing here knows of schedules.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twill.diagnostics import DefectError, TwillError
from twill.ir.loop import (
    Block,
    Carried,
    Function,
    Loop,
    MemDesc,
    Module,
    Op,
    Scalar,
    Tensor,
    Token,
    Type,
    Value,
    users_of,
)
from twill.ir.names import value_names
from twill.ir.slicing import backward_slice
from twill.ops.mma import inputs
from twill.ops.row import Role
from twill.ops.table import is_elementwise, lookup, named, names, repeatable, role

LOAD, ALLOC, DOT = (named(role) for role in ("tma_load", "alloc", "wgmma"))
MMAS = frozenset(names("wgmma", "tensor_memory_mma"))
"""MMAs that are issued asynchronously: into registers, into tensor memory."""
TENSOR_MEMORY = frozenset(names("tensor_memory_alloc", "tensor_memory_store", "tensor_memory_load"))
"""Operations by which threads read and write tensor memory."""
STORES = frozenset(names("tma_store", "tma_reduce"))
EFFECTS = STORES | frozenset(names("pointer_store", "atomic", "atomic_exchange"))
"""Operations that write global memory: executed exactly once."""
IMPLICIT = frozenset(names("constant", "descriptor"))
"""Their results need no location: see `ir.program`."""
NOTHING = frozenset(names("assume", "barrier"))
"""Facts for a compiler, and barriers of a block that writes nothing before them (`non_loop_code.refusals`):
nothing is executed."""
BUFFER_VIEWS: frozenset[Role] = frozenset({"buffer_transpose", "buffer_reshape"})
"""Other views of a whole buffer."""
_FREE: frozenset[Role] = frozenset({*BUFFER_VIEWS, "expand", "broadcast", "splat", "alloc"})
"""They move nothing."""


_PLACED: tuple[Role, ...] = ("range", "constant", "address", "splat", "broadcast", "expand", "layout")
"""They make indices, or change no element of what follows from them."""


def stored_tile(op: Op) -> Tensor:
    """What an operation of `STORES` writes."""
    return next(value.type for value in op.operands if isinstance(value.type, Tensor))


@dataclass(frozen=True, slots=True)
class Code:
    """A function with its operations and values by number."""

    module: Module
    function: Function
    ops: Mapping[int, Op]
    users: Mapping[int, tuple[Op, ...]]
    """By value id: the operations that have it as operand."""
    names: Mapping[int, str]
    """By value id: `ir.names`."""
    copies: Mapping[int, int] = field(default_factory=dict[int, int])
    """By the index of a `tt.load` that asynchronous copies execute: bytes of each copy by a thread, 0 for one
    bulk copy."""
    across: frozenset[int] = frozenset()
    """Of these, the ones whose copies go along the columns of a tile."""
    through_registers: Mapping[int, int] = field(default_factory=dict[int, int])
    """Of the loads in `copies`, those whose tiles pass through registers: the dimension along which
    consecutive threads read. `copies` has the bytes of each access."""
    scattered: frozenset[int] = frozenset()
    """Of the loads in `copies`, vectors of words that do not lie next to each other (`warp.words_apart`)."""
    repeated: Mapping[int, int] = field(default_factory=dict[int, int])
    """Of the loads in `copies`, those that bring equal rows once: how many rows of the tile are one."""
    carried: Mapping[int, tuple[Value, ...]] = field(default_factory=dict[int, tuple[Value, ...]])
    """What arguments and results of loops, and results of branches, follow from, by value id: initial and
    yielded values, conditions and bounds."""
    moved: frozenset[int] = frozenset()
    """Values that become such an argument or result, by id."""
    reloaded: frozenset[int] = frozenset()
    """Loads of index tiles, by the index of the operation, which every reader executes again."""
    resident: frozenset[int] = frozenset()
    """Buffers that are filled before the loops which read them (`warp.resident`), by value id."""
    added_to: frozenset[int] = frozenset()
    """Tiles that MMAs add to, by value id: no indices, even where they are integers."""

    def rematerialized(self, op: Op) -> bool:
        """Tiles of indices, conditions and pointers: each reader computes, or loads, the few that its threads
        need."""
        index = addressing(op) and not any(value.id in self.added_to for value in op.results)
        return index or op.index in self.reloaded

    def loads(self, op: Op) -> bool:
        """It brings a tile to shared memory: by TMA, by copies, or through the registers of threads."""
        return op.name == LOAD or op.index in self.copies

    def copied(self, value: Value) -> bool:
        """The threads of a group bring it to shared memory, each by copies of its own."""
        return value.producer is not None and self.copies.get(value.producer, 0) > 0

    def maker(self, value: Value) -> Op | None:
        """The operation that defines a value; None for arguments of blocks and of the function."""
        return None if value.producer is None else self.ops[value.producer]

    def refuse(self, what: str, op: Op, help: str | None = None) -> TwillError:
        """An error that shows the operation's line."""
        return TwillError(what, op.location, text=self._line(op), help=help)

    def defect(self, what: str, op: Op) -> DefectError:
        """The same, of what Twill has made of the operation."""
        return DefectError(what, op.location, text=self._line(op))

    def _line(self, op: Op) -> str:
        return self.module.text.splitlines()[op.location.line - 1]


@dataclass(frozen=True, slots=True)
class Carry:
    """A value that a loop hands from one iteration to the next."""

    arg: Value
    init: Value
    yielded: Value


def read(module: Module, function: Function) -> Code:
    """Index a function."""
    ops = {op.index: op for op in function.walk()}
    users = users_of(ops.values())
    return Code(
        module,
        function,
        ops,
        {value: tuple(found) for value, found in users.items()},
        value_names(function),
        carried={one.id: sources for op in ops.values() for one, sources in _sources(op)},
        moved=frozenset(value.id for op in ops.values() for value in _moved(op)),
        added_to=frozenset(op.operands[2].id for op in ops.values() if role(op) in ("wgmma", "dot")),
    )


def carries(op: Op) -> tuple[Carry, ...]:
    """What a loop carries, one by one: for an `scf.while` what its first region reads."""
    match role(op):
        case "for":
            block = op.regions[0].blocks[0]
            return tuple(map(Carry, block.args[1:], op.operands[3:], _last(block)))
        case "while":
            before, after = (region.blocks[0] for region in op.regions)
            return tuple(map(Carry, before.args, op.operands, _last(after)))
        case _:
            return ()


def passed(op: Op) -> tuple[tuple[Value, Value], ...]:
    """Of an `scf.while`: what its second region reads, and what that is in the first."""
    if role(op) != "while":
        return ()
    before, after = (region.blocks[0] for region in op.regions)
    return tuple(zip(after.args, before.ops[-1].operands[1:], strict=False))


def final(op: Op) -> tuple[tuple[Value, Value], ...]:
    """The results of a loop that is executed as it stands, and the arguments that hold them then."""
    args = [one.arg for one in carries(op)] if role(op) == "for" else [arg for arg, _ in passed(op)]
    return tuple(zip(op.results, args, strict=False))


def selected(op: Op) -> tuple[tuple[Value, tuple[Value, ...]], ...]:
    """The results of a branch with statements of its own, and what its sides yield for each."""
    if not branching(op):
        return ()
    sides = [_last(region.blocks[0]) for region in op.regions if region.blocks]
    return tuple(zip(op.results, zip(*sides, strict=True), strict=True)) if op.results else ()


def branching(op: Op) -> bool:
    """An `scf.if` whose sides are no plain arithmetic: with loops, TMA loads, or writes to memory."""
    return role(op) == "if" and any(
        role(inner) in ("for", "while") or inner.name in EFFECTS | {LOAD, DOT} for inner in op.inner()
    )


def _moved(op: Op) -> Iterable[Value]:
    """What becomes another value where a loop or a branch begins or ends."""
    for one in carries(op):
        yield from (one.init, one.yielded)
    yield from (source for _, source in passed(op))
    yield from (source for _, sources in selected(op) for source in sources)


def _last(block: Block) -> tuple[Value, ...]:
    """What a block yields."""
    return block.ops[-1].operands if block.ops and role(block.ops[-1]) == "yield" else ()


def _sources(op: Op) -> Iterable[tuple[Value, tuple[Value, ...]]]:
    for result, sources in selected(op):
        yield result, (*sources, op.operands[0])
    if role(op) not in ("for", "while"):
        return
    deciding = op.operands[:3] if role(op) == "for" else op.regions[0].blocks[0].ops[-1].operands[:1]
    for one in carries(op):
        yield one.arg, (one.init, one.yielded, *deciding)
    for arg, source in passed(op):
        yield arg, (source, *deciding)
    for result, arg in final(op):
        yield result, (arg,)


def pure(op: Op) -> bool:
    """It may be executed anywhere, and more than once."""
    found = lookup(op.name)
    return (
        found is not None and repeatable(found, op) and not any(inner.name in EFFECTS for inner in op.inner())
    )


def cheap(op: Op) -> bool:
    """It moves nothing, or computes scalars: a reader rematerializes its result."""
    scalar = (
        pure(op)
        and not op.regions
        and role(op) != "pointer_load"
        and all(not _tile(value) for value in op.results)
    )
    return role(op) in _FREE or scalar


def addressing(op: Op) -> bool:
    """Tiles of integers, conditions or pointers, computed from others: each reader computes the few that its
    threads need."""
    known = pure(op) and not op.regions and role(op) != "pointer_load"
    return known and all(_tile(value) and not _number(value.type) for value in op.results)


def placed(code: Code, value: Value) -> bool:
    """Whether a tile is a constant, or one of indices, conditions or pointers that follows from places in it
    and from scalars alone: every thread computes the elements that it needs, in any layout."""
    made = backward_slice((value,), lambda one: code.maker(one) if _tile(one) else None)
    tiles = [one for op in made.values() for one in (*op.operands, *op.results) if _tile(one)]
    computed = bool(made) and all(role(op) in _PLACED or is_elementwise(op) for op in made.values())
    numbers = (one for op in made.values() for one in op.results if role(op) != "constant")
    return computed and not any(_number(one.type) for one in numbers) and all(map(code.maker, tiles))


def _number(type: Type) -> bool:
    """A tile of floating point numbers."""
    return isinstance(type, Tensor) and isinstance(type.dtype, Scalar) and not type.dtype.name.startswith("i")


def _tile(value: Value) -> bool:
    return bool(getattr(value.type, "shape", ()))


def in_tensor_memory(type: Type) -> bool:
    """A buffer in tensor memory."""
    return isinstance(type, MemDesc) and type.space == "tmem"


def _computed(op: Op) -> tuple[Value, ...]:
    """The operands that are computed or loaded: neither tokens nor buffers of tensor memory, nor the flags of
    operations on these, which are part of the statement."""
    match role(op):
        case "tensor_memory_mma":
            values = inputs(op)
        case "tensor_memory_store":
            values = op.operands[-2:-1]
        case "tensor_memory_load":
            values = ()
        case _:
            values = op.operands
    return tuple(v for v in values if not isinstance(v.type, Token) and not in_tensor_memory(v.type))


def kept_carried(code: Code, loop: Loop) -> tuple[Carried, ...]:
    """What a loop carries in registers: neither tokens nor flags that only say whether an MMA adds."""
    return tuple(
        carried
        for carried in loop.carried
        if not isinstance(carried.arg.type, Token) and not _only_flag(code, carried.arg)
    )


def _only_flag(code: Code, value: Value) -> bool:
    users = code.users.get(value.id, ())
    return bool(users) and all(
        role(user) == "tensor_memory_mma" and value.id not in {v.id for v in user.operands[:-2]}
        for user in users
    )


def captured(op: Op) -> tuple[Value, ...]:
    """Its operands that are computed or loaded, and the values that its regions use from outside."""
    inside = {result.id for inner in op.inner() for result in inner.results}
    inside |= {arg.id for region in op.regions for block in region.blocks for arg in block.args}
    inside |= {
        arg.id
        for inner in op.inner()
        for region in inner.regions
        for block in region.blocks
        for arg in block.args
    }
    used = [*_computed(op), *(operand for inner in op.inner() for operand in _computed(inner))]
    return tuple({value.id: value for value in used if value.id not in inside}.values())


def cone(
    code: Code, roots: Iterable[Op], located: Callable[[Value], bool]
) -> tuple[tuple[int, ...], tuple[Value, ...]]:
    """Everything to execute, in the order of the text, for `roots`, and the values with a location of their
    own that it reads.

    Raises TwillError where something needed can not be rematerialized.
    """
    todo, ops, leaves = list(roots), dict[int, Op](), dict[int, Value]()
    ops.update((op.index, op) for op in todo)
    while todo:
        for value in captured(todo.pop()):
            maker = code.maker(value)
            if maker is not None and maker.index in ops:
                continue
            if located(value):
                leaves[value.id] = value
                continue
            if maker is None or maker.name in IMPLICIT:
                continue
            if not pure(maker):
                raise code.refuse(f"the result of {maker.name} can not be used here", maker)
            ops[maker.index] = maker
            todo.append(maker)
    return tuple(sorted(ops)), tuple(leaves[key] for key in sorted(leaves))


def loaded(code: Code, value: Value) -> Op | None:
    """The load that brings a value to shared memory asynchronously: of a tile as loaded, or the buffer it was
    to be copied to."""
    maker = code.maker(value)
    if maker is not None and maker.name == ALLOC and maker.operands:
        maker = code.maker(maker.operands[0])
    return maker if maker is not None and code.loads(maker) else None


def zero(code: Code, value: Value) -> bool:
    """A constant tile of zeros, of numbers with a point or whole ones."""
    maker = code.maker(value)
    if maker is None or role(maker) != "constant":
        return False
    return any(zeros in _text(code, maker) for zeros in ("dense<0.000000e+00>", "dense<0>"))


def invariant(code: Code, loop: Loop, value: Value) -> bool:
    """The same in every iteration: a constant, or computed before the loop. An MMA that adds to it needs a
    copy each time."""
    maker = code.maker(value)
    if maker is None:
        return all(carried.arg.id != value.id for carried in loop.carried)
    return maker.name in IMPLICIT or all(op.index != maker.index for op in loop.op.inner())


def _text(code: Code, op: Op) -> str:
    return code.module.text[op.span.start : op.span.end]


def blocks(function: Function) -> Mapping[int, Block]:
    """The block that holds each operation, by the operation's index."""
    found: dict[int, Block] = {}

    def visit(block: Block) -> None:
        for op in block.ops:
            found[op.index] = block
            for region in op.regions:
                for inner in region.blocks:
                    visit(inner)

    for block in function.body.blocks if function.body else ():
        visit(block)
    return found


# --- names of registers -----------------------------------------------------------------------------------


def variables(code: Code, loops: Iterable[Loop]) -> Mapping[int, str]:
    """The variable that keeps each value, by value id: values updated in place and carried around a loop
    share one."""
    values = [
        value
        for op in code.ops.values()
        for value in (*op.results, *(arg for r in op.regions for b in r.blocks for arg in b.args))
    ]
    values += code.function.args
    leader = {value.id: value.id for value in values}

    def find(value: int) -> int:
        while leader[value] != value:
            value = leader[value]
        return value

    for one, other in _combined(code, tuple(loops)):
        leader[find(other.id)] = find(one.id)
    members: dict[int, list[Value]] = {}
    for value in sorted(values, key=lambda value: value.id):
        members.setdefault(find(value.id), []).append(value)
    return _named(code, members.values())


def _combined(code: Code, loops: tuple[Loop, ...]) -> Iterable[tuple[Value, Value]]:
    results = {carried.result.id for loop in loops for carried in loop.carried}
    scheduled = {loop.op.index for loop in loops}
    for op in code.ops.values():
        if op.index not in scheduled:
            yield from final(op)
            yield from _through(code, op, loops)
    for loop in loops:
        for carried in loop.carried:
            yield carried.arg, carried.yielded
            yield carried.arg, carried.result
            if carried.init.id in results and len(code.users.get(carried.init.id, ())) == 1:
                yield carried.arg, carried.init
        for op in loop.ops:
            if (
                op.name == DOT
                and not zero(code, op.operands[2])
                and not invariant(code, loop, op.operands[2])
            ):
                yield op.operands[2], op.result


def _through(code: Code, op: Op, loops: tuple[Loop, ...]) -> Iterable[tuple[Value, Value]]:
    """What a loop hands through a scheduled loop in it, and nothing else reads: one variable holds it."""
    within = {carried.result.id: (loop, carried) for loop in loops for carried in loop.carried}
    for one in carries(op):
        loop, carried = within.get(one.yielded.id, (None, None))
        if loop is None or carried is None or carried.init is not one.arg:
            continue
        if code.users[one.arg.id] == (loop.op,) and len(code.users[carried.result.id]) == 1:
            yield one.arg, carried.arg


def _named(code: Code, classes: Iterable[list[Value]]) -> Mapping[int, str]:
    firsts = (
        (members, min(members, key=lambda value: (value.producer is not None, value.id)))
        for members in classes
    )
    return {value.id: code.names[first.id] for members, first in firsts for value in members}


def into_shared(ops: Sequence[Op], slots: Collection[int]) -> frozenset[int]:
    """Of operations that are executed together, the changes of a layout on the way into shared memory, which
    takes a tile in any layout: what only an allocation reads, and the values that go to `slots`."""
    readers = users_of(ops)
    return frozenset(
        op.index
        for op in ops
        if role(op) == "layout" and _only_stored(readers.get(op.result.id, []), op.result.id in slots)
    )


def _only_stored(readers: Sequence[Op], slot: bool) -> bool:
    return all(map(_allocates, readers)) if readers else slot


def _allocates(op: Op) -> bool:
    shared = role(op) != "tensor_memory_alloc"
    return shared and bool(op.results) and isinstance(op.results[0].type, MemDesc)
