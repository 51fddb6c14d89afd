"""The report: one self-contained HTML page about one loop's result, which loads nothing else.

Without scripts it shows the static drawings, tables and listings. With scripts (`report.js`) timelines zoom
and pan, and pointing at an operation highlights it in every drawing, table and listing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from twill.emit import program
from twill.files.text import Json
from twill.ir.problem import Problem
from twill.ir.schedule import Result, Solution
from twill.report import chart, graph, listings, memory_map, simulated, summary, tables, timeline
from twill.report.listings import Listing
from twill.report.palette import group_color
from twill.report.scene import Scene, svg
from twill.report.tables import CostNotes, Table
from twill.simulate.report import Steady
from twill.simulate.times import Event


@dataclass(frozen=True, slots=True)
class Run:
    """A simulated run of the loop: its events and its steady state."""

    events: tuple[Event, ...]
    steady: Steady


@dataclass(frozen=True, slots=True)
class Context:
    """What the report shows beside the result."""

    costs: CostNotes = field(default_factory=CostNotes)
    listings: tuple[Listing, ...] = ()
    run: Run | None = None
    command: str = ""
    """The command line that made the result."""
    versions: tuple[tuple[str, str], ...] = ()
    """Programs and packages with their versions."""
    extra: tuple[tuple[str, Table], ...] = ()
    """Further tables, such as those of `twill explain`."""


@dataclass(frozen=True, slots=True)
class Section:
    """A drawing under a title; a `chart` is drawn again by the script, other drawings zoom as a whole."""

    name: str
    drawing: Markup
    chart: str = ""

    @property
    def anchor(self) -> str:
        return self.name.lower().replace(" ", "-")


def page(result: Result, context: Context | None = None) -> str:
    """The report as HTML."""
    context = context or Context()
    problem, solution = result.problem, result.solution
    return _template().render(
        result=result,
        title=summary.title(result),
        pairs=summary.pairs(result),
        sections=list(_sections(result, context)),
        lists=[(name, table) for name, table in _lists(result, context) if table.rows],
        listings=_listings(problem, solution, context.listings),
        command=context.command,
        versions=context.versions,
        groups={op: str(g) for op, g in _groups(problem, solution).items()},
        swatches=[(g.id, group_color(g.id)) for g in (solution.groups if solution else ())],
        style=Markup(_resource("report.css")),
        script=Markup(_resource("report.js")),
        data=Markup(_json(_data(problem, solution, context))),
    )


@cache
def _template() -> Template:
    loader = PackageLoader("twill.report", ".")
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    return environment.get_template("page.html.j2")


@cache
def _resource(name: str) -> str:
    return (files("twill.report") / name).read_text(encoding="utf-8")


def _json(value: Json) -> str:
    """JSON that can stand in a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace("&", "\\u0026")


def _sections(result: Result, context: Context) -> Iterator[Section]:
    problem, solution = result.problem, result.solution
    if solution:
        yield Section("Timeline", _inline(timeline.draw(problem, solution)), "schedule")
        if run := context.run:
            drawn = simulated.draw(problem, solution, run.events, run.steady)
            yield Section("Simulated timeline", _inline(drawn), "run")
    yield Section("Dependence graph", _inline(graph.draw(graph.picture(problem, result.bounds, solution))))
    if solution:
        yield Section("Registers and memory", _inline(memory_map.profiles(problem, solution)))
        for memory in ("tensor", "shared"):
            if scene := memory_map.allocations(problem, solution, memory):
                yield Section(f"{memory.capitalize()} memory map", _inline(scene))


def _inline(scene: Scene) -> Markup:
    return Markup(svg(scene))


def _lists(result: Result, context: Context) -> Iterator[tuple[str, Table]]:
    problem, solution = result.problem, result.solution
    yield from context.extra
    yield "Operations", tables.operations(problem, solution, context.costs)
    if solution:
        yield "Units", tables.units(problem, solution)
        yield "Values", tables.values(problem, solution)
    yield "Proof", tables.effort(result)


def _listings(problem: Problem, solution: Solution | None, given: Sequence[Listing]) -> list[Listing]:
    """Python and TTGIR, the schedule, then what is generated from it."""
    scheduled = [listings.program(program.text(problem, solution), problem)] if solution else []
    generated = [one for one in given if one.title.startswith(("CUDA", "SASS"))]
    return [*(one for one in given if one not in generated), *scheduled, *generated]


def _groups(problem: Problem, solution: Solution | None) -> Mapping[str, int]:
    if solution is None or not solution.groups:
        return {}
    return {op.id: group for op, group in zip(problem.operations, solution.group, strict=True)}


def _data(problem: Problem, solution: Solution | None, context: Context) -> dict[str, Json]:
    """What the script needs: operations, colours, timelines."""
    groups = _groups(problem, solution)
    ops: Json = {op.id: {"name": op.name, "group": groups.get(op.id)} for op in problem.operations}
    if not solution:
        return {"ops": ops, "charts": {}}
    charts = {"schedule": chart.schedule(problem, solution)}
    if run := context.run:
        charts["run"] = chart.run(problem, solution, run.events, run.steady)
    return {
        "ops": ops,
        "charts": charts,
        "iterations": timeline.iterations(solution),
        "colors": chart.colors(solution),
    }
