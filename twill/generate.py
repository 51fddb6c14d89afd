"""From what a user names to a kernel: scheduled, lowered to warp programs, timed on the CPU, and printed as CUDA C++.

`generate` takes `Inputs`, `files` gives what is written about the kernel. Loops whose schedules are at hand are not solved again. Raises
TwillError for bad input, for a loop without a schedule, and for what can not be lowered or printed, with its line.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from twill.diagnostics import TwillError
from twill.inputs import Inputs, cases, origin
from twill.ir.problem import Problem
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.ir.search import Options, Progress
from twill.warp.lower import Options as Lowering
from twill.warp.tasks import Scheduled

Tell = Callable[[str, Progress], None]
"""What hears how the search goes, by the name of the loop."""


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """How a kernel is generated."""

    time_limit: float = 60.0
    """Seconds for scheduling each loop."""
    schedules: tuple[str, ...] = ()
    """Files of schedules (`twill.schedule/1`) to be used in place of a search."""
    lowering: Lowering = field(default_factory=Lowering)


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """A kernel on its way to CUDA."""

    program: Program
    loops: tuple[Scheduled, ...]
    results: Mapping[str, Result]
    """The schedules with their evidence, by the paths of the loops."""


def generate(inputs: Inputs, wishes: GenerateOptions | None = None, tell: Tell = lambda name, event: None) -> Generated:
    """Schedule and lower."""
    from twill.loop_nest import program

    wishes = wishes or GenerateOptions()
    results = dict[str, Result]()
    kept = _kept(wishes.schedules)

    def solve(problem: Problem) -> Result:
        results[problem.name] = _fitting(kept[problem.name], problem) if problem.name in kept else _solved(problem, wishes, tell)
        return results[problem.name]

    made, loops = program(cases(inputs), solve, wishes.lowering)
    return Generated(made, loops, results)


def built(inputs: Inputs, wishes: GenerateOptions | None = None, tell: Tell = lambda name, event: None) -> Path:
    """The folder of a kernel that is generated and built, made once: what was built before is taken from the user's cache."""
    from twill.launch.build import cached

    wishes = wishes or GenerateOptions()
    module, machine = origin(inputs)
    text = module.text
    asked = replace(inputs, spec=text, settings=()) if ".py:" in inputs.spec and inputs.spec != text else inputs
    kept = [Path(path).read_text() for path in wishes.schedules]
    key = f"{text}{replace(asked, spec='')}{wishes}{machine}{kept}"
    return cached(key, lambda: {name: make() for name, make in files(generate(asked, wishes, tell)).items()})


def _solved(problem: Problem, wishes: GenerateOptions, tell: Tell) -> Result:
    from twill.pipeline import solve

    return solve(problem, Options(time_limit=wishes.time_limit, explain=False), lambda event: tell(problem.name, event))


def _kept(paths: Iterable[str]) -> dict[str, Result]:
    """Schedules at hand, by the name of their loop."""
    from twill.files import load, read_schedule

    results = [read_schedule(load(path), path).result for path in paths]
    return {result.problem.name: result for result in results}


def _fitting(result: Result, problem: Problem) -> Result:
    """A schedule at hand, if it keeps all rules and is of the same operations and dependences; its costs may be older."""
    from twill.verify import check_result

    same = [op.id for op in result.problem.operations] == [op.id for op in problem.operations]
    same = same and {(e.src, e.dst, e.distance) for e in result.problem.edges} == {(e.src, e.dst, e.distance) for e in problem.edges}
    if not same:
        raise TwillError(f"the schedule at hand for {problem.name} is of another loop: its operations or dependences are others")
    broken = check_result(result)
    if broken:
        raise TwillError(f"the schedule at hand for {problem.name} breaks a rule: {broken[0]}")
    return result


def files(made: Generated) -> dict[str, Callable[[], str]]:
    """What is written about a kernel, by file name: its source and what a loader needs, the programs of its groups, their simulated
    timeline, the TTGIR, and the schedules."""
    from twill.files import write_schedule
    from twill.launch.build import MANIFEST, SOURCE
    from twill.launch.manifest import manifest, write
    from twill.simulate.predict import predict
    from twill.simulate.report import trace
    from twill.targets.cuda.kernel import source
    from twill.warp.listing import text

    cuda = source(made.program)
    predicted = predict(made.program, made.loops)
    cycles = {path: round(found.interval, 1) for path, found in predicted.loops.items()}
    described = write(manifest(made.program, made.loops, cycles))
    return {
        SOURCE: lambda: cuda,
        MANIFEST: lambda: described,
        "kernel.ttgir": lambda: made.program.module.text,
        "warps.txt": lambda: text(made.program),
        "trace.json": lambda: trace(predicted.events),
        **{f"{path.replace('/', '.')}.schedule.json": partial(write_schedule, result) for path, result in made.results.items()},
    }
