"""Layouts and element types of TTGIR as Gluon writes them.

Takes types of `ir.loop`; gives expressions of `triton.experimental.gluon.language` as `gl`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod

from twill.ir.loop import (
    Blocked,
    DotOperand,
    Encoding,
    Linear,
    NvidiaMma,
    NvmmaShared,
    Slice,
    SwizzledShared,
    TensorMemory,
    Type,
)
from twill.ops.values import element

DTYPES: Mapping[str, str] = {
    "i1": "gl.int1",
    **{f"{sign}i{bits}": f"gl.int{bits}" for sign in ("", "s") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"gl.uint{bits}" for bits in (8, 16, 32, 64)},
    "index": "gl.int64",
    **{f"f{bits}": f"gl.float{bits}" for bits in (16, 32, 64)},
    "bf16": "gl.bfloat16",
    "f8E4M3FN": "gl.float8e4nv",
    "f8E5M2": "gl.float8e5",
}
"""Element types."""


def dtype(type: Type) -> str:
    """The element type of a scalar or tile. Raises ValueError for one that Gluon does not have."""
    name = element(type)
    if name not in DTYPES:
        raise ValueError(f"elements of type {name} have no name in Gluon")
    return DTYPES[name]


@dataclass(slots=True)
class Layouts:
    """The layouts of a file: each is defined once, at its head."""

    aliases: Mapping[str, Encoding]
    """Of the TTGIR module, by name with `#`."""
    names: dict[tuple[Encoding, int], str] = field(default_factory=dict[tuple[Encoding, int], str])
    """By layout and number of dimensions."""
    lines: list[str] = field(default_factory=list[str])

    def name(self, encoding: Encoding | None, shape: tuple[int, ...], warps: int | None = None) -> str:
        """The constant for a layout; for a tile in registers, that of a group of `warps` warps. Raises
        ValueError for a layout that Gluon does not have, or not with so many warps."""
        if encoding is None:
            encoding = SwizzledShared(1, 1, 1, tuple(range(len(shape)))[::-1])
        scaled = encoding if warps is None else scaled_to(encoding, warps)
        key = (scaled, len(shape))
        if key not in self.names:
            text = self._text(scaled, shape)
            self.names[key] = self._free(scaled)
            self.lines.append(f"{self.names[key]} = gl.constexpr({text})")
        return self.names[key]

    def _free(self, encoding: Encoding) -> str:
        """A name that says what the layout is: its alias in TTGIR where it has one."""
        alias = next((name for name, one in self.aliases.items() if one == encoding), None)
        stem = (alias.lstrip("#") if alias else type(encoding).__name__).upper() + "_LAYOUT"
        taken, name, further = set(self.names.values()), stem, count(1)
        while name in taken:
            name = f"{stem}_{next(further)}"
        return name

    def _text(self, encoding: Encoding, shape: tuple[int, ...]) -> str:
        match encoding:
            case Blocked(size, threads, warps, order):
                return f"gl.BlockedLayout({[*size]}, {[*threads]}, {[*warps]}, {[*order]})"
            case Slice(dim, parent):
                whole = (*shape[:dim], 1, *shape[dim:])
                return f"gl.SliceLayout({dim}, {self.name(parent, whole)})"
            case NvidiaMma(version, warps, instruction):
                return f"gl.NVMMADistributedLayout({[*version]}, {[*warps]}, {[*instruction]})"
            case DotOperand(index, parent, width):
                return f"gl.DotOperandLayout({index}, {self.name(parent, shape)}, {width or 0})"
            case Linear(register, lane, warp, block):
                bases = ", ".join(str([[*one] for one in bases]) for bases in (register, lane, warp, block))
                own = [_extent(encoding, axis) for axis in range(len(shape))]
                return f"gl.DistributedLinearLayout({bases}, {own})"
            case NvmmaShared(swizzle, transposed, bits, padded):
                return (
                    f"gl.NVMMASharedLayout({swizzle}, {bits}, {len(shape)}, transposed={transposed},"
                    f" fp4_padded={padded})"
                )
            case SwizzledShared(vec, per_phase, max_phase, order):
                return f"gl.SwizzledSharedLayout({vec}, {per_phase}, {max_phase}, {[*order]})"
            case TensorMemory(rows, columns, stride, False):
                return f"TensorMemoryLayout(({rows}, {columns}), {stride})"
            case _:
                raise ValueError(f"the layout {encoding} has no name in Gluon")


def _extent(encoding: Linear, axis: int) -> int:
    """How many elements a layout has along an axis; a tile may have more, which repeat it in registers, or
    fewer."""
    bases = (*encoding.register, *encoding.lane, *encoding.warp, *encoding.block)
    return 2 * max((basis[axis] for basis in bases), default=0) or 1


def scaled_to(encoding: Encoding, warps: int) -> Encoding:
    """The layout for a group of another number of warps than the kernel was compiled for: blocked layouts
    spread the tile over as many as there are, and stand for accumulators, which such a group only moves; in
    linear layouts, threads of fewer warps hold what further warps would.
    Raises ValueError for others."""
    match encoding:
        case Blocked(_, _, per_cta, _) if prod(per_cta) != warps:
            return replace(encoding, warps_per_cta=_spread(per_cta, warps))
        case NvidiaMma(_, per_cta, _) if prod(per_cta) != warps:
            return Blocked((1, 2), (8, 4), _spread(per_cta, warps), (1, 0))
        case Slice(dim, parent):
            return Slice(dim, scaled_to(parent, warps))
        case DotOperand(_, NvidiaMma(_, per_cta, _), _) if prod(per_cta) != warps:
            raise ValueError(f"an operand of an MMA is held by a group of {warps} warps, not {prod(per_cta)}")
        case Linear(register, _, warp, _) if 1 << len(warp) > warps:
            own = warps.bit_length() - 1
            return replace(encoding, register=(*register, *warp[own:]), warp=warp[:own])
        case Linear(_, _, warp, _) if 1 << len(warp) != warps:
            raise ValueError(f"a group of {warps} warps has a tile laid out for {1 << len(warp)}")
        case _:
            return encoding


def _spread(per_cta: tuple[int, ...], warps: int) -> tuple[int, ...]:
    """Warps along each axis, the outermost first, no more along one than there were before while that is
    possible."""
    found, left = list[int](), warps
    for along in per_cta:
        found.append(min(along, left))
        left //= found[-1]
    found[0] *= left
    return tuple(found)


def bits(kind: Type) -> int:
    """Of one element."""
    name = element(kind)
    return {"f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16}.get(name) or int(name.lstrip("suif"))
