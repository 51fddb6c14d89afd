"""Kernels from random schedules: whatever schedule keeps the rules must give a right kernel.

    python benchmarks/fuzz_schedules.py tests/kernels/ttgir/masked.sm90.ttgir --arch sm90 --count 20
        --out wrong/

Each loop is scheduled at random, at its best interval or up to a third above it, with 2 to 4 iterations in
flight, then lowered and checked as `twill codegen` checks a kernel: the warp programs in all orders of their
groups, their values, and with nvcc the PTX. Takes seeds; prints what each gave, keeps the schedules and the
CUDA of wrong kernels, and exits with status 1 if there is one, or one that lowering itself found wrong.
`--first SEED --count 1` runs one seed again.
"""

import shutil
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.random_schedules import verified
from twill.diagnostics import DefectError, TwillError
from twill.emit.files import write
from twill.generation.candidates import candidates
from twill.generation.generate import files, right
from twill.generation.generated import GenerateOptions, ProgressCallback
from twill.generation.searches import solved
from twill.inputs import Inputs
from twill.ir.problem import Problem
from twill.ir.schedule import Result
from twill.ir.search import Options, Progress
from twill.pipeline import Begun
from twill.smt.cpsat import Tactics

ABOVE = (1.0, 1.0, 1.002, 1.02, 1.1, 1.3)
"""Intervals, by the best one."""
IN_FLIGHT = (2, 3, 4)
TRIES = 4
"""Intervals and iterations in flight that are tried for a loop before it keeps its best schedule."""


def shuffled(best: Result, seed: int, seconds: float) -> Result:
    """A random schedule of the same problem; the best one where none is found."""
    draw, least = Random(seed), best.solution.interval if best.solution else 1
    for _ in range(TRIES):
        interval, in_flight = int(least * draw.choice(ABOVE)), draw.choice(IN_FLIGHT)
        tactics = Tactics(linearization=draw.choice((0, 1)), seed=seed)
        if other := verified(best, best.problem, interval, in_flight, seconds, tactics):
            return other
    return best


def tried(inputs: Inputs, seed: int, seconds: float, known: dict[Problem, Result], keep: Path) -> str:
    """The intervals, and what the check says of the kernel; it stays in `keep` where it is wrong."""

    def solve(
        problem: Problem, search: Options, on_progress: ProgressCallback, begun: Begun | None
    ) -> Result:
        if problem not in known:
            known[problem] = solved(problem, search, on_progress, begun)
        return shuffled(known[problem], seed, seconds)

    options = GenerateOptions(time_limit=seconds, execute=bool(shutil.which("nvcc")))
    try:
        (made,) = candidates(inputs, options, silent, solve=solve)
    except DefectError as wrong:
        return f"WRONG, not generated: {wrong.message}"
    except TwillError as refused:
        return f"refused: {refused.message}"
    for name, text in files(made).items():
        write(keep / name, text())
    intervals = ", ".join(str(one.solution.interval) for one in made.loops)
    try:
        right((made,), options, silent)
    except TwillError as wrong:
        return f"WRONG at {intervals}: {wrong.message}"
    return f"right at {intervals}"


def silent(name: str, event: Progress) -> None:
    """No progress is shown."""


@click.command()
@click.argument("spec")
@click.option("--arch")
@click.option("--first", default=1, show_default=True, help="The first seed.")
@click.option("--count", default=10, show_default=True, help="Seeds.")
@click.option("--time-limit", default=30.0, show_default=True, help="Seconds for each search.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Where wrong kernels stay.")
def main(spec: str, arch: str | None, first: int, count: int, time_limit: float, out: Path | None) -> None:
    inputs, known, wrong = Inputs(spec, arch=arch, subtile=1), dict[Problem, Result](), 0
    for seed in range(first, first + count):
        with TemporaryDirectory() as folder:
            said = tried(inputs, seed, time_limit, known, Path(folder))
            click.echo(f"{seed}: {said}")
            if said.startswith("WRONG"):
                wrong += 1
                if out:
                    shutil.copytree(folder, out / str(seed), dirs_exist_ok=True)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
