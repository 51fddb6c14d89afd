"""Asynchronous copies (cp.async) of a tile in global memory to shared memory, by threads; gives C."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np

from twill.ir.channels import SlotTensor
from twill.ir.loop import Function, Op
from twill.ir.shared_places import run
from twill.ops.axis_info import AxisAnalysis
from twill.ops.pointer_loads import filling
from twill.ops.values import bits_of, element
from twill.targets.cuda.expressions import needed, times
from twill.targets.cuda.loads.address_analysis import Condition
from twill.targets.cuda.loads.crossing import Crossing, crossing
from twill.targets.cuda.registers.fragments import Fragment
from twill.targets.cuda.registers.register_tiles import Elements, Point
from twill.targets.cuda.shared.shared_tiles import FEW, Shared, addressed, byte_of
from twill.warp.slot_tensors import bits


def filling_text(function: Function, load: Op) -> str:
    """What a load gives where its mask is false, as eight bytes that repeat; empty for zeros."""
    kind, value = load.result.type, filling(AxisAnalysis(function), load)
    if not value:
        return ""
    pattern = bits_of(np.full(8, value), element(kind)).tobytes()[:8]
    return f"0x{int.from_bytes(pattern, 'little'):016x}ull"


def copy(vector: int, to: str, pointer: str, mask: str, other: str, room: str = "") -> str:
    """One asynchronous copy; where the mask is false it writes `other`, or zeros. An empty mask is true. Of a
    copy with `room` for so many bytes, those are copied, and zeros behind them."""
    if room:
        return f"cp_async_first<{vector}>({to}, {pointer}, {mask or 'true'}, {room});"
    if mask and other:
        return f"cp_async_or<{vector}>({to}, {pointer}, {mask}, {other});"
    return f"cp_async<{vector}>({to}, {pointer}{f', {mask}' if mask else ''});"


def masked(conditions: Sequence[Condition], point: Point, size: int) -> tuple[str, str]:
    """The mask of a copy, and its `room` (`copy`) where it may leave out the last elements, of `size` bytes;
    either may be empty."""
    holds = [one.holds(point) for one in conditions if one.room is None]
    rooms = [one.room(point) for one in conditions if one.room is not None]
    least = reduce(lambda one, other: f"min({one}, {other})", rooms) if rooms else ""
    return joined(holds), f"({least}) * {size}" if least else ""


def joined(texts: Iterable[str]) -> str:
    return " && ".join(texts)


@dataclass(frozen=True, slots=True)
class Places:
    """The copies that threads make of a tile in shared memory, each thread every so many-th."""

    tile: Shared
    plain: bool
    """Row by row."""
    vector: int
    """Bytes of a copy."""
    per: int
    """Copies of a row."""
    one: Point
    """The first element of copy `i_` of a thread, which is number `v_` of all."""
    axis: int
    """Of the tile, from one row of copies to the next."""
    row: str
    column: str
    crossing: Crossing | None = None
    """Of copies whose lanes do not follow one another along rows."""

    @property
    def all(self) -> int:
        return self.tile.rows * self.per

    @property
    def count(self) -> int:
        """Of each thread."""
        return -(-self.all // self.one.layout.threads)

    @property
    def to(self) -> str:
        """Where a copy goes, as bytes from `to_`."""
        tile = self.tile
        if tile.places:
            return f"to_ + {byte_of(tile, self.row, self.column)}"
        if self.plain:
            return f"to_ + v_ * {self.vector}"
        along = self.crossing.of("v_") if self.crossing else row_and_copy(self.per, self.one.layout.threads)
        byte = tile.byte(f"{along[1]} * {self.vector}")
        inside = f"{self.row} * {tile.width} + {byte} % {tile.width}"
        return f"to_ + {byte} / {tile.width} * {tile.box} + swizzle<{tile.width}>({inside})"


def copy_places(tensor: SlotTensor, vector: int, form: Fragment, crosses: bool = False) -> Places:
    """Where copies of `vector` bytes go that the threads of `form` make; the rows of a tile that `crosses`
    those of global memory are divided among lanes as `crossing` says. Raises ValueError for a tile that is
    not as the tensor core reads it."""
    size, plain = bits(tensor.dtype) // 8, tensor.encoding is None
    line = tensor.shape[-1] * size
    rows = Shared("to_", prod(tensor.kept[:-1]), tensor.shape[-1], 8 * size, line)
    tile = rows if plain else addressed("to_", tensor)
    vector = min(vector, run(tile.places) * size) if tile.places else vector
    per = tile.columns // tile.room * size // vector
    lanes = crossing(tile.rows, per, form.threads) if crosses and not plain and not tile.places else None
    row, column = lanes.of("v_") if lanes else row_and_copy(per, form.threads)
    column = column if lanes else f"({column} * {vector // size})"
    down, along = (column, row) if tile.transposed else (row, column)
    at = (times(down, tensor.repeated), along)
    one = Point(form, "i_", at if form.axes == (0, 1) else (f"(v_ * {vector // size})",) * 2)
    return Places(tile, plain, vector, per, one, int(tile.transposed), row, column, lanes)


def row_and_copy(per: int, threads: int) -> tuple[str, str]:
    """The row of copy `i_` of a thread, which is number `v_` of all, and which of the `per` copies of that
    row it is. Of a row that takes several of each thread they are told by `i_`: what follows from the copy
    is the same for all rows then, and what follows from the row for all threads. (GPTQ's zeros in tiles of 32
    rows of 256: 16 instructions for each copy by `v_`, 11 so.)"""
    if per <= threads or per % threads:
        return f"(v_ / {per})", f"v_ % {per}"
    several = per // threads
    return f"(i_ / {several})", f"(thread.index + {threads} * (i_ % {several}))"


def copied(
    address: str,
    places: Places,
    pointers: Elements,
    mask: tuple[str, str],
    other: str = "",
    before: Callable[[str], Sequence[str]] = lambda copy: (),
) -> list[str]:
    """Asynchronous copies from where `pointers` say to a tile in shared memory; `other` or zeros where the
    mask (`masked`) is false. `before` gives what stands before the text of a copy, executed by all
    threads."""
    one, threads = places.one, places.one.layout.threads
    holds, room = mask
    made = copy(places.vector, places.to, pointers(one), holds, other, room)
    guard = f"if (v_ < {places.all}) " if places.all % threads else ""
    lines = [
        f"const uint32_t to_ = {address};",
        FEW,
        f"for (uint32_t i_ = 0; i_ < {places.count}; ++i_) {{",
    ]
    number = f"const uint32_t v_ = thread.index + {threads} * i_;"
    body = [*before(made), f"{guard}{made}"]
    inside = [*needed([number], body), *body]
    return [*lines, *(f"    {line}" for line in inside), "}"]
