"""Code around the loops: which group executes what, what each must compute for itself, and the loads outside
of pipelined loops.

Takes the tasks of all loops; gives an `Outside`. Arithmetic is repeated in every group that needs it. What
writes memory is executed by the one group that holds the results it writes; loads through descriptors by the
group that loads in the loops.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from twill.diagnostics import TwillError
from twill.ir.loop import Function, Loop, Op, Value
from twill.ir.slicing import backward_slice
from twill.ops.row import Role
from twill.ops.table import role
from twill.warp import resident
from twill.warp.channels import ChannelPlan
from twill.warp.dataflow import (
    EFFECTS,
    IMPLICIT,
    LOAD,
    NOTHING,
    TENSOR_MEMORY,
    Code,
    blocks,
    captured,
    carries,
    kept_carried,
    loaded,
    pure,
    zero,
)
from twill.warp.disjoint import may_write
from twill.warp.slot_tensors import tensors
from twill.warp.tasks import Scheduled, Task

KEPT = 8
"""Functions whose loops are kept: layouts of shared memory ask for those of one again and again."""


@dataclass(frozen=True, slots=True, eq=False)
class NonLoopCode:
    """Who does what outside of the scheduled loops."""

    needs: Mapping[int, frozenset[int]]
    """By group: ids of the values that it computes, or reads from a location of its own."""
    owner: Mapping[int, int]
    """By the index of an operation that writes memory: its group."""
    channels: tuple[ChannelPlan, ...]
    """For loads and staged tiles outside of pipelined loops."""
    holders: Mapping[int, int]
    """By value id: the group that holds a loop's result."""
    leaves: Mapping[int, frozenset[int]]
    """By group: ids of the values from outside of the loops that its tasks read in them."""


def plan_non_loop_code(
    code: Code,
    loops: Sequence[tuple[Scheduled, tuple[Task, ...]]],
    groups: Sequence[int],
    loader: int,
    epilogue: int,
    fillers: Mapping[int, int],
) -> NonLoopCode:
    """`epilogue` is the group that stores what no group holds; by group that holds no tiles, `fillers` are
    those that stage tiles for it. Raises TwillError where what is stored is spread over several groups, or
    something can not be generated."""
    scheduled = {one.loop.op.index for one, _ in loops}
    inside = {op.index for one, _ in loops for op in one.loop.op.inner()}
    around = {one.loop.op.index: one.loop for one, _ in loops}
    holders = _holders(code, loops)
    plain = [op for op in code.ops.values() if op.index not in inside | scheduled]
    for refusal in refusals(code, plain, around):
        raise refusal
    writing = (op for op in plain if op.name in EFFECTS or writes_tensor_memory(op))
    owner = {op.index: _owner(code, op, holders, epilogue) for op in writing}
    leaves = {group: frozenset(value.id for value in _leaves(loops, group)) for group in groups}
    read = {group: _staged(code, group, leaves, fillers) for group in groups}
    owner |= _by_their_readers(code, loops, plain, owner, holders, read)
    needs = {group: _needs(code, read[group], group, loops, plain, owner, holders) for group in groups}
    for refusal in _foreign(code, needs, holders):
        raise refusal
    loads = [op for op in plain if op.name == LOAD]
    channels = tuple(channel for op in loads for channel in _channel(code, op, loader, needs))
    feeding = {op.index for op in loads}
    addresses = closed(code, (value for op in loads if op.index in feeding for value in op.operands), holders)
    channels = (*channels, *resident.channels(code, leaves, fillers))
    return NonLoopCode({**needs, loader: needs[loader] | addresses}, owner, channels, holders, leaves)


def _leaves(loops: Sequence[tuple[Scheduled, tuple[Task, ...]]], group: int) -> list[Value]:
    """What the tasks of a group read from outside of their loops."""
    own = [task for _, tasks in loops for task in tasks if task.group == group]
    return [leaf.source for task in own for leaf in task.leaves if leaf.distance is None]


@dataclass(frozen=True, slots=True)
class _Staged:
    """Buffers that are staged before the loops."""

    elsewhere: frozenset[int]
    """That another group fills for this one, by value id."""
    filled: tuple[Value, ...]
    """What this group stages for others."""


def _staged(
    code: Code, group: int, leaves: Mapping[int, frozenset[int]], fillers: Mapping[int, int]
) -> _Staged:
    buffers = list(resident.staging(code))
    own = frozenset(op.result.id for op in buffers) & leaves[group]
    others = [leaves[other] for other, filler in fillers.items() if filler == group and other in leaves]
    filled = (value for op in buffers if any(op.result.id in one for one in others) for value in op.operands)
    return _Staged(own if fillers.get(group, group) != group else frozenset(), tuple(filled))


_STRUCTURE: frozenset[Role] = frozenset({"return", "yield", "for", "while", "condition", "if", "combine"})
_LOOPS: frozenset[Role] = frozenset({"for", "while"})
_ATOMICS: frozenset[Role] = frozenset({"atomic", "atomic_exchange"})


def refusals(code: Code, plain: Sequence[Op], around: Mapping[int, Loop]) -> Iterator[TwillError]:
    """What of the operations outside of the scheduled loops can not be generated, however these are
    scheduled."""
    yield from _late_descriptors(code)
    yield from _undecided(code, [*plain, *(loop.op for loop in around.values())])
    for op in plain:
        if role(op) == "for" and _trading(op):
            yield code.refuse("values of an outer loop that change places can not be generated yet", op)
        structure = role(op) in _STRUCTURE or op.name in {
            LOAD,
            *IMPLICIT,
            *EFFECTS,
            *NOTHING,
            *TENSOR_MEMORY,
        }
        if not (structure or pure(op) or role(op) == "tensor_map"):
            yield code.refuse(f"{op.name} can not be generated", op)


_LATE: frozenset[Role] = frozenset({"program_id", "pointer_load", "for", "while"})
"""What the host does not know, or does not execute."""


def _late_descriptors(code: Code) -> Iterator[TwillError]:
    """Descriptors that the host can not make: from what is loaded, or from a program or iteration."""
    arguments = {arg.id for arg in code.function.args}
    for op in (op for op in code.ops.values() if role(op) == "descriptor"):
        needed = (op, *backward_slice(op.operands, code.maker).values())
        if any(role(one) in _LATE for one in needed) or any(
            code.maker(value) is None and value.id not in arguments
            for one in needed
            for value in one.operands
        ):
            yield code.refuse(
                "a descriptor that is made in a loop with MMAs can not be generated",
                op,
                "make it outside of the innermost loop, or load through pointers",
            )


def _undecided(code: Code, ops: Sequence[Op]) -> Iterator[TwillError]:
    """Loops that groups might not run equally often: each reads what decides that from memory by itself,
    which the kernel may have written by then."""
    stores = [op for op in code.ops.values() if op.name in EFFECTS]
    for op in (op for op in ops if role(op) in _LOOPS):
        values = closed(code, _deciding(op), ())
        makers = (maker for maker in ops if any(result.id in values for result in maker.results))
        loads = [maker for maker in makers if role(maker) == "pointer_load"]
        if any(may_write(code, store, load) for store in stores for load in loads):
            yield code.refuse(
                "how often this loop runs is loaded from memory that the kernel may store to",
                op,
                "pass the bounds as arguments, or in an array of their own",
            )


def _trading(op: Op) -> bool:
    """It yields one of its arguments in the place of another."""
    args = {one.arg.id for one in carries(op)}
    return any(one.yielded.id in args - {one.arg.id} for one in carries(op))


def _deciding(op: Op) -> tuple[Value, ...]:
    """What says how often a loop runs."""
    return op.operands[:3] if role(op) == "for" else op.regions[0].blocks[0].ops[-1].operands[:1]


def executes(op: Op, group: int, plan: NonLoopCode, around: Container[int]) -> bool:
    """A group executes a loop that is not scheduled: for a scheduled loop, a store or a result."""
    inside = any(plan.owner.get(inner.index) == group or inner.index in around for inner in op.inner())
    return inside or any(value.id in plan.needs[group] for value in op.results)


def _holders(code: Code, loops: Sequence[tuple[Scheduled, tuple[Task, ...]]]) -> Mapping[int, int]:
    found = dict[int, int]()
    for one, tasks in loops:
        writers = {value.id: task.group for task in tasks for value in task.writes}
        for carried in kept_carried(code, one.loop):
            if carried.yielded.id not in writers:
                raise code.refuse(
                    f"{carried.yielded.name} is carried to the next iteration without being computed in the"
                    " loop",
                    one.loop.op,
                )
            found[carried.result.id] = writers[carried.yielded.id]
    return found


def closed(code: Code, values: Iterable[Value], holders: Container[int]) -> frozenset[int]:
    """The values and all that they are computed from, down to results of loops and loads."""
    todo, seen = list(values), set[int]()
    while todo:
        value = todo.pop()
        maker = code.maker(value)
        if value.id in seen or (value.id not in code.carried and (maker is None or maker.name in IMPLICIT)):
            continue
        seen.add(value.id)
        if value.id in holders or loaded(code, value) is not None:
            continue
        todo += code.carried[value.id] if value.id in code.carried else captured(maker) if maker else ()
    return frozenset(seen)


def writes_tensor_memory(op: Op) -> bool:
    """Threads fill a buffer of tensor memory."""
    return role(op) == "tensor_memory_store" or (role(op) == "tensor_memory_alloc" and bool(op.operands))


def _owner(code: Code, op: Op, holders: Mapping[int, int], otherwise: int) -> int:
    held = {holders[value] for value in closed(code, captured(op), holders) if value in holders}
    if len(held) > 1:
        raise code.refuse(
            f"{op.name} needs results that groups {', '.join(map(str, sorted(held)))} hold",
            op,
            "schedule with --no-cross-group",
        )
    return held.pop() if held else otherwise


def _by_their_readers(
    code: Code,
    loops: Sequence[tuple[Scheduled, tuple[Task, ...]]],
    plain: Sequence[Op],
    owner: Mapping[int, int],
    holders: Mapping[int, int],
    staged: Mapping[int, _Staged],
) -> Mapping[int, int]:
    """Atomic operations whose results are read: each is executed by the only group that reads it, and that
    group has written what the operation is to be ordered behind. Raises TwillError for others."""
    read = [op for op in plain if role(op) in _ATOMICS and any(one.id in code.users for one in op.results)]
    others = {index: group for index, group in owner.items() if all(op.index != index for op in read)}
    needs = {group: _needs(code, one, group, loops, plain, others, holders) for group, one in staged.items()}
    found = dict[int, int]()
    for op in read:
        readers = [group for group in staged if needs[group] & {one.id for one in op.results}]
        found[op.index] = readers[0] if readers else owner[op.index]
        held = {holders[one] for one in closed(code, captured(op), holders) if one in holders}
        before = {group for index, group in others.items() if index < op.index} | held | set(readers)
        if before - {found[op.index]}:
            raise code.refuse(
                f"the result of {op.name} is used, or its operands are held, by several groups",
                op,
                "schedule with --no-cross-group, or leave the result",
            )
    return found


def _needs(
    code: Code,
    staged: _Staged,
    group: int,
    loops: Sequence[tuple[Scheduled, tuple[Task, ...]]],
    plain: Sequence[Op],
    owner: Mapping[int, int],
    holders: Mapping[int, int],
) -> frozenset[int]:
    roots = [leaf for leaf in _leaves(loops, group) if leaf.id not in staged.elsewhere]
    roots += staged.filled
    around = {one.loop.op.index for one, _ in loops}
    for one, _ in loops:
        roots += one.loop.op.operands[:3]
        roots += [
            carry.init
            for carry in kept_carried(code, one.loop)
            if holders[carry.result.id] == group and not zero(code, carry.init)
        ]
    for op in plain:
        if owner.get(op.index) == group:
            roots += captured(op)
        if role(op) in _LOOPS and any(
            owner.get(inner.index) == group or inner.index in around for inner in op.inner()
        ):
            roots += _deciding(op)
        if role(op) == "if" and any(
            owner.get(inner.index) == group or inner.index in around for inner in op.inner()
        ):
            roots.append(op.operands[0])
    return closed(code, roots, holders)


def _foreign(
    code: Code, needs: Mapping[int, frozenset[int]], holders: Mapping[int, int]
) -> Iterator[TwillError]:
    """Results of loops that a group needs and another one holds."""
    makers = {value.id: op for op in code.ops.values() for value in op.results}
    for group, values in needs.items():
        for value in sorted(values & holders.keys()):
            if holders[value] != group:
                yield code.refuse(
                    f"group {group} needs a result of this loop that group {holders[value]} holds",
                    makers[value],
                    "schedule with --no-cross-group",
                )


def _channel(code: Code, load: Op, loader: int, needs: Mapping[int, frozenset[int]]) -> Iterable[ChannelPlan]:
    buffers = [
        user.result
        for user in code.users.get(load.result.id, ())
        if loaded(code, user.results[0] if user.results else load.result)
    ]
    named = {load.result.id, *(value.id for value in buffers)}
    consumers = tuple(sorted(group for group, values in needs.items() if values & named))
    if not consumers:
        return
    if loader in consumers and len(needs) > 1:
        raise code.refuse("a tile is used by the group that loads it", load)
    yield ChannelPlan(
        code.names[load.result.id],
        loader,
        consumers,
        tensors(code, [load.result]),
        "tma",
        1,
        ((load.result,),),
        once=True,
    )


def home(code: Code) -> Mapping[int, int | None]:
    """The loop in whose body each operation stands, in a branch or not; None outside of loops."""
    return _home(code.function)


@lru_cache(maxsize=KEPT)
def _home(function: Function) -> Mapping[int, int | None]:
    locations, ops = blocks(function), tuple(function.walk())
    parents = {id(block): op for op in ops for region in op.regions for block in region.blocks}

    def loop(index: int) -> int | None:
        parent = parents.get(id(locations[index]))
        return None if parent is None else parent.index if role(parent) != "if" else loop(parent.index)

    return {index: loop(index) for index in locations}
