"""Tensor memory: allocation, loads, stores, waits and fences (PTX ISA, "TensorCore 5th Generation Family
Instructions").

A load's registers may be read at once ("Register dependencies, same thread"). What a load or a store does to
tensor memory is ordered before other accesses once its warp has waited, and for other warps by tcgen05.fence
around a barrier.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from twill.emulate.decode import Control, Decoder, Ref, Step, control, step, uniform
from twill.emulate.faults import Fault
from twill.emulate.machine.cta import Cluster, Cta
from twill.emulate.machine.warp import ALL, Warp, bits
from twill.emulate.memory.clocks import CARRIED, ORDERED, Array
from twill.emulate.memory.tensor import Cells, TensorMemory, View
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.lift import put
from twill.emulate.opcodes.memory import Where, items, selected, store, where
from twill.emulate.ptx.syntax import Instruction, Operand, Register

# --- state -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Issuer:
    """A thread's operations of tensor cores."""

    component: int
    epoch: int = 1
    """Of operations that are issued now; tcgen05.commit begins the next."""


@dataclass(slots=True)
class Access:
    """What a warp has in flight in tensor memory, and what it may see there."""

    loads: int
    """Component."""
    stores: int
    fenced: Array
    """By component, the epoch behind which this warp's accesses are ordered."""
    epochs: dict[int, int] = field(default_factory=dict[int, int])
    """Of loads and of stores that are issued now."""
    issuers: dict[int, Issuer] = field(default_factory=dict[int, Issuer])
    """By lane."""


def access(warp: Warp) -> Access:
    if "tensor" not in warp.state:
        clocks = warp.cta.cluster.clocks
        loads, stores = (clocks.add(f"tcgen05.{what} of {warp.name}") for what in ("ld", "st"))
        fenced = np.zeros(clocks.capacity, np.int32)
        warp.state["tensor"] = Access(loads, stores, fenced, {loads: 1, stores: 1})
    return warp.state["tensor"]


def view(warp: Warp, issuer: Issuer | None = None) -> View:
    """What a load, a store or (of an `issuer`) an operation of tensor cores may see."""
    fenced = access(warp).fenced if warp.cta.launch.strict else None
    return View(warp.clock, fenced, issuer.component if issuer else 0)


def pipelined(cluster: Cluster) -> set[int]:
    """Components of operations of tensor cores."""
    return cluster.ctas[0].state.setdefault("tcgen05 components", set[int]())


def memory(cta: Cta) -> TensorMemory:
    if "tensor memory" not in cta.state:
        made = cta.state["tensor memory"] = TensorMemory(cta.cluster.clocks, pipelined(cta.cluster))
        cta.leaving.append(lambda: _freed(made))
    return cta.state["tensor memory"]


def _freed(held: TensorMemory) -> None:
    for first, count in sorted(held.allocated.items()):
        raise Fault(
            f"{count} columns of tensor memory, allocated here, are not freed when the CTA exits",
            line=int(held.owner[first]),
            help="tcgen05.dealloc comes before the exit",
        )


def group_of(one: Instruction) -> int:
    """CTAs of an operation. Raises ValueError."""
    return next(int(part[-1]) for part in one.modifiers if part.startswith("cta_group::"))


def pair(cta: Cta, group: int) -> list[Cta]:
    """The CTAs of an operation, the even one of a pair first. Raises Fault where a pair is incomplete, or
    where the kernel uses both kinds of operations."""
    if cta.state.setdefault("cta_group", group) != group:
        raise Fault("a kernel's tcgen05 instructions have different .cta_group values")
    if group == 1:
        return [cta]
    first, ctas = cta.rank & ~1, cta.cluster.ctas
    if first + 1 >= len(ctas):
        raise Fault(f".cta_group::2 in a cluster of {len(ctas)}, where the CTA has no peer")
    return [ctas[first], ctas[first + 1]]


# --- allocation --------------------------------------------------------------------------------------------


def _size(warp: Warp, ref: Ref) -> int:
    count = uniform(warp, ref, "a number of columns")
    if count not in (32, 64, 128, 256, 512):
        raise Fault(f"{count} columns of tensor memory: a power of two from 32 to 512 is expected")
    return count


def _together(warp: Warp, what: str) -> int:
    if blocked := warp.gather(ALL, what):
        return blocked
    if warp.mask != ALL:
        raise Fault(f"{what} is executed by a part of a warp")
    return 0


@control("tcgen05.alloc")
def _alloc(one: Instruction, decoder: Decoder) -> Control:
    to, count, line = where(one.operands[0], decoder), decoder.source(one.operands[1], "u32"), one.line
    group = group_of(one)

    def run(warp: Warp) -> int:
        if blocked := _together(warp, "tcgen05.alloc"):
            return blocked
        warp.cta.cluster.clocks.relaxed = True  # MMAs hand on what happens in tensor memory alone
        size, ctas = _size(warp, count), pair(warp.cta, group)
        held = memory(warp.cta)
        _may_allocate(held, size)
        if group == 2 and (blocked := _meet(warp, ctas, line)):
            return blocked
        places = held.free(size)
        if not places:
            return warp.wait(lambda: bool(held.free(size)), lambda: f"{size} free columns of tensor memory")
        first = _choose(warp, ctas, places)
        held.take(first, size, line)
        _publish(warp, to, first, line)
        return warp.fragment.pc + 1

    return run


def _may_allocate(held: TensorMemory, size: int) -> None:
    if held.relinquished:
        raise Fault("tcgen05.alloc after tcgen05.relinquish_alloc_permit")
    if size > held.most:
        raise Fault(f"tcgen05.alloc of {size} columns after one of {held.most}: the number must not increase")


def _meet(warp: Warp, ctas: Sequence[Cta], line: int) -> int:
    """Both CTAs of a pair have come to their n-th collective operation; BLOCKED, or 0."""
    met: dict[int, int] = ctas[0].state.setdefault("tcgen05 pair", {})
    token = ("tcgen05 pair", line)
    if token not in warp.state:
        met[warp.cta.rank] = met.get(warp.cta.rank, 0) + 1
        warp.state[token] = met[warp.cta.rank]
    number, other = warp.state[token], warp.cta.rank ^ 1
    if met.get(other, 0) < number:
        return warp.wait(
            lambda: met.get(other, 0) >= number, lambda: "the peer CTA's warp, which allocates or frees too"
        )
    del warp.state[token]
    return 0


def _choose(warp: Warp, ctas: Sequence[Cta], places: Sequence[int]) -> int:
    """Seed 0 allocates from column 0; others anywhere, but a pair at one place."""
    if len(ctas) > 1 or warp.cta.cluster.adversary.seed == 0:
        return places[0]
    return warp.cta.cluster.adversary.random.choice(places)


def _publish(warp: Warp, to: Where, first: int, line: int) -> None:
    """Stores the address, as a write of one thread."""
    warp.require(to.ref.code, to.ref.index, "the place for the address of tensor memory")
    warp.only(1)
    data = np.array([[first]], np.uint32).view(np.uint8)
    store(warp, "shared", selected(warp, to.of(warp)) & (1 << 48) - 1, data, np.ones(1, np.bool_), line)
    warp.only(ALL)


@control("tcgen05.dealloc")
def _dealloc(one: Instruction, decoder: Decoder) -> Control:
    at, count = (decoder.source(operand, "u32") for operand in one.operands)
    group, line = group_of(one), one.line

    def run(warp: Warp) -> int:
        if blocked := _together(warp, "tcgen05.dealloc"):
            return blocked
        ctas, size = pair(warp.cta, group), _size(warp, count)
        if group == 2 and (blocked := _meet(warp, ctas, line)):
            return blocked
        memory(warp.cta).release(uniform(warp, at, "an address of tensor memory"), size, warp.clock)
        return warp.fragment.pc + 1

    return run


@control("tcgen05.relinquish_alloc_permit")
def _relinquish(one: Instruction, decoder: Decoder) -> Control:
    def run(warp: Warp) -> int:
        if blocked := _together(warp, "tcgen05.relinquish_alloc_permit"):
            return blocked
        memory(warp.cta).relinquished = True
        return warp.fragment.pc + 1

    return run


# --- loads and stores --------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def fragment(shape: str, count: int, second: int, packed: bool) -> Cells:
    """Lane and column, relative to the address, of (register, thread); packed ones have a last axis of two
    columns. `second` is where the second half of .16x32bx2 lies. PTX ISA, "Matrix fragments for shape"."""
    r, t = np.arange(count)[:, None], np.arange(32)[None, :]
    lane, column = {
        "32x32b": (t + 0 * r, r + 0 * t),
        "16x64b": (t // 4 + 8 * (t % 2) + 0 * r, t // 2 % 2 + 2 * r),
        "16x128b": (t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)),
        "16x256b": (t // 4 + 8 * (r // 2 % 2), r % 2 + 2 * (t % 4) + 8 * (r // 4)),
        "16x32bx2": (t % 16 + 0 * r, r + 0 * t),
    }[shape]
    if packed:
        lane, column = lane[:, :, None] + np.zeros(2, np.int64), 2 * column[:, :, None] + np.arange(2)
    if shape == "16x32bx2":
        upper = (t >= 16)[:, :, None] if packed else t >= 16
        column = column + np.where(upper, second, 0)
    return Cells(lane, column)


_EACH: Mapping[str, int] = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Registers of .x1 (PTX ISA, tcgen05.ld, table of .num and .shape)."""


@dataclass(frozen=True, slots=True)
class Form:
    """A load or store as it stands in the text."""

    shape: str
    packed: bool
    second: int
    address: Where
    registers: tuple[Ref, ...]
    line: int

    def cells(self, warp: Warp) -> Cells:
        """Raises Fault for lanes that the warp cannot reach."""
        warp.require(self.address.ref.code, self.address.ref.index, "an address of tensor memory")
        places = self.address.of(warp)
        if (places != places[0]).any():
            raise Fault("an address of tensor memory differs among the lanes of the warp")
        lane, column = split(int(places[0]))
        part = fragment(self.shape, len(self.registers), self.second, self.packed)
        quarter, high = 32 * (warp.index % 4), 32 if self.shape == "32x32b" else 16
        if not quarter <= lane <= quarter + 32 - high or lane % 16:
            raise Fault(
                f"warp {warp.index} accesses lanes {lane} to {lane + high - 1} of tensor memory: its are"
                f" {quarter} to {quarter + 31}"
            )
        return Cells(part.lanes + lane, part.columns + column)


def split(address: int) -> tuple[int, int]:
    """Lane and column. The upper two bits of addresses of scale factors are their number in a word."""
    return address >> 16 & 0x3FFF, address & 0xFFFF


def _form(one: Instruction, decoder: Decoder, address: Operand, data: Operand, second: int) -> Form:
    shape = next((part for part in one.modifiers if part in _EACH), None)
    if shape is None:
        raise ValueError("this form")
    number = next(int(part[1:]) for part in one.modifiers if part[0] == "x")
    registers = tuple(decoder.source(item, "b32") for item in items(data))
    if len(registers) != number * _EACH[shape]:
        raise ValueError(f"{len(registers)} registers for .{shape}.x{number}")
    packed = any(part in ("pack::16b", "unpack::16b") for part in one.modifiers)
    return Form(shape, packed, second, where(address, decoder), registers, one.line)


def _reduction(one: Instruction, kind: str) -> Callable[[Array], Array]:
    """Of the registers (register, thread) of .red: a minimum or maximum, which leaves NaN out unless .NaN is
    there."""
    low, real = "min" in one.modifiers, kind == "f32"
    functions = {
        (True, False): np.fmin,
        (False, False): np.fmax,
        (True, True): np.minimum,
        (False, True): np.maximum,
    }
    combine = functions[low, "NaN" in one.modifiers or not real]

    def reduce(words: Array) -> Array:
        values = words.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[kind])
        return combine.reduce(np.abs(values) if "abs" in one.modifiers else values, axis=0).view(np.uint32)

    return reduce


@control("tcgen05.ld")
def _ld(one: Instruction, decoder: Decoder) -> Control:
    """With .red (sm_103a) also the minimum or maximum of what a thread loads."""
    red = "red" in one.modifiers
    data, *rest = one.operands
    reduced = decoder.target(items(rest.pop(0))[0], "b32") if red else None
    reduction = _reduction(one, one.modifiers[-1]) if red else None
    address, *more = rest
    if not all(isinstance(item, Register) for item in items(data)):
        raise ValueError("a result that is no register")
    form = _form(one, decoder, address, data, immediate(more[0]) if more else 0)
    index = np.array([ref.index for ref in form.registers])

    def run(warp: Warp) -> int:
        if blocked := _together(warp, "tcgen05.ld"):
            return blocked
        mine, held, cells = access(warp), memory(warp.cta), form.cells(warp)
        known = held.check_read(cells, view(warp)) > 0
        held.mark_read(cells.index, mine.loads, _event(warp, mine.loads, form.line))
        found = held.data[cells.index]
        if form.packed:
            found, known = found[..., 0] & 0xFFFF | found[..., 1] << 16, np.logical_and.reduce(known, axis=-1)
        warp.files[32][index] = found
        every = bool(known.all())
        for position, ref in enumerate(form.registers):
            warp.valid[2][ref.index] = ALL if every else bits(known[position])
        if reduced is not None and reduction is not None:
            put(warp, reduced, reduction(found), bits(np.logical_and.reduce(known, axis=0)))
        return warp.fragment.pc + 1

    return run


def _event(warp: Warp, component: int, line: int) -> int:
    return warp.cta.cluster.clocks.event(component, access(warp).epochs[component], line, generic=False)


@control("tcgen05.st")
def _st(one: Instruction, decoder: Decoder) -> Control:
    address, *more, data = one.operands
    form = _form(one, decoder, address, data, immediate(more[0]) if more else 0)

    def run(warp: Warp) -> int:
        if blocked := _together(warp, "tcgen05.st"):
            return blocked
        mine, held, cells = access(warp), memory(warp.cta), form.cells(warp)
        held.check_write(cells, view(warp))
        event = _event(warp, mine.stores, form.line)
        values = np.stack([warp.files[32][ref.index] for ref in form.registers])
        sign = np.stack([np.where(_lanes(warp, ref), event, -event) for ref in form.registers])
        if form.packed:
            values, sign = np.stack([values & 0xFFFF, values >> 16], axis=-1), sign[:, :, None]
        held.data[cells.index] = values
        held.mark_write(cells.index, sign)
        return warp.fragment.pc + 1

    return run


def _lanes(warp: Warp, ref: Ref) -> Array:
    from twill.emulate.machine.warp import lanes

    return lanes(warp.valid[2][ref.index])


# --- waits and fences --------------------------------------------------------------------------------------


@control("tcgen05.wait::ld")
def _wait_ld(one: Instruction, decoder: Decoder) -> Control:
    def run(warp: Warp) -> int:
        if blocked := _together(warp, "tcgen05.wait::ld"):
            return blocked
        mine = access(warp)
        _complete(warp, mine, mine.loads)
        return warp.fragment.pc + 1

    return run


@control("tcgen05.wait::st")
def _wait_st(one: Instruction, decoder: Decoder) -> Control:
    def run(warp: Warp) -> int:
        if blocked := _together(warp, "tcgen05.wait::st"):
            return blocked
        mine = access(warp)
        _complete(warp, mine, mine.stores)
        return warp.fragment.pc + 1

    return run


def _complete(warp: Warp, mine: Access, component: int) -> None:
    """The loads, or the stores, of the warp are complete."""
    warp.clock[ORDERED, component] = mine.fenced[component] = mine.epochs[component]
    mine.epochs[component] += 1


@step("tcgen05.fence::before_thread_sync")
def _before(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        mine = access(warp)
        carried = warp.clock[CARRIED]
        np.maximum(carried, mine.fenced, out=carried)
        for issuer in mine.issuers.values():
            carried[issuer.component] = issuer.epoch

    return run


@step("tcgen05.fence::after_thread_sync")
def _after(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        mine = access(warp)
        np.maximum(mine.fenced, warp.clock[CARRIED], out=mine.fenced)

    return run
