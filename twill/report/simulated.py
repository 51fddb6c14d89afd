"""The simulated timeline on the axes of the schedule: cycle x unit and cycle x warp group, from the middle of
a timed run.

Takes a solved problem with the events of `simulate.timed`. The operation that marks an iteration is aligned
with its start in the schedule's steady state, so that longer operations are visible. Colour is the warp
group, shade the iteration; white with a red frame is where a group waits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.report.palette import CRITICAL, FAINT, INK, group_color
from twill.report.scene import Rect, Scene, Shape, Text, text_width
from twill.report.timeline import GAP, LANE, LEFT, RIGHT, Axis, caption, frame, iterations, shade, ticks
from twill.simulate.report import Steady
from twill.simulate.times import Event

TOP = 64.0
"""Pixels above the first row."""


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that is drawn, in cycles from its left edge."""

    span: float
    placed: float
    """The start of the marked operation in the steady state."""
    tracks: tuple[str, ...]
    events: tuple[Event, ...]
    origin: float
    """The cycle of the run at the left edge."""
    first: int
    """The iteration of the run that counts as iteration 0."""

    def inside(self, track: str) -> Iterator[tuple[Event, int, float, float]]:
        """The events of a track with iteration, begin and end, clipped to the window."""
        for event in self.events:
            if event.track == track:
                begin, end = (
                    min(max(time - self.origin, 0.0), self.span) for time in (event.begin, event.end)
                )
                yield event, event.iteration - self.first, begin, end


def window(problem: Problem, solution: Solution, events: Sequence[Event], found: Steady) -> Window:
    """As many cycles of the run as the schedule's drawing shows; `events` are those of the loop alone."""
    scale, stages = problem.resolution.cycles_per_unit, solution.stages
    span = solution.interval * iterations(solution) * scale
    starts = {
        event.iteration: event.begin
        for event in reversed(events)
        if event.name == found.marker and event.track.startswith("group")
    }
    middle = sorted(starts)[len(starts) // 2]
    residue = solution.start[problem.index(found.marker)] % solution.interval
    placed = (residue + (stages - 1) * solution.interval) * scale
    origin = starts[middle] - placed
    inside = tuple(event for event in events if event.end > origin and event.begin < origin + span)
    return Window(span, placed, tuple(_tracks(problem, events)), inside, origin, middle - stages + 1)


def draw(
    problem: Problem, solution: Solution, events: Sequence[Event], found: Steady, width: float = 1700.0
) -> Scene:
    """The run on the axes of the schedule's drawing."""
    view = window(problem, solution, events, found)
    scale, end = problem.resolution.cycles_per_unit, min(view.placed + found.interval, view.span)
    axis = Axis(view.span, width - LEFT - RIGHT, (view.placed, end))
    shapes, y = list[Shape](), TOP
    for track in view.tracks:
        shapes += [
            Rect(LEFT, y - 2, axis.width, LANE, fill="#f6f7f9"),
            Text(LEFT - 10, y + LANE / 2 - 2, track, 11, "end", bold=True),
        ]
        for event, iteration, begin, stop in view.inside(track):
            shapes += _bar(problem, solution, event, iteration, (axis.at(begin), axis.at(stop)), axis, y)
        y += LANE + GAP
    interval = solution.interval * scale
    under = ticks(axis, interval, TOP, y, [f"{k * interval:.0f}" for k in range(iterations(solution) + 1)])
    texts = [shape for shape in shapes if isinstance(shape, Text)]
    bars = [shape for shape in shapes if not isinstance(shape, Text)]
    framed = frame(axis.at(view.placed), axis.at(end), TOP, y, f"{found.interval:.0f} cycles")
    return Scene(width, y + 34, (*under, *bars, *framed, *texts, *_heading(solution, scale, found)))


def _tracks(problem: Problem, events: Iterable[Event]) -> list[str]:
    """Units in the order of the problem, then groups; those in which anything happens."""
    names = {event.track for event in events}
    units = [unit.name for unit in problem.units if unit.name in names]
    return [*units, *sorted(name for name in names if name not in units)]


def _bar(
    problem: Problem,
    solution: Solution,
    event: Event,
    iteration: int,
    ends: tuple[float, float],
    axis: Axis,
    y: float,
) -> list[Shape]:
    (left, right), middle = ends, y + LANE / 2 - 2
    tip = f"{event.name}, iteration {event.iteration}: {event.begin:.0f} to {event.end:.0f}"
    if event.waited:
        box = Rect(left, y, right - left, LANE - 4, "#ffffff", CRITICAL, 0.8, tip=tip)
        return [box, *_waiting(event.name, *axis.widest(left, right), middle)]
    group, depth = _group(problem, solution, event), shade(iteration, iterations(solution))
    fill, edge = group_color(group, depth), group_color(group, max(0.75, depth + 0.35))
    ops = () if group is None else (event.name,)
    box = Rect(left, y, max(right - left, 0.5), LANE - 4, fill, edge, 0.7, tip=tip, ops=ops)
    dark = "#ffffff" if depth > 0.6 else INK
    return [box, *caption(event.name, iteration, *axis.widest(left, right), middle, dark)]


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
    line = (
        f"an iteration every {found.interval:.0f} cycles, {off:+.1%} of the schedule's; white and red: the"
        " group waits"
    )
    return [Text(24, 18, "Simulated run", 14, "start", bold=True), Text(24, 38, line, 11, "start", FAINT)]
