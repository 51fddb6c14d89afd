"""The simulated timeline: on the axes of the schedule's, everything inside, waits in red, the same bytes each
time."""

from functools import cache

import pytest

from tests.kernels.programs import loops, program
from twill.report.palette import CRITICAL
from twill.report.scene import Rect, Scene, Text, stacked, svg
from twill.report.simulated import draw
from twill.report.timeline import draw as scheduled
from twill.simulate.predict import predict


@cache
def scenes(kernel: str = "fa_fwd_subtiled") -> tuple[Scene, Scene]:
    """The schedule, and the run."""
    (one,) = loops(kernel)[1]
    found = predict(program(kernel), (one,))
    return scheduled(one.problem, one.solution), draw(
        one.problem, one.solution, found.events, found.loops[one.loop.path]
    )


def test_everything_stays_inside_the_picture() -> None:
    scene = stacked(*scenes())
    for shape in scene.shapes:
        if isinstance(shape, Rect):
            assert -1 <= shape.x <= shape.x + shape.width <= scene.width + 1
            assert -1 <= shape.y <= shape.y + shape.height <= scene.height + 1
    assert svg(scene) == svg(stacked(*scenes()))


def test_the_first_product_of_the_steady_state_stands_where_the_schedule_has_it() -> None:
    (one,), (above, below) = loops("fa_fwd_subtiled")[1], scenes()
    boxes = [[shape for shape in scene.shapes if isinstance(shape, Rect)] for scene in (above, below)]
    tips = [{box.tip: box.x for box in drawn if "dot.scores" in box.tip} for drawn in boxes]
    frames = [next(box for box in drawn if box.fill is None and box.stroke == CRITICAL) for drawn in boxes]
    assert frames[1].width > frames[0].width, "an iteration takes longer than scheduled"
    assert any(abs(frames[1].x - x) < 0.1 for x in tips[1].values())
    assert any(abs(frames[1].x - x) < 0.1 for x in tips[0].values())
    assert one.solution.interval < 2100


@pytest.mark.parametrize(
    ("kernel", "waits"),
    [
        ("fa_fwd_subtiled", ("producer_acquire y_10", "operands of ")),
        ("fa_bwd", ("consumer_wait weights_18", "wait 0")),
    ],
)
def test_waits_are_framed_and_named(kernel: str, waits: tuple[str, ...]) -> None:
    scene = scenes(kernel)[1]
    framed = [
        shape for shape in scene.shapes if isinstance(shape, Rect) and shape.fill == "#ffffff" and shape.tip
    ]
    assert {shape.stroke for shape in framed} == {CRITICAL}
    assert all(any(shape.tip.startswith(wait) for shape in framed) for wait in waits)
    assert any(
        isinstance(shape, Text) and shape.color == CRITICAL and shape.text.startswith("producer_acquire ")
        for shape in scene.shapes
    )
