# pyright: reportUnknownMemberType=false
"""Scenes as images, through matplotlib's Agg renderer. Imported only when an image is asked for."""

from typing import IO, Any, assert_never

from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch, PathPatch, Rectangle
from matplotlib.path import Path as Outline

from twill.report.scene import Path, Rect, Scene, Text

_DPI = 72
"""One scene pixel is one point, so sizes and line widths carry over."""


def raster(scene: Scene, scale: float, file: IO[bytes]) -> None:
    """Write the scene to `file` as a PNG of `scale` image pixels per scene pixel."""
    figure = Figure(figsize=(scene.width / _DPI, scene.height / _DPI), dpi=_DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.axis("off")
    for order, shape in enumerate(scene.shapes):
        _draw(axes, shape, order)
    figure.savefig(file, format="png", dpi=_DPI * scale, facecolor="white", metadata={"Software": "twill"})


def _draw(axes: Axes, shape: Rect | Path | Text, order: int) -> None:
    match shape:
        case Rect():
            axes.add_patch(_rectangle(shape, order))
        case Path():
            axes.add_patch(PathPatch(_outline(shape), capstyle="butt", **_style(shape, order)))
        case Text():
            _text(axes, shape, order)
        case _:
            assert_never(shape)


def _rectangle(rect: Rect, order: int) -> Patch:
    style = _style(rect, order)
    if not rect.radius:
        return Rectangle((rect.x, rect.y), rect.width, rect.height, **style)
    box = f"round,pad=0,rounding_size={rect.radius}"
    return FancyBboxPatch((rect.x, rect.y), rect.width, rect.height, boxstyle=box, mutation_aspect=1, **style)


def _outline(path: Path) -> Outline:
    points, codes = [path.start], [Outline.MOVETO]
    for curve in path.curves:
        points.extend(curve)
        codes.extend([Outline.CURVE4] * 3)
    return Outline(points, codes)


def _style(shape: Rect | Path, order: int) -> dict[str, Any]:
    dash = (0, tuple(d / shape.line for d in shape.dash)) if shape.dash else "solid"
    return {
        "facecolor": shape.fill or "none",
        "edgecolor": shape.stroke or "none",
        "linewidth": shape.line if shape.stroke else 0,
        "linestyle": dash,
        "zorder": order,
    }


def _text(axes: Axes, text: Text, order: int) -> None:
    place = {"start": "left", "middle": "center", "end": "right"}[text.anchor]
    drawn = axes.text(
        text.x,
        text.y,
        text.text,
        fontsize=text.size,
        color=text.color,
        ha=place,
        va="center_baseline",
        fontweight="bold" if text.bold else "normal",
        family="DejaVu Sans",
        zorder=order,
        parse_math=False,
    )
    if text.halo:
        drawn.set_path_effects([patheffects.withStroke(linewidth=3, foreground="white")])
