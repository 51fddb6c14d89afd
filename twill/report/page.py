"""One self-contained HTML page about one loop's result: nothing is loaded from anywhere else."""

from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from twill.emit import program
from twill.ir.schedule import Result
from twill.report import graph, memory_map, summary, tables, timeline
from twill.report.scene import Scene, svg


def page(result: Result, formulas: Mapping[str, str] | None = None, run: Scene | None = None) -> str:
    """The report. `formulas` say for an operation's id where its cost comes from; `run` draws a simulated run (`report.simulated`)."""
    template = Environment(
        loader=PackageLoader("twill.report", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    ).get_template("page.html.j2")
    problem, solution = result.problem, result.solution
    sections = [("Dependence graph", _inline(graph.draw(graph.picture(problem, result.bounds, solution))))]
    lists = [("Operations", tables.operations(problem, solution, formulas or {}))]
    if solution:
        sections.insert(0, ("Timeline", _inline(timeline.draw(problem, solution))))
        drawings = [
            memory_map.profiles(problem, solution),
            *(memory_map.allocations(problem, solution, memory) for memory in ("tensor", "shared")),
        ]
        sections[1:1] = [("Simulated timeline", _inline(run))] if run else []
        sections.append(("Registers and memory", Markup("\n").join(_inline(scene) for scene in drawings if scene)))
        lists += [("Units", tables.units(problem, solution)), ("Values", tables.values(problem, solution))]
    lists.append(("Proof", tables.effort(result)))
    text = program.text(problem, solution) if solution else ""
    return template.render(
        result=result, title=summary.title(result), pairs=summary.pairs(result), sections=sections, lists=lists, text=text
    )


def _inline(scene: Scene) -> Markup:
    """A drawing as part of the page: as wide as the page allows, never wider than it is."""
    return Markup(svg(scene))
