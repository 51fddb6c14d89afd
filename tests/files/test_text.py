"""JSON with places: what is no JSON, or too much of it, is one error at its line and column."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twill.diagnostics import TwillError
from twill.files import load, read_graph, read_schedule
from twill.files.text import MAX_CHARACTERS, parse, render
from twill.ir.schedule import Allocation, Solution
from twill.verify import check

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN, st.sampled_from([None, 2]))
def test_reads_what_json_writes(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    if all(len(word) <= 24 for word in text.split()):
        assert parse(text, "x.json").plain() == value


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_json_reads_what_is_written(document: dict[str, Any]) -> None:
    assert json.loads(render(document)) == document


BROKEN: list[tuple[str, int, int, str]] = [
    ("", 1, 1, "the file ends in the middle of the document"),
    ("  \n ", 2, 2, "the file ends in the middle of the document"),
    ("{", 1, 2, "expected a name in double quotes"),
    ('{"a"', 1, 5, "expected ':'"),
    ('{"a": 1', 1, 8, "expected ',' or '}'"),
    ('{"a": 1,}', 1, 9, "expected a name in double quotes"),
    ("[1, 2", 1, 6, "expected ',' or ']'"),
    ("[1 2]", 1, 4, "expected ',' or ']'"),
    ("[1,]", 1, 4, "expected a JSON value"),
    ('{\n  "a": 1,\n  "a": 2\n}', 3, 3, "'a' stands here twice"),
    ("[NaN]", 1, 2, "expected a JSON value"),
    ("[Infinity]", 1, 2, "expected a JSON value"),
    ("[-Infinity]", 1, 2, "expected a JSON value"),
    ("[01]", 1, 3, "expected ',' or ']'"),
    ("{'a': 1}", 1, 2, "expected a name in double quotes"),
    ('["abc', 1, 2, "unterminated string starting"),
    ('["a\nb"]', 1, 4, "invalid control character"),
    ('["\\x"]', 1, 3, "invalid \\escape"),
    ("[1] 2", 1, 5, "text after the end of the document"),
    ("[" * 100_000, 1, 25, "nested more than 24 deep"),
    ('{"a":' * 100_000, 1, 121, "nested more than 24 deep"),
    ("[" + "9" * 100_000 + "]", 1, 2, "a number of more than 24 characters"),
    ("[1e" + "9" * 100_000 + "]", 1, 2, "a number of more than 24 characters"),
    ("\ufeff{}", 1, 1, "expected a JSON value"),
]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"), BROKEN, ids=[text[:12] for text, *_ in BROKEN]
)
def test_broken(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(TwillError) as caught:
        parse(text, "x.json")
    location = caught.value.location
    assert location is not None
    assert (location.line, location.column, caught.value.message[: len(message)]) == (line, column, message)


HOSTILE = [
    '{"schema": "twill.graph/1", "nodes": 1e999}',
    '{"schema": 1e999}',
    '{"schema": null}',
    "[]",
    "null",
    "7",
    '"x"',
    "{}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile(text: str) -> None:
    for read in (read_graph, read_schedule):
        with pytest.raises(TwillError) as caught:
            read(text, "x.json")
        assert caught.value.location is not None
        assert str(caught.value)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(['"', "{", "}", "[", "]", ",", ":", "-", "9", "e", "null", "\\", " ", ""]),
    st.booleans(),
)
def test_damaged_examples_are_errors_or_problems(at: int, insert: str, cut: bool) -> None:
    """A file cut short or with a few characters changed: a problem, or one error with its place; never
    another exception."""
    text = load(Path(__file__).parents[2] / "examples" / "graphs" / "tensor_memory.graph.json")
    at %= len(text)
    damaged = text[:at] + insert if cut else text[:at] + insert + text[at + 1 :]
    error = mistake(damaged)
    assert error is None or (error.location is not None and error.location.line <= damaged.count("\n") + 1)


def mistake(text: str) -> TwillError | None:
    try:
        read_graph(text, "damaged.json")
    except TwillError as error:
        return error
    return None


def test_too_large() -> None:
    with pytest.raises(TwillError, match="the file is larger"):
        parse(" " * (MAX_CHARACTERS + 1), "x.json")


def test_large_is_read_in_seconds() -> None:
    rows = [{"id": f"n{i}", "name": "op"} for i in range(512)]
    edges = [
        {"src": f"n{i % 512}", "dst": f"n{(i * 7) % 512}", "delay": 1, "distance": 1} for i in range(8000)
    ]
    document = {"schema": "twill.graph/1", "units": [], "nodes": rows, "edges": edges}
    began = time.monotonic()
    assert len(read_graph(json.dumps(document), "x.json").edges) == 8000
    assert time.monotonic() - began < 10
    rows.append({"id": "one more", "name": "op"})
    with pytest.raises(TwillError, match="more than 512 nodes"):
        read_graph(json.dumps(document), "x.json")


def test_a_long_chain_is_no_deep_recursion() -> None:
    rows = [{"id": f"n{i}", "name": "op"} for i in range(500)]
    edges = [{"src": f"n{i}", "dst": f"n{(i + 1) % 500}", "delay": 0} for i in range(500)]
    with pytest.raises(TwillError, match="a circuit within one iteration"):
        read_graph(
            json.dumps({"schema": "twill.graph/1", "units": [], "nodes": rows, "edges": edges}), "x.json"
        )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"a": 1,\n"b": "\xff"}')
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf{}")
    reasons = {
        "none.json": "No such file",
        ".": "Is a directory",
        "latin.json": "not UTF-8 text: byte 0xff",
        "a\0b": "null",
    }
    for name, message in reasons.items():
        with pytest.raises(TwillError, match=message):
            load(tmp_path / name)
    assert load(tmp_path / "marked.json") == "{}"


def test_checking_a_hostile_schedule_takes_seconds() -> None:
    """As many operations, values and groups as a file may hold, live for as many iterations as possible."""
    count = 512

    def node(i: int) -> dict[str, Any]:
        value = {"registers": 9, "shared": 9, "uses": [{"op": f"n{i * 7 % count}", "distance": 9}] * 2}
        table = [{"unit": "TC", "cycles": 10**9}] * 8
        values = [{"id": f"{v}{i}", **value} for v in "ab"]
        return {
            "id": f"n{i}",
            "name": "op",
            "warps": 4,
            "latency": 10**9,
            "reservations": table,
            "values": values,
        }

    nodes = [node(i) for i in range(count)]
    text = json.dumps(
        {
            "schema": "twill.graph/1",
            "units": [{"name": "TC"}],
            "limits": {"shared": 10**9},
            "nodes": nodes,
            "edges": [],
        }
    )
    problem = read_graph(text, "x.json")
    places = tuple(Allocation(f"{v}{i}", "shared", 0, 9, 9) for i in range(count) for v in "ab")
    began = time.monotonic()
    for groups in (range(1, count + 1), [1] * count):
        assert check(problem, Solution(1, tuple(range(count)), tuple(groups), allocations=places))
    assert time.monotonic() - began < 60
