"""The pipelined program: which operation of which iteration starts when, in prologue, steady state and
epilogue.

Takes a solved problem; gives the three parts as values, and as text with one line per operation. Operation v
of iteration k starts at s(v) + k * I; the steady state is one interval, repeated, in which v belongs to the
iteration s(v) // I before the newest.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution


@dataclass(frozen=True, slots=True)
class Line:
    """One operation to start."""

    cycle: Time
    """In units of time: from the beginning of the program in the prologue, of the interval in the steady
    state, from the moment at which a further iteration would have begun in the epilogue."""
    iteration: int
    """Prologue: from the first (0 is iteration 0). Steady state: back from the newest i (1 is i - 1).
    Epilogue: back from the last."""
    op: int
    """Position in `Problem.operations`."""


@dataclass(frozen=True, slots=True)
class PipelinedListing:
    """The loop, pipelined; every part by cycle, then group, then order in the text."""

    prologue: tuple[Line, ...]
    steady: tuple[Line, ...]
    epilogue: tuple[Line, ...]
    stages: int
    """Iterations that start operations in one interval; the loop must run at least this often."""


def pipeline(solution: Solution) -> PipelinedListing:
    """Overlap iterations an interval apart and cut the overlay into its three parts."""
    interval = solution.interval
    stage = [start // interval for start in solution.start]
    count = max(stage, default=0) + 1
    ops = range(len(solution.start))
    prologue = [
        Line(solution.start[v] + k * interval, k, v) for v in ops for k in range(count - 1 - stage[v])
    ]
    steady = [Line(solution.start[v] % interval, stage[v], v) for v in ops]
    epilogue = [Line(solution.start[v] - (k + 1) * interval, k, v) for v in ops for k in range(stage[v])]

    def ordered(lines: Iterable[Line]) -> tuple[Line, ...]:
        return tuple(sorted(lines, key=lambda line: (line.cycle, solution.group[line.op], line.op)))

    return PipelinedListing(ordered(prologue), ordered(steady), ordered(epilogue), count)


def text(problem: Problem, solution: Solution) -> str:
    """The program as an aligned table: cycle, iteration, group, unit, operation, name and source line."""
    program = pipeline(solution)
    scale = problem.resolution.cycles_per_unit
    parts = (
        (
            f"prologue: cycles 0 to {round((program.stages - 1) * solution.interval * scale)}",
            program.prologue,
        ),
        (_loop_title(program, round(solution.interval * scale)), program.steady),
        ("epilogue: cycles count from where iteration N would start", program.epilogue),
    )
    names: tuple[Callable[[int], str], ...] = (str, lambda k: _back("i", k), lambda k: _back("N", k + 1))
    rows = [
        [_cells(problem, solution, line, name(line.iteration)) for line in part]
        for (_, part), name in zip(parts, names, strict=True)
    ]
    widths = [
        max(len(row[c]) for row in [_HEAD, *(row for part in rows for row in part)])
        for c in range(len(_HEAD))
    ]
    lines = [*_title(problem, solution), "", _aligned(_HEAD, widths)]
    for (title, _), part in zip(parts, rows, strict=True):
        lines += ["", f"# {title}", *(_aligned(row, widths) for row in part)]
    return "\n".join([*lines, ""])


_HEAD = ("cycle", "iteration", "group", "unit", "operation", "op", "source")


def _title(problem: Problem, solution: Solution) -> list[str]:
    scale = problem.resolution.cycles_per_unit
    interval, length = round(solution.interval * scale), round(solution.length(problem) * scale)
    groups = (
        f"# group {g.id}: {g.warps} warp{'' if g.warps == 1 else 's'}, {g.registers} registers per thread"
        for g in solution.groups
    )
    return [f"# {problem.title}: interval {interval} cycles, length {length} cycles; N iterations", *groups]


def _loop_title(program: PipelinedListing, interval: int) -> str:
    first = program.stages - 1
    return f"steady state: for i in {first} .. N-1, {interval} cycles each" + (
        f" (N >= {first + 1})" if first else ""
    )


def _back(name: str, by: int) -> str:
    return f"{name}-{by}" if by else name


def _cells(problem: Problem, solution: Solution, line: Line, iteration: str) -> tuple[str, ...]:
    op = problem.operations[line.op]
    location = f"{op.location.file}:{op.location.line}" if op.location else ""
    cycle = round(line.cycle * problem.resolution.cycles_per_unit)
    return (
        str(cycle),
        f"[{iteration}]",
        str(solution.group[line.op]),
        problem.unit(op) or "-",
        op.id,
        op.name,
        location,
    )


def _aligned(cells: Sequence[str], widths: Iterable[int]) -> str:
    cycle, *rest = (
        f"{cell:>{w}}" if i in (0, 2) else f"{cell:<{w}}"
        for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([cycle, *rest]).rstrip()
