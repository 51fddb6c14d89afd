"""The timeline of the pipelined loop: cycle x unit and cycle x warp group, several iterations overlapped, the steady state framed.

Takes a solved problem. Colour is the warp group (one hue each), shade the iteration. A unit's row shows when it is reserved; a
group's row shows dark when its warps issue, pale until the result is there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.report import facts
from twill.report.palette import CRITICAL, FAINT, INK, RULE, group_color
from twill.report.scene import Rect, Scene, Shape, Text, straight, text_width

LEFT, RIGHT, TOP, LANE, GAP = 150.0, 24.0, 92.0, 26.0, 10.0
"""Pixels: around the drawing, of a row's lanes, and between rows."""
SHADES = (0.0, 0.45, -0.5, 0.75)
"""Of iterations, in turn."""


@dataclass(frozen=True, slots=True)
class Bar:
    """An operation of iteration `iteration`, taking a row from `start` to `end`; `tail` is when its result is there."""

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


def iterations(solution: Solution) -> int:
    """How many iterations the drawing shows: up to the steady state, and one more; at least three."""
    return max(3, solution.stages + 1)


def rows(problem: Problem, solution: Solution) -> tuple[Row, ...]:
    """The rows of the drawing: every unit that one operation at a time takes, then every group."""
    busy = {u.unit: facts.percent(u.fraction) for u in facts.utilization(problem, solution)}
    units = [
        Row(unit.name, busy[unit.name], _lanes(_unit_bars(problem, solution, unit.name)))
        for unit in problem.units
        if not unit.aggregate and any(r.unit == unit.name for op in problem.operations for r in op.reservations)
    ]
    return (
        *units,
        *(Row(f"group {g.id}", facts.counted(g.warps, "warp"), _lanes(_group_bars(problem, solution, g.id))) for g in solution.groups),
    )


def _unit_bars(problem: Problem, solution: Solution, unit: str) -> Iterable[Bar]:
    for k in range(iterations(solution)):
        for i, op in enumerate(problem.operations):
            for r in op.reservations:
                if r.unit == unit:
                    start = solution.start[i] + k * solution.interval + r.offset
                    yield Bar(i, k, start, start + r.cycles, start + r.cycles)


def _group_bars(problem: Problem, solution: Solution, group: int) -> Iterable[Bar]:
    for k in range(iterations(solution)):
        for i, op in enumerate(problem.operations):
            if solution.group[i] == group:
                start = solution.start[i] + k * solution.interval
                yield Bar(i, k, start, start + op.issue, start + max(op.duration, op.issue))


def _lanes(bars: Iterable[Bar]) -> tuple[tuple[Bar, ...], ...]:
    """The first lane that is free takes the next bar; a bar that issues may cover the tail of one that only waits."""
    lanes = list[list[Bar]]()
    for bar in sorted(bars, key=lambda b: (b.start, b.iteration, b.op)):
        lane = next((lane for lane in lanes if lane[-1].tail <= bar.start), None)
        if lane is None:
            lanes.append(lane := [])
        lane.append(bar)
    return tuple(tuple(lane) for lane in lanes)


# --- drawing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """Time to pixels."""

    span: float
    width: float

    def at(self, time: float) -> float:
        return LEFT + self.width * time / self.span


def draw(problem: Problem, solution: Solution, width: float = 1700.0) -> Scene:
    """The timeline of the first few iterations."""
    span = solution.interval * iterations(solution)
    axis = Axis(span, width - LEFT - RIGHT)
    shapes, y = list[Shape](), TOP
    for row in rows(problem, solution):
        shapes += _row(problem, solution, axis, row, y)
        y += LANE * max(1, len(row.lanes)) + GAP
    cycles = [facts.cycles(problem, k * solution.interval) for k in range(iterations(solution) + 1)]
    under = ticks(axis, solution.interval, TOP, y, cycles)
    over = (*_steady(solution, axis, y), *_heading(problem, solution))
    return Scene(width, y + 34, (*under, *shapes, *over), f"Timeline of {problem.name}")


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
    shade, height = SHADES[bar.iteration % len(SHADES)], LANE - 4
    fill, stroke = group_color(group, shade), group_color(group, 0.75)
    tip = f"{op.id}, iteration {bar.iteration}: {bar.start} to {bar.tail}\n{op.name}"
    shapes = list[Shape]()
    if tail > right:
        shapes.append(Rect(left, y, tail - left, height, group_color(group, -0.75), group_color(group, 0.3), 0.5, tip=tip))
    if right > left:
        shapes.append(Rect(left, y, max(right - left, 1.0), height, fill, stroke, 0.7, tip=tip))
    dark = "#ffffff" if shade > 0.6 else INK
    begun = caption(op.id, bar.iteration, left, right, y + height / 2, dark)
    rest = caption(op.id, bar.iteration, max(left, right), tail, y + height / 2, INK)
    return [*shapes, *max(begun, rest, key=lambda texts: sum(len(text.text) for text in texts))]


def caption(op: str, iteration: int, left: float, right: float, y: float, color: str) -> list[Text]:
    """The name with its iteration, or the most telling part of it that fits: of `dot.scores0_12`, `scores0` or `dot`."""
    kind, _, value = op.rpartition(".")
    stem = kind if value.isdigit() else value.rpartition("_")[0] or value
    for text in (f"{op} [{iteration}]", f"{stem} [{iteration}]", stem, kind):
        if text and text_width(text, 8.5) + 3 <= right - left:
            return [Text((left + right) / 2, y, text, 8.5, color=color)]
    return []


def _steady(solution: Solution, axis: Axis, bottom: float) -> list[Shape]:
    """One interval, after the prologue."""
    first = (solution.stages - 1) * solution.interval
    return frame(axis.at(first), axis.at(first + solution.interval), TOP, bottom, "steady state")


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


def _heading(problem: Problem, solution: Solution) -> list[Shape]:
    interval, length = (facts.cycles(problem, time) for time in (solution.interval, solution.length(problem)))
    line = f"a new iteration every {interval} cycles; one takes {length}"
    return [Text(24, 22, problem.title, 14, "start", bold=True), Text(24, 42, line, 11, "start", FAINT), *_legend(solution)]


def _legend(solution: Solution) -> list[Shape]:
    shapes, x = list[Shape](), 24.0
    for k in range(min(len(SHADES), iterations(solution))):
        text = f"iteration {k}" + (f", {k + len(SHADES)}, ..." if iterations(solution) > len(SHADES) else "")
        sample = group_color(solution.groups[-1].id if solution.groups else None, SHADES[k])
        shapes += [Rect(x, 57, 18, 11, sample, "#888e99", 0.7), Text(x + 24, 63, text, 9.5, "start")]
        x += 40 + text_width(text, 9.5)
    return [*shapes, Text(x, 63, "pale: issued, result not there yet", 9.5, "start", FAINT)] if solution.groups else shapes
