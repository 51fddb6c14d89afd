"""What a timed run says: cycles per iteration, how busy the units are, where groups wait; and a trace for
Perfetto.

Takes the events of `timed.simulate`; gives numbers, lines of text, and the Chrome trace event format (a
microsecond stands for a cycle).
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.simulate.timed import Event


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady state of one loop, as predicted."""

    interval: float
    """Cycles from one iteration to the next."""
    busy: Mapping[str, float]
    """By unit: the part of the time it works."""
    waits: Mapping[tuple[str, str], float]
    """By group and statement: cycles per iteration that the group stands still there."""
    marker: str = ""
    """An operation of which each iteration's first start counts as the iteration's."""


def steady(events: Sequence[Event], loop: int, trips: int) -> Steady:
    """Of the iterations in the middle of a run of `trips`, at least 8."""
    first, last = trips // 2, trips - trips // 4
    own = [event for event in events if event.loop == loop]
    marker = _marker(own)
    starts = {
        event.iteration: event.begin
        for event in reversed(own)
        if event.name == marker and event.track.startswith("group")
    }
    begin, end = starts[first], starts[last]
    inside = [event for event in own if begin <= event.begin < end]
    count, units = last - first, [event for event in inside if not event.track.startswith("group")]
    busy, waits = Counter[str](), Counter[tuple[str, str]]()
    for event in units:
        busy[event.track] += event.end - event.begin  # pyright: ignore
    for event in inside:
        if event.waited:
            waits[event.track, event.name] += event.waited  # pyright: ignore
    return Steady(
        (end - begin) / count,
        {unit: busy[unit] / (end - begin) for unit in sorted(busy)},
        {place: waits[place] / count for place in sorted(waits) if waits[place] / count >= 1},
        marker,
    )


def _marker(events: Sequence[Event]) -> str:
    """The first operation of a group that computes, on the unit that works most."""
    computing = {event.name for event in events if event.track.startswith("group") and not event.waited}
    taken, first = Counter[str](), dict[str, str]()
    for event in sorted(events, key=lambda event: event.begin):
        if event.name in computing and not event.track.startswith("group"):
            taken[event.track] += event.end - event.begin  # pyright: ignore
            first.setdefault(event.track, event.name)
    return first[max(sorted(taken), key=lambda unit: taken[unit])]


def lines(name: str, found: Steady, interval: int) -> list[str]:
    """A few lines of text: the interval, the units, and where each group waits, longest first."""
    off = (found.interval / interval - 1) * 100
    text = [f"{name}: {found.interval:.0f} cycles per iteration, {off:+.1f}% of the schedule's {interval}"]
    text.append("  units  " + ", ".join(f"{unit} {part:.0%}" for unit, part in found.busy.items()))
    for group in sorted({group for group, _ in found.waits}):
        mine = sorted(
            ((cycles, place) for (whose, place), cycles in found.waits.items() if whose == group),
            reverse=True,
        )
        places = ", ".join(f"{cycles:.0f} {place}" for cycles, place in mine)
        text.append(
            f"  {group} waits {sum(cycles for cycles, _ in mine):.0f} cycles of {found.interval:.0f}:"
            f" {places}"
        )
    return text


def trace(events: Sequence[Event]) -> str:
    """Chrome trace event JSON: one process for the groups, one for the units, a thread for each."""
    tracks = sorted({event.track for event in events})
    places = {track: (1 if track.startswith("group") else 2, i + 1) for i, track in enumerate(tracks)}
    found: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        for pid, name in ((1, "warp groups"), (2, "units"))
    ]
    for track, (pid, tid) in places.items():
        found.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": track}})
    for event in events:
        pid, tid = places[event.track]
        args = {"iteration": event.iteration, "waited": round(event.waited, 1)}
        duration = round(event.end - event.begin, 1)
        found.append(
            {
                "name": event.name,
                "ph": "X",
                "ts": round(event.begin, 1),
                "dur": duration,
                "pid": pid,
                "tid": tid,
                "args": args,
            }
        )
    return (
        json.dumps({"traceEvents": found, "displayTimeUnit": "ns"}, indent=None, separators=(",", ":")) + "\n"
    )
