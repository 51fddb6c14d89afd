"""Atomic operations of threads (PTX ISA, "Parallel Synchronization", atom, red)."""

from collections.abc import Callable, Mapping

import numpy as np

from twill.emulate.decode import Decoder, Ref, Step, step
from twill.emulate.faults import Fault
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import Array
from twill.emulate.numeric.formats import bf16_codes, bf16_values
from twill.emulate.opcodes.memory import (
    aligned,
    collected,
    element,
    into,
    items,
    reach,
    selected,
    shared_parts,
    sources_of,
    space_of,
    spread,
    synchronize_at,
    synchronizes,
    where,
)
from twill.emulate.opcodes.windows import WINDOWS
from twill.emulate.ptx.syntax import Instruction, Operand

_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
_KINDS: Mapping[str, str] = {"f16": "float16", "f16x2": "float16", "f32": "float32", "f64": "float64"}


def _wrapped_up(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, 0, old + 1).astype(old.dtype)


def _wrapped_down(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype)


FUNCTIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": _wrapped_up,
    "dec": _wrapped_down,
}


def joined(name: str, dtype: str, old: Array, new: Array) -> Array:
    """Bytes after an operation on bytes. Raises KeyError."""
    if name == "exch":
        return new
    if dtype.startswith("bf16"):
        return bf16_codes(
            FUNCTIONS[name](bf16_values(old.view(np.uint16)), bf16_values(new.view(np.uint16)))
        ).view(np.uint8)
    kind = _KINDS.get(dtype, element(dtype).name)
    number = {"min": np.fmin, "max": np.fmax}.get(name) if dtype[0] == "f" else None
    return np.ascontiguousarray((number or FUNCTIONS[name])(old.view(kind), new.view(kind))).view(np.uint8)


class Cells:
    """The bytes that active lanes work on, one after the other."""

    def __init__(self, warp: Warp, space: str, at: Array, count: int, line: int) -> None:
        aligned(at, count)
        window = {int(upper) for upper in at >> 48} if space == "generic" else set[int]()
        if space == "generic" and len(window) != 1:
            raise Fault("one atomic operation reaches several spaces")
        space = WINDOWS.get(window.pop(), "") if window else space
        at = at & (1 << 48) - 1
        if space == "shared":
            self.arrays = _shared(warp, at, count, line)
        elif space == "global":
            device = warp.cta.launch.device
            found = [(device.find(int(place), int(place) + count), int(place)) for place in at]
            self.arrays = [(one.data, place - one.base) for one, place in found]
        else:
            raise Fault(f"an atomic operation on {space} memory")
        self.count = count

    def update(self, lane: int, change: Callable[[Array], Array]) -> Array:
        """The bytes as they were, which `change` replaces."""
        data, at = self.arrays[lane]
        old = data[at : at + self.count].copy()
        data[at : at + self.count] = change(old)
        return old


def _shared(warp: Warp, at: Array, count: int, line: int) -> list[tuple[Array, int]]:
    """Shared memory, after a check that nothing but atomic operations goes on there."""
    found: list[tuple[Array, int]] = [(at, 0)] * len(at)
    for cta, chosen, offset in shared_parts(warp, at):
        shared, octets = cta.shared, reach(offset, count)
        shared.inside(int(offset.min()), int(offset.max()) + count)
        shared.check_write(octets, warp.clock, atomic=True)
        if (shared.writer[octets] <= 0).any():
            raise Fault("an atomic operation on shared memory that was never written")
        event = cta.cluster.clocks.event(warp.component, warp.epoch, line, True, True)
        shared.mark_write(octets, event)
        shared.mark_read(octets, warp.component, event)
        for position, place in zip(np.flatnonzero(chosen), offset, strict=True):
            found[int(position)] = (shared.data, int(place))
    return found


def _form(one: Instruction) -> tuple[str, str]:
    return next(part for part in one.modifiers if part in _OPERATIONS), one.modifiers[-1]


def _prepared(warp: Warp, refs: list[Ref], dtype: str) -> Array:
    data, valid = collected(warp, refs, element(dtype))
    if not valid.all():
        raise Fault("an atomic operation with a value that was never written, or that has not arrived")
    return data


@step("red")
def _red(one: Instruction, decoder: Decoder) -> Step:
    return _atomic(one, decoder, None, one.operands)


@step("atom")
def _atom(one: Instruction, decoder: Decoder) -> Step:
    return _atomic(one, decoder, one.operands[0], one.operands[1:])


def _atomic(
    one: Instruction, decoder: Decoder, result: Operand | None, operands: tuple[Operand, ...]
) -> Step:
    (name, dtype), space, (_, strong) = _form(one), space_of(one), synchronizes(one)
    at, refs = where(operands[0], decoder), sources_of(operands[1], dtype, decoder)
    swapped = sources_of(operands[2], dtype, decoder) if name == "cas" else None
    targets = [into(item, dtype) for item in items(result)] if result is not None else []

    def run(warp: Warp) -> None:
        warp.require(at.ref.code, at.ref.index, "an address")
        places, new = selected(warp, at.of(warp)), _prepared(warp, refs, dtype)
        other = _prepared(warp, swapped, dtype) if swapped else new
        synchronize_at(warp, places, strong)
        cells = Cells(warp, space, places, new.shape[1], one.line)
        old = np.empty_like(new)
        for lane in range(len(places)):
            old[lane] = cells.update(lane, _change(name, dtype, new[lane], other[lane]))
        if targets:
            spread(warp, targets, old.view(element(dtype)), np.ones(len(old), np.bool_))

    return run


def _change(name: str, dtype: str, new: Array, other: Array) -> Callable[[Array], Array]:
    if name == "cas":
        return lambda old: other if np.array_equal(old, new) else old
    return lambda old: joined(name, dtype, old, new)
