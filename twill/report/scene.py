"""A drawing as a value: a few shapes at fixed places, written as SVG (with tooltips) or PNG.

Takes shapes in pixels, y downwards; gives the same bytes for the same scene. SVG needs nothing; PNG imports
matplotlib.
"""

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, assert_never
from xml.sax.saxutils import escape, quoteattr

FONT = "DejaVu Sans, Verdana, Arial, sans-serif"
CHARACTER = 0.6
"""Mean width of a character of FONT, as a fraction of the font size."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rect:
    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    line: float = 1.0
    radius: float = 0.0
    dash: tuple[float, ...] = ()
    tip: str = ""
    """Shown when the pointer rests on it (SVG only)."""
    ops: tuple[str, ...] = ()
    """The operations that it belongs to; the report highlights all shapes of an operation together (SVG
    only)."""


@dataclass(frozen=True, slots=True)
class Path:
    """From `start` on, one cubic Bezier (two control points and an end) after the other."""

    start: Point
    curves: tuple[tuple[Point, Point, Point], ...]
    stroke: str | None = None
    fill: str | None = None
    line: float = 1.0
    dash: tuple[float, ...] = ()
    tip: str = ""
    ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    x: float
    y: float
    """Of the middle of the line."""
    text: str
    size: float = 11.0
    anchor: Literal["start", "middle", "end"] = "middle"
    color: str = "#1b1f24"
    bold: bool = False
    halo: bool = False
    """Outlined in white, so that it stays legible across a line."""
    ops: tuple[str, ...] = ()


Shape = Rect | Path | Text


@dataclass(frozen=True, slots=True)
class Scene:
    width: float
    height: float
    shapes: tuple[Shape, ...]
    """Drawn in this order."""
    title: str = ""

    def _repr_svg_(self) -> str:
        """How a notebook shows it."""
        return svg(self)


def straight(points: Iterable[Point], **style: object) -> Path:
    """The polyline through `points`."""
    first, *rest = points
    curves, last = list[tuple[Point, Point, Point]](), first
    for point in rest:
        curves.append((last, point, point))
        last = point
    return Path(first, tuple(curves), **style)  # pyright: ignore[reportArgumentType]


def stacked(above: Scene, below: Scene) -> Scene:
    """One scene over the other, with the title of the upper one."""
    shapes = (*above.shapes, *(_lowered(shape, above.height) for shape in below.shapes))
    return Scene(max(above.width, below.width), above.height + below.height, shapes, above.title)


def _lowered(shape: Shape, by: float) -> Shape:
    if not isinstance(shape, Path):
        return replace(shape, y=shape.y + by)
    curves = tuple(((a, b + by), (c, d + by), (e, f + by)) for (a, b), (c, d), (e, f) in shape.curves)
    return replace(shape, start=(shape.start[0], shape.start[1] + by), curves=curves)


def text_width(text: str, size: float, bold: bool = False) -> float:
    """About how wide `text` is drawn, in pixels."""
    return len(text) * size * CHARACTER * (1.1 if bold else 1.0)


# --- SVG --------------------------------------------------------------------------------------------------


def svg(scene: Scene) -> str:
    """The scene as an SVG document, readable and small."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(scene.width)}" height="{_n(scene.height)}"'
        f' viewBox="0 0 {_n(scene.width)} {_n(scene.height)}" font-family={quoteattr(FONT)}>'
    )
    title = [f"<title>{escape(scene.title)}</title>"] if scene.title else []
    paper = f'<rect width="{_n(scene.width)}" height="{_n(scene.height)}" fill="#ffffff"/>'
    return "\n".join([head, *title, paper, *(_svg_shape(shape) for shape in scene.shapes), "</svg>", ""])


def _n(value: float) -> str:
    """A coordinate with at most one decimal."""
    return re.sub(r"\.0$", "", f"{value:.1f}")


def _svg_shape(shape: Shape) -> str:
    match shape:
        case Rect():
            radius = f' rx="{_n(shape.radius)}"' if shape.radius else ""
            place = (
                f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
            )
            return _svg_element("rect", place + radius + _svg_style(shape) + _svg_ops(shape), shape.tip)
        case Path():
            return _svg_element(
                "path", f'd="{_svg_data(shape)}"' + _svg_style(shape) + _svg_ops(shape), shape.tip
            )
        case Text():
            return _svg_text(shape)
        case _:
            assert_never(shape)


def _svg_element(tag: str, attributes: str, tip: str) -> str:
    return f"<{tag} {attributes}><title>{escape(tip)}</title></{tag}>" if tip else f"<{tag} {attributes}/>"


def _svg_ops(shape: Shape) -> str:
    return f" data-op={quoteattr(' '.join(shape.ops))}" if shape.ops else ""


def _svg_style(shape: Rect | Path) -> str:
    stroke = f' stroke="{shape.stroke}" stroke-width="{_n(shape.line)}"' if shape.stroke else ""
    dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
    return f' fill="{shape.fill or "none"}"{stroke}{dash}'


def _svg_data(path: Path) -> str:
    curves = (f"C{' '.join(f'{_n(x)},{_n(y)}' for x, y in curve)}" for curve in path.curves)
    return f"M{_n(path.start[0])},{_n(path.start[1])}" + "".join(curves)


def _svg_text(text: Text) -> str:
    halo = (
        ' stroke="#ffffff" stroke-width="3" stroke-linejoin="round" paint-order="stroke"' if text.halo else ""
    )
    bold = ' font-weight="bold"' if text.bold else ""
    place = (
        f'x="{_n(text.x)}" y="{_n(text.y + 0.35 * text.size)}" font-size="{_n(text.size)}"'
        f' text-anchor="{text.anchor}"'
    )
    return f'<text {place} fill="{text.color}"{bold}{halo}{_svg_ops(text)}>{escape(text.text)}</text>'


# --- PNG --------------------------------------------------------------------------------------------------


def png(scene: Scene, scale: float = 2.0) -> bytes:
    """The scene as a PNG image of `scale` image pixels per scene pixel."""
    from twill.report.raster import raster

    buffer = io.BytesIO()
    raster(scene, scale, buffer)
    return buffer.getvalue()
