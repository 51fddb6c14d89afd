"""The timeline of the pipelined loop: cycle x unit and cycle x warp group, several iterations overlapped, the
steady state framed.

Takes a solved problem. Colour is the warp group (one hue each), shade the iteration, light to dark. A unit's
row shows when it is reserved; an aggregate unit, which limits only the sum over an iteration, has its
reservations end to end from the start of each interval, so that a full row is a full unit. A group's row is
dark while its warps issue and pale until the result is available.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.report import facts
from twill.report.palette import CRITICAL, FAINT, INK, RULE, group_color
from twill.report.scene import Rect, Scene, Shape, Text, straight, text_width

LEFT, RIGHT, TOP, LANE, GAP = 150.0, 24.0, 92.0, 26.0, 10.0
"""Pixels: around the drawing, of a row's lanes, and between rows."""
_LIGHT, _DARK = -0.3, 0.75
"""Shades of the first and the last iteration."""
_LEGEND = 6
"""Iterations in the legend, at most."""


@dataclass(frozen=True, slots=True)
class Bar:
    """An operation of iteration `iteration`, in a row from `start` to `end`; its result is available at
    `tail`."""

    op: int
    iteration: int
    start: Time
    end: Time
    tail: Time


@dataclass(frozen=True, slots=True)
class Row:
    """A unit or a group: its bars in as many lanes as overlap."""

    name: str
    note: str
    lanes: tuple[tuple[Bar, ...], ...]
    aggregate: bool = False


def iterations(solution: Solution) -> int:
    """How many iterations the drawing shows: up to the steady state, and one more; at least three."""
    return max(3, solution.stages + 1)


def shade(iteration: int, count: int) -> float:
    """The shade of one of `count` iterations, from light to dark; further iterations start again."""
    return _LIGHT + (_DARK - _LIGHT) * (iteration % count) / max(1, count - 1)


def rows(problem: Problem, solution: Solution) -> tuple[Row, ...]:
    """The rows of the drawing: every unit in use, then every group."""
    busy = {u.unit: facts.percent(u.fraction) for u in facts.utilization(problem, solution)}
    used = [
        u
        for u in problem.units
        if any(r.unit == u.name for op in problem.operations for r in op.reservations)
    ]
    units = [
        Row(unit.name, busy[unit.name], _lanes(_unit_bars(problem, solution, unit.name)))
        for unit in used
        if not unit.aggregate
    ]
    sums = [
        Row(
            unit.name,
            f"{busy[unit.name]}, sum",
            (tuple(_sum_bars(problem, solution, unit.name, unit.capacity)),),
            True,
        )
        for unit in used
        if unit.aggregate
    ]
    groups = (
        Row(f"group {g.id}", facts.counted(g.warps, "warp"), _lanes(_group_bars(problem, solution, g.id)))
        for g in solution.groups
    )
    return (*units, *sums, *groups)


def _unit_bars(problem: Problem, solution: Solution, unit: str) -> Iterable[Bar]:
    reserved = [(i, r) for i, op in enumerate(problem.operations) for r in op.reservations if r.unit == unit]
    for k in range(iterations(solution)):
        for i, r in reserved:
            start = solution.start[i] + k * solution.interval + r.offset
            yield Bar(i, k, start, start + r.cycles, start + r.cycles)


def _sum_bars(problem: Problem, solution: Solution, unit: str, capacity: int) -> Iterator[Bar]:
    """The reservations of an iteration end to end, in the order of their starts, each `amount` / capacity of
    its length."""
    order = sorted(range(len(problem.operations)), key=lambda v: (solution.start[v], v))
    amounts = [
        (v, r.cycles * r.amount) for v in order for r in problem.operations[v].reservations if r.unit == unit
    ]
    for k in range(iterations(solution)):
        total = 0
        for v, amount in amounts:
            start, total = total, total + amount
            begin, end = (k * solution.interval + part // capacity for part in (start, total))
            yield Bar(v, k, begin, end, end)


def _group_bars(problem: Problem, solution: Solution, group: int) -> Iterable[Bar]:
    for k in range(iterations(solution)):
        for i, op in enumerate(problem.operations):
            if solution.group[i] == group:
                start = solution.start[i] + k * solution.interval
                yield Bar(i, k, start, start + op.issue, start + max(op.duration, op.issue))


def _lanes(bars: Iterable[Bar]) -> tuple[tuple[Bar, ...], ...]:
    """The first free lane takes the next bar; a bar that issues may cover the tail of one that only waits."""
    lanes = list[list[Bar]]()
    for bar in sorted(bars, key=lambda b: (b.start, b.iteration, b.op)):
        lane = next((lane for lane in lanes if lane[-1].tail <= bar.start), None)
        if lane is None:
            lanes.append(lane := [])
        lane.append(bar)
    return tuple(tuple(lane) for lane in lanes)


# --- drawing ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """Time to pixels; captions avoid the `marks`, where a frame crosses the rows."""

    span: float
    width: float
    marks: tuple[float, ...] = ()

    def at(self, time: float) -> float:
        return LEFT + self.width * time / self.span

    def widest(self, left: float, right: float) -> tuple[float, float]:
        """The widest part of a bar between two marks, in pixels."""
        cuts = [left, *(x for x in sorted(map(self.at, self.marks)) if left < x < right), right]
        return max(pairwise(cuts), key=lambda part: part[1] - part[0])


def draw(problem: Problem, solution: Solution, width: float = 1700.0) -> Scene:
    """The timeline of the first few iterations."""
    count = iterations(solution)
    first = (solution.stages - 1) * solution.interval
    steady = (first, first + solution.interval)
    axis = Axis(solution.interval * count, width - LEFT - RIGHT, steady)
    shapes, y = list[Shape](), TOP
    for row in rows(problem, solution):
        shapes += _row(problem, solution, axis, row, y)
        y += LANE * max(1, len(row.lanes)) + GAP
    cycles = [facts.cycles(problem, k * solution.interval) for k in range(count + 1)]
    under = ticks(axis, solution.interval, TOP, y, cycles)
    texts = [shape for shape in shapes if isinstance(shape, Text)]
    bars = [shape for shape in shapes if not isinstance(shape, Text)]
    framed = frame(axis.at(steady[0]), axis.at(steady[1]), TOP, y, "steady state")
    heading = _heading(problem, solution)
    return Scene(width, y + 34, (*under, *bars, *framed, *texts, *heading), f"Timeline of {problem.name}")


def _row(problem: Problem, solution: Solution, axis: Axis, row: Row, y: float) -> list[Shape]:
    height = LANE * max(1, len(row.lanes))
    shapes: list[Shape] = [
        Rect(LEFT, y - 2, axis.width, height, fill="#f6f7f9"),
        Text(LEFT - 10, y + height / 2 - 7, row.name, 11, "end", bold=True),
        Text(LEFT - 10, y + height / 2 + 7, row.note, 9, "end", FAINT),
    ]
    for i, lane in enumerate(row.lanes):
        for bar in lane:
            shapes += _bar(problem, solution, axis, bar, y + LANE * i)
    return shapes


def _bar(problem: Problem, solution: Solution, axis: Axis, bar: Bar, y: float) -> list[Shape]:
    if bar.start >= axis.span:
        return []
    op, group = problem.operations[bar.op], solution.group[bar.op] if solution.groups else None
    left, right, tail = (axis.at(min(t, axis.span)) for t in (bar.start, bar.end, bar.tail))
    depth, height = shade(bar.iteration, iterations(solution)), LANE - 4
    box = Rect(left, y, 0, height, tip=_tip(problem, bar), ops=(op.id,))
    shapes = list[Shape]()
    if tail > right:
        pale, edge = group_color(group, -0.75), group_color(group, 0.3)
        shapes.append(replace(box, width=tail - left, fill=pale, stroke=edge, line=0.5))
    if right > left:
        fill, edge = group_color(group, depth), group_color(group, max(0.75, depth + 0.35))
        shapes.append(replace(box, width=max(right - left, 1.0), fill=fill, stroke=edge, line=0.7))
    dark = "#ffffff" if depth > 0.6 else INK
    begun = caption(op.id, bar.iteration, *axis.widest(left, right), y + height / 2, dark)
    rest = caption(op.id, bar.iteration, *axis.widest(max(left, right), tail), y + height / 2, INK)
    return [*shapes, *max(begun, rest, key=lambda texts: sum(len(text.text) for text in texts))]


def _tip(problem: Problem, bar: Bar) -> str:
    op = problem.operations[bar.op]
    start, tail = (facts.cycles(problem, time) for time in (bar.start, bar.tail))
    return f"{op.id}, iteration {bar.iteration}: cycles {start} to {tail}\n{op.name}"


def captions(op: str, iteration: int) -> tuple[str, ...]:
    """Captions of a bar, the best first, such as `dot scores [1]` of `dot.scores_12`; all of them keep the
    verb."""
    verb, _, value = op.rpartition(".")
    stem = "" if value.isdigit() else _stem(value)
    name = f"{verb} {stem}".strip() if verb else stem or value
    return tuple(
        dict.fromkeys((f"{name} [{iteration}]", name, f"{verb or name} [{iteration}]", verb or name))
    )


def _stem(value: str) -> str:
    """An SSA name without the number that makes it unique."""
    name, _, number = value.rpartition("_")
    return name if name and number.isdigit() else value


def caption(op: str, iteration: int, left: float, right: float, y: float, color: str) -> list[Text]:
    """The first caption that fits between `left` and `right`."""
    for text in captions(op, iteration):
        if text_width(text, 8.5) + 3 <= right - left:
            return [Text((left + right) / 2, y, text, 8.5, color=color, ops=(op,))]
    return []


def frame(left: float, right: float, top: float, bottom: float, label: str) -> list[Shape]:
    """A dashed box around what is between two times, with its label."""
    return [
        Rect(left, top - 8, right - left, bottom - top + 4, None, CRITICAL, 2.0, dash=(7.0, 4.0)),
        Rect(left + 6, top - 17, text_width(label, 10, True) + 8, 16, fill="#ffffff"),
        Text(left + 10, top - 9, label, 10, "start", CRITICAL, bold=True),
    ]


def ticks(axis: Axis, interval: float, top: float, bottom: float, cycles: Sequence[object]) -> list[Shape]:
    """A line at each start of an iteration, with its cycle."""
    shapes, last = list[Shape](), len(cycles) - 1
    for k, time in enumerate(cycles):
        x = axis.at(k * interval)
        shapes.append(straight([(x, top - 8), (x, bottom + 2)], stroke=RULE, line=1.0))
        shapes.append(Text(x, bottom + 12, f"{time}", 10, "end" if k == last else "middle", FAINT))
    return [*shapes, Text(LEFT - 10, bottom + 12, "cycle", 10, "end", FAINT)]


def notes(problem: Problem, solution: Solution) -> tuple[str, ...]:
    """What a reader of the drawing has to know."""
    pale = ("pale: issued, result not available yet",) if solution.groups else ()
    aggregate = {unit.name for unit in problem.units if unit.aggregate}
    sums = any(r.unit in aggregate for op in problem.operations for r in op.reservations)
    total = ("sum: the unit limits only the sum over an iteration, drawn end to end",) if sums else ()
    ahead = any(op.streaming for op in problem.operations)
    loads = ("a load runs iterations ahead, so its reader can also start at cycle 0",) if ahead else ()
    return (*pale, *total, *loads)


def _heading(problem: Problem, solution: Solution) -> list[Shape]:
    interval, length = (facts.cycles(problem, time) for time in (solution.interval, solution.length(problem)))
    line = f"a new iteration every {interval} cycles; one takes {length}"
    return [
        Text(24, 22, problem.title, 14, "start", bold=True),
        Text(24, 42, line, 11, "start", FAINT),
        *_legend(problem, solution),
    ]


def _legend(problem: Problem, solution: Solution) -> list[Shape]:
    shapes, x, count = list[Shape](), 24.0, iterations(solution)
    group = solution.groups[-1].id if solution.groups else None
    for k in range(min(_LEGEND, count)):
        text = f"iteration {k}" if k < _LEGEND - 1 or k == count - 1 else f"iteration {k}, ..."
        shapes += [
            Rect(x, 57, 18, 11, group_color(group, shade(k, count)), "#888e99", 0.7),
            Text(x + 24, 63, text, 9.5, "start"),
        ]
        x += 40 + text_width(text, 9.5)
    return [*shapes, Text(x, 63, "; ".join(notes(problem, solution)), 9.5, "start", FAINT)]
