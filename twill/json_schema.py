"""JSON Schemas (draft 2020-12) of the file formats, derived from the dataclasses that the formats encode.

`python -m twill.json_schema DIR` writes them; docs/schemas has them. They describe structure: types, ranges,
known members. The readers check more, such as that names are defined.
"""

import types
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from twill.costs import machine as machine_files
from twill.emit.files import write
from twill.files import graph, schedule
from twill.files.record import LARGEST, Names, Ranges
from twill.files.text import render
from twill.ir.machine import Cost
from twill.ir.problem import Edge, Implementation, Limits, Operation, Resolution, Source, Unit, Value
from twill.ir.schedule import (
    Allocation,
    Considered,
    Group,
    Reason,
    RecurrenceBound,
    Refutation,
    ResourceBound,
    Status,
)
from twill.ir.search import UNRECORDED, Options
from twill.launch import manifest

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TEXTS: Schema = {"type": "array", "items": _TEXT}


def schemas() -> Mapping[str, Schema]:
    """By file name."""
    made = {
        graph.SCHEMA: _graph(),
        schedule.SCHEMA: _schedule(),
        manifest.SCHEMA: _manifest(),
        machine_files.SCHEMA: _machine(),
    }
    return {f"{name.replace('/', '-')}.schema.json": _titled(name, schema) for name, schema in made.items()}


def _titled(name: str, schema: Schema) -> Schema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **schema}


# --- from types -------------------------------------------------------------------------------------------


def record(kind: type, ranges: Ranges, names: Names | None = None, leave_out: Iterable[str] = ()) -> Schema:
    """The object of a dataclass: fields without a default are required, other members are not allowed."""
    hints, skipped, renamed = get_type_hints(kind), set(leave_out), names or {}
    shown = [f for f in fields(kind) if f.init and f.name not in skipped]
    member = {f.name: renamed.get((kind, f.name), f.name) for f in shown}
    return closed(
        {member[f.name]: typed(hints[f.name], ranges.get((kind, f.name)), ranges) for f in shown},
        [member[f.name] for f in shown if f.default is MISSING and f.default_factory is MISSING],
    )


def closed(members: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """An object with these members and no others."""
    needed = list(required)
    return {
        "type": "object",
        "properties": dict(members),
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
    }


def typed(hint: Any, limits: tuple[float, float] | None, ranges: Ranges) -> Schema:
    """The schema of an annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": typed(arguments[0], limits, ranges)}
    if origin is types.UnionType:
        return {"anyOf": [typed(one, limits, ranges) for one in arguments]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": typed(arguments[1], limits, ranges)}
    if is_dataclass(hint) and isinstance(hint, type):
        return record(hint, ranges)
    return _scalar(hint, limits or (0, LARGEST))


def _scalar(hint: Any, limits: tuple[float, float]) -> Schema:
    plain: Mapping[Any, Schema] = {str: _TEXT, bool: {"type": "boolean"}, type(None): {"type": "null"}}
    if hint in plain:
        return plain[hint]
    number = "integer" if hint is int else "number"
    return {"type": number, "minimum": limits[0], "maximum": limits[1]}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


# --- the formats ------------------------------------------------------------------------------------------


def _problem(ranges: Ranges) -> dict[str, Schema]:
    """The members that graphs and schedules share."""
    return {
        "name": _TEXT,
        "machine": _TEXT,
        "units": _array(record(Unit, ranges)),
        "limits": record(Limits, ranges),
        "resolution": record(Resolution, ranges),
        "edges": _array(record(Edge, ranges)),
        "together": _array(_TEXTS),
        "apart": _array({**_TEXTS, "minItems": 2, "maxItems": 2}),
        "starts": {"type": "object", "additionalProperties": _COUNT},
        "implementations": _array(record(Implementation, ranges)),
        "implementation": _TEXT,
    }


def _node(ranges: Ranges) -> Schema:
    """An operation with its location and the values that it produces."""
    node = record(Operation, ranges, leave_out=["location"])
    where = {"line": _nullable({"type": "integer", "minimum": 1}), "column": _COUNT, "file": _TEXT}
    values = _array(record(Value, ranges, leave_out=["src"]))
    return {**node, "properties": {**node["properties"], **where, "values": values}}


def _graph() -> Schema:
    ranges = graph.RANGES
    members = {"schema": {"const": graph.SCHEMA}, **_problem(ranges), "source": record(Source, ranges)}
    return closed(
        {**members, "nodes": {**_array(_node(ranges)), "minItems": 1}}, ["schema", "nodes", "edges"]
    )


def _schedule() -> Schema:
    ranges, names = schedule.RANGES_OF_SCHEDULES, schedule.NAMES_OF_SCHEDULES
    shared, node = _problem(ranges), _node(ranges)
    placed = {name: _nullable(_COUNT) for name in ("start", "stage", "group")}
    placed |= {"unit": _nullable(_TEXT), "occupancy": _COUNT}
    edge = shared["edges"]["items"]
    crossing = {**edge, "properties": {**edge["properties"], "cross_group": _nullable({"type": "boolean"})}}
    group = record(Group, ranges)
    bounds = {"resource": record(ResourceBound, ranges), "recurrence": record(RecurrenceBound, ranges)}
    sizes = dict.fromkeys(("interval", "length", "stages", "copies"), _nullable(_COUNT))
    cycles = dict.fromkeys(("interval_cycles", "length_cycles"), _nullable({"type": "number"}))
    members = {
        "schema": {"const": schedule.SCHEMA},
        "status": {"enum": list(get_args(Status))},
        **shared,
        "source": _nullable(record(Source, ranges)),
        "options": record(Options, ranges, names, UNRECORDED),
        **sizes,
        **cycles,
        "bounds": closed({**bounds, "proved": _COUNT}, [*bounds, "proved"]),
        "refuted": _array(record(Refutation, ranges, names)),
        "reasons": _array(record(Reason, ranges)),
        "notes": _TEXTS,
        "groups": _array({**group, "properties": {**group["properties"], "ops": _TEXTS}}),
        "ops": _array({**node, "properties": {**node["properties"], **placed}}),
        "edges": _array(crossing),
        "places": _array(record(Allocation, ranges, names)),
        "considered": _array(record(Considered, ranges)),
        "seconds": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
    }
    return closed(members, [name for name in members if name not in schedule.OPTIONAL])


def _manifest() -> Schema:
    described = record(manifest.Manifest, manifest.RANGES_OF_MANIFESTS)
    members = {"schema": {"const": manifest.SCHEMA}, **described["properties"]}
    return closed(members, ["schema", *described["required"]])


def _machine() -> Schema:
    """A machine file may leave out any table that its base has."""
    described = record(machine_files.File, {})
    costs = record(Cost, {})
    rate = {"anyOf": [{"type": "number"}, {"type": "object", "additionalProperties": {"type": "number"}}]}
    costs["properties"]["rate"] = {"type": "object", "additionalProperties": rate}
    members = {**described["properties"], "schema": {"const": machine_files.SCHEMA}, "base": _TEXT}
    members["costs"] = {"type": "object", "additionalProperties": {**costs, "required": []}}
    return closed(members, ["schema", "name"])


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m twill.json_schema FOLDER` writes every schema into a folder."""
    parser = ArgumentParser(
        prog="python -m twill.json_schema", description="Write every schema into a folder."
    )
    parser.add_argument("folder", type=Path, help="made if need be")
    folder = parser.parse_args(arguments).folder
    for name, schema in schemas().items():
        write(folder / name, render(schema))


if __name__ == "__main__":
    main()
