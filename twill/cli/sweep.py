"""`twill sweep`: schedule and rank a grid of configurations."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from twill.cli import worker
from twill.cli.options import COUNTED, Command, CommandOptions, Folder, Option, Pair, Seconds, what_if_options

if TYPE_CHECKING:
    from twill.bench.ranking import Built, Ranking
    from twill.grid_time import Launch
    from twill.sweep import Configuration, Outcome

LOG = "sweep.jsonl"
ROUNDS = 15
"""Measurements of each configuration."""


@click.command(cls=Command, short_help="Schedule and rank a grid of configurations.")
@click.argument("spec")
@click.option("--arch", required=True, help="Architectures, such as sm90 or sm90,sm100.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    type=Pair("NAME=VALUES"),
    help="Values of a constant: 64,128 or START:END:STEP; repeatable.",
)
@click.option(
    "--shape",
    "numbers",
    multiple=True,
    type=Pair("NAME=VALUE", int),
    help="Scalar argument of the launch to rank for, with --grid; repeatable.",
)
@click.option(
    "--grid",
    metavar="EXPRESSION",
    help="Thread blocks of that launch, such as 'cdiv(M, BLOCK_M) * cdiv(N, BLOCK_N)'.",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Schedule on a Dask cluster: the address of its scheduler, such as tcp://host:8786.",
)
@what_if_options
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="N",
    help="Best configurations to write per architecture.",
)
@click.option(
    "--bench",
    "most",
    type=click.IntRange(min=2),
    metavar="K",
    help="Measure the best K on the local GPU, and show how the ranking held.",
)
@click.option(
    "--time-limit",
    type=Seconds(),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help=f"Time limit per loop, {COUNTED}.",
)
@click.option(
    "--out", type=Folder(), default=Path("sweep"), show_default=True, metavar="DIR", help="Output folder."
)
def sweep(spec: str, arch: str, settings: Sequence[tuple[str, str]], out: Path, **options: Option) -> None:
    """Schedule SPEC, FILE.py:FUNCTION, for every combination of settings.

    With --shape and --grid, ranks by the predicted cycles of that launch: waves of thread blocks, each with
    its prologue, steady state and epilogue. Otherwise ranks by multiply-adds per cycle of one SM in the
    steady state. Ties go to the lower load of the second busiest unit. A configuration whose lower bound
    excludes it from the best ones is not solved. Writes sweep.csv, configs.py (a list of triton.Config per
    architecture, for an autotuner), frontier.ARCH.svg (speed over shared memory) and sweep.jsonl, from which
    an interrupted sweep resumes. With --bench K, builds the best K for this GPU, compares their values and
    measures them on the case in the file's BENCH table (with the sizes of --shape); writes measured.csv, and
    puts those that were measured first in configs.py, the fastest first.

    \b
    twill sweep kernels.py:gemm --arch sm90 --set BLOCK_M=64,128 --set BLOCK_N=64,128,256
    """
    from twill.emit.files import write
    from twill.grid_time import Launch
    from twill.sweep import grid, ranked, triton_configs

    if bool(options["numbers"]) != bool(options["grid"]):
        raise click.UsageError("--shape and --grid belong together")
    archs = arch.split(",")
    _measurable(archs, options["most"])
    points = grid(archs, settings)
    found: dict[str, Outcome] = {}
    click.echo(f"{len(points)} configurations", err=True)
    log = out / LOG
    launch = Launch(dict(options["numbers"]), options["grid"]) if options["grid"] else None
    known = {key: one for key, one in _known(log).items() if one.launch == (launch.text if launch else "")}
    for outcome in _outcomes(spec, points, known, launch, options):
        found[outcome.key] = outcome
        if outcome.key not in known:
            _append(log, outcome)
        click.echo(f"{len(found)}/{len(points)}  {_line(outcome)}", err=True)
    best = ranked(found.values())
    contents = {"sweep.csv": _csv(best), **dict(_drawings(best, archs))}
    for outcome in best[: options["keep"] * len(archs)]:
        click.echo(_line(outcome))
    if options["most"]:
        from twill.bench.ranking import table, text

        ranking = _measured(spec, _measured_arch(archs), best, points, options)
        click.echo(text(ranking))
        contents["measured.csv"] = table(ranking)
        best = _fastest_first(best, ranking)
    contents["configs.py"] = triton_configs(best, archs, options["keep"])
    for name, content in contents.items():
        write(out / name, content)
        click.echo(f"wrote {out / name}", err=True)


def _measurable(archs: Sequence[str], most: int | None) -> None:
    """Raises an error, before anything is solved, where nothing could be measured."""
    if most is None:
        return
    from twill.bench.measure import ready

    ready(_measured_arch(archs))


def _measured_arch(archs: Sequence[str]) -> str:
    """The architecture of this machine's GPU, where that is one of those; else the first of them."""
    from twill.bench.measure import present

    return found if (found := present()) in archs and found is not None else archs[0]


def _measured(
    spec: str,
    arch: str,
    best: Sequence["Outcome"],
    points: Sequence["Configuration"],
    options: CommandOptions,
) -> "Ranking":
    """The best configurations that can be generated, built one after the other and then measured."""
    from twill.bench.ranking import measured
    from twill.diagnostics import TwillError

    wanted = [one.key for one in best if one.interval and one.key.split(" ")[0] == arch]
    found = list(islice(_builds(spec, arch, wanted, points, options), options["most"]))
    if not found:
        raise TwillError("none of the configurations can be generated", help="see the messages above")
    return measured(found, dict(options["numbers"]), ROUNDS)


def _builds(
    spec: str, arch: str, keys: Sequence[str], points: Sequence["Configuration"], options: CommandOptions
) -> Iterator["Built"]:
    """Configurations by their keys; those that can not be generated are left out, with a message."""
    from twill.bench.ranking import Built
    from twill.cli.options import inputs
    from twill.diagnostics import TwillError
    from twill.generation.builds.built import built
    from twill.generation.generated import GenerateOptions

    settings, given = {one.key: one.settings for one in points}, inputs(spec, options)
    limit = GenerateOptions(time_limit=options["time_limit"])
    for key in keys:
        click.echo(f"building {key}", err=True)
        mine = replace(given, arch=arch, settings=settings[key])
        try:
            folder = worker.watched(partial(built, mine, limit))
        except TwillError as problem:
            click.echo(f"not measured: {key}: {problem.message}", err=True)
        else:
            yield Built(key, mine, folder)


def _fastest_first(best: Sequence["Outcome"], ranking: "Ranking") -> Sequence["Outcome"]:
    """Those that were measured, then the others in their order."""
    rank = {key: at for at, (key, _) in zip(ranking.order, ranking.times, strict=True)}
    return sorted(best, key=lambda one: rank.get(one.key, len(best) + 1))


def _outcomes(
    spec: str,
    points: Sequence["Configuration"],
    known: dict[str, "Outcome"],
    launch: "Launch | None",
    options: CommandOptions,
) -> Iterator["Outcome"]:
    """The outcomes of the sweep; every search runs in a process that Ctrl-C kills."""
    from twill.cli.options import inputs
    from twill.ir.problem import Problem
    from twill.ir.schedule import Result
    from twill.ir.search import Options
    from twill.pipeline import solve
    from twill.sweep import one_by_one, swept

    search = Options(time_limit=options["time_limit"], explain=False)
    wanted = inputs(spec, options)
    if options["dask"]:
        from twill.cluster import connected

        cluster = connected(options["dask"], wanted, launch, search)
        found = swept(wanted, points, cluster.compute, known, options["keep"], launch, cluster.width)
        return _and_then(found, cluster.close)

    def solved(problem: Problem) -> Result:
        return worker.alone(lambda: solve(problem, search))

    return swept(wanted, points, one_by_one(solved, launch), known, options["keep"], launch)


def _and_then(outcomes: Iterator["Outcome"], close: Callable[[], None]) -> Iterator["Outcome"]:
    """All of them, and then an end of the connection, also after an error."""
    try:
        yield from outcomes
    finally:
        close()


def _drawings(best: Sequence["Outcome"], archs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The frontier of each architecture."""
    from twill.report.frontier import Point, draw
    from twill.report.scene import svg

    for arch in archs:
        solved = [one for one in best if one.key.split(" ")[0] == arch and one.worth]
        points = [Point(one.key.partition(" ")[2], one.shared, one.worth) for one in solved]
        if points:
            yield f"frontier.{arch}.svg", svg(draw(points, f"{arch}: configurations"))


def _known(log: Path) -> dict[str, "Outcome"]:
    """The outcomes of an earlier run; a last line that was cut off is ignored."""
    from twill.sweep import Outcome

    found = dict[str, Outcome]()
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        try:
            outcome = Outcome(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if outcome.status != "pruned":
            found[outcome.key] = outcome
    return found


def _append(log: Path, outcome: "Outcome") -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


def _line(outcome: "Outcome") -> str:
    interval = f"{outcome.interval:.0f} cycles" if outcome.interval else outcome.note or "-"
    time = f"{outcome.cycles:12.0f} cycles a launch " if outcome.cycles else ""
    return (
        f"{time}{outcome.rate:7.0f} MAC/cycle (bound {outcome.limit:.0f})  {outcome.key}  {outcome.status} "
        f" {interval}"
    )


def _csv(outcomes: Sequence["Outcome"]) -> str:
    from twill.sweep import row

    rows = [row(outcome) for outcome in outcomes]
    names = list(dict.fromkeys(name for one in rows for name in one))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
