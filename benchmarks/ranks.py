"""How the simulated order of schedules of one interval holds on a Hopper GPU.

    python benchmarks/ranks.py generate build/ranks --count 20  # anywhere: random schedules, and their CUDA
    python benchmarks/ranks.py measure build/ranks  # with a GPU: builds, compares values, measures

The schedules are those that CP-SAT finds from as many seeds, at the interval of the kernel's kept schedule
(reports/schedules), with its partition and three iterations in flight; in every second one no group issues
two operations at once. Each is verified, lowered and simulated as `twill codegen` does. `measure` prints
their rank correlation; time is the median of rounds in random order.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.hopper import KEPT, VARIANTS, build_all
from twill.bench.ranking import Built, measured, text
from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.engine.probe import Budget, solution
from twill.files import write_schedule
from twill.generation.generate import files
from twill.generation.generate import generate as generate_kernel
from twill.generation.generated import Generated, GenerateOptions, pace_of_sm
from twill.generation.given import given
from twill.inputs import Inputs
from twill.ir.schedule import Result
from twill.smt.cpsat import Tactics, attempt
from twill.verify import check_result
from twill.whatif import Pins, pinned

KERNEL = "fa_fwd_subtiled"
IN_FLIGHT = 3
PACE = "pace.json"
"""Simulated cycles of an iteration, beside each kernel."""


def shuffled(best: Result, seed: int, seconds: float) -> Result | None:
    """A schedule of the same interval at random; None where none is found in time."""
    assert best.solution is not None, "a kept schedule has a solution"
    tactics = Tactics(linearization=0, in_order=bool(seed % 2), seed=seed)
    problem = pinned(best.problem, Pins({}, partition(best)))
    probe = attempt(problem, best.solution.interval, IN_FLIGHT, budget=Budget(seconds), tactics=tactics)
    found = solution(probe.outcome)
    if found is None:
        return None
    other = replace(best, solution=found)
    if broken := check_result(other):
        raise AssertionError(f"the engine's answer breaks a rule: {broken[0]}")
    return other


def partition(best: Result) -> tuple[tuple[str, ...], ...]:
    """The operations of each group."""
    assert best.solution is not None, "a kept schedule has a solution"
    groups = dict[int, list[str]]()
    for op, group in zip(best.problem.operations, best.solution.group, strict=True):
        groups.setdefault(group, []).append(op.id)
    return tuple(map(tuple, groups.values()))


def made(seed: int, seconds: float, schedule: Path) -> Generated | None:
    """The kernel of a random schedule, which it leaves in a file; None where there is none, or it can not be
    generated."""
    (kept,) = given(map(str, KEPT.glob(f"{KERNEL}.for*.json"))).values()
    found = shuffled(kept, seed, seconds)
    if found is None:
        return None
    write(schedule, write_schedule(found))
    try:
        return generate_kernel(VARIANTS[KERNEL].inputs, GenerateOptions(schedules=(str(schedule),)))
    except TwillError as refused:
        click.echo(f"{seed}: {refused.message}", err=True)
        return None


@click.group()
def main() -> None:
    """Generate, measure."""


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--count", default=20, show_default=True, help="Schedules.")
@click.option("--time-limit", default=20.0, show_default=True, help="Seconds for each.")
def generate(folder: Path, count: int, time_limit: float) -> None:
    """Write the kernels of random schedules. Needs Triton, no GPU."""
    seed = written = 0
    while written < count and seed < 3 * count:
        seed += 1
        if (found := made(seed, time_limit, folder / f"{seed:03}.json")) is None:
            continue
        for name, make in files(found).items():
            write(folder / f"{seed:03}" / name, make())
        write(folder / f"{seed:03}" / PACE, json.dumps(pace_of_sm(found)))
        written += 1
        click.echo(f"{seed:03}: {pace_of_sm(found):.0f} cycles simulated", err=True)


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--length", default=8192, show_default=True, help="Of a sequence; there are 128 heads.")
@click.option("--rounds", default=15, show_default=True)
def measure(folder: Path, length: int, rounds: int) -> None:
    """Build the kernels, compare their values, and print how their order holds."""
    paces = {path.parent: json.loads(path.read_text()) for path in sorted(folder.glob(f"*/{PACE}"))}
    build_all(folder, [one.name for one in paces])
    inputs = Inputs(VARIANTS[KERNEL].inputs.spec, arch="sm90")
    in_order = sorted(paces, key=lambda one: paces[one])
    built = [Built(f"{one.name} ({paces[one]:.0f} simulated)", inputs, one) for one in in_order]
    click.echo(text(measured(built, {"heads": 128, "length": length}, rounds)))


if __name__ == "__main__":
    main()
