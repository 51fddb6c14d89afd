"""Kernels from random schedules: whatever schedule keeps the rules must give a right kernel.

    python benchmarks/fuzz_schedules.py tests/kernels/ttgir/masked.sm90.ttgir --arch sm90 --count 20
        --out wrong/

Each loop is scheduled at random, at its best interval or up to a third above it, with 2 to 4 iterations in
flight, then lowered and checked as `twill codegen` checks a kernel: the warp programs in all orders of their
groups, their values, and with nvcc the PTX. Takes seeds; prints what each gave, keeps the schedules and the
CUDA of wrong kernels, and exits with status 1 if there is one. `--first SEED --count 1` runs one seed again.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.engine.probe import Budget, solution
from twill.files import write_schedule
from twill.generate import generate, right
from twill.generated import GenerateOptions
from twill.inputs import Inputs, cases
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.pipeline import solve
from twill.smt.cpsat import Tactics, attempt
from twill.verify import check_result

ABOVE = (1.0, 1.0, 1.002, 1.02, 1.1, 1.3)
"""Intervals, by the best one."""
IN_FLIGHT = (2, 3, 4)
TRIES = 4
"""Intervals and iterations in flight that are tried for a loop before it keeps its best schedule."""


def shuffled(best: Result, seed: int, seconds: float) -> Result:
    """A random schedule of the same problem; the best one where none is found."""
    draw, least = Random(seed), best.solution.interval if best.solution else 1
    for _ in range(TRIES):
        probe = attempt(
            best.problem,
            int(least * draw.choice(ABOVE)),
            draw.choice(IN_FLIGHT),
            budget=Budget(seconds),
            tactics=Tactics(linearization=draw.choice((0, 1)), seed=seed),
        )
        if found := solution(probe.outcome):
            status = "optimal" if found.interval == best.proved else "feasible"
            other = replace(best, status=status, solution=found)
            if broken := check_result(other):
                raise AssertionError(f"the engine's answer breaks a rule: {broken[0]}")
            return other
    return best


def tried(inputs: Inputs, loops: Sequence[Result], seconds: float, keep: Path) -> str:
    """What the check says of the kernel; it stays in `keep` where it is wrong."""
    for result in loops:
        write(keep / f"{result.problem.name.replace('/', '.')}.schedule.json", write_schedule(result))
    given = GenerateOptions(
        time_limit=seconds, schedules=tuple(str(path) for path in sorted(keep.iterdir())), check=False
    )
    try:
        made = generate(inputs, given)
    except TwillError as refused:
        return f"refused: {refused.message}"
    write(keep / "kernel.cu", made.cuda)
    try:
        right(
            (made,), replace(given, check=True, execute=bool(shutil.which("nvcc"))), lambda name, event: None
        )
    except TwillError as wrong:
        return f"WRONG: {wrong.message}"
    return "right"


@click.command()
@click.argument("spec")
@click.option("--arch")
@click.option("--first", default=1, show_default=True, help="The first seed.")
@click.option("--count", default=10, show_default=True, help="Seeds.")
@click.option("--time-limit", default=30.0, show_default=True, help="Seconds for each search.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Where wrong kernels stay.")
def main(spec: str, arch: str | None, first: int, count: int, time_limit: float, out: Path | None) -> None:
    inputs, wrong = Inputs(spec, arch=arch, subtile=1), 0
    best = [solve(case.problem, Options(time_limit=time_limit, explain=False)) for case in cases(inputs)]
    for seed in range(first, first + count):
        loops = [shuffled(one, seed, time_limit) for one in best]
        intervals = ", ".join(str(one.solution.interval) for one in loops if one.solution)
        with TemporaryDirectory() as folder:
            said = tried(inputs, loops, time_limit, Path(folder))
            if said.startswith("WRONG"):
                wrong += 1
                if out:
                    shutil.copytree(folder, out / str(seed))
        click.echo(f"{seed}: intervals {intervals}: {said}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
