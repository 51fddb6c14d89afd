"""`twill.schedule/1`: an answer with its evidence, as people and compilers read it. docs/formats.md describes
it.

`write_schedule` gives text, the same bytes for the same result; `read_schedule` gives the result again, with
the problem it answers, or one `TwillError` at the line and column of the mistake. What follows from other
members (stages, cycles, occupancies) is written for the reader's sake; `ScheduleDocument.raw` keeps it as it
was read, for `twill.verify` to compare.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TypeVar, cast, get_args

from twill.files.graph import RANGES, graph_document, node_members, problem_of, resources, ties
from twill.files.record import LARGEST, Names, Ranges, decode, encode, no_others
from twill.files.text import Json, Node, parse, render, schema
from twill.ir.problem import Edge
from twill.ir.schedule import (
    Allocation,
    Bounds,
    Considered,
    Group,
    Reason,
    RecurrenceBound,
    Refutation,
    ResourceBound,
    Result,
    Solution,
    Status,
)
from twill.ir.search import IN_FLIGHT, UNRECORDED, Options

T = TypeVar("T")

SCHEMA = "twill.schedule/1"

LATEST = 10**15
"""Times of a schedule may be sums of the problem's."""

RANGES_OF_SCHEDULES: Ranges = {
    **RANGES,
    (ResourceBound, "value"): (0, LATEST),
    (RecurrenceBound, "value"): (0, LATEST),
    (Refutation, "interval"): (1, LATEST),
    (Considered, "proved"): (0, LATEST),
    (Refutation, "max_in_flight"): (1, 1000),
    (Options, "max_in_flight"): (1, 1000),
    (Group, "warps"): (1, 8),
    (Allocation, "size"): (1, LARGEST),
    (Allocation, "slots"): (1, 4096),
}
NAMES_OF_SCHEDULES: Names = {
    (Refutation, "max_in_flight"): "copies",
    (Options, "max_in_flight"): "copies",
    (Allocation, "slots"): "copies",
}
_TOP = (
    *("schema", "status", "name", "source", "machine", "resolution", "options"),
    *("interval", "length", "stages", "copies", "interval_cycles", "length_cycles"),
    *("bounds", "refuted", "reasons", "notes", "groups", "ops", "edges", "places"),
    *("units", "limits", "together", "apart", "starts", "seconds"),
    *("implementations", "implementation", "considered"),
)
OPTIONAL = ("together", "apart", "starts", "implementations", "implementation", "considered")
"""Members that a file has only where there is something to say."""
_SCHEDULED = ("start", "stage", "group", "unit", "occupancy")


@dataclass(frozen=True, slots=True)
class ScheduleDocument:
    """What a schedule file says."""

    result: Result
    options: Options
    raw: Mapping[str, Json]
    """Its members as they were read."""


def write_schedule(result: Result, options: Options | None = None, *, zero_seconds: bool = False) -> str:
    """The file of a result; `zero_seconds` writes every measured time as 0, for comparing runs."""
    return render(schedule_document(timeless(result) if zero_seconds else result, options or Options()))


def timeless(result: Result) -> Result:
    """The result with every measured time 0."""
    refuted = tuple(replace(refutation, seconds=0.0) for refutation in result.refuted)
    return replace(result, refuted=refuted, seconds=tuple((stage, 0.0) for stage, _ in result.seconds))


def schedule_document(result: Result, options: Options) -> dict[str, Json]:
    """The members of the file."""
    problem, graph = result.problem, graph_document(result.problem)
    return {
        "schema": SCHEMA,
        "status": result.status,
        "name": problem.name,
        "source": graph.get("source"),
        "machine": problem.machine,
        "resolution": {f: getattr(problem.resolution, f) for f in ("cycles_per_unit", "worst_error")},
        "options": _record(replace(options, max_in_flight=result.max_in_flight)),
        **_size(result),
        "bounds": {**asdict(result.bounds), "proved": result.proved},
        "refuted": [_record(refutation) for refutation in result.refuted],
        "reasons": [asdict(reason) for reason in result.reasons],
        "notes": list(result.notes),
        "groups": [_group(result, group) for group in (result.solution.groups if result.solution else ())],
        "ops": [_op(result, i, node) for i, node in enumerate(node_members(problem))],
        "edges": [_edge(result, edge) for edge in problem.edges],
        "places": [_record(place) for place in (result.solution.allocations if result.solution else ())],
        "units": graph["units"],
        "limits": graph["limits"],
        **ties(problem),
        **({"considered": [encode(one) for one in result.considered]} if result.considered else {}),
        "seconds": dict(result.seconds),
    }


def _record(record: Options | Refutation | Allocation) -> dict[str, Json]:
    """Every field under the name that the file gives it."""
    names = {
        f.name: NAMES_OF_SCHEDULES.get((type(record), f.name), f.name)
        for f in fields(record)
        if f.name not in UNRECORDED
    }
    return {member: getattr(record, name) for name, member in names.items()}


def _size(result: Result) -> dict[str, Json]:
    """Interval and length in units of time and in cycles; null without a solution."""
    names = ("interval", "length", "stages", "copies", "interval_cycles", "length_cycles")
    solution, problem = result.solution, result.problem
    if solution is None:
        return dict.fromkeys(names)
    interval, length = solution.interval, solution.length(problem)
    cycles = (_cycles(result, interval), _cycles(result, length))
    return dict(
        zip(names, (interval, length, solution.stages, solution.in_flight(problem), *cycles), strict=True)
    )


def _cycles(result: Result, time: int) -> int | float:
    """Machine cycles, whole where they are whole."""
    cycles = round(time * result.problem.resolution.cycles_per_unit, 6)
    return int(cycles) if cycles == int(cycles) else cycles


def _group(result: Result, group: Group) -> dict[str, Json]:
    numbered = zip(result.problem.operations, result.solution.group if result.solution else (), strict=True)
    return {**asdict(group), "ops": [op.id for op, g in numbered if g == group.id]}


def _op(result: Result, index: int, node: Mapping[str, Json]) -> dict[str, Json]:
    op = result.problem.operations[index]
    members: dict[str, Json] = {
        "id": op.id,
        "name": op.name,
        "line": op.location.line if op.location else None,
    }
    solution = result.solution
    start = solution.start[index] if solution else None
    where: tuple[Json, ...] = (
        (start, start // solution.interval, solution.group[index])
        if solution and start is not None
        else (None, None, None)
    )
    unit = result.problem.unit(op)
    occupancy = max((r.cycles for r in op.reservations if r.unit == unit), default=0)
    derived = dict(zip(_SCHEDULED, (*where, unit, occupancy), strict=True))
    return {**members, **derived, "latency": op.latency, **node}


def _edge(result: Result, edge: Edge) -> dict[str, Json]:
    crosses = None
    if result.solution:
        group, index = result.solution.group, result.problem.index
        crosses = group[index(edge.src)] != group[index(edge.dst)]
    return {
        "src": edge.src,
        "dst": edge.dst,
        "delay": edge.delay,
        "distance": edge.distance,
        "cross_group": crosses,
        **encode(edge),
    }


def read_schedule(text: str, file: str) -> ScheduleDocument:
    """What the file says, structurally valid; `twill.verify.check_document` checks whether it is right."""
    root = parse(text, file)
    schema(root, SCHEMA)
    no_others(root, _TOP)
    for name in _TOP:
        if name not in OPTIONAL and name not in root.members():
            root.fail(f"{name!r} is missing")
    options = decode(root.members()["options"], Options, RANGES_OF_SCHEDULES, names=NAMES_OF_SCHEDULES)
    result = replace(_result(root), max_in_flight=options.max_in_flight or IN_FLIGHT)
    return ScheduleDocument(result, options, _members(root))


def _members(root: Node) -> Mapping[str, Json]:
    return {name: node.plain() for name, node in root.members().items()}


def _result(root: Node) -> Result:
    top = root.members()
    bounds = top["bounds"].members()
    no_others(top["bounds"], ("resource", "recurrence", "proved"))
    for name in ("resource", "recurrence", "proved"):
        if name not in bounds:
            top["bounds"].fail(f"{name!r} is missing")
    status = cast("Status", top["status"].choice(get_args(Status)))
    return Result(
        problem=problem_of(root, "ops", *resources(root), {"nodes": _SCHEDULED, "edges": ("cross_group",)}),
        status=status,
        bounds=Bounds(
            decode(bounds["resource"], ResourceBound, RANGES_OF_SCHEDULES),
            decode(bounds["recurrence"], RecurrenceBound, RANGES_OF_SCHEDULES),
        ),
        proved=bounds["proved"].whole(0, LATEST),
        solution=_solution(top) if top["interval"].value is not None else None,
        refuted=_records(top["refuted"], Refutation),
        reasons=_records(top["reasons"], Reason),
        considered=_records(top["considered"], Considered) if "considered" in top else (),
        notes=tuple(note.string() for note in top["notes"]),
        seconds=tuple((stage, node.number(0, LARGEST)) for stage, node in top["seconds"].members().items()),
    )


def _solution(top: Mapping[str, Node]) -> Solution:
    return Solution(
        interval=top["interval"].whole(1, LATEST),
        start=tuple(_column(top["ops"], "start")),
        group=tuple(_column(top["ops"], "group")),
        groups=_records(top["groups"], Group, ["ops"]),
        allocations=_records(top["places"], Allocation),
    )


def _column(rows: Node, name: str) -> Iterable[int]:
    for row in rows:
        if name not in row.members():
            row.fail(f"{name!r} is missing")
        yield row.members()[name].whole(0, LATEST)


def _records(rows: Node, kind: type[T], extra: Iterable[str] = ()) -> tuple[T, ...]:
    return tuple(decode(row, kind, RANGES_OF_SCHEDULES, extra, names=NAMES_OF_SCHEDULES) for row in rows)
