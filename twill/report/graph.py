"""The dependence graph: as a drawing in the style of the paper's Figure 9, and as Graphviz text.

Takes a problem, its bounds and, where there is one, its solution. Boxes are operations, coloured by warp
group; arrows carry (delay, distance). Carried edges are dashed and violet, edges between groups thick; the
critical circuit is red if it sets the interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill.ir.problem import Edge, Operation, Problem
from twill.ir.schedule import Bounds, Solution
from twill.report import facts
from twill.report.layout import DrawingLayout, Link, arrange
from twill.report.palette import CARRIED, CRITICAL, FAINT, INK, group_color
from twill.report.scene import Path, Point, Rect, Scene, Shape, Text, text_width

_MARGIN = 24.0
_NAME, _SMALL, _LABEL = 12.0, 9.0, 9.0
_ORDERING = ("war", "waw", "order")


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn: the problem, its solution if there is one, and the operations of the critical
    circuit."""

    problem: Problem
    solution: Solution | None = None
    circuit: tuple[str, ...] = ()

    def group(self, op: int) -> int | None:
        return self.solution.group[op] if self.solution and self.solution.groups else None

    def critical(self, edge: Edge) -> bool:
        """The edge leads from one operation of the critical circuit to the next."""
        return (edge.src, edge.dst) in set(
            zip(self.circuit, (*self.circuit[1:], *self.circuit[:1]), strict=True)
        )

    def label(self, edge: Edge) -> str:
        return f"({facts.delay(self.problem, self.solution, edge)}, {edge.distance})"

    def crosses(self, edge: Edge) -> bool:
        return self.solution is not None and facts.crosses(self.problem, self.solution, edge)


def picture(problem: Problem, bounds: Bounds | None = None, solution: Solution | None = None) -> Picture:
    """The picture of a problem. The recurrence circuit is critical only where it sets the interval, or the
    bound without a solution."""
    recurrence = bounds.recurrence if bounds else None
    interval = solution.interval if solution else bounds.value if bounds else 0
    return Picture(
        problem, solution, recurrence.ops if recurrence and 0 < interval <= recurrence.value else ()
    )


# --- drawing ----------------------------------------------------------------------------------------------


def draw(picture: Picture) -> Scene:
    """The dependence graph with its legend."""
    problem = picture.problem
    sizes = [_size(_lines(picture, i)) for i in range(len(problem.operations))]
    links = [_link(problem, edge) for edge in problem.edges]
    layout = arrange(sizes, links)
    top = _MARGIN + _legend_height(picture) + 20
    shifted = _shifted(layout, _MARGIN + 10, top)
    boxes = [Rect(x - w / 2, y - h / 2, w, h) for (x, y), (w, h) in zip(shifted.centres, sizes, strict=True)]
    ways = [_way(points, boxes[link.src]) for points, link in zip(shifted.ways, links, strict=True)]
    width = max(shifted.width + 2 * _MARGIN + 20, _legend_width(picture) + 2 * _MARGIN)
    shapes = [
        *(
            shape
            for edge, way in zip(problem.edges, ways, strict=True)
            for shape in _arrow(picture, edge, way)
        ),
        *(shape for i, box in enumerate(boxes) for shape in _box(picture, i, box)),
        *_labels(picture, ways, boxes),
        *_legend(picture),
    ]
    return Scene(width, top + shifted.height + _MARGIN, tuple(shapes), f"Dependence graph of {problem.name}")


def _lines(picture: Picture, op: int) -> tuple[str, str]:
    """The name of an operation, and its start and stage, or its unit without a solution."""
    operation = picture.problem.operations[op]
    if picture.solution is None:
        return operation.id, _unit_line(picture.problem, operation)
    start = picture.solution.start[op]
    return operation.id, f"@{start}  stage {facts.stage(start, picture.solution.interval)}"


def _unit_line(problem: Problem, operation: Operation) -> str:
    unit = problem.unit(operation)
    return (
        f"{unit} {max(r.cycles for r in operation.reservations if r.unit == unit)}"
        if unit
        else operation.name.split(".")[-1]
    )


def _size(lines: tuple[str, str]) -> Point:
    width = max(text_width(lines[0], _NAME, bold=True), text_width(lines[1], _SMALL))
    return max(64.0, width + 18), 36.0


def _link(problem: Problem, edge: Edge) -> Link:
    weight = {"data": 3, "token": 3, "raw": 3}.get(edge.kind, 1) if edge.distance == 0 else 1
    return Link(problem.index(edge.src), problem.index(edge.dst), edge.distance > 0, weight)


def _shifted(layout: DrawingLayout, x: float, y: float) -> DrawingLayout:
    centres = tuple((a + x, b + y) for a, b in layout.centres)
    ways = tuple(tuple((a + x, b + y) for a, b in way) for way in layout.ways)
    return replace(layout, centres=centres, ways=ways)


def _way(points: Sequence[Point], box: Rect) -> Path:
    """A smooth curve through `points`, upright where it leaves, passes and enters; a loop beside the box
    where there are none."""
    if not points:
        x, y = box.x + box.width, box.y + box.height / 2
        return Path((x, y + 8), (((x + 26, y + 20), (x + 26, y - 20), (x, y - 8)),))
    curves, last = list[tuple[Point, Point, Point]](), points[0]
    for point in points[1:]:
        bend = (point[1] - last[1]) * 0.5
        curves.append(((last[0], last[1] + bend), (point[0], point[1] - bend), point))
        last = point
    return Path(points[0], tuple(curves))


def _box(picture: Picture, op: int, box: Rect) -> list[Shape]:
    operation = picture.problem.operations[op]
    critical = operation.id in picture.circuit
    name, line = _lines(picture, op)
    middle, centre = box.x + box.width / 2, box.y + box.height / 2
    fill = group_color(picture.group(op))
    stroke = CRITICAL if critical else group_color(picture.group(op), 0.6)
    ops = (operation.id,)
    framed = replace(
        box, fill=fill, stroke=stroke, line=2.5 if critical else 1.2, radius=6.0, tip=_tip(operation), ops=ops
    )
    return [
        framed,
        Text(middle, centre - 7, name, _NAME, bold=True, ops=ops),
        Text(middle, centre + 8, line, _SMALL, color="#3c4350", ops=ops),
    ]


def _tip(op: Operation) -> str:
    units = ", ".join(
        f"{r.unit} {r.cycles}" + (f" x {r.amount}" if r.amount != 1 else "") for r in op.reservations
    )
    location = f"\n{op.location}" if op.location else ""
    return f"{op.id}: {op.name}\n{units or 'no unit'}; latency {op.latency}, issue {op.issue}{location}"


def _edge_color(picture: Picture, edge: Edge) -> str:
    if picture.critical(edge):
        return CRITICAL
    if edge.distance:
        return CARRIED
    return FAINT if edge.kind in _ORDERING else INK


def _arrow(picture: Picture, edge: Edge, way: Path) -> list[Shape]:
    color = _edge_color(picture, edge)
    line = (2.2 if picture.crosses(edge) else 1.1) + (0.6 if picture.critical(edge) else 0.0)
    dash = (6.0, 3.0) if edge.distance else (2.0, 2.5) if edge.kind in _ORDERING else ()
    tip = (
        f"{edge.src} -> {edge.dst}: {edge.kind}, delay {edge.delay} ({edge.crossing} between groups),"
        f" distance {edge.distance}"
    )
    ops = (edge.src, edge.dst)
    return [
        replace(way, stroke=color, line=line, dash=dash, tip=tip, ops=ops),
        replace(_head(way, color, line), ops=ops),
    ]


def _head(way: Path, color: str, line: float) -> Path:
    """The arrow's point, along the last curve."""
    (x, y), before = way.curves[-1][2], way.curves[-1][1]
    dx, dy = x - before[0], y - before[1]
    length = max((dx * dx + dy * dy) ** 0.5, 1e-6)
    dx, dy, size = dx / length, dy / length, 6.0 + line
    left = (x - size * dx - size * 0.42 * dy, y - size * dy + size * 0.42 * dx)
    right = (x - size * dx + size * 0.42 * dy, y - size * dy - size * 0.42 * dx)
    corners = ((x, y), left, right, (x, y))
    return Path(corners[0], tuple((p, p, p) for p in corners[1:]), fill=color)


# --- labels -----------------------------------------------------------------------------------------------


def _labels(picture: Picture, ways: Sequence[Path], boxes: Sequence[Rect]) -> list[Shape]:
    """A label on each arrow, where it covers no box and no other label, as near the arrow's tail as that
    allows."""
    taken = list(boxes)
    shapes = list[Shape]()
    for edge, way in zip(picture.problem.edges, ways, strict=True):
        text = picture.label(edge)
        width, height = text_width(text, _LABEL) + 4, _LABEL + 3
        aside = width / 2 + 3 if edge.src == edge.dst else 0.0
        spots = [Rect(x - width / 2 + aside, y - height / 2, width, height) for x, y in _along(way)]
        best = min(range(len(spots)), key=lambda i: (sum(_overlap(spots[i], other) for other in taken), i))
        spot = spots[best]
        taken.append(spot)
        color = _edge_color(picture, edge)
        shapes += [
            replace(spot, fill="#ffffff", radius=2.0),
            Text(spot.x + width / 2, spot.y + height / 2, text, _LABEL, color=color),
        ]
    return shapes


def _along(way: Path) -> list[Point]:
    """Points of the way, the middles of its curves first."""
    starts = [way.start, *(curve[2] for curve in way.curves[:-1])]
    return [
        _bezier(start, curve, t)
        for t in (0.5, 0.38, 0.62, 0.26, 0.74)
        for start, curve in zip(starts, way.curves, strict=True)
    ]


def _bezier(start: Point, curve: tuple[Point, Point, Point], t: float) -> Point:
    a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = start, *curve
    return a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3


def _overlap(a: Rect, b: Rect) -> float:
    across = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    down = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    return max(0.0, across) * max(0.0, down)


# --- legend -----------------------------------------------------------------------------------------------


def _entries(picture: Picture) -> list[tuple[str, str]]:
    """Colour and description of each warp group."""
    groups = picture.solution.groups if picture.solution else ()
    return [
        (group_color(g.id), f"group {g.id}: {facts.counted(g.warps, 'warp')}, {g.registers} registers")
        for g in groups
    ]


def _notes(picture: Picture) -> list[tuple[str, Path]]:
    """Line samples for the kinds of arrows."""
    sample = Path((0, 0), (((9, 0), (18, 0), (28, 0)),), stroke=INK, line=1.2)
    kinds = [("(delay, distance)", sample)]
    if any(edge.distance for edge in picture.problem.edges):
        kinds.append(("carried", replace(sample, stroke=CARRIED, dash=(6.0, 3.0))))
    if any(edge.kind in _ORDERING and not edge.distance for edge in picture.problem.edges):
        kinds.append(("order in memory", replace(sample, stroke=FAINT, dash=(2.0, 2.5))))
    if any(picture.crosses(edge) for edge in picture.problem.edges):
        kinds.append(("between groups", replace(sample, line=2.2)))
    return (
        [*kinds, ("critical circuit", replace(sample, stroke=CRITICAL, line=2.4))]
        if picture.circuit
        else kinds
    )


def _legend_height(picture: Picture) -> float:
    return 30 + 18 * max(len(_entries(picture)), len(_notes(picture)))


def _legend_width(picture: Picture) -> float:
    texts = [text for _, text in _entries(picture)]
    left = max((text_width(text, 10) for text in texts), default=0.0) + (50 if texts else 0)
    return max(left + 190, text_width(_title(picture), 14, bold=True))


def _title(picture: Picture) -> str:
    problem = picture.problem
    answer = (
        f", interval {facts.cycles(problem, picture.solution.interval)} cycles" if picture.solution else ""
    )
    return f"{problem.title}{answer}"


def _legend(picture: Picture) -> list[Shape]:
    shapes: list[Shape] = [Text(_MARGIN, _MARGIN, _title(picture), 14, "start", bold=True)]
    entries = _entries(picture)
    for i, (color, text) in enumerate(entries):
        y = _MARGIN + 26 + 18 * i
        shapes += [
            Rect(_MARGIN, y - 6, 20, 12, color, "#888e99", 0.8, 3.0),
            Text(_MARGIN + 27, y, text, 10, "start"),
        ]
    left = _MARGIN + max((text_width(text, 10) + 50 for _, text in entries), default=0.0)
    for i, (text, sample) in enumerate(_notes(picture)):
        y = _MARGIN + 26 + 18 * i
        moved = replace(
            sample,
            start=(left, y),
            curves=tuple(((left + 9, y), (left + 18, y), (left + 28, y)) for _ in sample.curves),
        )
        shapes += [moved, Text(left + 36, y, text, 10, "start")]
    return shapes


# --- Graphviz ---------------------------------------------------------------------------------------------


def dot(picture: Picture) -> str:
    """The graph as Graphviz text, with the colours and labels of the drawing."""
    lines = [
        f"digraph {_quoted(picture.problem.name)} {{",
        '  node [shape=box, style="rounded,filled", fontname="DejaVu Sans"];',
    ]
    for i, op in enumerate(picture.problem.operations):
        label = "\\n".join(_lines(picture, i))
        frame = f', color="{CRITICAL}", penwidth=2.5' if op.id in picture.circuit else ""
        lines.append(
            f"  {_quoted(op.id)} [label={_quoted(label)},"
            f' fillcolor="{group_color(picture.group(i))}"{frame}];'
        )
    for edge in picture.problem.edges:
        style = "dashed" if edge.distance else "dotted" if edge.kind in _ORDERING else "solid"
        width = 2.2 if picture.crosses(edge) else 1.1
        look = f'color="{_edge_color(picture, edge)}", style={style}, penwidth={width}'
        back = ", constraint=false" if edge.distance else ""
        lines.append(
            f"  {_quoted(edge.src)} -> {_quoted(edge.dst)} [label={_quoted(picture.label(edge))},"
            f" {look}{back}];"
        )
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
