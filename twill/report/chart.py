"""The timelines as data for the report's script, which draws them again at any zoom.

Takes the rows that `timeline` and `simulated` draw; returns plain JSON values. Times are machine cycles. A
bar is [operation, iteration, start, end, end of the pale tail], and a sixth element marks a wait.
"""

from collections.abc import Sequence

from twill.files.text import Json
from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.report import timeline
from twill.report.palette import INK, group_color
from twill.simulate.report import Steady
from twill.simulate.times import Event


def colors(solution: Solution) -> dict[str, Json]:
    """By group (`-` for none): fill, frame and text colour of each iteration's bars, and of pale tails."""
    count = timeline.iterations(solution)
    shades = [timeline.shade(k, count) for k in range(count)]
    groups: list[int | None] = [*sorted({*solution.group}), None]
    return {
        "-" if group is None else str(group): {
            "bars": [
                [group_color(group, s), group_color(group, max(0.75, s + 0.35)), _ink(s)] for s in shades
            ],
            "pale": [group_color(group, -0.75), group_color(group, 0.3)],
        }
        for group in groups
    }


def _ink(shade: float) -> str:
    return "#ffffff" if shade > 0.6 else INK


def schedule(problem: Problem, solution: Solution) -> dict[str, Json]:
    """The timeline of the schedule."""
    scale, count = problem.resolution.cycles_per_unit, timeline.iterations(solution)
    steady = (solution.stages - 1) * solution.interval * scale
    rows = [
        {
            "name": row.name,
            "note": row.note,
            "kind": "sum" if row.aggregate else "group" if row.name.startswith("group ") else "unit",
            "lanes": [[_bar(problem, bar, scale) for bar in lane] for lane in row.lanes],
        }
        for row in timeline.rows(problem, solution)
    ]
    return {
        "span": solution.interval * count * scale,
        "interval": solution.interval * scale,
        "frame": [steady, steady + solution.interval * scale, "steady state"],
        "rows": rows,
        "notes": "; ".join(timeline.notes(problem, solution)),
    }


def _bar(problem: Problem, bar: timeline.Bar, scale: float) -> list[Json]:
    times = [round(time * scale, 1) for time in (bar.start, bar.end, bar.tail)]
    return [problem.operations[bar.op].id, bar.iteration, *times]


def run(problem: Problem, solution: Solution, events: Sequence[Event], found: Steady) -> dict[str, Json]:
    """The timeline of a simulated run, aligned with that of the schedule."""
    from twill.report import simulated

    view = simulated.window(problem, solution, events, found)
    lanes = {
        track: [
            [event.name, k, *(round(time, 1) for time in (begin, end, end)), *([1] if event.waited else [])]
            for event, k, begin, end in view.inside(track)
        ]
        for track in view.tracks
    }
    rows = [
        {"name": track, "note": "", "kind": "group" if track.startswith("group") else "unit", "lanes": [bars]}
        for track, bars in lanes.items()
    ]
    return {
        "span": view.span,
        "interval": solution.interval * problem.resolution.cycles_per_unit,
        "frame": [view.placed, min(view.placed + found.interval, view.span), f"{found.interval:.0f} cycles"],
        "rows": rows,
        "notes": "white with a red frame: the group waits",
    }
