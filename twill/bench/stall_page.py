"""A profile of stalls as a table, as JSON and as a drawing beside the prediction.

Takes a `Profile`, the cycles of an iteration of each loop, and the simulated timeline (trace.json); gives
text, a document and a scene.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from statistics import median
from typing import Any, TypeAlias

from twill.bench.run import Steady
from twill.bench.stalls import REASONS, Profile, Sampled
from twill.report.scene import Scene
from twill.report.stall_chart import Row, Span, draw

SCHEMA = "twill.stalls/1"
Event: TypeAlias = dict[str, Any]
"""Of a trace.json."""
WAITS = ("wait", "consumer_wait", "producer_acquire", "operands of")
"""How the names of waits begin."""
SHOWN = 2
"""Reasons in the table."""
MIDDLE = 3
"""Iterations that a run has at least before one of them counts as the steady state."""


def text(profile: Profile, loops: Mapping[str, Steady]) -> str:
    """A table for each group and loop: statements in program order, their cycles in an iteration, and why
    the warps could not issue."""
    lines = [f"what the warps of {profile.kernel} wait for: {profile.samples} samples"]
    for group in profile.groups():
        lines.append(f"group {group}: {profile.outside(group):.1%} of its time outside of the steady state")
        for loop in _loops(profile, group):
            lines += _table(loop, _of(profile, group, loop), loops.get(loop))
    return "\n".join(lines)


def _table(loop: str, found: tuple[Sampled, ...], steady: Steady | None) -> list[str]:
    whole, width = sum(one.samples for one in found), max(len(one.statement.name) for one in found)
    unit = "cycles" if steady else "part"
    lines = [f"  {loop}", f"  {'at':>6}  {'statement':<{width}}  {unit:>7}  stalls"]
    for one in found:
        part = one.samples / whole
        at = "" if one.statement.cycle is None else one.statement.cycle
        amount = f"{part * steady.measured:7.0f}" if steady else f"{part:7.1%}"
        lines.append(f"  {at:>6}  {one.statement.name:<{width}}  {amount}  {_reasons(one, SHOWN)}")
    return lines


def _reasons(one: Sampled, most: int | None = None) -> str:
    """In words, with the part of the statement's samples that each has; the first `most` of them."""
    counts = list(one.reasons.items())[:most]
    return ", ".join(f"{REASONS.get(name, name)} {count / one.samples:.0%}" for name, count in counts)


def document(profile: Profile, loops: Mapping[str, Steady]) -> str:
    """JSON, with the measured cycles of each loop where they are known."""
    cycles = {path: loop.measured for path, loop in loops.items()}
    made: dict[str, Any] = {"schema": SCHEMA, **asdict(profile), "cycles_per_iteration": cycles}
    return json.dumps(made, indent=1) + "\n"


def drawing(profile: Profile, loop: str, cycles: float, trace: str) -> Scene:
    """One iteration of a loop, predicted and measured, where an iteration takes so many cycles."""
    rows, tracks = list[Row](), simulated(trace)
    for group in profile.groups():
        found = _of(profile, group, loop)
        if found:
            predicted = iteration(tracks.get(f"group {group}", ()), [one.statement.name for one in found])
            rows.append(Row(group, predicted, _measured(found, cycles)))
    return draw(rows, f"{loop}: an iteration as predicted, and as sampled ({cycles:.0f} cycles)")


def simulated(trace: str) -> dict[str, list[Event]]:
    """The spans of a trace.json by the name of their track, in order."""
    events = json.loads(trace)["traceEvents"]
    names = {(one["pid"], one["tid"]): one["args"]["name"] for one in events if one["name"] == "thread_name"}
    tracks: dict[str, list[Event]] = {name: [] for name in names.values()}
    for one in sorted((one for one in events if one["ph"] == "X"), key=lambda one: (one["ts"], one["name"])):
        if name := names.get((one["pid"], one["tid"])):
            tracks[name].append(one)
    return tracks


def iteration(own: Sequence[Event], names: Sequence[str]) -> tuple[Span, ...]:
    """The spans of a track from the first of these statements in an iteration of the middle of the run to the
    same one in the next iteration."""
    begins = next((found for name in names if len(found := _begins(own, name)) > MIDDLE), ())
    if not begins:
        return ()
    period = median(after - before for before, after in pairwise(begins))
    origin = begins[len(begins) // 2]
    return tuple(
        Span(
            one["name"],
            max(0.0, one["ts"] - origin),
            min(one["ts"] + one["dur"] - origin, period),
            _waits(one["name"]),
        )
        for one in own
        if one["ts"] + one["dur"] > origin and one["ts"] < origin + period
    )


def _begins(events: Sequence[Event], name: str) -> tuple[float, ...]:
    """When a statement first begins in each iteration."""
    first = dict[int, float]()
    for one in events:
        if one["name"] == name:
            first.setdefault(one["args"]["iteration"], one["ts"])
    return tuple(sorted(first.values()))


def _measured(found: tuple[Sampled, ...], cycles: float) -> tuple[Span, ...]:
    whole, at, spans = sum(one.samples for one in found), 0.0, list[Span]()
    for one in found:
        long = one.samples / whole * cycles
        name = one.statement.name
        spans.append(Span(name, at, at + long, _waits(name), f"{name}: {long:.0f} cycles; {_reasons(one)}"))
        at += long
    return tuple(spans)


def _waits(name: str) -> bool:
    return name.startswith(WAITS)


def _loops(profile: Profile, group: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.statement.loop for one in profile.steady(group)))


def _of(profile: Profile, group: int, loop: str) -> tuple[Sampled, ...]:
    return tuple(one for one in profile.steady(group) if one.statement.loop == loop)
