"""How the simulated order of schedules of one interval holds on a Hopper GPU.

    python benchmarks/ranks.py generate build/ranks --count 20  # anywhere: random schedules, and their CUDA
    python benchmarks/ranks.py measure build/ranks  # with a GPU: builds, compares values, counts SM cycles
    python benchmarks/ranks.py simple build/ranks  # anywhere: what a search would end with instead

The schedules are those that CP-SAT finds from as many seeds, at the interval of the kernel's kept schedule
(reports/schedules), with its partition and two to four iterations in flight; in every second one no group
issues two operations at once. Each is verified, lowered and simulated as `twill codegen` does, and compiled:
where registers are spilled or MMAs serialized, whatever the registers of its groups, another seed takes its
place, as codegen takes another schedule. `measure` prints the rank correlation of simulated cycles and those
that ncu counts, the median of as many launches as --rounds. `simple` makes each schedule simple as a search
does (`smt.polish`), and prints how many are then left.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import correlation, median

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.hopper import VARIANTS, build_all
from benchmarks.hopper import options as options_of
from benchmarks.random_schedules import made_simple, verified
from twill.bench.contenders import field
from twill.bench.profile import counted
from twill.bench.profile_target import Request, Runs
from twill.bench.run import values
from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.extract.frontend.arguments import from_text
from twill.files import write_schedule
from twill.generation.builds.spills import compiled, least_spilled
from twill.generation.generate import files
from twill.generation.generate import generate as generate_kernel
from twill.generation.generated import Generated, pace_of_sm
from twill.generation.known.given import given
from twill.generation.loop_nest import tied_problem
from twill.inputs import cases
from twill.ir.problem import Problem
from twill.ir.schedule import Result, Solution
from twill.launch.load import load
from twill.smt.cpsat import Tactics
from twill.whatif import Pins, pinned

KERNEL = "fa_fwd_subtiled"
"""What is looked at where nothing else is said."""
IN_FLIGHT = (2, 3, 4)
TRIES = 6
"""Seeds for each schedule that is wanted, at most."""
PACE = "pace.json"
"""Simulated cycles of an iteration, beside each kernel."""


def kept(variant: str) -> Result:
    """The schedule of a kernel with one loop."""
    (found,) = given(options_of(variant).schedules).values()
    return found


def narrowed(variant: str, best: Result, any_partition: bool) -> Problem:
    """The problem of the schedule with its partition, or with any in which operations are in one group whose
    results are used together after the loop."""
    if not any_partition:
        return pinned(best.problem, Pins({}, partition(best)))
    (case,) = cases(VARIANTS[variant].inputs)
    return replace(best.problem, together=(*best.problem.together, *tied_problem(case).together))


def shuffled(best: Result, problem: Problem, seed: int, seconds: float) -> Result | None:
    """A schedule of the same interval at random; None where none is found in time."""
    assert best.solution is not None, "a kept schedule has a solution"
    tactics = Tactics(linearization=0, in_order=bool(seed % 2), seed=seed)
    in_flight = IN_FLIGHT[seed // 2 % len(IN_FLIGHT)]
    return verified(best, problem, best.solution.interval, in_flight, seconds, tactics)


def partition(best: Result) -> tuple[tuple[str, ...], ...]:
    """The operations of each group."""
    assert best.solution is not None, "a kept schedule has a solution"
    groups = dict[int, list[str]]()
    for op, group in zip(best.problem.operations, best.solution.group, strict=True):
        groups.setdefault(group, []).append(op.id)
    return tuple(map(tuple, groups.values()))


def made(variant: str, found: Result, schedule: Path) -> Generated | None:
    """The kernel of a schedule, which it leaves in a file; None where it can not be generated without
    warnings of ptxas."""
    write(schedule, write_schedule(found))
    options = replace(options_of(variant), schedules=(str(schedule),))
    try:
        built = least_spilled(compiled(generate_kernel(VARIANTS[variant].inputs, options)))
    except TwillError as refused:
        click.echo(f"{schedule.stem}: {refused.message}", err=True)
        return None
    if built.said:
        click.echo(f"{schedule.stem}: {built.said[0]}", err=True)
        return None
    return built.made


ONE_LOOP = [name for name in VARIANTS if len(options_of(name).schedules) == 1]
"""Variants with one loop, whose schedule is kept."""
variant_option = click.option(
    "--variant", type=click.Choice(ONE_LOOP), default=KERNEL, show_default=True, help="Of the bench."
)


@click.group()
def main() -> None:
    """Generate, measure."""


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--count", default=20, show_default=True, help="Schedules.")
@click.option("--time-limit", default=20.0, show_default=True, help="Seconds for each.")
@click.option("--any-partition", is_flag=True, help="Not only that of the kept schedule.")
@variant_option
def generate(folder: Path, count: int, time_limit: float, any_partition: bool, variant: str) -> None:
    """Write the kernels of random schedules. Needs Triton, no GPU."""
    best = kept(variant)
    problem, written = narrowed(variant, best, any_partition), 0
    for seed in range(1, TRIES * count + 1):
        if written == count:
            return
        name = f"{seed:03}"
        found = shuffled(best, problem, seed, time_limit)
        kernel = found and made(variant, found, folder / f"{name}.json")
        if kernel is None:
            continue
        for file, make in files(kernel).items():
            write(folder / name / file, make())
        write(folder / name / PACE, json.dumps(pace_of_sm(kernel)))
        written += 1
        click.echo(f"{name}: {pace_of_sm(kernel):.0f} cycles simulated", err=True)


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--length", default=8192, show_default=True, help="Of a sequence; there are 128 heads.")
@click.option("--rounds", default=3, show_default=True, help="Launches of each.")
@variant_option
def measure(folder: Path, length: int, rounds: int, variant: str) -> None:
    """Build the kernels, compare their values, count cycles, and print how their order holds."""
    simulated = {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob(f"*/{PACE}"))}
    build_all(folder, list(simulated))
    cycles = {name: launched(variant, folder / name, length, rounds) for name in simulated}
    for name in sorted(simulated, key=simulated.__getitem__):
        click.echo(f"{name}: {simulated[name]:.1f} cycles an iteration simulated, {cycles[name] / 1e6:.3f} M")
    held = correlation(*(ranks(list(one.values())) for one in (simulated, cycles)))
    most, least = max(cycles.values()), min(cycles.values())
    click.echo(f"rank correlation {held:.2f}; the slowest takes {most / least - 1:.1%} more than the fastest")


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--time-limit", default=15.0, show_default=True, help="Seconds for each goal.")
@click.option("--work", default=1.0, show_default=True, help="Deterministic seconds for each goal.")
def simple(folder: Path, time_limit: float, work: float) -> None:
    """Make every schedule of the folder simple, and count those that are then different."""
    found = dict[str, Result]()
    for path in sorted(folder.glob("*.json")):
        (result,) = given([str(path)]).values()
        found[path.stem] = made_simple(result, time_limit, work)
    alike = dict[Solution | None, list[str]]()
    for name, one in found.items():
        alike.setdefault(one.solution, []).append(name)
    for names in sorted(alike.values(), key=len, reverse=True):
        built = sum((folder / name / PACE).exists() for name in names)
        click.echo(f"{len(names)} the same, {built} of them built: {', '.join(names)}")


def launched(variant: str, folder: Path, length: int, rounds: int) -> float:
    """SM cycles of a launch. Raises TwillError where a value is wrong."""
    inputs, shape = VARIANTS[variant].inputs, {"heads": 128, "length": length}
    settings = from_text(dict(inputs.settings))
    lineup = field(inputs.spec, "sm90", settings, load(folder))
    values(lineup, lineup.case(shape))
    request = Request(inputs.spec, "sm90", settings, str(folder), (Runs(shape, ("twill",) * rounds, {}),))
    return median(one.cycles for one in counted(request))


def ranks(found: Sequence[float]) -> list[float]:
    """Of each value, 1 for the least; equal ones have the mean of theirs."""
    in_order = sorted(found)
    return [in_order.index(one) + (in_order.count(one) + 1) / 2 for one in found]


if __name__ == "__main__":
    main()
