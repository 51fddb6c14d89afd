"""How long the examples take, as reports/speed.md: whole `twill schedule` commands, start to files written,
without drawings.

    python benchmarks/speed.py --runs 1   # every loop once in both conditions, at most 15 minutes
    python benchmarks/speed.py --runs 1 --resume          # what a run that was ended did not come to
    python benchmarks/speed.py --runs 1 --only gemm.sm90  # renew that row alone
    python benchmarks/speed.py --runs 10 --pairs 7        # on seven pairs of cores side by side
    python benchmarks/speed.py --runs 10 --minutes 150 --variants 10 --printed 60

Each loop is run several times alone, and as often beside a load that keeps the cores busy: answer and status
are to be the same. Run it on a quiet machine. Runs are kept in a JSON file beside the report, both of which
are written after every loop, so that rows are renewed one by one. A loop that fails has a row that says so,
and what does not fit into `--minutes` keeps the row that it has. The paper's encoding, as printed, runs on
the same problem in normalized units, for which it needs small numbers.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import ask, machine, seconds, table
from speed_record import Measured, Run, known, saved
from speed_runs import LOOPS, LOOPS_BY_NAME, WARM, Loop, Pairs, load, run

import twill
from benchmarks.paper_encoding import algorithm1
from twill.ir.search import IN_FLIGHT, Options

UNITS = 60
"""Normalized durations sum to this many units where the printed encoding is compared."""


@contextmanager
def compiled(limit: float) -> Generator[None]:
    """Within this block commands find what Python has compiled, as those of an installed Twill do, whatever
    the environment says."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        for loop in LOOPS:
            if loop.name in WARM:
                run(loop, limit)
        yield


@dataclass(frozen=True, slots=True)
class Plan:
    """How often each loop is run, alone and beside `beside` busy processes, and until when."""

    runs: int
    limit: float
    beside: int
    end: float
    made: str
    """Machine, versions and day."""
    pairs: Pairs

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end


def again(name: str, plan: Plan) -> Measured:
    """The loop once in both conditions, on the same pair of cores; no runs once the time is over."""
    loop = LOOPS_BY_NAME[name]
    with plan.pairs.one() as cores:
        if plan.over:
            return Measured(name)
        print(name, file=sys.stderr, flush=True)
        alone = run(loop, plan.limit, cores)
        with load(plan.beside, cores):
            busy = (run(loop, plan.limit, cores),) if plan.beside else ()
    return Measured(name, plan.made, (alone,), busy)


def rounds(chosen: Sequence[Loop], plan: Plan, begun: Mapping[str, Measured]) -> Iterator[Measured]:
    """A loop with all its runs after each of them; every loop is run before one is run again, on as many
    pairs of cores as there are. The runs that have `begun` count."""
    found = {loop.name: begun.get(loop.name, Measured(loop.name)) for loop in chosen}
    left = [name for count in range(plan.runs) for name, one in found.items() if len(one.alone) <= count]
    with ThreadPoolExecutor(plan.pairs.count) as pool:
        for future in as_completed([pool.submit(again, name, plan) for name in left]):
            one = future.result()
            if one.alone:
                before = found[one.name]
                found[one.name] = replace(
                    one, alone=(*before.alone, *one.alone), busy=(*before.busy, *one.busy)
                )
                yield found[one.name]


def renewed(chosen: Sequence[Loop], plan: Plan, out: Path, *, resume: bool) -> None:
    """Report and record with new runs of these loops, written after each; those of the others are kept."""
    record = out.with_suffix(".json")
    found = known(record)
    begun = {name: one for name, one in found.items() if not plan.beside or len(one.alone) == len(one.busy)}
    for one in rounds(chosen, plan, begun if resume else {}):
        found[one.name] = one
        every = [found.get(loop.name, Measured(loop.name)) for loop in LOOPS]
        record.write_text(saved(every), encoding="utf-8")
        out.write_text(report(plan, every), encoding="utf-8")


def spread(times: Sequence[float | None]) -> str:
    """Median, and least to most of several."""
    known = sorted(time for time in times if time is not None)
    if len(known) < len(times) or not known:
        return "-"
    if len(known) == 1:
        return f"{known[0]:.1f}"
    return f"{median(known):.1f} ({known[0]:.1f} to {known[-1]:.1f})"


HEAD = ("loop", "runs", "ops", "I", "proven I >=", "status", "answer s", "proof s", "to be", "kept")

LOADED = ("loop", "answer s", "proof s", "same answer")


def row(loop: Loop, runs: Sequence[Run]) -> tuple[object, ...]:
    """A loop alone on the machine."""
    broken = next((run.failed for run in runs if run.failed), None if runs else "not run")
    if broken is not None:
        return (loop.name, len(runs), *["-"] * (len(HEAD) - 3), broken)
    one = runs[0]
    optimal = all(run.outcome == one.outcome for run in runs) and all(
        status == "optimal" for _, _, status in one.outcome
    )
    answered = [run.answered for run in runs if run.answered is not None]
    answer = len(answered) == len(runs) and median(answered) <= loop.answer
    proof = loop.proof is None or (optimal and median(run.wall for run in runs) <= loop.proof)
    return (
        loop.name,
        len(runs),
        _each(loop.ops for loop in one.loops),
        *(_each(part) for part in zip(*one.outcome, strict=True)),
        spread([run.answered for run in runs]),
        spread([run.wall for run in runs]),
        f"{loop.answer:g}, {loop.proof:g}" if loop.proof else f"{loop.answer:g}",
        "yes" if answer and proof else "answer only" if answer else "no",
    )


def _each(parts: Iterable[object]) -> str:
    return " / ".join(map(str, parts))


def loaded(loop: Loop, alone: Sequence[Run], busy: Sequence[Run]) -> tuple[object, ...]:
    """The same loop beside a load."""
    broken = next((run.failed for run in busy if run.failed), None if busy else "not run")
    if broken is not None:
        return loop.name, "-", "-", broken
    outcomes = {run.outcome for run in (*alone, *busy)}
    same = "yes" if len(outcomes) == 1 else "; ".join(map(str, sorted(outcomes, key=str)))
    return loop.name, spread([run.answered for run in busy]), spread([run.wall for run in busy]), same


def variants(limit: float) -> str:
    """The paper's forward variants at the smallest interval that the whole kernel was found to have.

    First for as many iterations in flight as that answer has: the paper asks for schedules of a given length.
    Then for all.
    """
    inputs = twill.Inputs("examples/ttgir/fa_fwd_subtiled.sm100.ttgir")
    base = ask("two sub-tiles", inputs, Options(time_limit=3 * limit, explain=False))
    whole = twill.Inputs("examples/ttgir/fa_fwd.sm100.ttgir")
    alone = ask("one tile, timing alone", whole, Options(time_limit=limit, modulo_only=True))
    asked = (
        ("4 groups, including the load group", replace(inputs, groups=4), base.result.proved),
        ("3 groups, including the load group", replace(inputs, groups=3), base.result.proved),
        ("nothing passes between groups", replace(inputs, cross_group=False), base.result.proved),
        ("no sub-tiling", whole, alone.result.proved),
    )
    flights = (base.solution.in_flight(base.problem) if base.solution else 2, IN_FLIGHT)
    rows: list[Sequence[object]] = []
    for question, variant, interval in asked:
        statuses: list[str] = []
        for in_flight in flights:
            answer = ask(question, variant, Options(time_limit=limit, explain=False, max_in_flight=in_flight))
            after = answer.refuted(interval)
            feasible = answer.interval is not None and answer.interval <= interval
            statuses += [
                "infeasible" if after is not None else "feasible" if feasible else "open",
                seconds(after),
            ]
        rows.append((question, interval, *statuses))
    return table(
        ("variant", "at I", *(head for n in flights for head in (f"up to {n} in flight", "refuted after s"))),
        rows,
    )


def printed(loop: Loop, limit: float) -> tuple[object, ...]:
    """Algorithm 1 as printed against this program, both on the same normalized problem."""
    inputs = twill.Inputs(loop.spec, resolution=UNITS)
    here = ask(loop.name, inputs, Options(time_limit=limit, explain=False))
    begin = time.monotonic()
    found = algorithm1(here.problem, limit)
    took = time.monotonic() - begin
    done = found is not None and found.interval is not None
    ratio = f"{'' if done else 'over '}{took / here.seconds:.0f}"
    reached = f"{found.interval}" if found and done else f"none up to {found.reached}" if found else "none"
    return (
        loop.name,
        here.interval or "-",
        here.result.status,
        seconds(here.seconds),
        reached,
        seconds(took),
        ratio,
    )


PRINTED_HEAD = ("loop", "I here", "status", "s", "I printed", "s printed", "times slower")


def report(plan: Plan, found: Sequence[Measured]) -> str:
    """The tables of the loops."""
    runs = max((len(one.alone) for one in found), default=0)
    loops = [(LOOPS_BY_NAME[one.name], one) for one in found]
    parts = [
        "# Speed\n",
        f"Made by `python benchmarks/speed.py --runs {plan.runs}`: {_made(found)}\n",
        f"Median of up to {runs} runs (least to most): seconds from the start of the command until every"
        " loop has the interval that it ends with, and until the files are written, with a limit of"
        f" {plan.limit:g} s for the search of a loop; `to be` is what they are to take. Python has compiled"
        " Twill before, as an installation does.\n",
        table(HEAD, (row(loop, one.alone) for loop, one in loops)),
    ]
    if any(one.busy for one in found):
        parts += [
            f"## Beside {plan.beside or 'some'} busy processes\n",
            table(LOADED, (loaded(loop, one.alone, one.busy) for loop, one in loops)),
        ]
    return "\n".join(parts)


def _made(found: Sequence[Measured]) -> str:
    """On which machine and when; which rows, where it was not the same for all."""
    made = dict[str, list[str]]()
    for one in found:
        if one.made:
            made.setdefault(one.made, []).append(one.name)
    *few, (most, _) = sorted(made.items(), key=lambda one: len(one[1])) or [("", [])]
    others = (f" ({', '.join(names)}: {where.rstrip('.')})" for where, names in few)
    return most + "".join(others)


def comparison(chosen: Sequence[Loop], limit: float) -> str:
    """The printed encoding beside this program."""
    units = f"on durations normalized to {UNITS} units; limit {limit:g} s"
    intro = f"Booleans in Yices and CBC from I = 1, {units}.\n"
    rows = [printed(loop, limit) for loop in chosen if not loop.more]
    return "\n".join(("## The printed encoding on the same input\n", intro, table(PRINTED_HEAD, rows)))


def forward(limit: float) -> str:
    """The paper's variants."""
    title = f"## The paper's forward variants, infeasible at the smallest interval? (limit {limit:g} s)\n"
    return "\n".join((title, variants(limit)))


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([loop.name for loop in LOOPS]),
    help="Loops to run; all by default. The rows of others are kept.",
)
@click.option(
    "--printed",
    "printed_limit",
    type=float,
    default=0.0,
    show_default=True,
    help="Seconds for the printed encoding; 0 for none.",
)
@click.option(
    "--variants",
    "variants_limit",
    type=float,
    default=0.0,
    show_default=True,
    help="Seconds for each query about the paper's variants; 0 for none.",
)
@click.option("--runs", type=click.IntRange(1, 100), default=10, show_default=True, help="Runs of each loop.")
@click.option("--resume", is_flag=True, help="Keep the runs on record, and make those that are missing.")
@click.option("--limit", type=float, default=60.0, show_default=True, help="Seconds for each loop's search.")
@click.option("--minutes", type=float, default=15.0, show_default=True, help="No run begins after these.")
@click.option("--beside", type=int, default=2, show_default=True, help="Busy processes of the load.")
@click.option(
    "--pairs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Pairs of cores that measure at once.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("reports/speed.md"),
    show_default=True,
)
def main(
    only: tuple[str, ...],
    printed_limit: float,
    variants_limit: float,
    runs: int,
    resume: bool,
    limit: float,
    minutes: float,
    beside: int,
    pairs: int,
    out: Path,
) -> None:
    chosen = [loop for loop in LOOPS if not only or loop.name in only]
    with compiled(limit):
        plan = Plan(runs, limit, beside, time.monotonic() + 60 * minutes, machine(pairs), Pairs(pairs))
        renewed(chosen, plan, out, resume=resume)
    sections: list[tuple[float, Callable[[], str]]] = [
        (variants_limit, lambda: forward(variants_limit)),
        (printed_limit, lambda: comparison(chosen, printed_limit)),
    ]
    for _, section in (one for one in sections if one[0]):
        out.write_text(out.read_text(encoding="utf-8") + "\n" + section(), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
