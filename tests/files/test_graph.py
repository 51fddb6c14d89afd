"""`twill.graph/1`: exact round trips, and one placed error for every mistake."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from tests.properties.strategies import problems
from tests.properties.tiny import tiny_problem
from twill.diagnostics import Location, TwillError
from twill.files import load, read_graph, write_graph
from twill.ir.problem import Limits, Problem, Source, Unit

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "graphs").glob("*.graph.json"))


@settings(max_examples=100, deadline=None)
@given(problems(5))
def test_round_trip(problem: Problem) -> None:
    text = write_graph(problem)
    assert read_graph(text, "tiny.graph.json") == problem
    assert write_graph(read_graph(text, "tiny.graph.json")) == text


def test_round_trip_of_places() -> None:
    problem = tiny_problem(Random(1))
    ops = list(problem.operations)
    ops[0] = replace(ops[0], location=Location("k.ttgir", 12, 5))
    ops[1] = replace(ops[1], location=Location("other.ttgir", 3))
    located = replace(
        problem, operations=tuple(ops), source=Source("k.ttgir", "kernel", 4, "for.0"), machine=""
    )
    assert read_graph(write_graph(located), "x.json") == located


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    problem = read_graph(load(path), str(path))
    assert read_graph(write_graph(problem), "again.json") == problem


def test_the_running_example_takes_its_units_from_its_machine() -> None:
    path = next(path for path in EXAMPLES if "figure1" in path.name)
    problem = read_graph(load(path), str(path))
    assert [unit.name for unit in problem.units] == ["TC", "SFU"]
    assert [op.id for op in problem.operations] == ["S", "P", "O"]


def test_the_file_that_is_written(golden: Callable[[str, str], None]) -> None:
    golden("tiny.graph.json", write_graph(tiny_problem(Random(5))))


GRAPH: dict[str, Any] = {
    "schema": "twill.graph/1",
    "name": "g",
    "units": [{"name": "TC"}, {"name": "ISSUE", "capacity": 2, "aggregate": True}],
    "nodes": [
        {"id": "a", "name": "gemm", "reservations": [{"unit": "TC", "cycles": 2}], "latency": 2, "warps": 4},
        {
            "id": "b",
            "name": "exp",
            "values": [{"id": "v", "uses": [{"op": "a", "distance": 1}], "registers": 8}],
        },
    ],
    "edges": [{"src": "a", "dst": "b", "delay": 2}, {"src": "b", "dst": "a", "delay": 0, "distance": 1}],
    "apart": [["a", "b"]],
    "starts": {"a": 0},
}


def changed(path: str, value: Any) -> str:
    """The graph with one member changed, added, or (`...`) removed."""
    document = json.loads(json.dumps(GRAPH))
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = document
    for step in steps:
        place = place[step]
    match place, value:
        case _, _ if value is ...:
            del place[last]
        case list(), _ if last == len(place):  # pyright: ignore[reportUnknownArgumentType]
            place.append(value)  # pyright: ignore[reportUnknownMemberType]
        case _:
            place[last] = value
    return json.dumps(document, indent=1)


MISTAKES: list[tuple[str, Any, str]] = [
    ("schema", "twill.graph/2", "schema: must be 'twill.graph/1'"),
    ("schema", ..., "'schema' is missing"),
    ("nodez", [], "nodez: nothing of that name is known here"),
    ("nodes", ..., "'nodes' is missing"),
    ("nodes", [], "nodes: there is nothing to schedule"),
    ("nodes", {}, "nodes: must be an array, not an object"),
    ("nodes.0", 3, "nodes[0]: must be an object, not 3"),
    ("nodes.0.id", "b", "nodes[1].id: 'b' is already taken"),
    ("nodes.0.id", "", "nodes[0].id: must be 1 to 2000 printable characters"),
    ("nodes.0.id", "a\u0000", "nodes[0].id: must be 1 to 2000 printable characters"),
    ("nodes.0.id", 5, "nodes[0].id: must be a string, not 5"),
    ("nodes.0.latancy", 5, "nodes[0].latancy: nothing of that name is known here"),
    ("nodes.0.latency", -1, "nodes[0].latency: must be from 0 to 1000000000, not -1"),
    ("nodes.0.latency", 1.5, "nodes[0].latency: must be a whole number, not 1.5"),
    ("nodes.0.latency", True, "nodes[0].latency: must be a whole number, not true"),
    ("nodes.0.latency", "2", "nodes[0].latency: must be a whole number, not a string"),
    ("nodes.0.latency", 10**10, "nodes[0].latency: must be from 0 to 1000000000"),
    ("nodes.0.warps", 2, "nodes[0].warps: must be 1, 4 or 8, not 2"),
    ("nodes.0.streaming", True, "nodes[0].streaming: only an operation of variable latency"),
    ("nodes.0.variable", 1, "nodes[0].variable: must be true or false, not 1"),
    ("nodes.0.reservations.0.unit", "SFU", "nodes[0].reservations[0].unit: there is no unit 'SFU'"),
    ("nodes.0.reservations.0.amount", 2, "nodes[0].reservations[0].amount: TC has only 1"),
    ("nodes.0.reservations.0.amount", 0, "nodes[0].reservations[0].amount: must be from 1"),
    ("nodes.1.values.0.uses.0.op", "c", "nodes[1].values[0].uses[0].op: there is no operation 'c'"),
    ("nodes.1.values.0.uses.0", {}, "nodes[1].values[0].uses[0]: 'op' is missing"),
    ("nodes.1.values.1", {"id": "v"}, "nodes[1].values[1].id: 'v' is already taken"),
    ("nodes.1.values.0.src", "a", "nodes[1].values[0].src: nothing of that name is known here"),
    (
        "nodes.1.values.1",
        {"id": "w", "resident": True, "slots": 1},
        "nodes[1].values[1].slots: a resident value",
    ),
    ("nodes.0.line", 0, "nodes[0].line: must be from 1"),
    ("edges", ..., "'edges' is missing"),
    ("edges.0.src", "z", "edges[0].src: there is no operation 'z'"),
    ("edges.0.delay", ..., "edges[0]: 'delay' is missing"),
    ("edges.0.delay", -1, "edges[0].delay: must be from 0"),
    ("edges.0.distance", 10**6 + 1, "edges[0].distance: must be from 0 to 1000000"),
    ("edges.1.distance", 0, "edges[0]: a circuit within one iteration: b -> a -> b"),
    ("edges.2", {"src": "a", "dst": "a", "delay": 0}, "edges[2]: a circuit within one iteration: a -> a"),
    ("units", ..., "no units: neither 'units' nor a 'machine'"),
    ("units.1.name", "TC", "units[1].name: 'TC' is already taken"),
    ("units.1.capacity", 0, "units[1].capacity: must be from 1"),
    ("limits", {"shared": -1}, "limits.shared: must be from 0"),
    ("limits", {"register_step": 0}, "limits.register_step: must be from 1"),
    ("machine", "no such", "machine: no machine 'no such'"),
    ("resolution", {"cycles_per_unit": 0}, "resolution.cycles_per_unit: must be from 1e-09"),
    ("apart.0", ["a"], "apart[0]: must be two different names"),
    ("apart.0", ["a", "a"], "apart[0]: must be two different names"),
    ("apart.0", ["a", "q"], "apart[0][1]: there is no operation 'q'"),
    ("together", [["a", "q"]], "together[0][1]: there is no operation 'q'"),
    ("starts.q", 1, "starts.q: there is no operation 'q'"),
    ("starts.a", -1, "starts.a: must be from 0"),
    ("source", {"file": "x"}, "source: 'function' is missing"),
    ("implementations", [{"name": "i"}], "'implementation' must name one of the implementations"),
    ("implementations", [{}], "implementations[0]: 'name' is missing"),
    ("implementations", [{"name": "i"}] * 2, "implementations[1].name: 'i' is already taken"),
    (
        "implementations",
        [{"name": "i", "operations": [{"op": "q"}]}],
        "implementations[0].operations[0].op: there is no operation 'q'",
    ),
    (
        "implementations",
        [{"name": "i", "operations": [{"op": "a", "reservations": [{"unit": "X", "cycles": 1}]}]}],
        "implementations[0].operations[0].reservations[0].unit: there is no unit 'X'",
    ),
    (
        "implementations",
        [{"name": "i", "edges": [{"edge": 9, "delay": 1}]}],
        "implementations[0].edges[0].edge: must be from 0 to 1",
    ),
    (
        "implementations",
        [{"name": "i", "values": [{"value": "q"}]}],
        "implementations[0].values[0].value: there is no value 'q'",
    ),
    (
        "implementations",
        [{"name": "i", "operations": [{"op": "a"}]}, {"name": "j"}],
        "implementations[1]: implementations must state times of the same operations, edges and values",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "message"), MISTAKES, ids=[f"{path} {str(value)[:20]}" for path, value, _ in MISTAKES]
)
def test_a_mistake(path: str, value: Any, message: str) -> None:
    text = changed(path, value)
    with pytest.raises(TwillError) as caught:
        read_graph(text, "g.json")
    error = caught.value
    assert error.message.startswith(message)
    assert error.location is not None
    assert error.location.file == "g.json"
    assert error.text == text.splitlines()[error.location.line - 1]


def test_the_place_is_the_members_own() -> None:
    text = write_graph(tiny_problem(Random(5))).replace('"latency": ', '"latency": -')
    with pytest.raises(TwillError) as caught:
        read_graph(text, "g.json")
    location = caught.value.location
    assert location is not None
    assert text.splitlines()[location.line - 1][location.column - 1 :].startswith("-")


def test_the_graph_itself_is_sound() -> None:
    problem = read_graph(json.dumps(GRAPH), "g.json")
    assert problem.limits == Limits()
    assert problem.units == (Unit("TC"), Unit("ISSUE", 2, aggregate=True))
    assert problem.apart == (("a", "b"),)
    assert problem.starts == (("a", 0),)


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(TwillError) as caught:
        read_graph(changed("nodes.0.latancy", 5), "g.json")
    assert caught.value.help == "did you mean 'latency'?"


MACHINES: dict[str, tuple[tuple[Unit, ...], Limits]] = {
    "m": ((Unit("TC", 3), Unit("ISSUE")), Limits(shared=7, tensor=9))
}


def with_machine(text: str, machine: str | None = None) -> Problem:
    return read_graph(text, "g.json", machine, lookup=MACHINES.__getitem__)


def test_machines() -> None:
    """Inline entries go before those of the machine that the file names; a machine given by the caller goes
    before all."""
    named = json.loads(changed("machine", "m"))
    assert with_machine(json.dumps(named)).limits == MACHINES["m"][1]
    assert with_machine(json.dumps(named)).units[0].capacity == 1
    assert with_machine(json.dumps({**named, "limits": {"tensor": 1}})).limits == Limits(shared=7, tensor=1)
    assert (
        with_machine(json.dumps({k: v for k, v in named.items() if k != "units"})).units == MACHINES["m"][0]
    )
    given = with_machine(json.dumps({**named, "machine": "other", "limits": {"tensor": 1}}), "m")
    assert (given.machine, given.units, given.limits) == ("m", *MACHINES["m"])


def test_a_graph_that_states_everything_needs_no_machine_file() -> None:
    problem = replace(tiny_problem(Random(3)), machine="nowhere")
    assert read_graph(write_graph(problem), "g.json").machine == "nowhere"
