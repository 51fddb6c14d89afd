"""TMA: copies of tensors and their tensor maps (PTX ISA, "Data Movement and Conversion Instructions:
Asynchronous copy", cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, tensormap.replace).

Issued, checked and completed as other bulk copies are (`opcodes.bulk`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twill.emulate.decode import Decoder, Ref, Step, step
from twill.emulate.faults import Fault
from twill.emulate.machine.asynchronous import Operation, Store
from twill.emulate.machine.cta import Cta
from twill.emulate.machine.warp import Warp
from twill.emulate.memory.clocks import Array
from twill.emulate.opcodes.boxes import box, padded, read_box, swizzled, write_box
from twill.emulate.opcodes.bulk import (
    arriving,
    destination,
    lane_value,
    launched,
    one_lane,
    origin,
    reduction,
    shared_address,
    stored,
    thread,
)
from twill.emulate.opcodes.integer import immediate
from twill.emulate.opcodes.lift import get
from twill.emulate.opcodes.mbarrier import find_async, visit
from twill.emulate.opcodes.memory import OFFSET, Where, load, store, where
from twill.emulate.opcodes.windows import CVTA, WINDOWS
from twill.emulate.ptx.syntax import Address, Instruction, Operand
from twill.emulate.tensormap import BYTES, Raw, TensorMap, decode


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
    destination(cta, first, tensor.room, warp.seen(), event, 128)
    visit(warp, cta, event)
    lines = tensor.box_bytes // where_from.inner
    pieces = swizzled(first, lines, where_from.inner * tensor.padding, tensor.swizzle, tensor.atom)

    def act() -> None:
        unchanged()
        data = read_box(warp.cta.launch.device, tensor, where_from)
        cta.shared.data.reshape(-1, 16)[pieces >> 4] = padded(tensor, data)
        barrier.complete(tensor.box_bytes)

    launched(warp, barrier, Operation(act, line, f"a load of {tensor.box_bytes} bytes"))


def _tensor_store(one: Instruction, decoder: Decoder, reduce: str | None) -> Step:
    target, source, line = Mapped.read(one.operands[0], decoder), where(one.operands[1], decoder), one.line

    def issue(warp: Warp, lane: int) -> None:
        tensor, coordinates, unchanged = target.of(warp, lane, line)
        cta, first = shared_address(warp, lane_value(warp, source, lane, "the source of a copy"))
        if tensor.padding > 1:
            raise Fault(f"tensors of type {tensor.type} are loaded, not stored")
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


@step("cp.reduce.async.bulk.tensor")
def _reduce_tensor(one: Instruction, decoder: Decoder) -> Step:
    return _tensor_store(one, decoder, reduction(one))


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
