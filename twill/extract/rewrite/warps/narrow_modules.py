"""Modules of one or two warps, written for a warpgroup, and of four, written for two.

Takes a `Module`; gives the same for more warps: layouts and the module's attribute name more warps, which
hold further rows or columns of an accumulator, and further elements of other tiles, or copies. What the
kernel computes does not depend on it; a group that computes has whole warpgroups here.
"""

from collections.abc import Iterator
from dataclasses import replace
from re import finditer

from twill.extract.rewrite.text.edits import Edit, edited
from twill.extract.rewrite.text.layout_lines import alias_line, replaced
from twill.extract.rewrite.warps.blocked_warps import dimensions, with_warps
from twill.extract.rewrite.warps.linear_warps import spread
from twill.ir.distribution import bases, distribution, root
from twill.ir.loop import Blocked, DotOperand, Encoding, Linear, Module, NvidiaMma, Op, Tensor
from twill.ops.table import role

WARPS = 4
"""Of a warpgroup."""
ATTRIBUTE = r'"?ttg\.num-warps"? = (\d+)'
"""The number of warps in a module's head."""
LANES = 8
"""Columns that four lanes of an accumulator hold, two each (PTX ISA, fragments of mma)."""


def widened(module: Module, warps: int = WARPS) -> Module:
    """The module itself where it has as many warps, a power of two, or more."""
    fits = module.num_warps & (module.num_warps - 1) == 0
    factor = warps // module.num_warps if fits else 1
    if factor <= 1:
        return module
    added = range(module.num_warps.bit_length() - 1, (factor * module.num_warps).bit_length() - 1)
    return agreeing(spread(edited(module, _edits(module, factor)), added))


def _edits(module: Module, factor: int) -> Iterator[Edit]:
    for found in finditer(ATTRIBUTE, module.text):
        yield Edit(found.start(1), found.end(1), str(factor * module.num_warps))
    along = dimensions(module, factor)
    for name, encoding in module.encodings.items():
        begin, end = alias_line(module, name)
        line = module.text[begin:end]
        match encoding:
            case Blocked(warps_per_cta=warps):
                made = with_warps(encoding, along[encoding], factor).warps_per_cta
                yield Edit(begin, end, replaced(line, "warpsPerCTA", warps, made))
            case NvidiaMma():
                yield Edit(begin, end, shared_by(module, line, encoding, _spread(module, encoding, factor)))
            case Linear(lane=lane, warp=warp):
                more = [(0,) * len(lane[0])] * (factor.bit_length() - 1)
                yield Edit(begin, end, replaced(line, "warp", warp, (*warp, *more)))
            case _:
                pass


def agreeing(module: Module) -> Module:
    """With linear layouts of tiles that a transposition makes operands as these are spread now: warps
    that share rows of an accumulator have columns of B of their own."""
    wanted = dict[str, set[Linear]]()
    names = {encoding: name for name, encoding in module.encodings.items()}
    transposes = [op for function in module.functions for op in function.walk() if role(op) == "transpose"]
    for pair in filter(None, map(_turned, transposes)):
        if pair[0] in names:
            wanted.setdefault(names[pair[0]], set()).add(pair[1])
    for one, other in [pair for op in transposes for pair in _linear_sides(op)]:
        if names.get(one, "") in wanted and names.get(other) not in (None, *wanted):
            wanted[names[other]] = {_transposed(fixed) for fixed in wanted[names[one]]}
    edits = list[Edit]()
    for name, (one, *others) in wanted.items():
        old = module.encodings[name]
        if isinstance(old, Linear) and not others and one != old:
            begin, end = alias_line(module, name)
            line = module.text[begin:end]
            for key in ("register", "lane", "warp"):
                line = replaced(line, key, getattr(old, key), getattr(one, key))
            edits.append(Edit(begin, end, line))
    return edited(module, edits) if edits else module


def _turned(op: Op) -> tuple[Linear, Linear] | None:
    """The linear layout on one side of a transposition of two dimensions, where an accumulator or operand is
    on the other, and the one that this is, transposed; None for another operation."""
    for one, other in _both_ways(op):
        spread = _of_mma(other.encoding) if isinstance(one.encoding, Linear) else None
        found = distribution(spread, other.shape) if spread else None
        if isinstance(one.encoding, Linear) and found is not None and not found.repeats:
            made = replace(one.encoding, register=found.register, lane=found.lane, warp=found.warp)
            return one.encoding, _transposed(made)
    return None


def _linear_sides(op: Op) -> Iterator[tuple[Linear, Linear]]:
    """Both linear layouts of a transposition of two dimensions, in both orders."""
    for one, other in _both_ways(op):
        if isinstance(one.encoding, Linear) and isinstance(other.encoding, Linear):
            yield one.encoding, other.encoding


def _both_ways(op: Op) -> Iterator[tuple[Tensor, Tensor]]:
    """The tiles on both sides of a transposition, in both orders; none unless it is of two dimensions."""
    source, result = op.operands[0].type, op.result.type
    if isinstance(source, Tensor) and isinstance(result, Tensor) and len(result.shape) == 2:
        yield from ((source, result), (result, source))


def _transposed(layout: Linear) -> Linear:
    register, lane, warp = (
        tuple(vector[::-1] for vector in vectors) for vectors in (layout.register, layout.lane, layout.warp)
    )
    return replace(layout, register=register, lane=lane, warp=warp)


def _of_mma(encoding: Encoding | None) -> Encoding | None:
    """The layout of an accumulator, or of an operand, with all warps; None for another one."""
    match encoding:
        case NvidiaMma():
            every = bases(encoding)
            return Linear(every.register, every.lane, every.warp, ())
        case DotOperand(parent=NvidiaMma() as parent):
            return replace(encoding, parent=_of_mma(parent))
        case _:
            return None


def shared_by(module: Module, line: str, encoding: NvidiaMma, warps: tuple[int, ...]) -> str:
    """The line of an accumulator's layout with so many warps along rows and columns. Its instructions have no
    more columns than each warp has in the narrowest tile, so that no two warps hold copies; but eight, which
    the lanes of a warp hold: of fewer, lanes and warps would name one column, and its sums count twice."""
    rows, columns, *rest = encoding.instr_shape
    widths = [tile.shape[1] // warps[1] for tile in accumulator_tiles(module, encoding)]
    narrow = min([columns, *(max(width, LANES) for width in widths)])
    line = replaced(line, "instrShape", encoding.instr_shape, (rows, narrow, *rest))
    return replaced(line, "warpsPerCTA", encoding.warps_per_cta, warps)


def _spread(module: Module, encoding: NvidiaMma, factor: int) -> tuple[int, ...]:
    """Further warps take further rows of an accumulator while it has some, then columns."""
    rows, columns = encoding.warps_per_cta
    tiles = accumulator_tiles(module, encoding)
    fewest = min((tile.shape[0] for tile in tiles), default=rows * encoding.instr_shape[0])
    for _ in range(factor.bit_length() - 1):
        down = 2 * rows * encoding.instr_shape[0] <= fewest
        rows, columns = (2 * rows, columns) if down else (rows, 2 * columns)
    return rows, columns


def accumulator_tiles(module: Module, encoding: Encoding) -> Iterator[Tensor]:
    """The accumulators that have a layout."""
    for function in module.functions:
        for op in function.walk():
            kind = op.result.type if role(op) in ("dot", "wgmma") else None
            if isinstance(kind, Tensor) and root(kind.encoding) == encoding:
                yield kind
