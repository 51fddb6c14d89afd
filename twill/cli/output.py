"""What is written about a result: names of files and their contents. Contents are made when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from twill.emit.files import write
from twill.emit.ttgir import Dialect
from twill.inputs import Case
from twill.ir.schedule import Bounds, Result, Solution
from twill.ir.search import Options

Contents = Mapping[str, Callable[[], str | bytes]]
"""By file name."""


def schedule_text(result: Result, options: Options, reproducible: bool) -> str:
    """`schedule.json`."""
    from twill.files import write_schedule

    return write_schedule(result, options, zero_seconds=reproducible)


def graph_files(case: Case, bounds: Bounds | None = None, solution: Solution | None = None) -> Contents:
    """The dependence graph drawn in three formats."""
    from twill.report import graph
    from twill.report.scene import png, svg

    picture = graph.picture(case.problem, bounds, solution)
    scene = graph.draw(picture)
    return {"graph.dot": lambda: graph.dot(picture), "graph.svg": lambda: svg(scene), "graph.png": lambda: png(scene)}


def text_files(case: Case, result: Result, options: Options, reproducible: bool, extra: Sequence[Dialect]) -> Contents:
    """What programs read, and the program as text."""
    from twill.emit import program
    from twill.emit.ttgir import annotate
    from twill.files import write_graph

    files: dict[str, Callable[[], str | bytes]] = {
        "schedule.json": lambda: schedule_text(result, options, reproducible),
        "loop.graph.json": lambda: write_graph(case.problem),
    }
    solution, module, loop, graph = result.solution, case.module, case.loop, case.graph
    if solution:
        files["program.txt"] = lambda: program.text(case.problem, solution)
    if solution and module and loop and graph:
        files["annotated.ttgir"] = lambda: annotate(module, loop, graph, case.problem, solution, extra)
    return files


def drawings(case: Case, result: Result) -> Contents:
    """What people look at."""
    from twill.report import timeline
    from twill.report.page import page
    from twill.report.scene import png, svg

    files: dict[str, Callable[[], str | bytes]] = dict(graph_files(case, result.bounds, result.solution))
    if result.solution:
        scene = timeline.draw(case.problem, result.solution)
        files |= {"timeline.svg": lambda: svg(scene), "timeline.png": lambda: png(scene)}
    return {**files, "report.html": lambda: page(result, case.formulas)}


def write_all(folder: Path, contents: Contents) -> Iterator[Path]:
    """Write every file, each whole or not at all, and name it."""
    for name, content in contents.items():
        write(folder / name, content())
        yield folder / name


def folder_of(out: Path, case: Case, several: bool) -> Path:
    """`out` itself, or a folder in it that is named after the loop."""
    return out / case.name.replace("/", ".") if several else out
