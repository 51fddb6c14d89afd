"""`twill.graph/1`: a scheduling problem as a file that any compiler can write. docs/formats.md describes it.

`write_graph` writes a self-contained document; `read_graph` reads the same `Problem` back, or raises one
`TwillError` with the line and column of the error. A file may name a machine instead of listing units and
limits.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace

from twill.diagnostics import Location, TwillError
from twill.files.record import LARGEST, Ranges, decode, encode, no_others
from twill.files.text import Json, Node, parse, render, schema
from twill.files.validate import check_references
from twill.ir.problem import (
    PARTS,
    Edge,
    EdgeTimes,
    Implementation,
    Limits,
    Operation,
    OperationTimes,
    Problem,
    Reservation,
    Resolution,
    Source,
    Time,
    Unit,
    Use,
    Value,
)

SCHEMA = "twill.graph/1"

RANGES: Ranges = {
    (Unit, "capacity"): (1, 10**6),
    (Reservation, "amount"): (1, 10**6),
    (Operation, "polynomial"): (0, PARTS),
    (OperationTimes, "polynomial"): (0, PARTS),
    (EdgeTimes, "edge"): (0, 10**6),
    (Edge, "distance"): (0, 10**6),
    (Use, "distance"): (0, 10**6),
    (Value, "slots"): (0, 1000),
    (Limits, "groups"): (1, 64),
    (Limits, "warps"): (1, 64),
    (Limits, "register_step"): (1, 1024),
    (Resolution, "cycles_per_unit"): (1e-9, LARGEST),
    (Source, "line"): (1, LARGEST),
}

_TOP = (
    "schema",
    "name",
    "machine",
    "units",
    "limits",
    "resolution",
    "source",
    "nodes",
    "edges",
    "together",
    "apart",
    "starts",
    "implementations",
    "implementation",
)
_PLACE = ("line", "column", "file")


Machine = Callable[[str], tuple[tuple[Unit, ...], Limits]]
"""The units and limits of a named machine; `TwillError` where there is none of that name."""


def named_machine(name: str) -> tuple[tuple[Unit, ...], Limits]:
    """The units and limits of a machine that comes with Twill, or of a machine file."""
    from twill.costs.machine import load

    machine = load(name)
    return tuple(machine.units.values()), machine.limits


def write_graph(problem: Problem) -> str:
    """The file of a problem; each value is a member of the node that produces it."""
    return render(graph_document(problem))


def graph_document(problem: Problem) -> dict[str, Json]:
    """The members of the file."""
    return {
        "schema": SCHEMA,
        "name": problem.name,
        "machine": problem.machine,
        "units": [encode(unit) for unit in problem.units],
        "limits": {f.name: getattr(problem.limits, f.name) for f in fields(Limits)},
        "resolution": encode(problem.resolution),
        **({"source": encode(problem.source)} if problem.source else {}),
        "nodes": list(node_members(problem)),
        "edges": [encode(edge) for edge in problem.edges],
        **ties(problem),
    }


def ties(problem: Problem) -> dict[str, Json]:
    """The constraints on groups and start times and the implementations, where there are any."""
    rules: dict[str, Json] = {
        "together": problem.together,
        "apart": problem.apart,
        "starts": dict(problem.starts),
        "implementations": [encode(one) for one in problem.implementations],
        "implementation": problem.implementation,
    }
    return {name: rule for name, rule in rules.items() if rule}


def node_members(problem: Problem) -> Iterator[dict[str, Json]]:
    """Every operation with its source location and the values that it produces."""
    made: defaultdict[str, list[Json]] = defaultdict(list)
    for value in problem.values:
        made[value.src].append(encode(value, leave_out=["src"]))
    for op in problem.operations:
        yield {
            **encode(op, leave_out=["location"]),
            **_place(problem, op.location),
            **({"values": made[op.id]} if op.id in made else {}),
        }


def _place(problem: Problem, location: Location | None) -> dict[str, Json]:
    if location is None:
        return {}
    home = problem.source.file if problem.source else None
    elsewhere: dict[str, Json] = {} if location.file == home else {"file": location.file}
    return {"line": location.line, "column": location.column, **elsewhere}


def read_graph(text: str, file: str, machine: str | None = None, lookup: Machine = named_machine) -> Problem:
    """The problem of a file; `machine` overrides the machine, units and limits in the file."""
    root = parse(text, file)
    schema(root, SCHEMA)
    no_others(root, _TOP)
    units, limits = lookup(machine) if machine else resources(root, lookup)
    problem = problem_of(root, "nodes", units, limits)
    return replace(problem, machine=machine) if machine else problem


def problem_of(
    root: Node,
    nodes: str,
    units: tuple[Unit, ...],
    limits: Limits,
    extra: Mapping[str, Iterable[str]] | None = None,
) -> Problem:
    """The problem that a document's members describe; its operations are the array `nodes`, `extra` members
    of rows are skipped."""
    top, skipped = root.members(), extra or {}
    source = decode(top["source"], Source, RANGES) if _given(top, "source") else None
    rows = _rows(root, nodes)
    operations = tuple(_operation(row, source, skipped.get("nodes", ())) for row in rows)
    problem = Problem(
        name=top["name"].string() if "name" in top else root.source.file,
        machine=top["machine"].string(empty=True) if "machine" in top else "",
        units=units,
        operations=operations,
        edges=tuple(decode(row, Edge, RANGES, skipped.get("edges", ())) for row in _rows(root, "edges")),
        values=tuple(value for row, op in zip(rows, operations, strict=True) for value in _made(row, op)),
        limits=limits,
        resolution=decode(top["resolution"], Resolution, RANGES) if "resolution" in top else Resolution(),
        source=source,
        together=tuple(tuple(name.string() for name in row) for row in root.optional("together")),
        apart=tuple(_pair(row) for row in root.optional("apart")),
        starts=tuple(_starts(top["starts"])) if "starts" in top else (),
        implementations=tuple(
            decode(row, Implementation, RANGES) for row in root.optional("implementations")
        ),
        implementation=top["implementation"].string() if "implementation" in top else "",
    )
    check_references(root, nodes, problem)
    return problem


def _given(top: Mapping[str, Node], name: str) -> bool:
    return name in top and top[name].value is not None


def _rows(root: Node, name: str) -> tuple[Node, ...]:
    if name not in root.members():
        root.fail(f"{name!r} is missing")
    return root.members()[name].items()


def resources(root: Node, lookup: Machine | None = None) -> tuple[tuple[Unit, ...], Limits]:
    """Units and limits as given; what is not given comes from the named machine, and limits else from the
    defaults."""
    top = root.members()
    complete = "units" in top and "limits" in top and len(top["limits"].members()) == len(fields(Limits))
    named = _named(top["machine"], lookup) if lookup and "machine" in top and not complete else None
    if named is None and "units" not in top:
        root.fail("no units: neither 'units' nor a 'machine' that has them")
    units = (
        tuple(decode(row, Unit, RANGES) for row in _rows(root, "units"))
        if "units" in top
        else named[0]
        if named
        else ()
    )
    base = named[1] if named else Limits()
    if "limits" not in top:
        return units, base
    stated = decode(top["limits"], Limits, RANGES)
    return units, replace(base, **{name: getattr(stated, name) for name in top["limits"].members()})


def _named(name: Node, lookup: Machine) -> tuple[tuple[Unit, ...], Limits]:
    try:
        return lookup(name.string())
    except TwillError as error:
        if error.location:
            raise
        name.fail(error.message, help=error.help)


def _made(row: Node, op: Operation) -> Iterable[Value]:
    return (decode(node, Value, RANGES, src=op.id) for node in row.optional("values"))


def _operation(row: Node, source: Source | None, extra: Iterable[str]) -> Operation:
    op = decode(
        row, Operation, {**RANGES, (Operation, "warps"): (1, 8)}, ["values", *_PLACE, *extra], location=None
    )
    members = row.members()
    if op.warps not in (1, 4, 8):
        members["warps"].fail(f"must be 1, 4 or 8, not {op.warps}")
    if op.streaming and not op.variable:
        members["streaming"].fail(
            "only an operation of variable latency can be streaming", help='add "variable": true'
        )
    if not _given(members, "line"):
        return op
    file = members["file"].string() if "file" in members else source.file if source else row.source.file
    column = members["column"].whole(1, LARGEST) if "column" in members else 1
    return replace(op, location=Location(file, members["line"].whole(1, LARGEST), column))


def _pair(row: Node) -> tuple[str, str]:
    names = tuple(name.string() for name in row)
    return names if len(names) == 2 and names[0] != names[1] else row.fail("must be two different names")


def _starts(row: Node) -> Iterable[tuple[str, Time]]:
    return ((op, time.whole(0, LARGEST)) for op, time in row.members().items())
