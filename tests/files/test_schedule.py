"""`twill.schedule/1`: exact round trips, stable bytes, and one placed error for every mistake."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.verify.loops import figure1, piped
from twill.diagnostics import Location, TwillError
from twill.files import read_schedule, write_schedule
from twill.ir.problem import Resolution, Source
from twill.ir.schedule import Bounds, Reason, RecurrenceBound, Refutation, ResourceBound, Result, Solution
from twill.ir.search import Options
from twill.modulo.bounds import bounds


def full() -> Result:
    """A result with something of everything."""
    problem, solution = piped()
    ops = tuple(
        replace(op, location=Location("kernel.ttgir", 10 + i, 5)) for i, op in enumerate(problem.operations)
    )
    located = replace(
        problem,
        operations=ops,
        source=Source("kernel.ttgir", "kernel", 8, "for.0"),
        resolution=Resolution(1.5, 0.01),
    )
    return Result(
        replace(located, together=(("qk", "pv"),), apart=(("qk", "exp"),)),
        "optimal",
        bounds(problem),
        4,
        solution,
        (Refutation(3, None, "ResMII TC", 0.25, below=True), Refutation(3, 4, "sat", 1.5)),
        (Reason("registers", "group 1 needs 48 registers at interval 3, has 40"),),
        ("least channels not proven",),
        (("read", 0.001), ("solve", 0.5)),
    )


def test_round_trip() -> None:
    options = Options("sat", 12.5, 4, explain=False)
    document = read_schedule(write_schedule(full(), options), "s.json")
    assert document.result == full()
    assert document.options == options


@pytest.mark.parametrize("status", ["infeasible", "unknown"])
def test_round_trip_without_a_solution(status: Any) -> None:
    result = replace(full(), status=status, solution=None, proved=4)
    text = write_schedule(result)
    assert read_schedule(text, "s.json").result == result
    assert json.loads(text)["interval"] is None
    assert json.loads(text)["ops"][0]["start"] is None


def test_round_trip_of_a_plain_modulo_schedule() -> None:
    result = Result(
        figure1(),
        "optimal",
        Bounds(ResourceBound("TC", 2), RecurrenceBound(1, ("O",))),
        2,
        Solution(2, (0, 2, 3), (0, 0, 0)),
    )
    assert read_schedule(write_schedule(result, Options(modulo_only=True)), "s.json").result == result


def test_the_file_that_is_written(golden: Callable[[str, str], None]) -> None:
    golden("pipeline.schedule.json", write_schedule(full()))


def test_members() -> None:
    document = json.loads(write_schedule(full()))
    assert (document["interval"], document["length"], document["stages"], document["copies"]) == (4, 8, 2, 2)
    assert (document["interval_cycles"], document["length_cycles"]) == (6, 12)
    assert document["source"] == {"file": "kernel.ttgir", "function": "kernel", "line": 8, "loop": "for.0"}
    assert document["groups"][1] == {"id": 1, "warps": 4, "registers": 24, "ops": ["qk", "pv"]}
    op = document["ops"][3]
    assert [
        op[name] for name in ("id", "line", "start", "stage", "group", "unit", "occupancy", "latency")
    ] == [
        "pv",
        13,
        6,
        1,
        1,
        "TC",
        2,
        2,
    ]
    assert [edge["cross_group"] for edge in document["edges"]] == [True, True, True, False]
    assert document["seconds"] == {"read": 0.001, "solve": 0.5}


def test_seconds_can_be_left_out_of_the_bytes() -> None:
    slower = replace(
        full(),
        seconds=(("read", 9.0), ("solve", 9.0)),
        refuted=tuple(replace(r, seconds=9.0) for r in full().refuted),
    )
    assert write_schedule(full(), zero_seconds=True) == write_schedule(slower, zero_seconds=True)
    assert write_schedule(full()) != write_schedule(slower)


MISTAKES: list[tuple[str, Any, str]] = [
    ("schema", "twill.graph/1", "schema: must be 'twill.schedule/1'"),
    ("status", "good", "status: must be one of optimal, feasible, infeasible, unknown, not 'good'"),
    ("interval", 0, "interval: must be from 1"),
    ("interval", ..., "'interval' is missing"),
    ("stagez", 1, "stagez: nothing of that name is known here"),
    ("ops.0.start", ..., "ops[0]: 'start' is missing"),
    ("ops.0.start", -1, "ops[0].start: must be from 0"),
    ("ops.0.start", None, "ops[0].start: must be a whole number, not null"),
    ("ops.0.id", "q", "edges[0].src: there is no operation 'load'"),
    ("groups.0.warps", 9, "groups[0].warps: must be from 1 to 8"),
    ("places.0.memory", "disk", "places[0].memory: must be one of shared, tensor, not 'disk'"),
    ("places.0.copies", 0, "places[0].copies: must be from 1"),
    ("bounds.proved", ..., "bounds: 'proved' is missing"),
    ("bounds.resource.extra", 1, "bounds.resource.extra: nothing of that name is known here"),
    ("refuted.0.copies", 0, "refuted[0].copies: must be from 1"),
    ("refuted.0.seconds", -1, "refuted[0].seconds: must be from 0"),
    ("options.engine", "magic", "options.engine: must be one of"),
    ("units", ..., "'units' is missing"),
    ("seconds.solve", "long", "seconds.solve: must be a number, not a string"),
]


@pytest.mark.parametrize(
    ("path", "value", "message"), MISTAKES, ids=[f"{path} {str(value)[:12]}" for path, value, _ in MISTAKES]
)
def test_a_mistake(path: str, value: Any, message: str) -> None:
    document = json.loads(write_schedule(full()))
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = document
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    with pytest.raises(TwillError) as caught:
        read_schedule(json.dumps(document, indent=1), "s.json")
    assert caught.value.message.startswith(message)
    assert caught.value.location is not None
