"""How long the examples take, as reports/speed.md: whole `twill schedule` commands, start to files written,
without drawings.

    python benchmarks/speed.py            # all of it, about fifteen minutes on two cores
    python benchmarks/speed.py --only gemm.sm90 --printed 5 --out part.md

Each loop is run with the time it may take to a proof; where that command takes longer than an answer may, it
is run again with the time that an answer may take. The paper's encoding, as printed, runs on the same problem
in normalized units, for which it needs small numbers.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from measure import ask, machine, seconds, table

import twill
from benchmarks.paper_encoding import algorithm1
from twill.ir.search import IN_FLIGHT, Options

OVERHEAD = 1.8
"""Seconds of a command's time limit kept back for starting, reading, checking and writing."""

UNITS = 60
"""Normalized durations sum to this many units where the printed encoding is compared."""

RULES_OFF = (
    "--no-rule",
    "ffma",
    "--no-rule",
    "stream_rmw",
    "--no-rule",
    "stream_store",
    "--no-rule",
    "chain",
)


@dataclass(frozen=True, slots=True)
class Loop:
    """A row of the table: seconds that an answer, and its proof, may take."""

    name: str
    answer: float
    proof: float | None
    more: tuple[str, ...] = ()
    folder: str = "examples/ttgir"

    @property
    def spec(self) -> str:
        return f"{self.folder}/{self.name}.ttgir"


LOOPS = (
    *(
        Loop(f"{name}.{arch}", 2, 2)
        for name in ("gemm", "dual_gemm", "gemm_reduction")
        for arch in ("sm90", "sm100")
    ),
    Loop("fa_fwd_subtiled.sm90", 3, 5),
    Loop("fa_fwd_subtiled.sm100", 5, 30),
    *(Loop(f"{name}.{arch}", 10, 60) for name in ("fa_bwd", "fa_bwd_subtiled") for arch in ("sm90", "sm100")),
    Loop("fa_fwd_four.sm100", 15, None, (*RULES_OFF, "--groups", "6"), "benchmarks"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One command: how long it took, when it first had an answer, and what it wrote."""

    wall: float
    first: float | None
    schedule: Mapping[str, Any]


def run(loop: Loop, limit: float) -> Run:
    """The command, every event of its search told at once."""
    told = "import twill.cli.progress as p, twill.cli; p.PATIENCE = 0.0; twill.cli.main()"
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            "schedule",
            loop.spec,
            "--out",
            folder,
            "--no-drawings",
            "--time-limit",
            str(max(0.5, limit - OVERHEAD)),
            *loop.more,
        ]
        begin, first = time.monotonic(), None
        process = subprocess.Popen(
            [sys.executable, "-c", told, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in process.stderr or ():
            if first is None and " works, by " in line:
                first = time.monotonic() - begin
        process.wait()
        wall = time.monotonic() - begin
        return Run(wall, first, json.loads(Path(folder, "schedule.json").read_text(encoding="utf-8")))


HEAD = (
    "loop",
    "ops",
    "I",
    "proven I >=",
    "gap",
    "status",
    "first answer s",
    "answer s (limit)",
    "proof s (limit)",
    "kept",
)


def row(loop: Loop) -> tuple[object, ...]:
    """Both commands of a loop."""
    print(loop.name, file=sys.stderr, flush=True)
    proof = run(loop, loop.proof or loop.answer)
    answer = proof if proof.wall <= loop.answer or loop.proof is None else run(loop, loop.answer)
    interval, proved = proof.schedule["interval"], proof.schedule["bounds"]["proved"]
    optimal = proof.schedule["status"] == "optimal"
    kept = answer.schedule["interval"] is not None and answer.wall <= loop.answer
    proven = loop.proof is None or (optimal and proof.wall <= loop.proof)
    gap = "-" if interval is None else f"{100 * (interval - proved) / proved:.1f}%"
    return (
        loop.name,
        len(proof.schedule["ops"]),
        interval or "-",
        proved,
        gap,
        proof.schedule["status"],
        seconds(proof.first),
        f"{answer.wall:.1f} ({loop.answer:g})",
        f"{proof.wall:.1f} ({loop.proof:g})" if loop.proof else "-",
        "yes" if kept and proven else "answer only" if kept else "no",
    )


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


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([loop.name for loop in LOOPS]),
    help="Loops to run; all, and variants, by default.",
)
@click.option(
    "--printed",
    "printed_limit",
    type=float,
    default=60.0,
    show_default=True,
    help="Seconds for the printed encoding; 0 for none.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("reports/speed.md"),
    show_default=True,
)
def main(only: tuple[str, ...], printed_limit: float, out: Path) -> None:
    chosen = [loop for loop in LOOPS if not only or loop.name in only]
    parts = [
        "# Speed\n",
        f"Made by `python benchmarks/speed.py`: {machine()}\n",
        table(HEAD, map(row, chosen)),
    ]
    if not only:
        parts += [
            "## The paper's forward variants, infeasible at the smallest interval? (limit 10 s)\n",
            variants(10.0),
        ]
    if printed_limit:
        intro = (
            f"Booleans in Yices and CBC from I = 1, on durations normalized to {UNITS} units; limit"
            f" {printed_limit:g} s.\n"
        )
        rows = [printed(loop, printed_limit) for loop in chosen if not loop.more]
        parts += ["## The printed encoding on the same input\n", intro, table(PRINTED_HEAD, rows)]
    out.write_text("\n".join(parts), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
