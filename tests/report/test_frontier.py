"""The frontier of a sweep."""

from itertools import pairwise

from twill.report.frontier import Point, draw, frontier
from twill.report.scene import Text, svg

POINTS = (
    Point("small", 100, 1.0),
    Point("beaten", 150, 0.9),
    Point("equal", 200, 1.0),
    Point("large", 300, 2.0),
)


def test_only_points_that_no_other_beats_are_on_it() -> None:
    assert [one.name for one in frontier(POINTS)] == ["small", "large"]


def test_the_drawing_names_the_frontier_and_has_a_tip_for_every_point() -> None:
    scene = draw(POINTS, "sm90")
    texts = [shape.text for shape in scene.shapes if isinstance(shape, Text)]
    assert {"small", "large"} <= set(texts)
    assert "beaten" not in texts
    assert "beaten: 150 bytes, 45.0%" in svg(scene)


def test_labels_do_not_overlap() -> None:
    near = tuple(Point(f"p{i}", 100 + i, 1.0 + i / 1000) for i in range(6))
    labels = [one for one in draw(near, "").shapes if isinstance(one, Text) and one.text.startswith("p")]
    heights = sorted(one.y for one in labels)
    assert len(heights) == 6
    assert all(b - a >= 14 for a, b in pairwise(heights))
