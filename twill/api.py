"""The commands as functions for programs and notebooks; the package `twill` exports them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from twill import inputs
from twill.emit.ttgir import Dialect
from twill.inputs import Case, Inputs
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import Begun, solve
from twill.report.scene import Scene

if TYPE_CHECKING:
    from twill.launch.load import Kernel


def schedule(spec: str, options: Options | None = None, **what_if: Any) -> tuple[Result, ...]:
    """Schedule every loop of `spec`; `what_if` are fields of `Inputs` (`arch="sm90"`, `groups=3`, ...).

    The schedules of one kernel's loops go together in one thread block, where any do. Raises `TwillError` for
    bad input. A loop without a schedule also gives a `Result`; check `Result.status`.
    """
    from twill.generation.going_together import going_together

    def searched(case: Case, options: Options, known: Begun | None = None) -> Result:
        return solve(case.problem, options, known=known)

    search, found = options or Options(), inputs.cases(Inputs(spec, **what_if))
    results = tuple(searched(case, case.searched(search)) for case in found)
    return results if search.modulo_only else going_together(found, results, search, searched)[0]


def compile(  # noqa: A001 (as users say it)
    kernel: Any,
    arch: str = "sm90",
    *,
    settings: Mapping[str, object] | None = None,
    schedules: Iterable[str] = (),
    keep_schedules: bool = True,
    time_limit: float = 60.0,
    check: bool = True,
    **what_if: Any,
) -> "Kernel":
    """Schedule, generate, build and load a kernel. Built kernels are cached in `~/.cache/twill`.

    `kernel` is a `@triton.jit` function, `FILE.py:function` (the file is executed), `FILE.ttgir`, or the text
    of TTGIR. `settings` are argument types and constants of a Python kernel, as in `--set`; `schedules` are
    files to use instead of a search (unless `keep_schedules`, only where no other form of the kernel is
    predicted to be faster and one can be generated with them); without `check` the kernel is not run on the
    CPU before it is handed over; `what_if` are the other fields of `Inputs`. Launch the kernel with
    `kernel[grid](...)`. Raises TwillError for bad input.
    """
    from twill.extract.frontend.source import described
    from twill.generation.builds.built import built
    from twill.generation.generated import GenerateOptions
    from twill.launch.load import load

    spec, given, constants = described(kernel, arch, settings or {})
    return load(
        built(
            Inputs(spec, arch=arch, settings=given, constants=constants, **what_if),
            GenerateOptions(time_limit, tuple(schedules), keep_schedules, check=check),
        )
    )


def annotate(case: Case, result: Result, extra: Iterable[Dialect] = ()) -> str:
    """The TTGIR of the case with the schedule on every operation of the loop. Raises ValueError without TTGIR
    or schedule."""
    from twill.emit.ttgir import annotate as annotated

    if case.module is None or case.loop is None or case.graph is None or result.solution is None:
        raise ValueError("only a scheduled loop that was read from TTGIR can be annotated")
    return annotated(case.module, case.loop, case.graph, case.problem, result.solution, extra)


def summary(result: Result) -> str:
    """The result as a few lines of text."""
    from twill.report.summary import pairs, title

    return "\n".join([title(result), *(f"  {label:<16} {line}" for label, line in pairs(result))])


def draw_graph(result: Result) -> Scene:
    """The dependence graph, coloured by warp group."""
    from twill.report import graph

    return graph.draw(graph.picture(result.problem, result.bounds, result.solution))


def draw_timeline(result: Result) -> Scene:
    """The timeline of several overlapped iterations. Raises ValueError where there is no schedule."""
    from twill.report import timeline

    if result.solution is None:
        raise ValueError(f"{result.problem.name} has no schedule to draw")
    return timeline.draw(result.problem, result.solution)


def report_page(result: Result) -> str:
    """The report: one self-contained HTML page. `twill schedule --out` adds costs and source listings to
    it."""
    from twill.report.page import page

    return page(result)


def _notebook(result: Result) -> str:
    """How a notebook shows a result: its summary and its timeline."""
    from html import escape

    from twill.report.scene import svg

    drawing = svg(draw_timeline(result)) if result.solution else ""
    return f"<pre>{escape(summary(result))}</pre>{drawing}"


# twill.ir imports nothing of twill.report, so the drawing is attached here, where every public function of
# results comes from.
setattr(Result, "_repr_html_", _notebook)  # noqa: B010
