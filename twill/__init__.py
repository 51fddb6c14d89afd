"""Twill: optimal software pipelining and warp specialization for Tensor Core loops.

Everything a program or a notebook needs, imported when it is first used:

    import twill

    case, = twill.cases(twill.Inputs("kernel.ttgir", arch="sm100"))
    result = twill.solve(case.problem)
    print(twill.summary(result))
    twill.draw_timeline(result)      # shown by a notebook; twill.svg and twill.png make files of it

`twill.schedule("kernel.ttgir", arch="sm100")` is the first two steps in one. The stages in between are functions of their own, each from
one product of `twill.ir` to the next: see docs/architecture.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twill.api import annotate, draw_graph, draw_timeline, report_page, schedule, summary
    from twill.codegen.load import compile  # noqa: A004 (as users say it)
    from twill.diagnostics import Location, TwillError
    from twill.emit.program import text as program_text
    from twill.files import read_graph, read_schedule, write_graph, write_schedule
    from twill.inputs import Case, Inputs, cases
    from twill.ir.problem import Edge, Limits, Operation, Problem, Reservation, Unit, Use, Value
    from twill.ir.schedule import Result, Solution
    from twill.ir.search import Options, Progress
    from twill.pipeline import solve
    from twill.report.scene import png, svg
    from twill.verify import check

_HOMES = {
    "twill.api": ("annotate", "draw_graph", "draw_timeline", "report_page", "schedule", "summary"),
    "twill.codegen.load": ("compile",),
    "twill.diagnostics": ("Location", "TwillError"),
    "twill.files": ("read_graph", "read_schedule", "write_graph", "write_schedule"),
    "twill.inputs": ("Case", "Inputs", "cases"),
    "twill.ir.problem": ("Edge", "Limits", "Operation", "Problem", "Reservation", "Unit", "Use", "Value"),
    "twill.ir.schedule": ("Result", "Solution"),
    "twill.ir.search": ("Options", "Progress"),
    "twill.pipeline": ("solve",),
    "twill.report.scene": ("png", "svg"),
    "twill.verify": ("check",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Case",
    "Edge",
    "Inputs",
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
    "png",
    "program_text",
    "read_graph",
    "read_schedule",
    "report_page",
    "schedule",
    "solve",
    "summary",
    "svg",
    "write_graph",
    "write_schedule",
]


def __getattr__(name: str) -> object:
    if name == "program_text":
        return import_module("twill.emit.program").text
    if name not in _HOME:
        raise AttributeError(f"module 'twill' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
