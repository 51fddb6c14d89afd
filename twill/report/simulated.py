"""The simulated timeline on the axes of the schedule: cycle x unit and cycle x warp group, from the middle of a timed run.

Takes a solved problem with the events of `simulate.timed`. The operation that marks an iteration is aligned with its start in the
schedule's steady state, so that longer operations are visible. Colour is the warp group, shade the iteration; white with a red
frame is where a group waits.
"""

from collections.abc import Iterable, Sequence

from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.report.palette import CRITICAL, FAINT, INK, group_color
from twill.report.scene import Rect, Scene, Shape, Text, text_width
from twill.report.timeline import GAP, LANE, LEFT, RIGHT, Axis, caption, frame, iterations, shade, ticks
from twill.simulate.report import Steady
from twill.simulate.timed import Event

TOP = 64.0
"""Pixels above the first row."""


def draw(problem: Problem, solution: Solution, events: Sequence[Event], found: Steady, width: float = 1700.0) -> Scene:
    """As many cycles of the run as the schedule's drawing shows; `events` are those of the loop alone."""
    scale, stages = problem.resolution.cycles_per_unit, solution.stages
    span = solution.interval * iterations(solution) * scale
    starts = {event.iteration: event.begin for event in reversed(events) if event.name == found.marker and event.track.startswith("group")}
    middle = sorted(starts)[len(starts) // 2]
    placed = (solution.start[problem.index(found.marker)] % solution.interval + (stages - 1) * solution.interval) * scale
    end = min(placed + found.interval, span)
    axis = Axis(span, width - LEFT - RIGHT, (placed, end))
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
    interval = solution.interval * scale
    under = ticks(axis, interval, TOP, y, [f"{k * interval:.0f}" for k in range(iterations(solution) + 1)])
    texts = [shape for shape in shapes if isinstance(shape, Text)]
    bars = [shape for shape in shapes if not isinstance(shape, Text)]
    framed = frame(axis.at(placed), axis.at(end), TOP, y, f"{found.interval:.0f} cycles")
    return Scene(width, y + 34, (*under, *bars, *framed, *texts, *_heading(solution, scale, found)))


def _tracks(problem: Problem, events: Iterable[Event]) -> list[str]:
    """Units in the order of the problem, then groups; those in which anything happens."""
    names = {event.track for event in events}
    units = [unit.name for unit in problem.units if unit.name in names]
    return [*units, *sorted(name for name in names if name not in units)]


def _bar(problem: Problem, solution: Solution, axis: Axis, event: Event, origin: float, iteration: int, y: float) -> list[Shape]:
    """An event, clipped to the axis."""
    left, right = (axis.at(min(max(time - origin, 0.0), axis.span)) for time in (event.begin, event.end))
    depth = shade(iteration, iterations(solution))
    ops = (event.name,) if _group(problem, solution, event) is not None else ()
    tip = f"{event.name}, iteration {event.iteration}: {event.begin:.0f} to {event.end:.0f}"
    if event.waited:
        box = Rect(left, y, right - left, LANE - 4, "#ffffff", CRITICAL, 0.8, tip=tip)
        return [box, *_waiting(event.name, *axis.widest(left, right), y + LANE / 2 - 2)]
    group = _group(problem, solution, event)
    fill, edge = group_color(group, depth), group_color(group, max(0.75, depth + 0.35))
    box = Rect(left, y, max(right - left, 0.5), LANE - 4, fill, edge, 0.7, tip=tip, ops=ops)
    dark = "#ffffff" if depth > 0.6 else INK
    return [box, *caption(event.name, iteration, *axis.widest(left, right), y + LANE / 2 - 2, dark)]


def _waiting(name: str, left: float, right: float, y: float) -> list[Shape]:
    """What a group waits for, where it fits."""
    fits = text_width(name, 8.5) + 3 <= right - left
    return [Text((left + right) / 2, y, name, 8.5, color=CRITICAL)] if fits else []


def _group(problem: Problem, solution: Solution, event: Event) -> int | None:
    """Whose colour an event has: of what the loop computes, its operation's group."""
    known = {op.id: group for op, group in zip(problem.operations, solution.group, strict=True)}
    return known.get(event.name)


def _heading(solution: Solution, scale: float, found: Steady) -> list[Shape]:
    off = found.interval / (solution.interval * scale) - 1
    line = f"an iteration every {found.interval:.0f} cycles, {off:+.1%} of the schedule's; white and red: the group waits"
    return [Text(24, 18, "Simulated run", 14, "start", bold=True), Text(24, 38, line, 11, "start", FAINT)]
