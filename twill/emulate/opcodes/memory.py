"""Loads and stores of threads, in all spaces (PTX ISA, "Data Movement", ld, st; "Memory Consistency
Model")."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twill.emulate.decode import Decoder, Ref, Step, address, step
from twill.emulate.faults import Fault
from twill.emulate.machine.cta import RANK_SHIFT, Cta
from twill.emulate.machine.warp import CODES, LANES, Warp
from twill.emulate.memory.clocks import Array
from twill.emulate.memory.device import Allocation
from twill.emulate.opcodes.lift import get, put
from twill.emulate.opcodes.windows import WINDOWS
from twill.emulate.ptx.syntax import Address, Instruction, Integer, Operand, Register, Sink, Symbol, Vector

SPACES = ("global", "shared", "local", "param", "const")
OFFSET = (1 << RANK_SHIFT) - 1


def space_of(one: Instruction) -> str:
    """The space that the modifiers name, or `generic`."""
    found = (part.partition("::")[0] for part in one.modifiers)
    return next((space for space in found if space in SPACES), "generic")


@dataclass(frozen=True, slots=True)
class Where:
    """An address operand: a row and a distance from it in bytes."""

    ref: Ref
    offset: int

    def of(self, warp: Warp) -> Array:
        """Addresses of all lanes."""
        found = warp.views[self.ref.type][self.ref.index].astype(np.int64)
        return found + self.offset if self.offset else found


def where(operand: Operand, decoder: Decoder) -> Where:
    found = address(operand)
    if isinstance(found.base, Register):
        return Where(decoder.source(found.base, f"u{found.base.bits}"), found.offset)
    if isinstance(found.base, Integer | Symbol):
        return Where(decoder.source(found.base, "u64"), found.offset)
    raise ValueError(f"the address {found.base}")


# --- bytes of lanes ---------------------------------------------------------------------------------------


def selected(warp: Warp, values: Array) -> Array:
    return values if warp.full else values[warp.active]


def reach(at: Array, size: int) -> Array:
    """All bytes of accesses (access, byte)."""
    return at.reshape(-1, 1) + np.arange(size)


def aligned(at: Array, size: int) -> None:
    wrong = at & size - 1
    if wrong.any():
        raise Fault(
            f"the address {int(at[np.flatnonzero(wrong)[0]]):#x} is not a multiple of the access's {size}"
            " bytes"
        )


def shared_parts(warp: Warp, at: Array) -> Iterator[tuple[Cta, Array, Array]]:
    """For each CTA that addresses belong to, which of them, and their offsets."""
    rank = at >> RANK_SHIFT
    first = int(rank[0])
    if (rank == first).all():
        yield warp.cta.cluster.cta_at(int(at[0])), np.ones(len(at), np.bool_), at & OFFSET
        return
    for one in sorted(set(map(int, rank))):
        chosen = rank == one
        yield warp.cta.cluster.cta_at(one << RANK_SHIFT), chosen, at[chosen] & OFFSET


def load_shared(warp: Warp, at: Array, size: int, line: int) -> tuple[Array, Array]:
    """Bytes (lane, byte) and, for each lane, whether all of them are defined."""
    data, valid = np.empty((len(at), size), np.uint8), np.empty(len(at), np.bool_)
    for cta, chosen, offset in shared_parts(warp, at):
        shared = cta.shared
        shared.inside(int(offset.min()), int(offset.max()) + size)
        octets = reach(offset, size)
        writers = shared.check_read(octets, warp.clock, atomic=warp.strong)
        shared.mark_read(octets, warp.component, warp.event(line, warp.strong))
        data[chosen], valid[chosen] = shared.data[octets], (writers > 0).all(axis=1)
    return data, valid


def store_shared(warp: Warp, at: Array, data: Array, valid: Array, line: int) -> None:
    size = data.shape[1]
    for cta, chosen, offset in shared_parts(warp, at):
        shared = cta.shared
        shared.inside(int(offset.min()), int(offset.max()) + size)
        octets = reach(offset, size)
        shared.check_write(octets, warp.clock, warp.strong, data[chosen])
        event = warp.event(line, warp.strong)
        if warp.strong:
            shared.mark_read(octets, warp.component, event)
        shared.mark_write(octets, np.where(valid[chosen], event, -event)[:, None])
        shared.data[octets] = data[chosen]


def _allocations(warp: Warp, at: Array, size: int) -> Iterator[tuple[Allocation, Array, Array]]:
    """Arrays that lanes reach, with the lanes and their offsets (lane, byte). Raises Fault out of bounds."""
    device, left = warp.cta.launch.device, np.ones(len(at), np.bool_)
    while left.any():
        first = int(at[left][0])
        one = device.find(first, first + size)
        chosen = left & (at >= one.base) & (at + size <= one.end)
        yield one, chosen, (at[chosen] - one.base)[:, None] + np.arange(size)
        left &= ~chosen


def load_global(warp: Warp, at: Array, size: int, line: int) -> tuple[Array, Array]:
    data, valid = np.empty((len(at), size), np.uint8), np.ones(len(at), np.bool_)
    for one, chosen, octets in _allocations(warp, at, size):
        data[chosen] = one.data[octets]
        if one.valid is not None:
            valid[chosen] = one.valid[octets].all(axis=1)
    return data, valid


def store_global(warp: Warp, at: Array, data: Array, valid: Array, line: int) -> None:
    if not valid.all():
        raise Fault("a value that was never written, or that has not arrived, is stored to global memory")
    for one, chosen, octets in _allocations(warp, at, data.shape[1]):
        one.data[octets] = data[chosen]
        if one.valid is not None:
            one.valid[octets] = True


def _frame(warp: Warp) -> tuple[Array, Array]:
    """Local memory of the lanes, and which bytes of it were written."""
    if "local" not in warp.state:
        warp.state["local"] = (
            np.zeros((32, warp.code.local), np.uint8),
            np.zeros((32, warp.code.local), np.bool_),
        )
    return warp.state["local"]


def _within(at: Array, size: int, bytes: int, what: str) -> None:
    if (at < 0).any() or (at + size > bytes).any():
        raise Fault(f"{what} is accessed out of bounds: byte {int(at.max()):#x} of {bytes:#x}")


def load_local(warp: Warp, at: Array, size: int, line: int) -> tuple[Array, Array]:
    data, written = _frame(warp)
    _within(at, size, data.shape[1], "local memory")
    lane, octets = selected(warp, LANES)[:, None], reach(at, size)
    return data[lane, octets], np.all(written[lane, octets], axis=1)


def store_local(warp: Warp, at: Array, data: Array, valid: Array, line: int) -> None:
    held, written = _frame(warp)
    _within(at, data.shape[1], held.shape[1], "local memory")
    lane, octets = selected(warp, LANES)[:, None], reach(at, data.shape[1])
    held[lane, octets] = data
    written[lane, octets] = valid[:, None]


def load_param(warp: Warp, at: Array, size: int, line: int) -> tuple[Array, Array]:
    held = np.frombuffer(warp.cta.launch.parameters, np.uint8)
    _within(at, size, len(held), "the kernel's parameters")
    return held[at[:, None] + np.arange(size)], np.ones(len(at), np.bool_)


Load = Callable[[Warp, Array, int, int], tuple[Array, Array]]
Store = Callable[[Warp, Array, Array, Array, int], None]
_LOADS: Mapping[str, Load] = {
    "shared": load_shared,
    "global": load_global,
    "const": load_global,
    "local": load_local,
    "param": load_param,
}
_STORES: Mapping[str, Store] = {"shared": store_shared, "global": store_global, "local": store_local}


def _windows(at: Array) -> Iterator[tuple[str, Array]]:
    """Spaces of generic addresses, with the lanes that have them."""
    upper = at >> 48
    for window in sorted(set(map(int, upper))):
        if window not in WINDOWS:
            raise Fault(f"the generic address {int(at[upper == window][0]):#x} is in no space")
        yield WINDOWS[window], upper == window


def load(warp: Warp, space: str, at: Array, size: int, line: int) -> tuple[Array, Array]:
    """Bytes (lane, byte) for the active lanes, from addresses of these."""
    aligned(at, size)
    if space != "generic":
        return _LOADS[space](warp, at, size, line)
    spaces = list(_windows(at))
    if len(spaces) == 1:
        return _LOADS[spaces[0][0]](warp, at & (1 << 48) - 1, size, line)
    raise Fault("one load reaches several spaces")


def store(warp: Warp, space: str, at: Array, data: Array, valid: Array, line: int) -> None:
    aligned(at, data.shape[1])
    if space != "generic":
        _STORES[space](warp, at, data, valid, line)
        return
    spaces = list(_windows(at))
    if len(spaces) > 1:
        raise Fault("one store reaches several spaces")
    if spaces[0][0] not in _STORES:
        raise Fault(f"a store to {spaces[0][0]} memory")
    _STORES[spaces[0][0]](warp, at & (1 << 48) - 1, data, valid, line)


# --- rows -------------------------------------------------------------------------------------------------


def items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def element(dtype: str) -> np.dtype[np.generic]:
    """How an element lies in memory. Raises KeyError."""
    kinds = {
        "f16": "uint16",
        "bf16": "uint16",
        "f32": "uint32",
        "f64": "uint64",
        "f16x2": "uint32",
        "bf16x2": "uint32",
        "e4m3": "uint8",
        "e5m2": "uint8",
    }
    if dtype in kinds:
        return np.dtype(kinds[dtype])
    if dtype == "b128":
        return np.dtype("uint64")
    return np.dtype({"u": "uint", "b": "uint", "s": "int"}[dtype[0]] + dtype[1:])


def into(operand: Operand, dtype: str) -> Ref | None:
    """A register for an element: it may be wider, and then takes the element's sign."""
    if isinstance(operand, Sink):
        return None
    if not isinstance(operand, Register):
        raise ValueError(f"{operand} is no register")
    sign = "s" if dtype[0] == "s" else "u"
    return Ref("b128" if operand.bits == 128 else f"{sign}{operand.bits}", CODES[operand.bits], operand.index)


def _pointed(operands: Sequence[Operand]) -> Address:
    return next(address(operand) for operand in operands if isinstance(operand, Address))


@step("ld", "ldu")
def _ld(one: Instruction, decoder: Decoder) -> Step:
    dtype, space, line = one.modifiers[-1], space_of(one), one.line
    kind, at = element(dtype), where(_pointed(one.operands), decoder)
    refs = [into(operand, dtype) for operand in items(one.operands[0])]
    lanes_each = 2 if dtype == "b128" else 1
    size = kind.itemsize * len(refs) * lanes_each
    synchronizing, strong = synchronizes(one)

    def run(warp: Warp) -> None:
        warp.require(at.ref.code, at.ref.index, "an address")
        places = selected(warp, at.of(warp))
        warp.strong = synchronizing
        if synchronizing:
            synchronize_at(warp, places, strong)
        data, valid = load(warp, space, places, size, line)
        spread(warp, refs, data.view(kind), valid)

    return run


def spread(warp: Warp, refs: Sequence[Ref | None], values: Array, valid: Array) -> None:
    """Values (active lane, element) into registers."""
    known = warp.mask if valid.all() else _mask(warp, valid)
    for i, ref in enumerate(refs):
        if ref is None:
            continue
        if ref.type == "b128":
            column = np.zeros((32, 2), np.uint64)
            column[warp.active] = values[:, 2 * i : 2 * i + 2]
            put(warp, ref, column.reshape(-1), known)
        elif warp.full:
            put(warp, ref, values[:, i], known)
        else:
            column = np.zeros(32, values.dtype)
            column[warp.active] = values[:, i]
            put(warp, ref, column, known)


def _mask(warp: Warp, valid: Array) -> int:
    """Of the active lanes, those that a truth value for each says."""
    found = np.zeros(32, np.bool_)
    found[warp.active] = valid
    return int.from_bytes(np.packbits(found, bitorder="little").tobytes(), "little")


def collected(warp: Warp, refs: Sequence[Ref], kind: np.dtype[np.generic]) -> tuple[Array, Array]:
    """Registers of the active lanes as bytes (lane, byte), and whether all are defined."""
    values, known = list[Array](), warp.mask
    for ref in refs:
        row = get(warp, ref)
        values.append(
            row.reshape(32, 2).view(kind) if ref.type == "b128" else row.astype(kind, copy=False)[:, None]
        )
        known &= warp.valid[ref.code][ref.index]
    data = np.ascontiguousarray(selected(warp, np.concatenate(values, axis=1))).view(np.uint8)
    if known == warp.mask:
        return data, np.ones(len(data), np.bool_)
    from twill.emulate.machine.warp import lanes

    return data, selected(warp, lanes(known))


@step("st")
def _st(one: Instruction, decoder: Decoder) -> Step:
    dtype, space, line = one.modifiers[-1], space_of(one), one.line
    kind, at = element(dtype), where(one.operands[0], decoder)
    refs = sources_of(one.operands[1], dtype, decoder)
    synchronizing, strong = synchronizes(one)

    def run(warp: Warp) -> None:
        warp.require(at.ref.code, at.ref.index, "an address")
        data, valid = collected(warp, refs, kind)
        places = selected(warp, at.of(warp))
        warp.strong = synchronizing
        if synchronizing:
            synchronize_at(warp, places, strong)
        store(warp, space, places, data, valid, line)

    return run


def sources_of(operand: Operand, dtype: str, decoder: Decoder) -> list[Ref]:
    """The registers or constants of elements."""
    return [register_of(item, dtype, decoder) for item in items(operand)]


def register_of(operand: Operand, dtype: str, decoder: Decoder) -> Ref:
    if isinstance(operand, Register):
        return Ref("b128" if operand.bits == 128 else f"u{operand.bits}", CODES[operand.bits], operand.index)
    found = decoder.source(operand, dtype if dtype not in ("b8", "u8", "s8") else "u16")
    return Ref({"f32": "u32", "f64": "u64"}.get(found.type, found.type), found.code, found.index)


@dataclass(slots=True)
class Relaxed:
    """What a warp's fences do for its relaxed accesses (PTX ISA, "Release and Acquire Patterns")."""

    published: Array
    """What happens before the last fence: relaxed accesses behind it release this."""
    observed: Array
    """What relaxed accesses have found: the next fence acquires it."""


def relaxed(warp: Warp) -> Relaxed:
    if "relaxed" not in warp.state:
        clocks = warp.cta.cluster.clocks
        warp.state["relaxed"] = Relaxed(clocks.clock(), clocks.clock())
    return warp.state["relaxed"]


def synchronize_at(warp: Warp, places: Array, strong: bool) -> None:
    """An access that synchronizes at its addresses: by itself where it is an acquire or release, else by
    fences before and behind it."""
    known = warp.cta.cluster.locations
    for place in sorted(set(map(int, places))):
        clock = known.setdefault(place, warp.cta.cluster.clocks.clock())
        if strong:
            warp.acquire(clock)
            warp.release(clock)
        else:
            mine = relaxed(warp)
            np.maximum(mine.observed, clock, out=mine.observed)
            np.maximum(clock, mine.published, out=clock)


def fence(warp: Warp) -> None:
    """fence.acq_rel, fence.sc, membar."""
    mine = relaxed(warp)
    warp.acquire(mine.observed)
    warp.release(mine.published)


def synchronizes(one: Instruction) -> tuple[bool, bool]:
    """Whether an access synchronizes, and whether without fences."""
    strong = bool({"acquire", "release", "acq_rel", "sc"} & set(one.modifiers))
    return strong or bool({"relaxed", "volatile", "mmio"} & set(one.modifiers)), strong
