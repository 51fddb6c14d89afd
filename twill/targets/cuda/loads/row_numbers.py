"""Numbers that are loaded for each row of a tile whose rows threads copy (pages, tokens of an expert).

Takes the operations of a load and which rows a warp copies; gives lines of C. Several lanes copy from one
row, and each would load its number again: one behind the other, since few are in flight where a thread has
few registers. Each lane loads the numbers of one row at once, before the threads wait for a slot, and passes
them on (`__shfl_sync`) to the lanes that copy from that row.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from re import sub

from twill.ir.loop import Op, Tensor, Value
from twill.ops.axis_info import AxisAnalysis
from twill.ops.c import C_TYPES
from twill.ops.table import role
from twill.ops.values import element
from twill.targets.cuda.expressions import needed, plus, times
from twill.targets.cuda.registers.fragments import axes
from twill.targets.cuda.registers.register_tiles import AnyPoint, Elements, Point
from twill.targets.cuda.scope import Scope

LANES = 32
OF_LANE, OF_THREAD = "_of_lane", "_of_thread"
"""End the names of numbers that lanes pass on, and of those that each thread keeps for itself."""
_INTEGERS = ("i8", "i16", "i32", "i64")
_MOST = 4
"""Numbers of one row that are passed; more have no registers in threads that copy."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that the lanes of a warp copy from, not more than there are lanes."""

    point: Point
    """The first element of copy `i_`."""
    axis: int
    """Of the tile, from one row to the next."""
    size: int
    lane: str
    """The row whose numbers this lane loads."""
    source: str = ""
    """The lane that has the numbers of the row of copy `i_`; empty where each thread has its own."""
    guard: str = ""
    """Which threads copy, where not all do."""


def rows(point: Point, axis: int, per: int, count: int) -> Rows | None:
    """Of a tile of which each thread makes `count` copies, every so many-th one, `per` of a row; None where a
    warp copies from more rows than it has lanes, or rows are not shared by lanes that follow one another."""
    form = point.layout
    if per > form.threads:
        return _long_rows(point, axis, per, count)
    together = max(1, LANES // per)
    if form.axes != (0, 1) or form.threads % per or (LANES % per and per % LANES) or per == 1:
        return None
    if count * together > LANES or form.shape[axis] != form.threads // per * count:
        return None
    number = f"thread.index % {LANES}" + (f" % {count * together}" if count * together < LANES else "")
    first = f"thread.index / {LANES} * {LANES} / {per}"
    lane = plus(plus(first, f"{number} / {together} * {form.threads // per}"), f"{number} % {together}")
    own = f"thread.index % {LANES} / {per}" if together > 1 else "0"
    return Rows(point, axis, form.shape[axis], f"({lane})", plus(times("i_", together), own))


def _long_rows(point: Point, axis: int, per: int, count: int) -> Rows | None:
    """The same of rows of which each thread makes several copies, one behind the other."""
    form, several = point.layout, per // point.layout.threads
    size = count // several
    if form.axes != (0, 1) or per % form.threads or count % several:
        return None
    if size > LANES or form.shape[axis] != size:
        return None
    lane = f"thread.index % {LANES}" + (f" % {size}" if size < LANES else "")
    return Rows(point, axis, size, f"({lane})", f"i_ / {several}")


def own_element(point: Point, size: int, copies: int, count: int) -> Rows | None:
    """Of a vector of which a thread makes one of all `copies` at most: it needs no number but its own."""
    if count != 1:
        return None
    guard = f"thread.index < {copies}" if copies < point.layout.threads else ""
    return Rows(point, 0, size, point.at[0].replace("v_", "thread.index"), guard=guard)


@dataclass(slots=True)
class Passed:
    """The numbers that lanes pass on in the copies of one load."""

    rows: Rows
    values: frozenset[int]
    """Which, by value id."""
    loaded: list[str] = field(default_factory=list[str])
    """What each lane loads."""
    taken: list[str] = field(default_factory=list[str])
    """The declarations of the numbers of a row in its copy."""

    def executed(self, scope: Scope, op: Op) -> None:
        """From here on what `op` has loaded for the rows copied from is what another lane passes on."""
        if op.results and op.results[0].id in self.values:
            scope.values[op.result.id] = self._elements(scope, op.result)

    def _elements(self, scope: Scope, value: Value) -> Elements:
        own, kind = scope.elements(value), C_TYPES[element(value.type)]
        if not self.rows.source:
            return self._of_thread(own, kind, f"{scope.name(value)}{OF_THREAD.removeprefix('_')}")
        name, lane = (f"{scope.name(value)}{ending}" for ending in ("of_i_", OF_LANE.removeprefix("_")))
        copied, axis = self.rows.point.at[self.rows.axis], self.rows.axis
        at = ("0", self.rows.lane) if axis else (self.rows.lane, "0")
        if not _runs_along(value, axis):  # each element is found by its number
            axis, at = 0, (self.rows.lane, self.rows.lane)
        self.loaded.append(f"const {kind} {lane} = {own(replace(self.rows.point, at=at))};")
        self.taken.append(f"const {kind} {name} = __shfl_sync(~0u, {lane}, {self.rows.source});")
        copies, lanes = ((one, f"int32_t({one})") for one in (copied, self.rows.lane))

        def elements(one: AnyPoint) -> str:
            found = one.at[axis] if isinstance(one, Point) and one.at else None
            return name if found in copies else lane if found in lanes else own(one)

        return elements

    def _of_thread(self, own: Elements, kind: str, name: str) -> Elements:
        lane, guard = self.rows.lane, self.rows.guard
        number = own(replace(self.rows.point, at=(lane, lane)))
        self.loaded.append(f"const {kind} {name} = {f'{guard} ? {number} : 0' if guard else number};")

        def elements(one: AnyPoint) -> str:
            copied = isinstance(one, Point) and one.at == self.rows.point.at
            return name if copied else own(one)

        return elements

    def used(self, copy: str) -> list[str]:
        """The declarations of the numbers that a copy has; all lanes must come to them."""
        return needed(self.taken, [copy])

    def needed(self, lines: Sequence[str]) -> list[str]:
        """What each lane loads of what it passes on in some lines."""
        return needed(self.loaded, lines)


def of_lane(line: str) -> str:
    """Type and name of a number that a lane loads for the lanes of its row, or a thread for itself; empty for
    other lines."""
    declared = line.partition(" = ")[0].removeprefix("const ")
    return declared if declared.endswith((OF_LANE, OF_THREAD)) else ""


def passed(analysis: AxisAnalysis, ops: Sequence[Op], rows: Rows | None) -> Passed | None:
    """Which values of `ops`, all that a load needs, lanes pass on: integers that are loaded for rows, and
    what of these takes a division. None where none are loaded, or too many."""
    if rows is None:
        return None
    loads = [op.result.id for op in ops if role(op) == "pointer_load" and _of_rows(op.result, rows)]
    if not 0 < len(loads) <= _MOST:
        return None
    follow, divided = set(loads), list[int]()
    for op in ops:
        if follow.intersection(value.id for value in op.operands):
            follow.update(value.id for value in op.results)
            divided += [op.result.id] if _divides(analysis, op) and _of_rows(op.result, rows) else []
    return Passed(rows, frozenset((*loads, *divided[: _MOST - len(loads)])))


def _divides(analysis: AxisAnalysis, op: Op) -> bool:
    """Whether an operation divides by a number that the compiler does not know, in some twenty instructions
    or, of 64 bits, more."""
    return role(op) in ("remainder", "divide") and analysis.number(op.operands[1]) is None


def _of_rows(value: Value, rows: Rows) -> bool:
    """An integer for each row."""
    kind = value.type
    if not isinstance(kind, Tensor) or element(kind) not in _INTEGERS or prod(kind.shape) != rows.size:
        return False
    return len(kind.shape) == 1 or (bool(rows.source) and _runs_along(value, rows.axis))


def _runs_along(value: Value, axis: int) -> bool:
    """Whether a vector runs along an axis of a tile. (One in a layout of one dimension is taken for rows,
    also where it becomes one of columns.)"""
    assert isinstance(value.type, Tensor)
    try:
        return axes(value.type) == (axis,)
    except ValueError:
        return False


def told_apart(
    before: Collection[str], tensor: int, numbers: Sequence[str], lines: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The numbers and copies of a tensor of a slot, where lanes have another one's number of the same value:
    tiles of other shapes have their rows in other lanes."""
    taken = {of_lane(one) for one in before} - {""}
    again = [of_lane(one).split()[-1] for one in numbers if one not in before and of_lane(one) in taken]
    names = {one: f"{one.rpartition('_of_')[0]}_{tensor}_of_{one.rpartition('_of_')[2]}" for one in again}

    def renamed(line: str) -> str:
        for old, new in names.items():
            line = sub(rf"\b{old}\b", new, line)
        return line

    return [renamed(one) for one in numbers], [renamed(one) for one in lines]
