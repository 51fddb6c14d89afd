"""Reductions of several tiles together, of vectors to scalars, or by more than one operation: argmax.

Takes a `tt.reduce` with its operands in registers and the names of its results; gives C. Each thread reduces
what it holds, beginning with its first element of each row; then lanes, then warps, combine theirs. The
lower lane's numbers come first on both sides, so that threads that share a result have the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from twill.ir.loop import Op, Tensor, Type, Value
from twill.ops.axis import axis_of
from twill.ops.c import c_type, computed
from twill.targets.cuda.registers.fragments import Fragment, holding
from twill.targets.cuda.registers.linear_tiles import Point, Spread
from twill.targets.cuda.registers.register_tiles import AnyPoint, Elements, cast, held, number, packed
from twill.targets.cuda.registers.register_tiles import Point as FragmentPoint
from twill.targets.cuda.shared.shared_tiles import UNROLL
from twill.targets.cuda.values.arithmetic import expressions


def lines(
    op: Op, names: Sequence[str], tiles: Sequence[Elements], scratch: str, group_barrier: str
) -> list[str]:
    """The whole reduction into declared variables. Raises ValueError for a layout in which lanes or warps
    share rows otherwise than by single bits of their numbers."""
    source = op.operands[0].type
    assert isinstance(source, Tensor)
    if any(isinstance(value.type, Tensor) and packed(value.type) for value in op.results):
        raise ValueError("with a result of 16 bits of two dimensions can not be generated")
    form, axis = holding(source).spread(), axis_of(op)
    inner = tuple(vector for vector in form.register if vector[axis])
    outer = tuple(vector for vector in form.register if not vector[axis])
    step = replace(form.point(), register=(*inner, *outer))
    layout = holding(source)
    point = FragmentPoint(layout, f"({form.index(step)})") if isinstance(layout, Fragment) else step
    vector = step.without(axis) if isinstance(point, Point) else _vector(point, axis)
    own = [_place(name, value, vector) for name, value in zip(names, op.results, strict=True)]
    values = [one(point) for one in tiles]
    first = f"i_ % {1 << len(inner)} == 0"
    begin = [
        f"{place} = {cast(v.type, value)};" for place, v, value in zip(own, op.results, values, strict=True)
    ]
    found = [
        UNROLL,
        f"for (int i_ = 0; i_ < {form.registers}; ++i_) {{",
        f"    if ({first}) {{ {' '.join(begin)} }} else {{",
        *(f"        {line}" for line in combined(op, own, _read(op, own), values)),
        "    }",
        "}",
    ]
    lanes, warps = form.along(axis)
    count = 1 << len(outer)
    each = [_each(name, value) for name, value in zip(names, op.results, strict=True)]
    for lane in lanes:
        found += _between_lanes(op, each, 1 << lane, count)
    return [*found, *(_between_warps(op, each, form, warps, scratch, group_barrier, count) if warps else [])]


def _between_lanes(op: Op, own: Sequence[str], apart: int, count: int) -> list[str]:
    low, high = list[str](), list[str]()
    inside = list[str]()
    for k, (place, value) in enumerate(zip(own, op.results, strict=True)):
        kind = computed(_scalar(value.type))
        inside.append(f"const {kind} mine{k} = {number(value.type, place)};")
        inside.append(f"const {kind} theirs{k} = __shfl_xor_sync(~0u, mine{k}, {apart});")
        low.append(f"(thread.lane & {apart} ? theirs{k} : mine{k})")
        high.append(f"(thread.lane & {apart} ? mine{k} : theirs{k})")
    inside += combined(op, own, low, high)
    return [UNROLL, f"for (int i_ = 0; i_ < {count}; ++i_) {{", *(f"    {line}" for line in inside), "}"]


def _between_warps(
    op: Op,
    own: Sequence[str],
    form: Spread,
    warps: Sequence[int],
    scratch: str,
    group_barrier: str,
    count: int,
) -> list[str]:
    axis = axis_of(op)
    size = prod(form.shape) // form.shape[axis]
    vector = form.point().without(axis)
    outer = tuple(bits for bits, whole in zip(vector.register, form.register, strict=True) if not whole[axis])
    place = replace(vector, register=outer).flat() if vector.shape else "0"
    warp = " + ".join(f"(thread.warp >> {bit} & 1) * {1 << k}" for k, bit in enumerate(warps))
    total = 1 << len(warps)

    def at(k: int, which: str, value: Value) -> str:
        kind = c_type(_scalar(value.type))
        index = f"(({which}) * {size} + {place}) * sizeof({kind})"
        return f"shared_at<{kind}>({scratch} + {8 * k * size * total} + {index})"

    pairs = list(enumerate(zip(own, op.results, strict=True)))
    put = " ".join(f"{at(k, warp, value)} = {one};" for k, (one, value) in pairs)
    first = " ".join(f"{one} = {at(k, '0', value)};" for k, (one, value) in pairs)
    other = [number(value.type, at(k, "warp", value)) for k, (_, value) in pairs]
    return [
        group_barrier,
        UNROLL,
        f"for (int i_ = 0; i_ < {count}; ++i_) {{ {put} }}",
        group_barrier,
        UNROLL,
        f"for (int i_ = 0; i_ < {count}; ++i_) {{",
        f"    {first}",
        f"    for (int warp = 1; warp < {total}; ++warp) {{",
        *(f"        {line}" for line in combined(op, own, _read(op, own), other)),
        "    }",
        "}",
    ]


def combined(op: Op, into: Sequence[str], one: Sequence[str], other: Sequence[str]) -> list[str]:
    """The region of the reduction on two tuples of C expressions. Raises ValueError for an operation that has
    no expression."""
    block = op.regions[0].blocks[0]
    found = [
        f"const {computed(arg.type)} in{k}_ = {text};"
        for k, (arg, text) in enumerate(zip(block.args, (*one, *other), strict=True))
    ]
    names = {arg.id: f"in{k}_" for k, arg in enumerate(block.args)}
    *ops, last = block.ops
    for step, inner in enumerate(ops):
        texts = expressions(inner, [names[value.id] for value in inner.operands])
        for k, (value, text) in enumerate(zip(inner.results, texts, strict=False)):
            if text is None:
                raise ValueError(f"by {inner.name} can not be generated")
            names[value.id] = f"step{step}_{k}_"
            found.append(f"const {computed(value.type)} {names[value.id]} = {text};")
    results = zip(into, op.results, last.operands, strict=True)
    return [*found, *(f"{place} = {cast(v.type, names[value.id])};" for place, v, value in results)]


def _read(op: Op, places: Sequence[str]) -> list[str]:
    return [number(value.type, place) for value, place in zip(op.results, places, strict=True)]


def _vector(point: FragmentPoint, axis: int) -> FragmentPoint:
    """The element of a vector that an element of a tile is in; of a vector, itself."""
    return point.along((1 - axis,)) if point.layout.axes == (0, 1) else point


def _place(name: str, value: Value, point: AnyPoint) -> str:
    """Where a thread keeps the result for a point of it."""
    return f"{name}[{held(name, value.type).register(point)}]" if isinstance(value.type, Tensor) else name


def _each(name: str, value: Value) -> str:
    return f"{name}[i_]" if isinstance(value.type, Tensor) else name


def _scalar(type: Type) -> Type:
    return type.dtype if isinstance(type, Tensor) else type
