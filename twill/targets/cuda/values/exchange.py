"""What goes from thread to thread of a group: reductions, and tiles that change their layout.

Takes elements in registers and the group's scratch buffer in shared memory; gives C. Two group barriers
enclose its use: before the first, which is left out where no warp reads what lay there (`Room`), other warps
may still do so; after the second, all is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from twill.ir.loop import Op, Tensor
from twill.ir.statements import SLICES
from twill.ops.axis import axis_of
from twill.ops.c import c_type
from twill.ops.values import element
from twill.targets.cuda.expressions import argument, plus
from twill.targets.cuda.registers.fragments import Fragment, layout, remainder
from twill.targets.cuda.registers.linear_tiles import Spread
from twill.targets.cuda.registers.register_tiles import OF_WORD, PACK, Elements, Point, cast, number, point
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.arithmetic import expression, neutral
from twill.targets.cuda.values.element_pairs import BRAIN, FLOAT, HALF, pair, paired_word
from twill.targets.cuda.values.maxima import by_bits, maxima
from twill.targets.cuda.values.packed_maxima import extremes, in_words
from twill.warp.slot_tensors import bits


class Room(NamedTuple):
    """Where in shared memory threads exchange what they hold."""

    address: str
    before: list[str]
    """The barrier before threads write, where other warps may still read what lay there."""
    barrier: str
    """The one before they read."""


class ColumnRange(NamedTuple):
    """Which slices of the elements of tiles."""

    begin: int = 0
    """In 1 / SLICES."""
    end: int = SLICES
    by_rows: bool = False
    """They go through a thread's elements row by row."""


WHOLE = ColumnRange()
LANES = 32
CHAINS = 4
"""How many elements of a row a thread combines at once: the latency of an operation (four cycles, CUDA C++
Programming Guide, arithmetic instructions) is then no wait."""

MANY = 8
"""Elements of a thread from which on dividing them among lanes saves more shuffles (32 lanes a cycle of an
SM) than its selections (64) take; fewer wait for one instruction after the other."""


def each(count: int, span: ColumnRange = WHOLE, neighbours: int = 0) -> str:
    """A loop over some slices of `count` registers or words. `neighbours`: so many lie in one row of an MMA's
    tile, then as many in another, alternately."""
    begin, end = (count * slices // SLICES for slices in span[:2])
    if not (span.by_rows and neighbours):
        return f"for (int i_ = {begin}; i_ < {end}; ++i_)"
    row = count // 2
    at = f"j_ % {row} * 2 + j_ / {row}"
    if neighbours > 1:
        at = f"j_ % {row} / {neighbours} * {2 * neighbours} + j_ / {row} * {neighbours} + j_ % {neighbours}"
    return f"for (int j_ = {begin}; j_ < {end}; ++j_) if (const int i_ = {at}; true)"


def pairs(count: int, span: ColumnRange) -> bool:
    """Whether some slices of `count` registers are pairs of registers."""
    return all(count * end % (2 * SLICES) == 0 for end in span[:2])


def gathered(
    op: Op, name: str, source: Fragment, elements: Elements, span: ColumnRange, *, votes: bool
) -> list[str]:
    """Reduce some slices into the variable `name`, each thread by itself; maxima by bits, where warps may
    vote. Raises ValueError for one that combines elements otherwise than by a single operation."""
    combine = op.regions[0].blocks[0].ops[0]
    start = neutral(combine)
    if (
        start is None
        or len(op.regions[0].blocks[0].ops) != 2
        or len(op.results) != 1
        or source.axes != (0, 1)
    ):
        raise ValueError("only sums, products, maxima and minima of rows or columns can be generated")
    one = point(source, "i_")
    vector = one.along((0 if op.attributes["axis"] == 1 else 1,))
    begin = [UNROLL, f"{each(vector.layout.registers)} {name}[i_] = {start};"] if span[0] == 0 else []
    neighbours = 1 if source.bands == 1 else 0
    loop = each(source.registers, span, 2 * neighbours)
    plain = f"{loop} {_combined(combine, f'{name}[{vector.register}]', elements(one))}"
    by_number = [*begin, UNROLL, plain]
    if span == WHOLE and in_words(op, source, span[:2]) and element(combine.result.type) == FLOAT:
        return extremes(op, name, source, elements, each(source.registers // 2, span, neighbours))
    if not (votes and by_bits(op, combine, source, span[:2])):
        return by_number
    words = each(source.registers // 2, span, neighbours)
    return maxima(name, source, elements, words, by_number, first=span[0] == 0)


def exchanged(op: Op, name: str, source: Fragment, taken: Callable[[], Room]) -> list[str]:
    """Finalize a reduction: among the lanes that share a row (1 and 2 apart) or a column (4, 8 and 16), then
    among the warps that do. Where warps share the columns of the tile but not those of a vector, each thread
    reads those of the vector. `taken` gives the room for an exchange among warps."""
    combine = op.regions[0].blocks[0].ops[0]
    start = neutral(combine)
    assert isinstance(op.result.type, Tensor)
    part, kept, sharing = remainder(op, source)
    lanes, kind = (4, 16) if kept else (1, 2), c_type(combine.result.type)
    count, whole = part.registers, layout(op.result.type)
    lines = [
        UNROLL,
        f"for (int i_ = 0; i_ < {count}; ++i_)",
        f"    for (int lanes = {lanes[0]}; lanes <= {lanes[1]}; lanes *= 2)",
    ]
    lines.append(f"        {_combined(combine, f'{name}[i_]', f'__shfl_xor_sync(~0u, {name}[i_], lanes)')}")
    if sharing == 1 and part.alike(whole):
        return lines
    warp = f"thread.row / {16 * source.down}" if kept == 0 else f"thread.row / 16 % {source.down}"
    first = "thread.lane % 4 == 0" if kept == 0 else "thread.lane < 4"
    mine, every = (f"{one.shape[0]} + {Point(one, 'i_').coordinate()}" for one in (part, whole))
    room = taken()
    lines += [*room.before, UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_)"]
    place = f"shared_at<{kind}>({room.address} + ({warp} * {mine}) * sizeof({kind}))"
    lines.append(f"    if ({first}) {place} = {name}[i_];")
    count = whole.registers
    lines += [room.barrier, UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_) {{", f"    {name}[i_] = {start};"]
    found = f"shared_at<{kind}>({room.address} + (warp * {every}) * sizeof({kind}))"
    return [
        *lines,
        f"    for (int warp = 0; warp < {sharing}; ++warp) {_combined(combine, f'{name}[i_]', found)}",
        "}",
    ]


def reduced(
    op: Op,
    name: str,
    source: Spread,
    index: str,
    elements: Elements,
    span: ColumnRange,
    *,
    paired: bool = False,
) -> list[str]:
    """`gathered` for a tile in a linear layout; `index` is the register of the result for register i_ of the
    tile. `paired`: one instruction adds two float32 elements."""
    combine, start = _combine(op)
    count = 1 << sum(not vector[axis_of(op)] for vector in source.register)
    begin = [UNROLL, f"{each(count)} {name}[i_] = {start};"] if span[0] == 0 else []
    loop, one = each(source.registers, span), elements(source.point())
    if count > 1 or source.registers * (span[1] - span[0]) // SLICES < 4 * CHAINS:
        return [*begin, UNROLL, f"{loop} {_combined(combine, f'{name}[{index}]', one)}"]
    chains = [
        f"{c_type(combine.result.type)} chains_[{CHAINS}];",
        UNROLL,
        f"{each(CHAINS)} chains_[i_] = {start};",
        UNROLL,
        _two_chains(source, elements, span)
        if paired and paired_word(combine, FLOAT, scalar=True) == "add" and pairs(source.registers, span)
        else f"{loop} {_combined(combine, f'chains_[i_ % {CHAINS}]', one)}",
        UNROLL,
        f"{each(CHAINS)} {_combined(combine, f'{name}[0]', 'chains_[i_]')}",
    ]
    return [*begin, "{", *(f"    {line}" for line in chains), "}"]


def _two_chains(source: Spread, elements: Elements, span: ColumnRange) -> str:
    """Additions to two chains at once."""
    low, high = (source.point(f"({plus('2 * i_', half)})") for half in (0, 1))
    first, second = (f"chains_[({plus('2 * i_', half)}) % {CHAINS}]" for half in (0, 1))
    value = f"add_pair(float2{{{first}, {second}}}, {pair(FLOAT, elements, low, high)})"
    return f"{each(source.registers // 2, span)} unpair({value}, {first}, {second});"


def shared_between(op: Op, name: str, source: Spread, vector: Spread, taken: Callable[[], Room]) -> list[str]:
    """`exchanged` for a tile in a linear layout whose reduction is held as `vector`. Where warps exchange it
    too, no lane needs all of a thread's elements before: if they are many, lanes divide them (`_divided`)."""
    combine, _ = _combine(op)
    lanes, warps = source.along(axis_of(op))
    kind, count, many = c_type(combine.result.type), vector.registers, vector.registers >= MANY
    dividing = lanes[: len(vector.register)] if warps and many else ()
    lines = list[str]()
    for lane in dividing:
        count //= 2
        lines += _divided(combine, name, count, lane)
    for lane in lanes[len(dividing) :]:
        other = f"__shfl_xor_sync(~0u, {name}[i_], {1 << lane})"
        lines += [UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_) {_combined(combine, f'{name}[i_]', other)}"]
    if not warps:
        return lines
    size, warp = (
        prod(vector.shape),
        " + ".join(f"(thread.warp >> {bit} & 1) * {1 << k}" for k, bit in enumerate(warps)),
    )
    placed, room = _placed(vector) if many else vector, taken()
    place = _of_lanes(placed, dividing).point().flat()
    own = f"shared_at<{kind}>({room.address} + (({warp}) * {size} + {place}) * sizeof({kind}))"
    lines += [*room.before, UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_) {own} = {name}[i_];", room.barrier]
    return [*lines, *_of_warps(combine, name, placed, 1 << len(warps), room.address, together=many)]


def _divided(combine: Op, name: str, count: int, lane: int) -> list[str]:
    """Of twice `count` elements that two lanes have, one combines the first half, the other the second: half
    as many shuffles as if both combined all."""
    kind = c_type(combine.result.type)
    low, high = f"{name}[i_]", f"{name}[{plus('i_', count)}]"
    return [
        UNROLL,
        f"for (int i_ = 0; i_ < {count}; ++i_) {{",
        f"    const bool second_ = thread.lane & {1 << lane};",
        f"    const {kind} given_ = second_ ? {low} : {high};",
        f"    if (second_) {low} = {high};",
        f"    {_combined(combine, low, f'__shfl_xor_sync(~0u, given_, {1 << lane})')}",
        "}",
    ]


def _placed(vector: Spread) -> Spread:
    """Where the elements of a vector lie between two exchanges: those of a thread side by side, where all
    lanes have the same."""
    size = vector.registers << sum(map(any, vector.warp))
    if any(map(any, vector.lane)) or size != prod(vector.shape):
        return vector
    places = iter([(1 << k,) for k in range(size.bit_length())])
    register = tuple(next(places) for _ in vector.register)
    warp = tuple(next(places) if any(at) else (0,) for at in vector.warp)
    return Spread((size,), register, ((0,),) * len(vector.lane), warp)


def _of_lanes(vector: Spread, lanes: Sequence[int]) -> Spread:
    """A vector whose upper registers lanes have divided among them."""
    left = len(vector.register) - len(lanes)
    taken = dict(zip(lanes, reversed(vector.register[left:]), strict=True))
    lane = tuple(taken.get(k, at) for k, at in enumerate(vector.lane))
    return replace(vector, register=vector.register[:left], lane=lane)


def _of_warps(
    combine: Op, name: str, placed: Spread, warps: int, address: str, *, together: bool
) -> list[str]:
    """Combine the vectors that warps have put into shared memory, one behind the other; `together`: several
    elements are read in one access."""
    kind, count, size = c_type(combine.result.type), placed.registers, bits(combine.result.type) // 8
    many = placed.neighbours(len(placed.shape) - 1, 16 // size) if together else 1
    place = placed.point(f"(i_ * {many})" if many > 1 else "i_").flat()
    at = f"{address} + (warp * {prod(placed.shape)} + {place}) * sizeof({kind})"
    start, each = neutral(combine), f"for (int i_ = 0; i_ < {count}; ++i_)"
    loop = f"for (int warp = 0; warp < {warps}; ++warp)"
    if many == 1:
        found = _combined(combine, f"{name}[i_]", f"shared_at<{kind}>({at})")
        return [UNROLL, f"{each} {{", f"    {name}[i_] = {start};", f"    {loop} {found}", "}"]
    found = _combined(combine, f"{name}[i_ * {many} + j_]", "found_[j_]")
    return [
        UNROLL,
        f"{each} {name}[i_] = {start};",
        UNROLL,
        f"{loop} {{",
        f"    {UNROLL}",
        f"    for (int i_ = 0; i_ < {count // many}; ++i_) {{",
        f"        {kind} found_[{many}];",
        f"        load_elements<{many}>(found_, 0, {at});",
        f"        {UNROLL}",
        f"        for (int j_ = 0; j_ < {many}; ++j_) {found}",
        "    }",
        "}",
    ]


def alone(
    op: Op, name: str, source: Fragment, elements: Elements, guard: str, scratch: str, group_barrier: str
) -> list[str]:
    """A vector reduced to a scalar, which every thread then has, by a group that only moves data; `guard` is
    true of the elements that there are."""
    combine, start = _combine(op)
    kind, warps = c_type(combine.result.type), source.threads // LANES
    other = _combined(combine, name, f"__shfl_xor_sync(~0u, {name}, lanes)")
    lines = [
        f"{name} = {start};",
        f"for (int i_ = 0; i_ < {source.registers}; ++i_)",
        f"    {guard}{_combined(combine, name, elements(point(source, 'i_')))}",
        f"for (int lanes = 1; lanes < {LANES}; lanes *= 2) {other}",
    ]
    if warps == 1:
        return lines
    each = _combined(combine, name, f"shared_at<{kind}>({scratch} + warp * sizeof({kind}))")
    return [
        *lines,
        group_barrier,
        f"if (thread.lane == 0) shared_at<{kind}>({scratch} + thread.warp * sizeof({kind})) = {name};",
        group_barrier,
        f"{name} = {start};",
        f"for (int warp = 0; warp < {warps}; ++warp) {each}",
    ]


def _combine(op: Op) -> tuple[Op, str]:
    """The operation that combines two elements, and what a reduction by it starts from. Raises ValueError for
    more than one."""
    combine = op.regions[0].blocks[0].ops[0]
    start = neutral(combine)
    if start is None or len(op.regions[0].blocks[0].ops) != 2 or len(op.results) != 1:
        raise ValueError("only sums, products, maxima and minima can be generated")
    return combine, start


def _combined(combine: Op, one: str, other: str) -> str:
    """Sums of 16-bit floats by an instruction of theirs, which rounds as that of float32 and a conversion do
    (`element_pairs`): in a chain the latency of a conversion would follow each addition."""
    kind = combine.result.type
    dtype = element(kind)
    if dtype in (HALF, BRAIN) and paired_word(combine, dtype, scalar=True) == "add":
        word = argument(f"un{PACK[dtype]}", other)
        stored = cast(kind, other) if word is None else f"{OF_WORD[PACK[dtype]]}({word})"
        return f"{one} = __hadd_rn({one}, {stored});"
    found = expression(combine, [number(kind, text) for text in (one, other)]) or ""
    return f"{one} = {cast(kind, found)};"
