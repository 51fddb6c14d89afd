"""The portfolio (`--engine auto`) beside each engine alone, as reports/engines.md.

    python benchmarks/engines.py                          # every loop with every engine, an hour on two cores
    python benchmarks/engines.py --only fa_fwd.sm100 --engine cpsat --limit 20 --out part.md

Each is one `twill schedule` command with the same time limit. Its CPU time, with that of its processes, is
reported beside the answer, since that depends least on what else the machine does. `auto` loses where an
engine alone has a smaller interval, or a larger proven bound for the same form of the loop.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import machine, table
from speed_record import Outcome
from speed_runs import ARCHS

ENGINES = ("cpsat", "sat", "yices", "cbc", "scip")


@dataclass(frozen=True, slots=True)
class Query:
    """A loop, and the words of the command that ask for it."""

    name: str
    words: tuple[str, ...]


def example(name: str, *more: str) -> Query:
    return Query(" ".join((name, *more)), (f"examples/ttgir/{name}.ttgir", *more))


QUERIES = (
    *(example(f"{name}.{arch}") for name in ("gemm", "dual_gemm", "gemm_reduction") for arch in ARCHS),
    *(example(f"{name}.{arch}") for name in ("fa_fwd", "fa_fwd_subtiled", "fa_bwd") for arch in ARCHS),
    *(example(f"{name}.{arch}") for name in ("fa_fwd_causal", "fa_bwd_subtiled") for arch in ARCHS),
    *(example("fa_fwd.sm100", "--resolution", units) for units in ("30", "60", "120")),
    *(example(f"fa_fwd.{arch}", "--max-in-flight", "8") for arch in ARCHS),
)
"""The examples; the forward loop on Blackwell, whose answer has four iterations in flight, in coarser time,
which engines on literals are made for; and loops with twice as many in flight."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command says of its loops, and the CPU time that it took."""

    loops: tuple[Outcome, ...]
    cpu: float

    @property
    def text(self) -> str:
        """Interval, with the bound that is proven where it is not optimal, of each loop; CPU seconds."""
        answers = " / ".join(map(_answer, self.loops))
        return f"{answers or 'failed'}, {self.cpu:.1f} s"


def _answer(one: Outcome) -> str:
    if one.status == "optimal":
        return f"**{one.interval}**"
    return f"{'-' if one.interval is None else one.interval} ({one.proved})"


def run(query: Query, engine: str, limit: float) -> Ran:
    """The command; no loops where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--engine", engine, "--time-limit", str(limit), "--no-drawings", "--out", folder]
        command = [sys.executable, "-m", "twill", "schedule", *query.words, *words]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, used = os.wait4(process.pid, 0)
        return Ran(Outcome.all_in(Path(folder)), used.ru_utime + used.ru_stime)


def loses(auto: Ran, others: Iterable[Ran]) -> bool:
    """An engine alone has a smaller interval, or a larger bound of the same form (whole tiles or sub-tiles),
    for one of the loops."""
    return any(
        _worse(mine, other) for ran in others for mine, other in zip(auto.loops, ran.loops, strict=False)
    )


def _worse(mine: Outcome, other: Outcome) -> bool:
    found = other.interval is not None and (mine.interval is None or other.interval < mine.interval)
    return found or (other.ops == mine.ops and other.proved > mine.proved)


def report(rows: Sequence[tuple[Query, dict[str, Ran]]], engines: Sequence[str], limit: float) -> str:
    """The table."""
    cells = (
        (
            query.name,
            *(ran[engine].text for engine in ("auto", *engines)),
            "yes" if loses(ran["auto"], (ran[engine] for engine in engines)) else "no",
        )
        for query, ran in rows
    )
    return "\n".join(
        (
            "# The portfolio beside its engines\n",
            f"Made by `python benchmarks/engines.py --limit {limit:g}`: {machine()}\n",
            f"`twill schedule` with a limit of {limit:g} s for the search of a loop: the interval, in bold"
            " where it is proven optimal, else with the bound that is proven, of each loop; then CPU seconds"
            " of the whole command. Auto loses where an engine alone has a smaller interval, or a larger"
            " bound for the same form of the loop (whole tiles or sub-tiles).\n",
            table(("loop", "auto", *engines, "auto loses"), cells),
        )
    )


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--only", multiple=True, type=click.Choice([query.name for query in QUERIES]))
@click.option("--engine", "engines", multiple=True, type=click.Choice(ENGINES), help="All by default.")
@click.option("--limit", type=float, default=60.0, show_default=True, help="Seconds for each search.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("reports/engines.md"),
    show_default=True,
)
def main(only: tuple[str, ...], engines: tuple[str, ...], limit: float, out: Path) -> None:
    engines, rows = engines or ENGINES, list[tuple[Query, dict[str, Ran]]]()
    for query in (query for query in QUERIES if not only or query.name in only):
        print(query.name, file=sys.stderr, flush=True)
        rows.append((query, {engine: run(query, engine, limit) for engine in ("auto", *engines)}))
        out.write_text(report(rows, engines, limit), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
