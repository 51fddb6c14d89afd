"""The frontier of a sweep: how good each configuration is, over the shared memory that it takes.

Takes points; gives a drawing. A point is on the frontier where no other has at least its worth in no more
memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twill.report.palette import CRITICAL, INK, RULE
from twill.report.scene import Rect, Scene, Shape, Text, straight

LEFT, RIGHT, TOP, BOTTOM = 80.0, 210.0, 50.0, 60.0
WIDTH, HEIGHT = 900.0, 460.0
DOT = 8.0
"""Pixels."""


@dataclass(frozen=True, slots=True)
class Point:
    """One configuration."""

    name: str
    shared: int
    """Bytes of a thread block."""
    worth: float
    """More is better."""


def frontier(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those that no other point beats, by memory."""
    found = list[Point]()
    for one in sorted(points, key=lambda one: (one.shared, -one.worth, one.name)):
        if not found or one.worth > found[-1].worth:
            found.append(one)
    return tuple(found)


def draw(points: Sequence[Point], title: str) -> Scene:
    """Shared memory to the right, worth upwards as a part of the best."""
    best, most = max(one.worth for one in points), max(1, *(one.shared for one in points))
    front = frontier(points)

    def place(one: Point) -> tuple[float, float]:
        across = (WIDTH - LEFT - RIGHT) * one.shared / most
        return LEFT + across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * one.worth / best

    shapes: list[Shape] = [*_axes(most), straight([place(one) for one in front], stroke=CRITICAL, line=1.5)]
    for one in sorted(points, key=lambda one: (one in front, one.name)):
        x, y = place(one)
        color, tip = (
            (CRITICAL if one in front else INK),
            f"{one.name}: {one.shared} bytes, {one.worth / best:.1%}",
        )
        shapes.append(Rect(x - DOT / 2, y - DOT / 2, DOT, DOT, fill=color, radius=DOT / 2, tip=tip))
    shapes += _labels([(one.name, place(one)) for one in front])
    return Scene(WIDTH, HEIGHT, tuple(shapes), title)


def _axes(most: int) -> list[Shape]:
    """A line and a number at each quarter."""
    shapes = list[Shape]()
    for quarter in range(5):
        x = LEFT + (WIDTH - LEFT - RIGHT) * quarter / 4
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * quarter / 4
        shapes += [straight([(LEFT, y), (WIDTH - RIGHT, y)], stroke=RULE)]
        shapes += [Text(LEFT - 10, y + 4, f"{25 * quarter}%", 11, "end")]
        shapes += [Text(x, HEIGHT - BOTTOM + 20, f"{most * quarter // 4 // 1024} KB", 11, "middle")]
    shapes.append(
        Text(LEFT, TOP - 20, "speed, as a part of the best configuration's", 12, "start", bold=True)
    )
    shapes.append(Text(WIDTH - RIGHT, HEIGHT - 14, "shared memory of a thread block", 12, "end", bold=True))
    return shapes


def _labels(named: Sequence[tuple[str, tuple[float, float]]]) -> list[Shape]:
    """Beside the points of the frontier, each below the one before it where they are close."""
    shapes, lowest = list[Shape](), 0.0
    for name, (x, y) in sorted(named, key=lambda one: one[1][1]):
        lowest = max(y + 4, lowest + 14)
        shapes.append(Text(x + DOT, lowest, name, 11, "start"))
    return shapes
