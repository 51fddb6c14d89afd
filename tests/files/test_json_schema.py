# pyright: reportUnknownMemberType=false
"""The published JSON Schemas: current, valid, and satisfied by every document of the repository and by what
is written now."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.samples import attention, figure1
from twill.files import write_graph, write_schedule
from twill.files.text import render
from twill.json_schema import main, schemas

PUBLISHED = Path("docs/schemas")


def schema(name: str) -> dict[str, Any]:
    return json.loads((PUBLISHED / f"twill.{name}-1.schema.json").read_text())


def accepts(name: str, document: Any) -> None:
    jsonschema.Draft202012Validator(schema(name)).validate(document)


def test_schemas_are_written_to_a_folder_and_options_are_none(tmp_path: Path) -> None:
    main([str(tmp_path / "made")])
    assert {path.name for path in (tmp_path / "made").iterdir()} == set(schemas())
    with pytest.raises(SystemExit):
        main(["--folder"])


def test_the_published_schemas_are_current() -> None:
    assert {path.name for path in PUBLISHED.iterdir()} == set(schemas())
    for name, made in schemas().items():
        text = (PUBLISHED / name).read_text()
        assert text == render(made), f"run python -m twill.json_schema {PUBLISHED}"
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize("path", sorted(Path("examples/graphs").glob("*.json")), ids=lambda path: path.name)
def test_example_graphs(path: Path) -> None:
    accepts("graph", json.loads(path.read_text()))


@pytest.mark.parametrize(
    "path", sorted(Path("tests/kernels/schedules").glob("*.json")), ids=lambda path: path.name
)
def test_stored_schedules(path: Path) -> None:
    accepts("schedule", json.loads(path.read_text()))


@pytest.mark.parametrize("path", sorted(Path("machines").glob("*.toml")), ids=lambda path: path.name)
def test_machine_files(path: Path) -> None:
    accepts("machine", tomllib.loads(path.read_text()))


@pytest.mark.parametrize("result", [figure1(), attention()], ids=lambda result: result.problem.name)
def test_what_is_written(result: Any) -> None:
    accepts("schedule", json.loads(write_schedule(result)))
    accepts("graph", json.loads(write_graph(result.problem)))


def test_a_written_manifest() -> None:
    from tests.kernels.programs import loops, program
    from twill.launch.describe import manifest
    from twill.launch.manifest import write

    made, scheduled = program("gemm"), loops("gemm")[1]
    accepts(
        "kernel", json.loads(write(manifest(made, scheduled, {one.loop.path: 1024.0 for one in scheduled})))
    )


def without(document: dict[str, Any]) -> None:
    del document["nodes"]


def misspelled(document: dict[str, Any]) -> None:
    document["nodes"][0]["latncy"] = 3


def negative(document: dict[str, Any]) -> None:
    document["nodes"][0]["latency"] = -1


def versioned(document: dict[str, Any]) -> None:
    document["schema"] = "twill.graph/2"


@pytest.mark.parametrize("damage", [without, misspelled, negative, versioned])
def test_damaged_graphs_are_rejected(damage: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(write_graph(attention().problem))
    damage(document)
    with pytest.raises(jsonschema.ValidationError):
        accepts("graph", document)
