"""A grid of configurations of one kernel, scheduled and ranked: the query behind `twill sweep`.

Takes settings with several values; returns an `Outcome` for every configuration, ranked by the predicted time
of a launch (`twill.grid_time`), or, where no launch is given, by multiply-adds per cycle of one SM in the
steady state. A configuration whose lower bound cannot reach the best ones found is not solved.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

from twill.diagnostics import TwillError
from twill.explain import bottlenecks
from twill.files.text import Json
from twill.grid_time import Launch, Paced, grid_cycles
from twill.inputs import Case, Inputs, cases
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.modulo.bounds import bounds

Timed: TypeAlias = Callable[[Sequence[Paced]], float | None]
"""Predicts the cycles of a launch from its scheduled loops."""
Compute: TypeAlias = Callable[[Sequence["Task"]], Sequence["Outcome"]]
"""Schedules configurations; their outcomes in the same order."""
Status = Literal["optimal", "feasible", "infeasible", "unknown", "pruned", "refused"]
"""The status of the search; pruned by the lower bound; or refused by a stage before it."""

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Settings that are arguments of `triton.Config` rather than constants of the kernel."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One point of the grid."""

    arch: str
    settings: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """A name that is unique in a sweep."""
        return " ".join([self.arch, *(f"{name}={value}" for name, value in self.settings)])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a configuration; times in machine cycles, summed over the loops of the kernel."""

    key: str
    status: Status
    bound: float = 0.0
    interval: float | None = None
    macs: int = 0
    """Multiply-adds of one iteration of every loop."""
    pressure: float = 0.0
    """The bound of the second busiest unit by the largest bound, of the busiest loop: it breaks ties, less is
    better."""
    groups: int = 0
    registers: int = 0
    """Per thread of the group with the largest grant."""
    shared: int = 0
    note: str = ""
    launch: str = ""
    """The launch that it was timed for; empty for none."""
    cycles: float | None = None
    """Of a whole grid, where a launch is given."""
    cycles_bound: float = 0.0
    """The same with the lower bounds of the intervals."""

    @property
    def worth(self) -> float:
        """More is better: of launches a second if the GPU had one cycle a second, else the rate."""
        return (1 / self.cycles if self.cycles else 0.0) if self.cycles_bound else self.rate

    @property
    def promise(self) -> float:
        """The worth that the lower bounds allow."""
        return 1 / self.cycles_bound if self.cycles_bound else self.limit

    @property
    def rate(self) -> float:
        """Multiply-adds per cycle; 0 without a schedule."""
        return self.macs / self.interval if self.interval else 0.0

    @property
    def limit(self) -> float:
        """The multiply-adds per cycle that the lower bound allows."""
        return self.macs / self.bound if self.bound else 0.0


def values(text: str) -> tuple[str, ...]:
    """`64,128`, or `64:256:64` for a range with its end included. Raises TwillError for a range without a
    positive step."""
    parts = text.split(":")
    if len(parts) != 3 or not all(part.lstrip("-").isdecimal() for part in parts):
        return tuple(text.split(",")) if not text.startswith("*") else (text,)
    start, end, step = map(int, parts)
    if step < 1 or end < start:
        raise TwillError(f"{text} is not a range", help="write START:END:STEP, such as 64:256:64")
    return tuple(str(value) for value in range(start, end + 1, step))


def grid(archs: Sequence[str], settings: Iterable[tuple[str, str]]) -> tuple[Configuration, ...]:
    """Every combination, in the order given."""
    names = [(name, values(text)) for name, text in settings]
    points = itertools.product(*([(name, value) for value in options] for name, options in names))
    return tuple(Configuration(arch, tuple(point)) for point in points for arch in archs)


def prepared(
    inputs: Inputs, configuration: Configuration, launch: Launch | None = None
) -> tuple[Outcome, tuple[Case, ...]]:
    """The bound of a configuration, with its loops; none where a stage before the search refuses it."""
    try:
        found = cases(replace(inputs, arch=configuration.arch, settings=configuration.settings))
    except TwillError as problem:
        return Outcome(configuration.key, "refused", note=str(problem).splitlines()[0]), ()
    low = sum(bounds(case.problem).value * case.problem.resolution.cycles_per_unit for case in found)
    pressure = max(map(_pressure, found))
    made = Outcome(
        configuration.key, "unknown", low, macs=sum(map(_macs, found)), pressure=round(pressure, 3)
    )
    if launch is None:
        return made, found
    paces = [Paced(case, one := bounds(case.problem).value * _scale(case), one) for case in found]
    least = grid_cycles(paces, launch, _constants(found, configuration))
    return replace(made, cycles_bound=least, launch=launch.text), found


def _scale(case: Case) -> float:
    return case.problem.resolution.cycles_per_unit


def _constants(found: Sequence[Case], configuration: Configuration) -> dict[str, int]:
    """Whole numbers that the kernel is compiled with."""
    module = found[0].module
    kernel = module.constants.items() if module else ()
    known = {name: value for name, value in kernel if isinstance(value, int)}
    return known | {name: int(value) for name, value in configuration.settings if value.isdecimal()}


def _pressure(case: Case) -> float:
    """The second busiest unit by the bound."""
    units = sorted(one.bound for one in bottlenecks(case.problem) if one.kind == "unit")
    return units[-2] / bounds(case.problem).value if len(units) > 1 else 0.0


def _macs(case: Case) -> int:
    """Multiply-adds of one iteration."""
    shapes = [work.mnk for node in (case.graph.nodes if case.graph else ()) for work in node.work if work.mnk]
    return sum(m * n * k for m, n, k in shapes)


def evaluated(
    outcome: Outcome,
    found: Sequence[Case],
    solve: Callable[[Problem], Result],
    timed: Timed = lambda loops: None,
) -> Outcome:
    """Schedule every loop of a configuration; `timed` predicts the cycles of a launch."""
    results = [solve(case.problem) for case in found]
    worst = max(
        (result.status for result in results), key=("optimal", "feasible", "unknown", "infeasible").index
    )
    solutions = [result.solution for result in results if result.solution]
    if len(solutions) < len(results):
        return replace(outcome, status=worst)
    paces = [
        Paced(case, one.interval * _scale(case), one.length(case.problem) * _scale(case))
        for case, one in zip(found, solutions, strict=True)
    ]
    return replace(
        outcome,
        status=worst,
        interval=sum(one.interval for one in paces),
        cycles=timed(paces),
        groups=max(len(s.groups) for s in solutions),
        registers=max((g.registers for s in solutions for g in s.groups), default=0),
        shared=max(
            (p.address + p.size * p.slots for s in solutions for p in s.allocations if p.memory == "shared"),
            default=0,
        ),
    )


@dataclass(frozen=True, slots=True)
class Task:
    """A configuration that is to be scheduled."""

    point: Configuration
    outcome: Outcome
    """Its bound."""
    found: tuple[Case, ...]


def computed(inputs: Inputs, configuration: Configuration, launch: Launch | None, search: Options) -> Outcome:
    """One configuration, from the kernel to its outcome: what a worker of a cluster executes."""
    from twill.pipeline import solve

    outcome, found = prepared(inputs, configuration, launch)
    if not found:
        return outcome
    timed = _timed(launch, found, configuration)
    return evaluated(outcome, found, lambda problem: solve(problem, search), timed)


def one_by_one(solve: Callable[[Problem], Result], launch: Launch | None = None) -> Compute:
    """Schedules configurations here."""
    return lambda tasks: [
        evaluated(one.outcome, one.found, solve, _timed(launch, one.found, one.point)) for one in tasks
    ]


def swept(
    inputs: Inputs,
    points: Iterable[Configuration],
    compute: Compute,
    known: Mapping[str, Outcome],
    keep: int,
    launch: Launch | None = None,
    width: int = 1,
) -> Iterator[Outcome]:
    """The outcomes, as they are found. The most promising bounds are solved first, `width` at a time; a
    configuration that cannot be among the `keep` best of its architecture is pruned. `known` outcomes of an
    earlier run are not computed again."""
    waiting = list[Task]()
    best: dict[str, list[float]] = {}
    for point in points:
        if point.key in known:
            best.setdefault(point.arch, []).append(known[point.key].worth)
            yield known[point.key]
            continue
        outcome, found = prepared(inputs, point, launch)
        if found:
            waiting.append(Task(point, outcome, found))
        else:
            yield outcome
    ordered = sorted(waiting, key=lambda one: (-one.outcome.promise, one.outcome.pressure))
    while ordered:
        chosen = list[Task]()
        while ordered and len(chosen) < width:
            task = ordered.pop(0)
            if _hopeless(task, best.get(task.point.arch, []), keep):
                yield replace(task.outcome, status="pruned")
            else:
                chosen.append(task)
        for task, done in zip(chosen, compute(chosen) if chosen else (), strict=True):
            best.setdefault(task.point.arch, []).append(done.worth)
            yield done


def _hopeless(task: Task, worths: Sequence[float], keep: int) -> bool:
    """Whether the bound excludes a configuration from the best ones."""
    rates = sorted(worths, reverse=True)
    return len(rates) >= keep and task.outcome.promise < rates[keep - 1]


def _timed(launch: Launch | None, found: Sequence[Case], point: Configuration) -> Timed:
    """The prediction for one configuration."""
    if launch is None:
        return lambda loops: None
    constants = _constants(found, point)
    return lambda loops: grid_cycles(loops, launch, constants)


def ranked(outcomes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """The best first, ties by the pressure on the second busiest unit; without a schedule, by what the bound
    allows."""
    return tuple(sorted(outcomes, key=_rank))


def _rank(one: Outcome) -> tuple[float, float, float, str]:
    if one.cycles_bound:
        return -one.worth, -one.promise, one.pressure, one.key
    return -round(one.rate, 1), -round(one.limit, 1), one.pressure, one.key


def row(outcome: Outcome) -> dict[str, Json]:
    """The columns of the CSV file."""
    arch, *settings = outcome.key.split(" ")
    members = {name: value for name, value in asdict(outcome).items() if name != "key"}
    rates = {"macs_per_cycle": round(outcome.rate, 1), "macs_per_cycle_bound": round(outcome.limit, 1)}
    return {"arch": arch, **dict(pair.split("=", 1) for pair in settings), **rates, **members}


def triton_configs(outcomes: Sequence[Outcome], archs: Sequence[str], most: int) -> str:
    """A Python module with a list of `triton.Config` for each architecture, the best first."""
    lines = ['"""Configurations ranked by twill sweep, the best first."""', "", "import triton", ""]
    for arch in archs:
        mine = [one for one in outcomes if one.key.split(" ")[0] == arch and one.interval][:most]
        lines += [f"{arch.upper()} = [", *(f"    {_config(one)}," for one in mine), "]", ""]
    return "\n".join(lines)


def _config(outcome: Outcome) -> str:
    pairs = [pair.split("=", 1) for pair in outcome.key.split(" ")[1:]]
    constants = {
        name: int(value) for name, value in pairs if name not in LAUNCH_OPTIONS and value.isdecimal()
    }
    options = "".join(f", {name}={value}" for name, value in pairs if name in LAUNCH_OPTIONS)
    return f"triton.Config({constants!r}{options})"
