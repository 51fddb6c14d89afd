"""Loads of what the same thread block has stored to global memory; stores to what another group stores to.

Triton's threads find what they have stored themselves. Here one group loads for others and runs ahead, and no
group waits for stores of another one, except where all groups synchronize: at barriers outside of scheduled
loops, and around these loops where one of them loads what was stored before it. Takes the code of a function
and its loops; gives where that is, and the loads in a loop that could read what it has not stored yet.
Different arguments are distinct memory; accesses whose addresses change in every iteration of a loop do not
meet those of others, unless the loop has a barrier: then they are the same in each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from twill.diagnostics import TwillError
from twill.ir.loop import Loop, Op, Tensor, TensorDesc, Value
from twill.ir.slicing import all_operands, backward_slice, reached
from twill.ops.pointers import POINTERS
from twill.ops.table import lookup, role
from twill.warp.congruent import congruent
from twill.warp.dataflow import EFFECTS, LOAD, Code
from twill.warp.disjoint import disjoint
from twill.warp.store_warp import alike

HELP = "keep it in registers, or load what a loop stores in a loop behind it"
GROUPS = "give --groups 2: then one group computes and stores"

ATOMIC = frozenset({"atomic", "atomic_exchange"})


def refusals(code: Code, loops: Sequence[Loop]) -> Iterator[TwillError]:
    """One for each load in the loops that may come before a store whose value it reads."""
    order = _Order.of(code, loops)
    for loop in loops:
        for load in filter(_loads, loop.op.inner()):
            stores = (one for one in order.stores if order.meet(load, one))
            if any(order.missed(load, store, loop) for store in stores):
                yield code.refuse(f"{load.name} of memory that the kernel stores to before", load, HELP)


def ordering(code: Code, loops: Iterable[Loop]) -> frozenset[int]:
    """The barriers, by index, that all groups execute: they come to them, and there is a store before."""
    own, around = frozenset(loop.op.index for loop in loops), _around(code)
    stores = [op.index for op in code.ops.values() if op.name in EFFECTS]
    barriers = [op for op in code.ops.values() if role(op) == "barrier"]

    def follows(barrier: Op) -> bool:
        repeated = {inner.index for loop in around.get(barrier.index, ()) for inner in loop.inner()}
        return any(store < barrier.index or store in repeated for store in stores)

    return frozenset(one.index for one in barriers if follows(one) and by_all_groups(code, one, own))


def around_loops(code: Code, loops: Sequence[Loop]) -> bool:
    """Whether all groups synchronize before and behind the loops: one of them loads what was stored before,
    or has a barrier, which orders what is stored and loaded on its two sides."""
    order, inside = _Order.of(code, loops), [op for loop in loops for op in loop.op.inner()]
    loads = filter(_loads, inside)
    if any(order.before(load, store) for load in loads for store in order.stores if order.meet(load, store)):
        return True
    return any(role(op) == "barrier" for op in inside) and reads_back(code)


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    """What comes before what in a function."""

    code: Code
    around: Mapping[int, Sequence[Op]]
    """The loops around each operation, by its index."""
    scheduled: frozenset[int]
    executed: frozenset[int]
    """Barriers at which all groups synchronize."""
    stores: tuple[Op, ...]

    @staticmethod
    def of(code: Code, loops: Sequence[Loop]) -> "_Order":
        scheduled = frozenset(loop.op.index for loop in loops)
        stores = tuple(op for op in code.ops.values() if op.name in EFFECTS)
        return _Order(code, _around(code), scheduled, ordering(code, loops), stores)

    def meet(self, load: Op, store: Op) -> bool:
        """Whether they may access the same memory."""
        return bool(_roots(self.code, load.operands[0]) & _roots(self.code, store.operands[0]))

    def missed(self, load: Op, store: Op, loop: Loop) -> bool:
        """Whether a load in a scheduled loop may read what the loop has not stored yet."""
        return loop.op in self.around.get(store.index, ()) and not self._apart(load, store, loop.op)

    def before(self, load: Op, store: Op) -> bool:
        """Whether a store comes before a load, outside of its scheduled loop or in an earlier time that this
        is executed, with nothing between them that orders them."""
        behind = self.around.get(load.index, ())
        common = [loop for loop in behind if loop in self.around.get(store.index, ())]
        if any(loop.index in self.scheduled for loop in common) or store.index > load.index:
            outer = [loop for loop in common if loop.index not in self.scheduled]
            return any(not self._both_change(load, store, loop) for loop in outer)
        barriers = (one for one in self.executed if store.index < one < load.index)
        return not any(all(loop in behind for loop in self.around.get(one, ())) for one in barriers)

    def _apart(self, load: Op, store: Op, loop: Op) -> bool:
        """Whether each iteration of a loop stores where it has loaded, and no other one does."""
        if not self._both_change(load, store, loop) or store.index < load.index:
            return False
        barrier = any(role(one) == "barrier" for one in loop.inner())
        return not barrier or (_same_place(self.code, load, store) and _follows(self.code, load, store))

    def _both_change(self, load: Op, store: Op, loop: Op) -> bool:
        return _changes(self.code, load, loop) and _changes(self.code, store, loop)


def _loads(op: Op) -> bool:
    return op.name == LOAD or role(op) == "pointer_load"


def _same_place(code: Code, load: Op, store: Op) -> bool:
    """Whether a load and a store have the same address in each iteration."""
    one, other = _address(load), _address(store)
    return len(one) == len(other) and all(map(partial(congruent, code), one, other))


def _follows(code: Code, load: Op, store: Op) -> bool:
    """Whether what is stored is computed from what is loaded, through tensor memory too."""
    return load.index in backward_slice(store.operands[1:], code.maker, all_operands)


def reads_back(code: Code) -> bool:
    """Whether anything that the kernel loads may be what it stored, or an atomic operation tells other thread
    blocks of its stores: without that, its barriers order nothing."""
    if any(role(op) in ATOMIC for op in code.ops.values() if op.name in EFFECTS):
        return True
    rows = ((op, lookup(op.name)) for op in code.ops.values() if op.operands)
    return stored_too(code, (op.index for op, row in rows if row and row.reads_global))


def stored_too(code: Code, loads: Iterable[int]) -> bool:
    """Whether any of these loads, by index, may read what the kernel stores."""
    effects = (op for op in code.ops.values() if op.name in EFFECTS)
    stored = {one for op in effects for one in _roots(code, op.operands[0])}
    return any(stored & _roots(code, code.ops[load].operands[0]) for load in loads)


def stored_by_several(code: Code, inside: Mapping[int, int], outside: Mapping[int, int]) -> bool:
    """Whether one group stores in a loop to memory that another one stores to outside of the loops: then the
    groups synchronize around the loops. `inside` and `outside` give the groups of operations by index."""
    return any(
        inside[one] != outside[other]
        and not alike(code.ops[one], code.ops[other])
        and bool(_roots(code, code.ops[one].operands[0]) & _roots(code, code.ops[other].operands[0]))
        for one in inside
        for other in outside
        if code.ops[one].name in EFFECTS and code.ops[other].name in EFFECTS
    )


def between(code: Code, owner: Mapping[int, int], around: Iterable[int]) -> frozenset[int]:
    """Before which stores outside of the loops `around`, by index, all groups synchronize: another group has
    stored to the same memory since they last did. `owner` gives the groups of stores. Raises TwillError where
    not all groups come to such a store."""
    loops, found, since = frozenset(around), set[int](), list[int]()
    for index in sorted(owner):
        store = code.ops[index]
        if store.name not in EFFECTS:
            continue
        if any(_ordered(code, owner, one, index) for one in since):
            if not by_all_groups(code, store, loops):
                what = f"{store.name} to memory that another group stores to before"
                raise code.refuse(what, store, GROUPS)
            found.add(index)
            since.clear()
        since.append(index)
    return frozenset(found)


def _ordered(code: Code, owner: Mapping[int, int], one: int, other: int) -> bool:
    """Whether two groups store to the same memory, in an order that matters."""
    first, second = code.ops[one], code.ops[other]
    if owner[one] == owner[other] or alike(first, second) or _parts_of_one(first, second):
        return False
    same = _roots(code, first.operands[0]) & _roots(code, second.operands[0])
    return bool(same) and not _exclusive(code, first, second) and not disjoint(code, first, second)


def _parts_of_one(one: Op, other: Op) -> bool:
    """Whether sub-tiles have divided one store into both: copies of an operation keep its line. They write to
    places of their own, as the order within one store is not defined either."""
    return one.location.line == other.location.line


def _exclusive(code: Code, one: Op, other: Op) -> bool:
    """Whether they are on two sides of a branch."""
    return any(
        role(op) == "if" and len({_side(op, one), _side(op, other)} - {None}) == 2 for op in code.ops.values()
    )


def _side(branch: Op, op: Op) -> int | None:
    for i, side in enumerate(branch.regions):
        own = (one for block in side.blocks for top in block.ops for one in (top, *top.inner()))
        if any(one.index == op.index for one in own):
            return i
    return None


def by_all_groups(code: Code, op: Op, loops: frozenset[int]) -> bool:
    """Whether only loops and branches are around an operation that all groups execute: scheduled loops are in
    them, of a branch on the operation's side."""
    around = (one for one in code.ops.values() if any(inner.index == op.index for inner in one.inner()))
    return all(any(inner.index in loops for inner in _executed_with(one, op)) for one in around)


def _executed_with(around: Op, op: Op) -> Iterator[Op]:
    """The operations in a loop, or on the side of a branch that has `op`."""
    if role(around) in ("for", "while"):
        yield from around.inner()
    for region in around.regions if role(around) == "if" else ():
        side = [one for block in region.blocks for one in block.walk()]
        if any(one.index == op.index for one in side):
            yield from side


def _around(code: Code) -> dict[int, list[Op]]:
    """The loops around each operation, by its index."""
    found = dict[int, list[Op]]()
    for loop in (op for op in code.ops.values() if role(op) in ("for", "while")):
        for op in loop.inner():
            found.setdefault(op.index, []).append(loop)
    return found


def _roots(code: Code, address: Value) -> frozenset[int]:
    """What an address is derived from, by value id: arguments of the function, or addresses that are loaded
    or computed."""
    waiting, seen, found = [address], {address.id}, set[int]()
    while waiting:
        value = waiting.pop()
        maker = code.maker(value)
        if maker is not None and role(maker) in POINTERS:
            sources = maker.operands[:1]
        else:
            sources = tuple(one for one in code.carried.get(value.id, ()) if one.type == value.type)
        if not sources:
            found.add(value.id)
        waiting += [one for one in sources if one.id not in seen]
        seen |= {one.id for one in sources}
    return frozenset(found)


def _changes(code: Code, access: Op, loop: Op) -> bool:
    """Whether an access has other addresses in every iteration of a loop: they follow from what it counts or
    carries."""
    own = {arg.id for region in loop.regions for block in region.blocks for arg in block.args}

    def sources(value: Value) -> Sequence[Value]:
        maker = code.maker(value)
        return (*(maker.operands if maker is not None else ()), *code.carried.get(value.id, ()))

    return bool(own & reached(_address(access), sources))


def _address(access: Op) -> list[Value]:
    """A pointer, or a descriptor with coordinates."""
    if not isinstance(access.operands[0].type, TensorDesc):
        return [access.operands[0]]
    return [value for value in access.operands if not isinstance(value.type, Tensor)]
