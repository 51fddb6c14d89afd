"""Drawings and the page: what must be in them, and that they are the same bytes each time."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.samples import attention, figure1
from twill.ir.schedule import Result
from twill.report import facts, graph, memory_map, summary, timeline
from twill.report.page import Context, page
from twill.report.scene import Rect, Scene, Text, png, svg
from twill.report.tables import CostNotes

RESULTS = [figure1(), attention(), replace(attention(), solution=None, status="unknown")]


def scenes(result: Result) -> list[Scene]:
    drawn = [graph.draw(graph.picture(result.problem, result.bounds, result.solution))]
    if result.solution:
        drawn += [
            timeline.draw(result.problem, result.solution),
            memory_map.profiles(result.problem, result.solution),
        ]
        drawn += [
            scene
            for memory in ("shared", "tensor")
            if (scene := memory_map.allocations(result.problem, result.solution, memory))
        ]
    return drawn


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r.problem.name}-{r.status}")
def test_everything_stays_inside_the_picture(result: Result) -> None:
    for scene in scenes(result):
        for shape in scene.shapes:
            if isinstance(shape, Rect):
                assert shape.x >= -1
                assert shape.x + shape.width <= scene.width + 1
                assert shape.y >= -1
                assert shape.y + shape.height <= scene.height + 1


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r.problem.name}-{r.status}")
def test_svg_is_well_formed_and_png_has_its_size(result: Result) -> None:
    for scene in scenes(result):
        root = ET.fromstring(svg(scene))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        image = png(scene, 1.0)
        assert image.startswith(b"\x89PNG")
        assert abs(int.from_bytes(image[16:20]) - scene.width) <= 1
        assert abs(int.from_bytes(image[20:24]) - scene.height) <= 1
        assert image == png(scene, 1.0)


def test_the_graph_names_every_operation_and_labels_every_edge() -> None:
    result = attention()
    scene = graph.draw(graph.picture(result.problem, result.bounds, result.solution))
    texts = [shape.text for shape in scene.shapes if isinstance(shape, Text)]
    assert {op.id for op in result.problem.operations} <= set(texts)
    labels = [text for text in texts if re.fullmatch(r"\(\d+, \d+\)", text)]
    assert sorted(labels) == sorted(f"({edge.delay}, {edge.distance})" for edge in result.problem.edges)


def test_labels_do_not_cover_boxes() -> None:
    result = attention()
    scene = graph.draw(graph.picture(result.problem, result.bounds, result.solution))
    boxes = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.tip]
    for text in scene.shapes:
        if isinstance(text, Text) and re.fullmatch(r"\(\d+, \d+\)", text.text):
            assert not any(b.x < text.x < b.x + b.width and b.y < text.y < b.y + b.height for b in boxes)


@pytest.mark.parametrize(("recurrence", "boxes"), [(666, 0), (2048, 0), (2112, 2)])
def test_the_circuit_is_red_only_where_it_sets_the_interval(recurrence: int, boxes: int) -> None:
    result = attention()
    bounds = replace(result.bounds, recurrence=replace(result.bounds.recurrence, value=recurrence))
    scene = graph.draw(graph.picture(result.problem, bounds, result.solution))
    red = [shape for shape in scene.shapes if isinstance(shape, Rect) and shape.stroke == graph.CRITICAL]
    assert len(red) == boxes


def test_every_unit_in_use_has_a_row_and_a_full_unit_a_full_row() -> None:
    result = attention()
    assert result.solution
    rows = {row.name: row for row in timeline.rows(result.problem, result.solution)}
    assert {r.unit for op in result.problem.operations for r in op.reservations} <= set(rows)
    row, interval = rows["issue slots"], result.solution.interval
    first = [bar for bar in row.lanes[0] if bar.iteration == 0]
    (used,) = (u for u in facts.utilization(result.problem, result.solution) if u.unit == "issue slots")
    assert row.aggregate
    assert first[-1].end == int(used.fraction * interval)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("dot.scores0_12", ("dot scores0 [1]", "dot scores0", "dot [1]", "dot")),
        ("mul.23", ("mul [1]", "mul")),
        ("qk0", ("qk0 [1]", "qk0")),
    ],
)
def test_captions_keep_the_verb(op: str, expected: tuple[str, ...]) -> None:
    assert timeline.captions(op, 1) == expected


def test_shades_follow_the_iterations() -> None:
    shades = [timeline.shade(k, 5) for k in range(5)]
    assert shades == sorted(shades)


def test_the_areas_of_a_profile_add_up() -> None:
    result = attention()
    assert result.solution
    for curve in facts.register_profiles(result.problem, result.solution):
        for i, level in enumerate(curve.levels):
            assert sum(levels[i] for _, levels in curve.parts) == level


def test_dot(golden: Callable[[str, str], None]) -> None:
    result = figure1()
    golden("figure1.dot", graph.dot(graph.picture(result.problem, result.bounds, result.solution)))


def test_timeline_of_figure_1(golden: Callable[[str, str], None]) -> None:
    result = figure1()
    assert result.solution
    golden("figure1.timeline.svg", svg(timeline.draw(result.problem, result.solution)))


def test_no_two_bars_of_a_row_overlap() -> None:
    result = attention()
    assert result.solution
    for row in timeline.rows(result.problem, result.solution):
        for lane in row.lanes:
            for first, second in pairwise(lane):
                assert first.tail <= second.start


def test_units_of_capacity_one_need_one_lane() -> None:
    result = attention()
    assert result.solution
    rows = {row.name: len(row.lanes) for row in timeline.rows(result.problem, result.solution)}
    assert rows["TC"] == rows["SFU"] == rows["ALU"] == 1


@pytest.mark.parametrize("result", RESULTS, ids=lambda r: f"{r.problem.name}-{r.status}")
def test_the_page_is_self_contained(result: Result) -> None:
    html = page(result, Context(CostNotes({"qk0": "2 * M * N * K <b>"})))
    addresses = set(re.findall(r'https?://[^"\s<]+', html))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)\b|<script[^>]* src", html)
    assert all(f"<td>{op.id}</td>" in html for op in result.problem.operations)
    assert "<b>" not in html


def test_long_cells_of_a_table_are_folded() -> None:
    """The source of a cost is a paragraph, beside which the rows of a table would be mostly blank."""
    result, long = RESULTS[0], "measured on a GPU, " * 20
    op = result.problem.operations[0].id
    html = page(result, Context(CostNotes(sources={op: long})))
    assert f"<details><summary>{long[:120]}…</summary>{long}</details>" in html
    assert "<details>" not in page(result, Context(CostNotes(sources={op: "short"})))


def test_summary(golden: Callable[[str, str], None]) -> None:
    lines = [
        line
        for result in RESULTS
        for line in (summary.title(result), *(f"  {a}: {b}" for a, b in summary.pairs(result)))
    ]
    golden("summaries.txt", "\n".join([*lines, ""]))
