"""Bulk copies and TMA (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy",
cp.async.bulk, cp.async.bulk.tensor, tensormap.replace).

A copy is issued by a thread. What it will read or write in shared memory is checked and noted then; the bytes
move when it completes. Loads complete on an mbarrier, stores and reductions in the bulk groups of the thread.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from twill.emulate.decode import Decoder, Ref, Step, step
from twill.emulate.faults import Fault
from twill.emulate.machine.asynchronous import Groups, Operation, Store
from twill.emulate.machine.barriers import Mbarrier
from twill.emulate.machine.cta import Cta
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import ORDERED, Array
from twill.emulate.memory.device import Device
from twill.emulate.opcodes.atomic import FUNCTIONS, joined
from twill.emulate.opcodes.barrier import find_async, visit
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.lift import get
from twill.emulate.opcodes.memory import OFFSET, Where, load, store, where
from twill.emulate.opcodes.windows import CVTA, WINDOWS
from twill.emulate.ptx.syntax import Address, Instruction, Operand
from twill.emulate.tensormap import BYTES, Raw, TensorMap, decode

# --- groups of a thread ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Thread:
    """The bulk groups of one thread, and the component of its copies."""

    groups: Groups
    component: int


def thread(warp: Warp, lane: int) -> Thread:
    known: dict[int, Thread] = warp.state.setdefault("bulk", {})
    if lane not in known:
        known[lane] = Thread(
            Groups(), warp.cta.cluster.clocks.add(f"bulk copies of lane {lane} of {warp.name}")
        )
    return known[lane]


@step("cp.async.bulk.commit_group")
def _commit(one: Instruction, decoder: Decoder) -> Step:
    def run(warp: Warp) -> None:
        for lane in warp.active.nonzero()[0]:
            if int(lane) in warp.state.get("bulk", {}):
                thread(warp, int(lane)).groups.commit()

    return run


@step("cp.async.bulk.wait_group")
def _wait(one: Instruction, decoder: Decoder) -> Step:
    """With .read, the copies of a group have read shared memory; without, they are carried out."""
    pending, only_read = immediate(one.operands[0]), "read" in one.modifiers

    def run(warp: Warp) -> None:
        for lane in warp.active.nonzero()[0]:
            if int(lane) in warp.state.get("bulk", {}):
                own = thread(warp, int(lane))
                warp.clock[ORDERED, own.component] = max(
                    warp.clock[ORDERED, own.component],
                    own.groups.read(pending) if only_read else own.groups.wait(pending),
                )

    return run


# --- boxes ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def swizzled(first: int, lines: int, inner: int, swizzle: int, atom: int = 16) -> Array:
    """Offsets of the 16-byte pieces of a box in shared memory: piece i of the box in row-major order lies at
    the i-th."""
    pieces = first + np.arange(lines * inner // 16, dtype=np.int64) * 16
    if swizzle:
        line = swizzle // 16 - 1
        moved = (
            pieces ^ ((pieces >> 7 & line) << 4) if atom == 16 else pieces ^ ((pieces >> 7 & line >> 1) << 5)
        )
        pieces = moved
    pieces.flags.writeable = False
    return pieces


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a tensor at given coordinates: its lines in global memory."""

    starts: Array
    """Address of each line's first byte, also where that lies outside."""
    inside: Array
    """Whether a line is inside along all outer dimensions."""
    first: int
    """Byte of a line that is the first inside."""
    last: int
    """And behind the last."""
    inner: int
    """Bytes of a line."""


def box(tensor: TensorMap, coordinates: Sequence[int]) -> Box:
    if any(step > 1 for step in tensor.steps):
        raise Fault("element strides above 1 are not supported")
    starts, inside = np.zeros(1, np.int64), np.ones(1, np.bool_)
    for i in range(1, len(tensor.shape)):
        position = coordinates[i] + np.arange(tensor.box[i], dtype=np.int64)
        good = (position >= 0) & (position < tensor.shape[i])
        starts = (position[:, None] * tensor.strides[i - 1] + starts[None, :]).reshape(-1)
        inside = (good[:, None] & inside[None, :]).reshape(-1)
    x, size = coordinates[0], tensor.size
    first, last = min(max(0, -x), tensor.box[0]), max(0, min(tensor.box[0], tensor.shape[0] - x))
    return Box(
        starts + tensor.address + x * size,
        inside,
        first * size,
        max(first, last) * size,
        tensor.box[0] * size,
    )


def read_box(device: Device, tensor: TensorMap, one: Box) -> Array:
    """Bytes (line, byte), zeros or NaN outside."""
    made = np.full((len(one.starts), one.inner), 0, np.uint8)
    if tensor.nan:
        made[...] = np.tile(np.array(_NAN[tensor.type], np.uint8), one.inner // tensor.size)
    starts = one.starts[one.inside]
    if len(starts) and one.last > one.first:
        held, base = _reach(device, starts, one)
        made[one.inside, one.first : one.last] = held[
            (starts - base)[:, None] + np.arange(one.first, one.last)
        ]
    return made


_NAN: Mapping[str, tuple[int, ...]] = {
    "f16": (0xFF, 0x7F),
    "bf16": (0xFF, 0x7F),
    "f32": (0xFF, 0xFF, 0xFF, 0x7F),
    "tf32": (0xFF, 0xFF, 0xFF, 0x7F),
}


def _reach(device: Device, starts: Array, one: Box) -> tuple[Array, int]:
    found = device.find(int(starts.min()) + one.first, int(starts.max()) + one.last)
    return found.data, found.base


def write_box(device: Device, tensor: TensorMap, one: Box, data: Array, reduce: str | None) -> None:
    """Stores the part of (line, byte) that is inside, or adds it to what is there."""
    starts = one.starts[one.inside]
    if not len(starts) or one.last <= one.first:
        return
    found = device.find(int(starts.min()) + one.first, int(starts.max()) + one.last)
    at = (starts - found.base)[:, None] + np.arange(one.first, one.last)
    new = np.ascontiguousarray(data[one.inside, one.first : one.last])
    found.data[at] = (
        joined(reduce, _ELEMENTS.get(tensor.type, tensor.type), found.data[at], new) if reduce else new
    )
    if found.valid is not None:
        found.valid[at] = True


_ELEMENTS: Mapping[str, str] = {"tf32": "f32", "f32.ftz": "f32", "tf32.ftz": "f32"}
"""How elements of tensor maps are added."""


# --- the parts of an instruction --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mapped:
    """[map, {coordinates}]."""

    tensor: Where
    coordinates: tuple[Ref, ...]

    @staticmethod
    def read(operand: Operand, decoder: Decoder) -> "Mapped":
        assert isinstance(operand, Address)
        return Mapped(
            where(operand, decoder), tuple(decoder.source(one, "s32") for one in operand.coordinates)
        )

    def of(self, warp: Warp, lane: int, line: int) -> tuple[TensorMap, list[int], Callable[[], None]]:
        """The map, the coordinates, and what raises Fault where the map is another one later: the copy by it,
        of this line, may read it until it is carried out (PTX ISA, "tensormap.replace")."""
        warp.require(self.tensor.ref.code, self.tensor.ref.index, "the address of a tensor map")
        for one in self.coordinates:
            warp.require(one.code, one.index, "a coordinate")
        address = int(self.tensor.of(warp)[lane])
        before = map_bytes(warp, address)
        found = decode(before)
        coordinates = [int(get(warp, one)[lane]) for one in self.coordinates]
        if len(coordinates) != len(found.shape):
            raise Fault(f"{len(coordinates)} coordinates for a tensor map of {len(found.shape)} dimensions")

        def unchanged() -> None:
            if map_bytes(warp, address) != before:
                raise Fault(f"the tensor map is changed before the copy of line {line} by it is complete")

        return found, coordinates, unchanged


def map_bytes(warp: Warp, address: int) -> bytes:
    """A tensor map at a generic address: in the parameters, in global or constant memory."""
    space, at = WINDOWS.get(address >> 48, ""), address & (1 << 48) - 1
    if at % 64:
        raise Fault(f"the tensor map at {address:#x} is not at a multiple of 64")
    if space == "param":
        return warp.cta.launch.parameters[at : at + BYTES]
    if space == "global":
        return warp.cta.launch.device.read(at, BYTES).tobytes()
    raise Fault(f"the address {address:#x} of a tensor map is neither in global memory nor in the parameters")


def one_lane(warp: Warp, run: Callable[[int], None]) -> None:
    """For each active lane on its own."""
    for lane in warp.active.nonzero()[0]:
        run(int(lane))


def lane_value(warp: Warp, at: Where, lane: int, what: str) -> int:
    warp.require(at.ref.code, at.ref.index, what)
    return int(at.of(warp)[lane])


def shared_address(warp: Warp, address: int) -> tuple[Cta, int]:
    """CTA and offset of a shared address, or of a generic one of shared memory."""
    inside = address - CVTA["shared"] if address >> 48 else address
    return warp.cta.cluster.cta_at(inside), inside & OFFSET


def arriving(warp: Warp, barrier: Mbarrier, line: int) -> int:
    """The event of bytes that arrive with an mbarrier's phase."""
    return warp.cta.cluster.clocks.event(barrier.component, barrier.epoch, line, generic=False)


def launched(warp: Warp, barrier: Mbarrier, operation: Operation) -> None:
    barrier.flying.append(operation)
    warp.cta.cluster.pending.add(operation)


def destination(cta: Cta, first: int, bytes: int, clock: Array, event: int, align: int) -> slice:
    """Notes that bytes of shared memory will be written. Raises Fault where the bytes are in use."""
    if first % align:
        raise Fault(f"a copy's place {first - 1024:#x} in shared memory is not a multiple of {align}")
    cta.shared.inside(first, first + bytes)
    place = slice(first, first + bytes)
    cta.shared.check_write(place, clock, proxy=cta.launch.strict)
    cta.shared.mark_write(place, event)
    return place


def origin(
    warp: Warp, cta: Cta, first: int, bytes: int, component: int, epoch: int, line: int, align: int
) -> slice:
    """Notes that bytes of shared memory will be read."""
    if first % align:
        raise Fault(f"a copy's place {first - 1024:#x} in shared memory is not a multiple of {align}")
    cta.shared.inside(first, first + bytes)
    place = slice(first, first + bytes)
    if (cta.shared.check_read(place, warp.seen(), proxy=True) <= 0).any():
        raise Fault("a copy reads shared memory that was never written")
    event = cta.cluster.clocks.event(component, epoch, line, generic=False)
    cta.shared.mark_read(place, component, event)
    return place


# --- tensors ----------------------------------------------------------------------------------------------


@step("cp.async.bulk.tensor")
def _tensor(one: Instruction, decoder: Decoder) -> Step:
    if "im2col" in one.opcode or "gather4" in one.opcode or "scatter4" in one.opcode:
        raise ValueError("only tiles")
    spaces = [part for part in one.modifiers[4:] if part.startswith(("shared", "global"))]
    return _tensor_load(one, decoder) if spaces[0].startswith("shared") else _tensor_store(one, decoder, None)


def _tensor_load(one: Instruction, decoder: Decoder) -> Step:
    to, source, bar = (
        where(one.operands[0], decoder),
        Mapped.read(one.operands[1], decoder),
        where(one.operands[2], decoder),
    )
    multicast = "multicast::cluster" in one.modifiers
    mask = decoder.source(one.operands[3], "u16") if multicast else None
    line, pair = one.line, "cta_group::2" in one.modifiers

    def run(warp: Warp) -> None:
        one_lane(warp, lambda lane: issue(warp, lane))

    def issue(warp: Warp, lane: int) -> None:
        tensor, coordinates, unchanged = source.of(warp, lane, line)
        cta, first = shared_address(warp, lane_value(warp, to, lane, "the destination of a copy"))
        place = lane_value(warp, bar, lane, "the address of an mbarrier")
        targets = [cta]
        if mask is not None:
            chosen = int(get(warp, mask)[lane])
            targets = [one for one in warp.cta.cluster.ctas if chosen >> one.rank & 1]
        for target in targets:
            load_box(
                warp,
                target,
                first,
                _beside(place, target, pair, mask is not None),
                tensor,
                coordinates,
                line,
                unchanged,
            )

    return run


def _beside(place: int, target: Cta, pair: bool, multicast: bool) -> int:
    """The mbarrier of a copy: with multicast the one at the same offset in each CTA."""
    inside = place - CVTA["shared"] if place >> 48 else place
    return (inside & OFFSET) + target.base if multicast and not pair else inside


def load_box(
    warp: Warp,
    cta: Cta,
    first: int,
    place: int,
    tensor: TensorMap,
    coordinates: list[int],
    line: int,
    unchanged: Callable[[], None],
) -> None:
    barrier, where_from = find_async(warp, place), box(tensor, coordinates)
    event = arriving(warp, barrier, line)
    destination(cta, first, tensor.box_bytes, warp.seen(), event, 128)
    visit(warp, cta, event)
    pieces = swizzled(
        first, tensor.box_bytes // where_from.inner, where_from.inner, tensor.swizzle, tensor.atom
    )

    def act() -> None:
        unchanged()
        data = read_box(warp.cta.launch.device, tensor, where_from)
        cta.shared.data.reshape(-1, 16)[pieces >> 4] = data.reshape(-1, 16)
        barrier.complete(tensor.box_bytes)

    launched(warp, barrier, Operation(act, line, f"a load of {tensor.box_bytes} bytes"))


def _tensor_store(one: Instruction, decoder: Decoder, reduce: str | None) -> Step:
    target, source, line = Mapped.read(one.operands[0], decoder), where(one.operands[1], decoder), one.line

    def issue(warp: Warp, lane: int) -> None:
        tensor, coordinates, unchanged = target.of(warp, lane, line)
        cta, first = shared_address(warp, lane_value(warp, source, lane, "the source of a copy"))
        own, where_to = thread(warp, lane), box(tensor, coordinates)
        origin(warp, cta, first, tensor.box_bytes, own.component, own.groups.count + 1, line, 128)
        pieces = swizzled(
            first, tensor.box_bytes // where_to.inner, where_to.inner, tensor.swizzle, tensor.atom
        )

        def read() -> Array:
            return cta.shared.data.reshape(-1, 16)[pieces >> 4].reshape(-1, where_to.inner)

        def write(data: Array) -> None:
            unchanged()
            write_box(warp.cta.launch.device, tensor, where_to, data, reduce)

        stored(warp, own, Store(read, write, line, f"a store of {tensor.box_bytes} bytes"))

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


def stored(warp: Warp, own: Thread, operation: Store) -> None:
    own.groups.open.append(operation)
    warp.cta.cluster.pending.add(operation)


@step("cp.reduce.async.bulk")
def _reduce(one: Instruction, decoder: Decoder) -> Step:
    name = next(part for part in one.modifiers if part in FUNCTIONS)
    if "tensor" in one.modifiers:
        return _tensor_store(one, decoder, name)
    return _plain_store(one, decoder, name)


# --- bytes ------------------------------------------------------------------------------------------------


@step("cp.async.bulk")
def _bulk(one: Instruction, decoder: Decoder) -> Step:
    """cp.async.bulk.TO.FROM: with an mbarrier into shared memory, with bulk groups out of it."""
    to = one.modifiers[2]
    return _plain_load(one, decoder) if to.startswith("shared") else _plain_store(one, decoder, None)


def _plain_load(one: Instruction, decoder: Decoder) -> Step:
    to, source, bar = (
        where(one.operands[0], decoder),
        where(one.operands[1], decoder),
        where(one.operands[3], decoder),
    )
    size, line, remote = (
        decoder.source(one.operands[2], "u32"),
        one.line,
        one.modifiers[3].startswith("shared"),
    )

    def issue(warp: Warp, lane: int) -> None:
        count = int(get(warp, size)[lane])
        cta, first = shared_address(warp, lane_value(warp, to, lane, "the destination of a copy"))
        at = lane_value(warp, source, lane, "the source of a copy")
        barrier = find_async(warp, lane_value(warp, bar, lane, "the address of an mbarrier") & (1 << 48) - 1)
        _multiple(count, at)
        place = destination(cta, first, count, warp.seen(), arriving(warp, barrier, line), 16)
        other, offset = shared_address(warp, at) if remote else (cta, 0)
        if remote:
            origin(warp, other, offset, count, barrier.component, barrier.epoch, line, 16)

        def act() -> None:
            held = (
                other.shared.data[offset : offset + count]
                if remote
                else warp.cta.launch.device.read(at, count)
            )
            cta.shared.data[place] = held
            barrier.complete(count)

        launched(warp, barrier, Operation(act, line, f"a copy of {count} bytes"))

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


def _multiple(bytes: int, at: int) -> None:
    if bytes % 16 or at % 16:
        raise Fault(f"a bulk copy of {bytes} bytes at {at:#x}: multiples of 16 are expected")


def _plain_store(one: Instruction, decoder: Decoder, reduce: str | None) -> Step:
    to, source, size = (
        where(one.operands[0], decoder),
        where(one.operands[1], decoder),
        decoder.source(one.operands[2], "u32"),
    )
    if "mbarrier::complete_tx::bytes" in one.modifiers:
        raise ValueError("a reduction into shared memory")
    line, kind = one.line, one.modifiers[-1]

    def issue(warp: Warp, lane: int) -> None:
        count, at = int(get(warp, size)[lane]), lane_value(warp, to, lane, "the destination of a copy")
        cta, first = shared_address(warp, lane_value(warp, source, lane, "the source of a copy"))
        own = thread(warp, lane)
        _multiple(count, at)
        place = origin(warp, cta, first, count, own.component, own.groups.count + 1, line, 16)

        def write(data: Array) -> None:
            device = warp.cta.launch.device
            device.write(at, joined(reduce, kind, device.read(at, count), data) if reduce else data)

        stored(
            warp, own, Store(lambda: cta.shared.data[place].copy(), write, line, f"a store of {count} bytes")
        )

    return lambda warp: one_lane(warp, lambda lane: issue(warp, lane))


# --- tensor maps made on the device -----------------------------------------------------------------------


@step("tensormap.replace")
def _replace(one: Instruction, decoder: Decoder) -> Step:
    """tensormap.replace.tile.FIELD.SPACE.b1024.TYPE [map], ordinal, value."""
    field, space = one.modifiers[2], one.modifiers[3].partition("::")[0]
    at = where(one.operands[0], decoder)
    index = immediate(one.operands[1]) if len(one.operands) == 3 else 0
    value = decoder.source(one.operands[-1], one.modifiers[-1])

    def change(warp: Warp, lane: int) -> None:
        warp.require(value.code, value.index, "a field of a tensor map")
        place = np.array([lane_value(warp, at, lane, "the address of a tensor map")])
        mask = warp.mask
        warp.only(1 << lane)
        data, valid = load(warp, space, place[:, None].ravel(), BYTES, one.line)
        if not valid.all():
            raise Fault("a tensor map is changed that was never written")
        made = Raw.read(data.tobytes()).changed(field, index, int(get(warp, value)[lane])).write()
        store(warp, space, place, np.frombuffer(made, np.uint8)[None, :], valid, one.line)
        warp.only(mask)

    return lambda warp: one_lane(warp, lambda lane: change(warp, lane))


@step("tensormap.cp_fenceproxy")
def _cp_fenceproxy(one: Instruction, decoder: Decoder) -> Step:
    """Copies a tensor map from shared to global memory, and fences it."""
    to, source = where(one.operands[0], decoder), where(one.operands[1], decoder)

    def run(warp: Warp) -> None:
        lane = int(warp.active.nonzero()[0][0])
        mask = warp.mask
        warp.only(1 << lane)
        data, valid = load(warp, "shared", source.of(warp)[lane : lane + 1], BYTES, one.line)
        store(warp, "global", to.of(warp)[lane : lane + 1], data, valid, one.line)
        warp.only(mask)

    return run
