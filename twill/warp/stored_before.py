"""Loads of what the same thread block has stored to global memory; stores to what another group stores to.

Triton's threads find what they have stored themselves. Here one group loads for others and runs ahead, and no
group waits for stores of another one, except at a barrier in straight code. Takes the code of a function and
its loops; gives the loads in loops that could read memory before it is stored. Different arguments are
distinct memory; accesses whose addresses change in every iteration of a loop do not meet those of others.
"""

from collections.abc import Iterable, Iterator, Mapping

from twill.diagnostics import TwillError
from twill.ir.loop import Loop, Op, Tensor, TensorDesc, Value
from twill.ops.table import lookup, role
from twill.warp.dataflow import EFFECTS, LOAD, Code, ordering
from twill.warp.store_warp import POINTERS, alike

HELP = "keep it in registers, or put tl.debug_barrier() behind the stores and before a loop that loads it"

ATOMIC = frozenset({"atomic", "atomic_exchange"})


def refusals(code: Code, loops: Iterable[Loop]) -> Iterator[TwillError]:
    """One for each load in the loops that may come before a store whose value it reads."""
    around = _around(code)
    stores = [op for op in code.ops.values() if op.name in EFFECTS]
    for loop in loops:
        for load in (op for op in loop.op.inner() if op.name == LOAD or role(op) == "pointer_load"):
            if any(_meet(code, around, load, store) for store in stores):
                yield code.refuse(f"{load.name} of memory that the kernel stores to before", load, HELP)


def reads_back(code: Code) -> bool:
    """Whether anything that the kernel loads may be what it stored, or an atomic operation tells other thread
    blocks of its stores: without that, its barriers order nothing."""
    effects = [op for op in code.ops.values() if op.name in EFFECTS]
    if any(role(op) in ATOMIC for op in effects):
        return True
    stored = {one for op in effects for one in _roots(code, op.operands[0])}
    rows = ((op, lookup(op.name)) for op in code.ops.values() if op.operands)
    return any(stored & _roots(code, op.operands[0]) for op, row in rows if row and row.reads_global)


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


def _meet(code: Code, around: dict[int, list[Op]], load: Op, store: Op) -> bool:
    """Whether a load may read what a store of the thread block wrote, in this or an earlier iteration."""
    if not (_roots(code, load.operands[0]) & _roots(code, store.operands[0])):
        return False
    common = [loop for loop in around.get(load.index, []) if loop in around.get(store.index, [])]
    if any(not (_changes(code, load, loop) and _changes(code, store, loop)) for loop in common):
        return True
    return store.index < load.index and not any(
        store.index < barrier < load.index for barrier in ordering(code)
    )


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
    waiting = _address(access)
    seen = {value.id for value in waiting}
    while waiting:
        value = waiting.pop()
        if value.id in own:
            return True
        maker = code.maker(value)
        sources = (*(maker.operands if maker is not None else ()), *code.carried.get(value.id, ()))
        waiting += [one for one in sources if one.id not in seen]
        seen |= {one.id for one in sources}
    return False


def _address(access: Op) -> list[Value]:
    """A pointer, or a descriptor with coordinates."""
    if not isinstance(access.operands[0].type, TensorDesc):
        return [access.operands[0]]
    return [value for value in access.operands if not isinstance(value.type, Tensor)]
