"""Layouts of random graphs: nothing overlaps, everything points down that can."""

import random
from itertools import combinations

import pytest

from twill.report.layout import Link, arrange


def random_graph(seed: int) -> tuple[list[tuple[float, float]], list[Link]]:
    random.seed(seed)
    count = random.randint(1, 45)
    sizes = [(random.uniform(40, 120), random.uniform(20, 40)) for _ in range(count)]
    links = [
        Link(a, b, weight=random.choice((1, 3)))
        for a, b in combinations(range(count), 2)
        if random.random() < 3 / count
    ]
    links += [Link(random.randrange(count), random.randrange(count), back=True) for _ in range(count // 5)]
    return sizes, links


@pytest.mark.parametrize("seed", range(25))
def test_boxes_do_not_overlap_and_edges_point_down(seed: int) -> None:
    sizes, links = random_graph(seed)
    layout = arrange(sizes, links)
    boxes = [
        (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        for (x, y), (w, h) in zip(layout.centres, sizes, strict=True)
    ]
    for a, b in combinations(boxes, 2):
        assert a[2] <= b[0] + 1e-6 or b[2] <= a[0] + 1e-6 or a[3] <= b[1] + 1e-6 or b[3] <= a[1] + 1e-6
    for box in boxes:
        assert box[0] >= -1e-6
        assert box[2] <= layout.width + 1e-6
        assert box[1] >= -1e-6
        assert box[3] <= layout.height + 1e-6
    for link in links:
        if not link.back:
            assert layout.centres[link.src][1] < layout.centres[link.dst][1]


@pytest.mark.parametrize("seed", range(25))
def test_ways_join_the_borders_of_their_boxes(seed: int) -> None:
    sizes, links = random_graph(seed)
    layout = arrange(sizes, links)
    for link, way in zip(links, layout.ways, strict=True):
        if link.src == link.dst:
            assert way == ()
            continue
        for end, (x, y) in ((link.src, way[0]), (link.dst, way[-1])):
            (centre_x, centre_y), (width, height) = layout.centres[end], sizes[end]
            on_side = abs(abs(x - centre_x) - width / 2) < 1e-6 and abs(y - centre_y) <= height / 2
            on_top = abs(abs(y - centre_y) - height / 2) < 1e-6 and abs(x - centre_x) <= width / 2
            assert on_side or on_top


def test_a_chain_is_a_straight_line() -> None:
    layout = arrange([(50, 20)] * 5, [Link(i, i + 1) for i in range(4)])
    assert len({round(x, 3) for x, _ in layout.centres}) == 1


def test_parallel_chains_do_not_cross() -> None:
    """Two sub-tiles with a common source stay side by side."""
    links = [Link(0, 1), Link(0, 2), *(Link(i, i + 2) for i in range(1, 9))]
    layout = arrange([(50, 20)] * 11, links)
    sides = {layout.centres[i][0] < layout.centres[i + 1][0] for i in range(1, 10, 2)}
    assert len(sides) == 1


def test_empty() -> None:
    assert arrange([], []).centres == ()
