"""Registers, shared memory and tensor memory over modulo time.

Takes a solved problem; returns two drawings over one interval: `profiles` (the amount in use, against the
limit) and `allocations` (which value is at which address).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twill.ir.problem import Problem, Time, Value
from twill.ir.schedule import Allocation, Solution
from twill.report import facts
from twill.report.facts import Profile
from twill.report.palette import CRITICAL, FAINT, RULE, group_color
from twill.report.scene import Rect, Scene, Shape, Text, straight, text_width

_LEFT, _RIGHT, _TOP, _HEIGHT, _GAP = 150.0, 40.0, 40.0, 74.0, 26.0


# --- amount in use ----------------------------------------------------------------------------------------


def profiles(problem: Problem, solution: Solution, width: float = 1100.0) -> Scene:
    """One stacked area per group's registers and per memory, with its limit as a red line."""
    curves = [*_with_group(problem, solution), *((p, None) for p in facts.memory_profiles(problem, solution))]
    shapes: list[Shape] = [
        Text(24, 20, "Registers and memory in use over one interval", 13, "start", bold=True)
    ]
    y = _TOP
    for curve, group in curves:
        shapes += _curve(problem, solution, curve, group, y, width - _LEFT - _RIGHT)
        y += _HEIGHT + _GAP
    shapes += _time_axis(problem, solution, y - _GAP + 12, width)
    return Scene(width, y + 4, tuple(shapes), f"Registers and memory of {problem.name}")


def _with_group(problem: Problem, solution: Solution) -> Iterable[tuple[Profile, int]]:
    registers = facts.register_profiles(problem, solution)
    return ((p, g.id) for p, g in zip(registers, solution.groups, strict=True) if p.peak)


def _curve(
    problem: Problem, solution: Solution, curve: Profile, group: int | None, y: float, width: float
) -> list[Shape]:
    top = 1.08 * max(curve.peak, curve.limit, 1)
    what = (
        "registers"
        if curve.name.startswith("group")
        else "bytes"
        if curve.name == "shared memory"
        else "columns"
    )
    shapes: list[Shape] = [
        Rect(_LEFT, y, width, _HEIGHT, fill="#f6f7f9"),
        Text(_LEFT - 10, y + 18, curve.name, 11, "end", bold=True),
        Text(_LEFT - 10, y + 34, f"peak {curve.peak}", 9.5, "end", FAINT),
        Text(_LEFT - 10, y + 48, f"of {curve.limit} {what}" if curve.limit else what, 9.5, "end", FAINT),
    ]
    for area in _areas(curve, solution.interval):
        box = _area(problem, solution, area, group, what, Rect(_LEFT, y, width, _HEIGHT), top)
        shapes += [
            box,
            *_name(area.value, box.x, box.x + box.width, box.y + box.height / 2, box.height, box.ops),
        ]
    if curve.limit:
        level = y + _HEIGHT * (1 - curve.limit / top)
        shapes.append(
            straight([(_LEFT, level), (_LEFT + width, level)], stroke=CRITICAL, line=1.2, dash=(5.0, 3.0))
        )
    return shapes


@dataclass(frozen=True, slots=True)
class _Area:
    """What a value takes from `start` to `end`, above what lies below it in the stack."""

    value: str
    start: Time
    end: Time
    base: int
    level: int


def _areas(curve: Profile, interval: Time) -> list[_Area]:
    """The stack of values over time; neighbours of the same height are one area."""
    areas, base = list[_Area](), [0] * len(curve.times)
    ends = (*curve.times[1:], interval)
    for value, levels in curve.parts:
        last: _Area | None = None
        for start, end, below, level in zip(curve.times, ends, base, levels, strict=True):
            if last and (last.end, last.base, last.level) == (start, below, level):
                areas[-1] = last = replace(last, end=end)
            elif level:
                areas.append(last := _Area(value, start, end, below, level))
        base = [below + level for below, level in zip(base, levels, strict=True)]
    return areas


def _area(
    problem: Problem, solution: Solution, area: _Area, group: int | None, what: str, box: Rect, top: float
) -> Rect:
    value = next(v for v in problem.values if v.id == area.value)
    home = solution.group[problem.index(value.src)] if group is None and solution.groups else group
    left, right = (box.x + box.width * time / solution.interval for time in (area.start, area.end))
    tone = (problem.values.index(value) % 3) * 0.22 - 0.25
    bottom = box.y + box.height * (1 - area.base / top)
    cycles = [facts.cycles(problem, time) for time in (area.start, area.end)]
    return Rect(
        *(left, bottom - box.height * area.level / top, right - left, box.height * area.level / top),
        *(group_color(home, tone), "#ffffff", 0.4),
        tip=f"{area.value}: {area.level} {what}, cycles {cycles[0]} to {cycles[1]}",
        ops=_ops(value),
    )


def _ops(value: Value) -> tuple[str, ...]:
    """The operations that write and read a value."""
    return tuple(dict.fromkeys((value.src, *(use.op for use in value.uses))))


def _time_axis(problem: Problem, solution: Solution, y: float, width: float) -> list[Shape]:
    shapes: list[Shape] = [Text(_LEFT - 10, y, "cycle", 10, "end", FAINT)]
    for quarter in range(5):
        time = solution.interval * quarter / 4
        x = _LEFT + (width - _LEFT - _RIGHT) * quarter / 4
        shapes.append(Text(x, y, f"{round(time * problem.resolution.cycles_per_unit)}", 10, color=FAINT))
    return shapes


# --- addresses --------------------------------------------------------------------------------------------


def allocations(problem: Problem, solution: Solution, memory: str, width: float = 1100.0) -> Scene | None:
    """The map of a memory: addresses downwards, modulo time to the right; None for an unused memory."""
    allocated = [allocation for allocation in solution.allocations if allocation.memory == memory]
    if not allocated:
        return None
    total = facts.allocated(solution, memory)
    bounds = sorted({0, total, *(p.address + i * p.size for p in allocated for i in range(p.slots + 1))})
    tall = max(160.0, 26.0 * (len(bounds) - 1))
    shapes: list[Shape] = [
        Text(24, 20, f"{memory.capitalize()} memory: value at each address", 13, "start", bold=True),
        Rect(_LEFT, _TOP, width - _LEFT - _RIGHT, tall, "#f6f7f9"),
    ]
    for address in bounds:
        y = _TOP + tall * address / total
        shapes.append(straight([(_LEFT - 5, y), (width - _RIGHT, y)], stroke=RULE, line=0.8))
    shapes += _addresses(bounds, tall, total)
    for allocation in allocated:
        shapes += _block(problem, solution, allocation, tall / total, width - _LEFT - _RIGHT)
    shapes += _time_axis(problem, solution, _TOP + tall + 14, width)
    return Scene(width, _TOP + tall + 28, tuple(shapes), f"{memory.capitalize()} memory of {problem.name}")


def _addresses(bounds: Sequence[int], tall: float, total: int) -> list[Shape]:
    """The addresses along the map, without those that would overlap."""
    shapes, last = list[Shape](), -100.0
    for address in bounds:
        y = _TOP + tall * address / total
        if y - last >= 11:
            shapes.append(Text(_LEFT - 10, y, f"{address}", 9.5, "end", FAINT))
            last = y
    return shapes


def _block(
    problem: Problem, solution: Solution, allocation: Allocation, scale: float, width: float
) -> list[Shape]:
    """A value in each of its slots, for as long as an instance is live there; slots of a multi-buffered value
    are always in use."""
    value = next(v for v in problem.values if v.id == allocation.value)
    color = group_color(solution.group[problem.index(value.src)] if solution.groups else None)
    shapes = list[Shape]()
    for slot in range(allocation.slots):
        y, height = _TOP + scale * (allocation.address + slot * allocation.size), scale * allocation.size
        for start, end in _spans(problem, solution, value, allocation):
            left, right = _LEFT + width * start / solution.interval, _LEFT + width * end / solution.interval
            use = " staging" if allocation.staging else ""
            tip = (
                f"{allocation.value}{use}: {allocation.size} from"
                f" {allocation.address + slot * allocation.size}"
            )
            shapes.append(
                Rect(
                    left,
                    y + 1,
                    right - left,
                    max(height - 2, 0.5),
                    color,
                    group_color(None, 0.7),
                    0.7,
                    3.0,
                    tip=tip,
                    ops=_ops(value),
                )
            )
            name = f"{allocation.value} [{slot}]" if allocation.slots > 1 else allocation.value
            shapes += _name(name, left, right, y + height / 2, height, _ops(value))
    return shapes


def _spans(
    problem: Problem, solution: Solution, value: Value, allocation: Allocation
) -> list[tuple[Time, Time]]:
    """The parts of an interval in which one copy is taken."""
    start, end = facts.live(problem, solution, value)
    interval = solution.interval
    if allocation.slots > 1 or end - start >= interval or allocation.staging:
        return [(0, interval)]
    begin, over = start % interval, start % interval + end - start - interval
    return [(begin, begin + end - start)] if over <= 0 else [(0, over), (begin, interval)]


def _name(text: str, left: float, right: float, y: float, height: float, ops: tuple[str, ...]) -> list[Shape]:
    size = min(10.0, height - 2)
    fits = size >= 6 and text_width(text, size) + 4 <= right - left
    return [Text((left + right) / 2, y, text, size, ops=ops)] if fits else []
