"""What a timed run says: cycles per iteration, how busy the units are, where groups wait; and a trace for
Perfetto.

Takes what `timed.run` says; gives numbers, lines of text, and the Chrome trace event format (a microsecond
stands for a cycle).
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from twill.simulate.times import Event, Run, Transfer


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
    """The first operation of a group that computes, on the unit that works most: one that starts without
    waiting now and then, where there is one."""
    grouped = [event for event in events if event.track.startswith("group")]
    at_once = {event.name for event in grouped if not event.waited}
    return _busiest(events, at_once) or _busiest(events, {event.name for event in grouped}) or grouped[0].name


def _busiest(events: Sequence[Event], names: Set[str]) -> str:
    """The first of some operations on the unit that they take longest; empty where they take none."""
    taken, first = Counter[str](), dict[str, str]()
    for event in sorted(events, key=lambda event: event.begin):
        if event.name in names and not event.track.startswith("group"):
            taken[event.track] += event.end - event.begin  # pyright: ignore
            first.setdefault(event.track, event.name)
    return first[max(sorted(taken), key=lambda unit: taken[unit])] if taken else ""


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


# --- trace ------------------------------------------------------------------------------------------------

GROUPS, UNITS, CHANNELS = 1, 2, 3
"""Processes of a trace."""
_INSIDE = 0.1
"""Cycles before the end of a slice: an arrow belongs to the slice that is open there."""


def trace(run: Run, units: Sequence[str] = ()) -> str:
    """Chrome trace event JSON. One process for the groups, one for the units in the order of `units`, a
    thread for each; a counter of full slots for each channel; an arrow from the filling of a slot to each
    wait for it."""
    tracks = _tracks(run.events, units)
    found: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        for pid, name in ((GROUPS, "warp groups"), (UNITS, "units"), (CHANNELS, "channels"))
    ]
    for track, (pid, tid) in tracks.items():
        place = {"ph": "M", "pid": pid, "tid": tid}
        found.append({"name": "thread_name", **place, "args": {"name": track}})
        found.append({"name": "thread_sort_index", **place, "args": {"sort_index": tid}})
    for event in run.events:
        args = {"iteration": event.iteration, "waited": round(event.waited, 1)}
        found.append(_slice(event.name, event.begin, event.end, tracks[event.track], args))
    found += [*_arrows(run, tracks), *_counters(run)]
    return (
        json.dumps({"traceEvents": found, "displayTimeUnit": "ns"}, indent=None, separators=(",", ":")) + "\n"
    )


def _tracks(events: Sequence[Event], units: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Process and thread of each track: groups by name, units as given, others behind them."""
    present = {event.track for event in events}
    groups = sorted(track for track in present if track.startswith("group"))
    others = sorted(present - set(groups) - set(units))
    ordered = [*(unit for unit in units if unit in present), *others]
    return {
        **{track: (GROUPS, i) for i, track in enumerate(groups, 1)},
        **{track: (UNITS, i) for i, track in enumerate(ordered, 1)},
    }


def _slice(
    name: str, begin: float, end: float, place: tuple[int, int], args: Mapping[str, object]
) -> dict[str, object]:
    pid, tid = place
    return {
        "name": name,
        "ph": "X",
        "ts": round(begin, 1),
        "dur": round(end - begin, 1),
        "pid": pid,
        "tid": tid,
        "args": args,
    }


def _arrows(run: Run, tracks: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, object]]:
    """A slice for each filling of a slot, and flow events from its end to the end of each wait."""
    filled: dict[tuple[str, int], Transfer] = {}
    shown = {(event.track, event.name, event.begin) for event in run.events}
    for one in run.transfers:
        if one.kind == "fill" and one.track in tracks:
            end = max(one.end, one.begin + 1)
            yield _slice(f"fill {one.channel}", one.begin, end, tracks[one.track], {"tile": one.number})
            filled[one.channel, one.number] = replace(one, end=end)
    for one in run.transfers:
        source = filled.get((one.channel, one.number))
        if one.kind == "wait" and source is not None and one.track in tracks:
            name = f"consumer_wait {one.channel}"
            if (one.track, name, one.begin) not in shown:
                yield _slice(name, one.begin, one.end, tracks[one.track], {"tile": one.number})
            flow = {"name": one.channel, "cat": "channel", "id": f"{one.channel} {one.number} {one.track}"}
            for kind, ends in (("s", source), ("f", one)):
                pid, tid = tracks[ends.track]
                binding = {"bp": "e"} if kind == "f" else {}
                yield {
                    **flow,
                    "ph": kind,
                    "ts": round(ends.end - _INSIDE, 1),
                    "pid": pid,
                    "tid": tid,
                    **binding,
                }


def _counters(run: Run) -> Iterator[dict[str, object]]:
    """How many slots of each channel hold a tile, over time."""
    changes = [(time, channel, 1) for (channel, _), time in run.full.items()]
    changes += [(time, channel, -1) for (channel, _), time in run.empty.items()]
    held = dict.fromkeys(sorted({channel for _, channel, _ in changes}), 0)
    for time, channel, change in sorted(changes):
        held[channel] += change
        yield {
            "name": f"full slots of {channel}",
            "ph": "C",
            "ts": round(time, 1),
            "pid": CHANNELS,
            "args": {"slots": held[channel]},
        }
