"""What each warp group does in an iteration: as the simulator predicts it, and under that as Nsight Compute
samples it.

Takes spans of time in cycles; gives a drawing. Colour is the warp group, white with a red frame is where it
waits. The predicted row has the times of one iteration in the middle of a run; the measured row has the
statements in their order in the program, each as long as its part of the group's samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from twill.report.palette import CRITICAL, FAINT, INK, RULE, group_color
from twill.report.scene import Rect, Scene, Shape, Text, straight, text_width
from twill.report.timeline import captions

LEFT, RIGHT, TOP = 150.0, 30.0, 60.0
WIDTH = 1500.0
BAR, BETWEEN = 34.0, 8.0
"""Pixels: the height of a row, and between the two of a group."""


@dataclass(frozen=True, slots=True)
class Span:
    """A statement from one cycle to another."""

    name: str
    begin: float
    end: float
    waits: bool
    """It is a wait, or the time for which an operation waits for its operands."""
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """An iteration of one group."""

    group: int
    predicted: tuple[Span, ...]
    measured: tuple[Span, ...]


def draw(rows: Sequence[Row], title: str) -> Scene:
    """Two bars for each group, on one axis of cycles."""
    longest = max((span.end for row in rows for span in (*row.predicted, *row.measured)), default=1.0)
    scale, shapes = (WIDTH - LEFT - RIGHT) / longest, list[Shape]()
    shapes.append(Text(LEFT, 20, title, 14, "start", INK, bold=True))
    shapes.append(Text(LEFT, 38, "white with a red frame: the group waits", 10, "start", FAINT))
    height = 2 * BAR + 3.5 * BETWEEN
    for place, row in enumerate(rows):
        y = TOP + place * height
        shapes.append(Text(12, y + BAR, f"group {row.group}", 12, "start", INK, bold=True))
        for name, spans, at in (
            ("predicted", row.predicted, y),
            ("measured", row.measured, y + BAR + BETWEEN),
        ):
            shapes.append(Text(LEFT - 8, at + BAR / 2, name, 10, "end", FAINT))
            for span in spans:
                shapes += _bar(row.group, span, scale, at)
    bottom = TOP + len(rows) * height
    shapes += _axis(longest, scale, bottom)
    return Scene(WIDTH, bottom + 40, tuple(shapes), title)


def _bar(group: int, span: Span, scale: float, y: float) -> list[Shape]:
    x, width = LEFT + span.begin * scale, (span.end - span.begin) * scale
    if width < 0.2:
        return []
    tip = span.tip or f"{span.name}: {span.end - span.begin:.0f} cycles"
    fill, stroke = ("#ffffff", CRITICAL) if span.waits else (group_color(group), INK)
    shapes: list[Shape] = [Rect(x, y, width, BAR, fill, stroke, 0.6, tip=tip, ops=(span.name,))]
    labels = (span.name,) if span.waits else captions(span.name, 0)
    label = next((one for one in labels if text_width(one, 8.5) + 3 <= width), None)
    color = CRITICAL if span.waits else INK
    return [*shapes, *([Text(x + width / 2, y + BAR / 2, label, 8.5, color=color)] if label else [])]


def _axis(longest: float, scale: float, y: float) -> list[Shape]:
    step = next(step for step in (50, 100, 250, 500, 1000, 2500, 5000, 10**9) if longest / step <= 14)
    shapes: list[Shape] = [Text(LEFT - 8, y + 12, "cycles", 10, "end", FAINT)]
    for k in range(int(longest // step) + 1):
        x = LEFT + k * step * scale
        shapes.append(straight([(x, TOP - 8), (x, y)], stroke=RULE, line=0.6))
        shapes.append(Text(x, y + 12, f"{k * step}", 10, color=FAINT))
    return shapes
