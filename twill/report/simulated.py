"""The simulated timeline on the axes of the schedule's: cycle x unit and cycle x warp group, from the middle of a timed run.

Takes a solved problem with the events of `simulate.timed`; the operation that marks an iteration stands where the schedule has it in its
steady state, so what takes longer than scheduled is seen to. Colour is the warp group, shade the iteration; framed in red is where a group
waits.
"""

from collections.abc import Iterable, Sequence

from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.report.palette import CRITICAL, FAINT, INK, group_color
from twill.report.scene import Rect, Scene, Shape, Text
from twill.report.timeline import GAP, LANE, LEFT, RIGHT, SHADES, Axis, caption, frame, iterations, ticks
from twill.simulate.report import Steady
from twill.simulate.timed import Event

TOP = 64.0
"""Pixels above the first row."""


def draw(problem: Problem, solution: Solution, events: Sequence[Event], found: Steady, width: float = 1700.0) -> Scene:
    """As many cycles of the run as the schedule's drawing shows; `events` are those of the loop alone."""
    scale, stages = problem.resolution.cycles_per_unit, solution.stages
    axis = Axis(solution.interval * iterations(solution) * scale, width - LEFT - RIGHT)
    starts = {event.iteration: event.begin for event in reversed(events) if event.name == found.marker and event.track.startswith("group")}
    middle = sorted(starts)[len(starts) // 2]
    placed = (solution.start[problem.index(found.marker)] % solution.interval + (stages - 1) * solution.interval) * scale
    origin, shapes, y = starts[middle] - placed, list[Shape](), TOP
    inside = [event for event in events if event.end > origin and event.begin < origin + axis.span]
    tracks = _tracks(problem, events)
    for track in tracks:
        mine = [event for event in inside if event.track == track]
        shapes += [Rect(LEFT, y - 2, axis.width, LANE, fill="#f6f7f9"), Text(LEFT - 10, y + LANE / 2 - 2, track, 11, "end", bold=True)]
        shapes += [
            shape for event in mine for shape in _bar(problem, solution, axis, event, origin, event.iteration - middle + stages - 1, y)
        ]
        y += LANE + GAP
    interval, end = solution.interval * scale, min(placed + found.interval, axis.span)
    under = ticks(axis, interval, TOP, y, [f"{k * interval:.0f}" for k in range(iterations(solution) + 1)])
    over = (*frame(axis.at(placed), axis.at(end), TOP, y, f"{found.interval:.0f} cycles"), *_heading(solution, scale, found))
    return Scene(width, y + 34, (*under, *shapes, *over))


def _tracks(problem: Problem, events: Iterable[Event]) -> list[str]:
    """Units in the order of the problem, then groups; those in which anything happens."""
    names = {event.track for event in events}
    units = [unit.name for unit in problem.units if unit.name in names]
    return [*units, *sorted(name for name in names if name not in units)]


def _bar(problem: Problem, solution: Solution, axis: Axis, event: Event, origin: float, iteration: int, y: float) -> list[Shape]:
    """An event, clipped to the axis."""
    left, right = (axis.at(min(max(time - origin, 0.0), axis.span)) for time in (event.begin, event.end))
    shade = SHADES[iteration % len(SHADES)]
    tip = f"{event.name}, iteration {event.iteration}: {event.begin:.0f} to {event.end:.0f}"
    if event.waited:
        box = Rect(left, y, right - left, LANE - 4, "#ffffff", CRITICAL, 0.8, tip=tip)
        return [box, *caption(event.name, iteration, left, right, y + LANE / 2 - 2, CRITICAL)]
    group = _group(problem, solution, event)
    box = Rect(left, y, max(right - left, 0.5), LANE - 4, group_color(group, shade), group_color(group, 0.75), 0.7, tip=tip)
    dark = "#ffffff" if shade > 0.6 else INK
    return [box, *caption(event.name, iteration, left, right, y + LANE / 2 - 2, dark)]


def _group(problem: Problem, solution: Solution, event: Event) -> int | None:
    """Whose colour an event has: of what the loop computes, its operation's group."""
    known = {op.id: group for op, group in zip(problem.operations, solution.group, strict=True)}
    return known.get(event.name)


def _heading(solution: Solution, scale: float, found: Steady) -> list[Shape]:
    off = found.interval / (solution.interval * scale) - 1
    line = f"an iteration every {found.interval:.0f} cycles, {off:+.1%} of the schedule's; white and red: the group waits"
    return [Text(24, 18, "The same, simulated", 14, "start", bold=True), Text(24, 38, line, 11, "start", FAINT)]
