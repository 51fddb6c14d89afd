"""Twill: optimal software pipelining and warp specialization for Tensor Core loops.

The public names, each imported on first use:

    import twill

    case, = twill.cases(twill.Inputs("kernel.ttgir", arch="sm100"))
    result = twill.solve(case.problem)
    print(twill.summary(result))
    twill.draw_timeline(result)      # a notebook shows it; twill.svg and twill.png convert it to files

`twill.schedule("kernel.ttgir", arch="sm100")` combines the first two steps. docs/architecture.md describes
the stages in between.
"""

from importlib import import_module
from os import environ

# Type checkers know the name. Importing `typing` takes most of the time until the command handles Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from twill import triton
    from twill.api import annotate, compile, draw_graph, draw_timeline, report_page, schedule, summary  # noqa: A004 (as users say it)
    from twill.diagnostics import Location, TwillError
    from twill.emit.program import text as program_text
    from twill.files import read_graph, read_schedule, write_graph, write_schedule
    from twill.inputs import Case, Inputs, cases
    from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
    from twill.ir.schedule import Result, Solution
    from twill.ir.search import Options, Progress
    from twill.launch.load import Kernel
    from twill.launch.load import load as load_kernel
    from twill.pipeline import solve
    from twill.report.scene import png, svg
    from twill.triton import jit
    from twill.verify import check

_HOMES = {
    "twill.api": (
        "annotate",
        "compile",
        "draw_graph",
        "draw_timeline",
        "report_page",
        "schedule",
        "solve",
        "summary",
    ),
    "twill.launch.load": ("Kernel",),
    "twill.diagnostics": ("Location", "TwillError"),
    "twill.files": ("read_graph", "read_schedule", "write_graph", "write_schedule"),
    "twill.inputs": ("Case", "Inputs", "cases"),
    "twill.ir.problem": ("Edge", "Limits", "Operation", "Problem", "Reservation", "Unit", "Use", "Value"),
    "twill.ir.schedule": ("Result", "Solution"),
    "twill.ir.search": ("Options", "Progress"),
    "twill.triton": ("jit",),
    "twill.report.scene": ("png", "svg"),
    "twill.verify": ("check",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = frozenset({"triton"})
"""Parts that keep their own names: `twill.triton.install()`."""
_RENAMED = {"program_text": ("twill.emit.program", "text"), "load_kernel": ("twill.launch.load", "load")}

__all__ = [
    "Case",
    "Edge",
    "Inputs",
    "Kernel",
    "Limits",
    "Location",
    "Operation",
    "Options",
    "Problem",
    "Progress",
    "Reservation",
    "Result",
    "Solution",
    "TwillError",
    "Unit",
    "Use",
    "Value",
    "annotate",
    "cases",
    "check",
    "compile",
    "draw_graph",
    "draw_timeline",
    "jit",
    "load_kernel",
    "png",
    "program_text",
    "read_graph",
    "read_schedule",
    "report_page",
    "schedule",
    "solve",
    "summary",
    "svg",
    "triton",
    "write_graph",
    "write_schedule",
]


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        home, own = _RENAMED[name]
        return getattr(import_module(home), own)
    if name in _MODULES:
        return import_module(f"twill.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'twill' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


if "TWILL" in environ or "TWILL_CAPTURE" in environ:
    import_module("twill.triton.startup").arm()


def __dir__() -> list[str]:
    return __all__
