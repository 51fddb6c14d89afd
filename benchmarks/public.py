"""Public modulo scheduling instances: what the search finds, beside the best known interval.

    python benchmarks/public.py FOLDER --limit 60 --best best.csv

FOLDER is a copy of a public collection, which this project does not have: HatScheT's graphs (GraphML) with
their resource models (XML), and graph files of Twill (*.graph.json), at any depth. A graph goes with the
resource models that its name begins (`fir.graphml` with `firRM.xml`, `fir_RM.xml`), or else with all of its
folder (`RM1.xml`, `RM2.xml`, ...). The table of best known intervals is a CSV file with the columns `graph`,
`resources` (empty for a graph file) and `interval`, the paths relative to FOLDER; FOLDER/best.csv by default,
where there is one.

Rules of an instance: a node starts no earlier than its source's start, its latency and the edge's delay,
`distance` iterations back; a resource of a limit runs at most so many nodes at once, each for its blocking
time. Exit status 1 if an answer is larger than the best known, or a proof excludes it.
"""

import csv
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measure import table
from twill.diagnostics import TwillError
from twill.files import load, read_graph
from twill.ir.problem import Edge, Operation, Problem, Reservation, Unit
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import solve


@dataclass(frozen=True, slots=True)
class Instance:
    """A graph and its resource model; a graph file of Twill has its own units."""

    graph: Path
    resources: Path | None = None

    def name(self, folder: Path) -> tuple[str, str]:
        """Both paths below the folder."""
        own = str(self.graph.relative_to(folder))
        return own, "" if self.resources is None else str(self.resources.relative_to(folder))


@dataclass(frozen=True, slots=True)
class Resource:
    """How many nodes run at once (None: any number), for how long each, and when its result is there."""

    limit: int | None
    blocking: int
    latency: int


def instances(folder: Path) -> Iterator[Instance]:
    """Every graph with every resource model that it goes with, by path."""
    for graph in sorted(folder.rglob("*.graphml")):
        models = sorted(graph.parent.glob("*.xml"))
        own = [path for path in models if path.stem in (f"{graph.stem}RM", f"{graph.stem}_RM")]
        shared = [path for path in models if path.stem.startswith("RM")]
        yield from (Instance(graph, path) for path in own or shared)
    yield from map(Instance, sorted(folder.rglob("*.graph.json")))


def read(instance: Instance) -> Problem:
    """The problem of an instance. Raises TwillError where a file is not what it should be."""
    if instance.resources is None:
        return read_graph(load(str(instance.graph)), str(instance.graph))
    return problem(instance.graph.stem, parsed(instance.graph), resources(parsed(instance.resources)))


def parsed(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise TwillError(f"{path} is no XML: {error}") from error


def resources(root: ElementTree.Element) -> dict[str, Resource]:
    """The resources of a model, by name; a limit of -1 is none."""
    return {row.attrib["name"]: _resource(row) for row in root.iter("Resource")}


def _resource(row: ElementTree.Element) -> Resource:
    limit = int(row.attrib["limit"])
    return Resource(
        limit if limit >= 0 else None, int(row.attrib["blockingTime"]), int(row.attrib["latency"])
    )


def problem(name: str, root: ElementTree.Element, known: Mapping[str, Resource]) -> Problem:
    """Nodes and edges as operations and dependences. Raises TwillError for a resource that is not known."""
    uses = {node.attrib["id"]: _data(node)["uses_resource"] for node in root.iter("node")}
    unknown = sorted(set(uses.values()) - set(known))
    if unknown:
        raise TwillError(f"{name}: its resource model has no {unknown[0]!r}")
    units = {use: limit for use in uses.values() if (limit := known[use].limit) is not None}
    operations = (_operation(node, use, known[use]) for node, use in uses.items())
    edges = (_edge(edge, known[uses[edge.attrib["source"]]].latency) for edge in root.iter("edge"))
    return Problem(
        name,
        "",
        tuple(Unit(unit, limit) for unit, limit in sorted(units.items())),
        tuple(operations),
        tuple(edges),
    )


def _operation(id: str, use: str, resource: Resource) -> Operation:
    taken = (Reservation(use, resource.blocking),) if resource.limit is not None else ()
    return Operation(id, use, taken, resource.latency)


def _edge(edge: ElementTree.Element, latency: int) -> Edge:
    data = _data(edge)
    return Edge(
        edge.attrib["source"],
        edge.attrib["target"],
        latency + int(data.get("delay", "0")),
        int(data.get("distance", "0")),
    )


def _data(element: ElementTree.Element) -> dict[str, str]:
    return {row.attrib["key"]: (row.text or "").strip() for row in element.iter("data")}


def best_known(path: Path) -> dict[tuple[str, str], int]:
    """Intervals by the names of graph and resource model; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        return {
            (row["graph"], row.get("resources") or ""): int(row["interval"]) for row in csv.DictReader(file)
        }


def agreement(result: Result, known: int | None) -> str:
    """What the answer is beside the best known one."""
    found = None if result.solution is None else result.solution.interval
    if known is None:
        return "not known"
    if result.proved > known:
        return "WRONG"
    if found is None:
        return "no answer"
    return "same" if found == known else "better" if found < known else "worse"


HEAD = ("graph", "resources", "ops", "bound", "I", "proven I >=", "status", "best known", "agreement", "s")


def row(instance: Instance, folder: Path, known: Mapping[tuple[str, str], int], limit: float) -> list[object]:
    """One instance under timing alone."""
    name, whole = instance.name(folder), read(instance)
    began = time.monotonic()
    result = solve(whole, Options(time_limit=limit, modulo_only=True, explain=False))
    took = time.monotonic() - began
    best = known.get(name)
    found = "-" if result.solution is None else result.solution.interval
    return [
        *name,
        len(whole.operations),
        result.bounds.value,
        found,
        result.proved,
        result.status,
        "-" if best is None else best,
        agreement(result, best),
        f"{took:.1f}",
    ]


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--limit", type=float, default=60.0, show_default=True, help="Seconds for an instance.")
@click.option("--only", default="", help="Instances whose path contains this.")
@click.option(
    "--best", type=click.Path(path_type=Path, dir_okay=False), help="CSV file of best known intervals."
)
def main(folder: Path, limit: float, only: str, best: Path | None) -> None:
    known, rows = best_known(best or folder / "best.csv"), list[list[object]]()
    for instance in instances(folder):
        if only in " ".join(instance.name(folder)):
            rows.append(row(instance, folder, known, limit))
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    judged = [str(one[8]) for one in rows]
    counted = ", ".join(f"{judged.count(word)} {word}" for word in sorted(set(judged)))
    proven = sum(one[6] == "optimal" for one in rows)
    print(f"{table(HEAD, rows)}\n{len(rows)} instances, {proven} proven optimal; best known: {counted}")
    sys.exit(int(bool({"WRONG", "worse"} & set(judged))))


if __name__ == "__main__":
    main()
