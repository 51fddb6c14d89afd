"""Random tiny loops: every engine, and the search, against the exhaustive oracle.

    python benchmarks/fuzz.py --count 20000 --engines cpsat,sat --search

Engines are asked about intervals from the lower bound on, where the search asks them; benders about joint
problems that are monotone, for which it is meant, in coarse time and with those to blame asked for early.
Takes seeds; prints each disagreement with its seed and the problem as a graph file, then how many intervals
were compared; exit status 1 if anything disagreed. `--first SEED --count 1` runs one seed again.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import Pool
from pathlib import Path
from random import Random

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.properties.oracle import Answer, TooLargeError, best, issues_in_order
from tests.properties.tiny import tiny_problem
from twill.engine.probe import Budget, what
from twill.engine.probe import Outcome as EngineOutcome
from twill.engine.probe import solution as found_by
from twill.files import read_schedule, write_graph, write_schedule
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.modulo.bounds import bounds
from twill.pipeline import solve
from twill.verify import channels, check, check_document

MODULES = {
    "cpsat": "twill.smt.cpsat",
    "benders": "twill.smt.benders",
    "sat": "twill.smt.sat",
    "yices": "twill.smt.yices",
    "cbc": "twill.modulo.cbc",
    "scip": "twill.modulo.scip",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared on every problem."""

    engines: tuple[str, ...]
    search: bool
    in_flight: int
    last: Time
    """The largest interval tried."""
    most: int
    """Most operations of a problem."""
    visits: int
    """Partial schedules after which the oracle gives a problem up."""
    seconds: float
    """Limit for one engine on one interval, and five times that for the search."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one seed showed."""

    seed: int
    compared: Counter[str]
    problems: tuple[str, ...]


def judge(plan: Plan, seed: int) -> Outcome:
    """Compare everything on the problem of one seed."""
    problem = tiny_problem(Random(seed), plan.most)
    compared: Counter[str] = Counter()
    found: list[str] = []
    for joint in (True, False):
        kind = "joint" if joint else "modulo"
        try:
            answers = list(_answers(plan, problem, joint))
        except TooLargeError:
            compared["too large for the oracle"] += 1
            continue
        least = bounds(problem, joint=joint).value
        asked = [(interval, answer) for interval, answer in answers if answer or interval >= least]
        for engine in (
            plan.engines
            if joint and problem.monotone
            else [name for name in plan.engines if name != "benders"]
        ):
            compared[f"{engine}, {kind}"] += len(asked)
            found += (
                f"{kind}, {text}"
                for interval, answer in asked
                for text in _interval(plan, engine, problem, interval, joint, answer)
            )
        if plan.search:
            compared[f"search, {kind}"] += 1
            found += (f"{kind}, search: {text}" for text in _whole(plan, problem, joint, answers[-1][1]))
    return Outcome(seed, compared, tuple(found))


def _answers(plan: Plan, problem: Problem, joint: bool) -> Iterator[tuple[Time, Answer | None]]:
    """The oracle's word on every interval up to the first that works."""
    left = [plan.visits]
    for interval in range(1, plan.last + 1):
        answer = best(problem, interval, plan.in_flight, joint=joint, left=left)
        yield interval, answer
        if answer:
            return


def _interval(
    plan: Plan, engine: str, problem: Problem, interval: Time, joint: bool, answer: Answer | None
) -> Iterator[str]:
    """One engine on one interval."""
    name = f"{engine} at {interval}"
    try:
        outcome = _decide(plan, engine, problem, interval, joint)
    except Exception as error:
        yield f"{name}: {type(error).__name__}: {error}"
        return
    if what(outcome) != ("feasible" if answer else "infeasible"):
        yield f"{name}: {what(outcome)}, the oracle has {answer.solution if answer else 'nothing'}"
    solution = found_by(outcome)
    if solution:
        yield from (f"{name}: {text}" for text in _broken(plan, problem, solution, interval, joint))


def _decide(plan: Plan, engine: str, problem: Problem, interval: Time, joint: bool) -> EngineOutcome:
    """The outcome, by the function that an engine runs in a process of its own where there is one."""
    module = import_module(MODULES[engine])
    if not hasattr(module, "decide"):
        return module.attempt(
            problem, interval, plan.in_flight, joint=joint, budget=Budget(plan.seconds)
        ).outcome
    more = {"step": 1 + interval % 3, "patience": interval % 2} if engine == "benders" else {}
    return module.decide(problem, interval, plan.in_flight, joint=joint, time_limit=plan.seconds, **more)


def _broken(plan: Plan, problem: Problem, solution: Solution, interval: Time, joint: bool) -> Iterator[str]:
    yield from map(str, check(problem, solution, joint=joint))
    if solution.interval != interval:
        yield f"answered for interval {solution.interval}"
    if solution.length(problem) > plan.in_flight * interval:
        yield f"length {solution.length(problem)} is more than {plan.in_flight} intervals"


def _whole(plan: Plan, problem: Problem, joint: bool, answer: Answer | None) -> Iterator[str]:
    """The search: the smallest interval, then groups, channels, stages and length, with evidence, through its
    file. An answer whose groups issue in order may be longer than the oracle's, which need not."""
    options = Options(
        time_limit=5 * plan.seconds, max_in_flight=plan.in_flight, modulo_only=not joint, explain=False
    )
    try:
        result = solve(problem, options)
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
        return
    document = read_schedule(write_schedule(result, options), f"{problem.name}.json")
    yield from map(str, check_document(document, problem))
    if document.result != result:
        yield "the file of the result holds another one"
    if result.status not in ("optimal", "infeasible"):
        yield f"status {result.status}"
    solution = result.solution
    if answer and solution:
        have = (solution.interval, *_simplicity(problem, solution, joint))
        want = (
            answer.interval,
            *((answer.groups, answer.channels) if joint else ()),
            answer.stages,
            answer.length,
        )
        ordered = joint and issues_in_order(problem, solution) and have[-1] >= want[-1]
        as_simple = have[:-1] == want[:-1] and ordered
        if have != want and not as_simple and not (have[0] == want[0] and result.notes):
            yield f"(interval, groups, channels, stages, length) {have}, the oracle has {want}"
    elif answer or (solution and solution.interval <= plan.last):
        yield f"{result.status} {solution}, the oracle has {answer}"


def _simplicity(problem: Problem, solution: Solution, joint: bool) -> tuple[int, ...]:
    grouping = (len(set(solution.group)), len(channels(problem, solution.group))) if joint else ()
    return (*grouping, solution.stages, solution.length(problem))


def run(plan: Plan, seeds: Sequence[int], jobs: int) -> int:
    """Judge all seeds; the number of those that showed a disagreement."""
    compared: Counter[str] = Counter()
    wrong, began, shown = 0, time.monotonic(), time.monotonic()
    with Pool(jobs) as pool:
        for done, outcome in enumerate(pool.imap_unordered(partial(judge, plan), seeds, chunksize=4), 1):
            compared.update(outcome.compared)
            wrong += bool(outcome.problems)
            for text in outcome.problems:
                click.echo(f"seed {outcome.seed}: {text}")
            if outcome.problems:
                click.echo(write_graph(tiny_problem(Random(outcome.seed), plan.most)))
            if time.monotonic() - shown > 30:
                shown = time.monotonic()
                click.echo(
                    f"{done} of {len(seeds)} problems, {wrong} disagree, {shown - began:.0f} s", err=True
                )
    for compared_with, count in sorted(compared.items()):
        click.echo(f"{count:8} {compared_with}")
    click.echo(
        f"{len(seeds)} problems, seeds {seeds[0]} to {seeds[-1]}: {wrong} disagree,"
        f" {time.monotonic() - began:.0f} s"
    )
    return wrong


@click.command(help=__doc__)
@click.option("--count", default=1000, show_default=True, help="problems")
@click.option("--first", default=0, show_default=True, help="first seed")
@click.option(
    "--engines", default="cpsat", show_default=True, help=f"of {', '.join(MODULES)}; empty for none"
)
@click.option("--search", is_flag=True, help="also run the whole search")
@click.option("--in-flight", default=2, show_default=True, help="iterations in flight")
@click.option("--last", default=7, show_default=True, help="largest interval")
@click.option("--most", default=4, show_default=True, help="most operations")
@click.option("--visits", default=30000, show_default=True, help="partial schedules the oracle may look at")
@click.option("--seconds", default=20.0, show_default=True, help="limit of an engine on one interval")
@click.option("--jobs", default=2, show_default=True, help="processes")
def main(
    count: int,
    first: int,
    engines: str,
    search: bool,
    in_flight: int,
    last: int,
    most: int,
    visits: int,
    seconds: float,
    jobs: int,
) -> None:
    names = tuple(name for name in engines.split(",") if name)
    unknown = [name for name in names if name not in MODULES]
    if unknown:
        raise click.BadParameter(f"no engine {unknown[0]!r}", param_hint="--engines")
    plan = Plan(names, search, in_flight, last, most, visits, seconds)
    sys.exit(1 if run(plan, range(first, first + count), jobs) else 0)


if __name__ == "__main__":
    main()
