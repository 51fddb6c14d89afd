"""Consistency checks of a graph file: every name is defined once, and nothing makes a schedule impossible.

Takes the document and the `Problem` read from it; raises `TwillError` at the first wrong member.
"""

from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from twill.files.record import LARGEST
from twill.files.text import Node
from twill.ir.problem import Problem, Unit

MOST = {"units": 64, "nodes": 512, "edges": 8192, "values": 2048, "uses": 16384, "reservations": 8192}
"""Maximum number of each in one file."""


def check_references(root: Node, nodes: str, problem: Problem) -> None:
    """Every name is defined once; every reservation fits its unit; no circuit has total distance 0."""
    top = root.members()
    rows = top[nodes].items()
    if not rows:
        top[nodes].fail("there is nothing to schedule")
    values = [value for row in rows for value in row.optional("values")]
    _few(root, rows, values)
    ops = _unique(rows, "id")
    _unique(values, "id")
    if "units" in top:
        _unique(top["units"].items(), "name")
    for row in rows:
        _reservations(row, {unit.name: unit for unit in problem.units})
    for value in values:
        _value(value, ops)
    for row in top["edges"]:
        for end in ("src", "dst"):
            _known(row.members()[end], ops)
    for name in (name for rule in ("together", "apart") for row in root.optional(rule) for name in row):
        _known(name, ops)
    for op, node in top["starts"].members().items() if "starts" in top else ():
        if op not in ops:
            node.fail(f"there is no operation {op!r}")
    names = {value.members()["id"].string() for value in values}
    _implementations(root, ops, names, {unit.name: unit for unit in problem.units})
    _acyclic(top["edges"].items(), problem)


def _implementations(root: Node, ops: set[str], values: set[str], units: Mapping[str, Unit]) -> None:
    """Every one names operations, edges and values that there are, and the same ones; the file's own times
    are those of one of them."""
    top, rows = root.members(), root.optional("implementations")
    names = _unique(rows, "name")
    named = list[tuple[object, ...]]()
    for row in rows:
        times = row.optional("operations"), row.optional("edges"), row.optional("values")
        for node in times[0]:
            _known(node.members()["op"], ops)
            _reservations(node, units)
        for node in times[1]:
            node.members()["edge"].whole(0, len(top["edges"].items()) - 1)
        for node in times[2]:
            _known(node.members()["value"], values, "value")
            _value(node, ops)
        keys = zip(("op", "edge", "value"), times, strict=True)
        named.append(tuple(tuple(node.members()[key].value for node in found) for key, found in keys))
        if named[-1] != named[0]:
            row.fail("implementations must state times of the same operations, edges and values")
    if rows and ("implementation" not in top or top["implementation"].string() not in names):
        root.fail("'implementation' must name one of the implementations")


def _few(root: Node, rows: Sequence[Node], values: Sequence[Node]) -> None:
    """Enforce `MOST`, so that later stages stay fast on any input."""
    every = {
        "units": root.optional("units"),
        "nodes": rows,
        "edges": root.optional("edges"),
        "values": values,
        "uses": [use for value in values for use in value.optional("uses")],
        "reservations": [reservation for row in rows for reservation in row.optional("reservations")],
    }
    for name, found in every.items():
        if len(found) > MOST[name]:
            found[MOST[name]].fail(f"more than {MOST[name]} {name}")


def _unique(rows: Iterable[Node], member: str) -> set[str]:
    seen: set[str] = set()
    for row in rows:
        name = row.members()[member].string()
        if name in seen:
            row.members()[member].fail(f"{name!r} is already taken")
        seen.add(name)
    return seen


def _known(node: Node, names: set[str], what: str = "operation") -> None:
    if node.string() not in names:
        node.fail(f"there is no {what} {node.string()!r}")


def _reservations(row: Node, units: Mapping[str, Unit]) -> None:
    for reservation in row.optional("reservations"):
        members = reservation.members()
        unit = units.get(members["unit"].string())
        if unit is None:
            members["unit"].fail(
                f"there is no unit {members['unit'].string()!r}", help=f"known: {', '.join(units) or 'none'}"
            )
        amount = members["amount"].whole(1, LARGEST) if "amount" in members else 1
        if amount > unit.capacity and not unit.aggregate:
            members["amount"].fail(f"{unit.name} has only {unit.capacity}")


def _value(value: Node, ops: set[str]) -> None:
    members = value.members()
    for use in value.optional("uses"):
        _known(use.members()["op"], ops)
    if "resident" in members and members["resident"].flag() and "slots" in members and members["slots"].value:
        members["slots"].fail("a resident value has one slot")


def _acyclic(rows: tuple[Node, ...], problem: Problem) -> None:
    """In a circuit of total distance 0 an operation waits for itself."""
    order: TopologicalSorter[str] = TopologicalSorter()
    row_of = {
        (edge.src, edge.dst): row for edge, row in zip(problem.edges, rows, strict=True) if edge.distance == 0
    }
    for src, dst in row_of:
        order.add(dst, src)
    try:
        order.prepare()
    except CycleError as error:
        circuit: list[str] = error.args[1]
        names = " -> ".join(circuit if len(circuit) <= 8 else [*circuit[:7], "..."])
        row_of[circuit[-2], circuit[-1]].fail(
            f"a circuit within one iteration: {names}", help="some edge of it needs a distance"
        )
