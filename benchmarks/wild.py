"""How far kernels of other projects get, as reports/wild.md.

    python benchmarks/wild.py SNAPSHOTS --out reports/wild.md [--limit 20] [--names NAMES.json] [NAME ...]
    python benchmarks/wild.py SNAPSHOTS --arch sm100 --brief --out reports/wild.md

SNAPSHOTS is a folder of TTGIR, `NAME.ttgir` or `NAME/**/kernel.ttgir`; the kernels are their projects' and
stay outside of the repository. NAMES.json may give a kernel's source, `{"NAME": "project: file: kernel"}`.
Each kernel is scheduled, generated, built where nvcc is installed, and its values are compared on the CPU, in
a process of its own with a limit of time. With --brief, kernels are scheduled and generated alone. Each
architecture has its part of the report; the rest of the file stays.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from wild_report import PARTS, Row, in_short, report, with_part, without_rows

from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.generate import files, generate
from twill.generation.generated import Generated, GenerateOptions
from twill.inputs import Inputs, cases
from twill.ir.program import Program
from twill.ir.schedule import Result
from twill.ir.search import Options
from twill.launch.build import build
from twill.pipeline import solve
from twill.simulate.check import grid_arguments, walkable
from twill.simulate.compare import compare, scalars

SEEDS = 12
"""Random memories that are tried until a kernel writes something (a loaded size may be zero)."""
PLACE = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 3, "grid.y": 2, "grid.z": 1}


@click.command(help=__doc__)
@click.argument("snapshots", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("names", nargs=-1)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("reports/wild.md"),
    show_default=True,
)
@click.option("--limit", default=20.0, show_default=True, help="Seconds for the search of each loop.")
@click.option("--patience", default=300.0, show_default=True, help="Seconds for everything about one kernel.")
@click.option(
    "--names",
    "sources",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Sources of the kernels, JSON.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for what is generated and built, one folder for each kernel.",
)
@click.option("--arch", type=click.Choice(list(PARTS)), default="sm90", show_default=True)
@click.option("--brief", is_flag=True, help="Schedule and generate: no values, no PTX, no build.")
@click.option("--jobs", default=1, show_default=True, help="Kernels that are tried at the same time.")
@click.option(
    "--rows",
    "kept_rows",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON lines of what is done; kernels that it has already are not tried again.",
)
@click.option(
    "--section",
    default="",
    help="Heading of another part of the report; rows of its kernels go out of other parts.",
)
@click.option("--one", "single", hidden=True, is_flag=True, help="Try one kernel, print its row as JSON.")
def main(
    snapshots: Path,
    names: tuple[str, ...],
    out: Path,
    limit: float,
    patience: float,
    sources: Path | None,
    keep: Path | None,
    arch: str,
    brief: bool,
    jobs: int,
    kept_rows: Path | None,
    section: str,
    single: bool,
) -> None:
    found = kernels(snapshots)
    if single:
        once = in_brief if brief else tried
        click.echo(json.dumps(asdict(once(names[0], found[names[0]], arch, limit, keep))))
        return
    chosen = names or tuple(sorted(found))
    named: dict[str, str] = json.loads(sources.read_text()) if sources else {}
    options = ["--limit", str(limit), "--arch", arch, *(["--brief"] if brief else [])]
    options += ["--keep", str(keep)] if keep else []
    done = written_rows(kept_rows)
    part = partial(in_short if brief else report, sources=named, arch=arch, limit=limit, heading=section)
    for row in tried_rows([name for name in chosen if name not in done], snapshots, patience, options, jobs):
        done[row.name] = row
        if kept_rows:
            kept_rows.write_text("".join(json.dumps(asdict(one)) + "\n" for one in done.values()))
        written([done[name] for name in chosen if name in done], part, out)
    rows = [done[name] for name in chosen]
    written(rows, part, out)
    if section:
        left = without_rows(out.read_text(encoding="utf-8"), [row.cells(named)[0] for row in rows], section)
        out.write_text(left, encoding="utf-8")


def written(rows: Sequence[Row], part: Callable[[Sequence[Row]], str], out: Path) -> None:
    """The report with this part as far as its kernels are done."""
    text = out.read_text(encoding="utf-8") if out.exists() else ""
    out.write_text(with_part(text, part(rows)), encoding="utf-8")


def written_rows(path: Path | None) -> dict[str, Row]:
    """The rows of an earlier run by the kernel's name."""
    lines = path.read_text().splitlines() if path and path.exists() else []
    rows = [Row(**json.loads(line)) for line in lines]
    return {row.name: row for row in rows}


def tried_rows(
    names: Sequence[str], snapshots: Path, patience: float, options: Sequence[str], jobs: int
) -> Iterator[Row]:
    """Rows in the order in which kernels are done: a slow one keeps no other from being written."""
    with ThreadPoolExecutor(jobs) as pool:
        alone = partial(apart, snapshots, patience=patience, options=options)
        for future in as_completed([pool.submit(alone, name) for name in names]):
            yield future.result()


def kernels(snapshots: Path) -> dict[str, Path]:
    """TTGIR by the name of the kernel."""
    nested = {path.relative_to(snapshots).parts[0]: path for path in sorted(snapshots.rglob("kernel.ttgir"))}
    return nested | {path.stem: path for path in sorted(snapshots.glob("*.ttgir"))}


def apart(snapshots: Path, name: str, patience: float, options: Sequence[str]) -> Row:
    """One kernel in a process of its own."""
    command = [sys.executable, __file__, str(snapshots), name, "--one", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
        row = (
            Row(**json.loads(done.stdout.splitlines()[-1]))
            if done.returncode == 0
            else Row(name, remarks="crashed: " + last(done.stderr))
        )
    except subprocess.TimeoutExpired:
        row = Row(name, remarks=f"not done within {patience:g} s")
    click.echo(f"{name}: {row.interval} {row.generated} {row.values} {row.built} {row.remarks}", err=True)
    return row


def last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


# --- one kernel -------------------------------------------------------------------------------------------


def tried(name: str, path: Path, arch: str, limit: float, keep: Path | None) -> Row:
    """As `twill codegen` does it: another schedule where ptxas spills."""
    inputs = Inputs(str(path), arch=arch, persistent=None)
    options = GenerateOptions(time_limit=limit, execute=True)
    try:
        made = generate(inputs, options)
    except TwillError as problem:
        return Row(name, generated="no", remarks=said(problem))
    built, warnings = compiled(made, keep / name if keep else None)
    if warnings and (other := without_warnings(inputs, options, made, warnings)):
        made = other
        built, warnings = compiled(made, keep / name if keep else None)
    intervals = ", ".join(interval(result) for result in made.results.values())
    notes = "; ".join((*made.program.warnings, *warnings))
    return Row(name, intervals, "yes", compared(made.program), executed(made), built, notes)


def in_brief(name: str, path: Path, arch: str, limit: float, keep: Path | None) -> Row:
    """Scheduled and generated; intervals also where no code can be generated."""
    inputs = Inputs(str(path), arch=arch)
    try:
        made = generate(inputs, GenerateOptions(time_limit=limit, check=False))
    except TwillError as problem:
        return Row(name, scheduled(inputs, limit), "no", remarks=said(problem))
    notes = "; ".join(made.program.warnings)
    return Row(name, ", ".join(interval(result) for result in made.results.values()), "yes", remarks=notes)


def scheduled(inputs: Inputs, limit: float) -> str:
    """The intervals of the loops by themselves; empty where one has no schedule."""
    try:
        found = [solve(case.problem, Options(time_limit=limit, explain=False)) for case in cases(inputs)]
    except TwillError:
        return ""
    return ", ".join(map(interval, found)) if all(result.solution for result in found) else ""


def executed(made: Generated) -> str:
    """What executing the PTX before the kernel is written says."""
    runs = [run for run in (made.checked.runs if made.checked else ()) if run.by == "emulator"]
    if not runs:
        return "no"
    return f"right ({runs[-1].error:.0e})" if runs[-1].values else f"not compared: {runs[-1].skipped}"


def interval(result: Result) -> str:
    """In machine cycles, with the proven lower bound."""
    assert result.solution is not None
    scale = result.problem.resolution.cycles_per_unit
    return f"{round(result.solution.interval * scale)} ({round(result.proved * scale)})"


def said(problem: TwillError) -> str:
    """The first line of an error with the line of the text, without the file."""
    line = f"line {problem.location.line}: " if problem.location else ""
    return line + problem.message.splitlines()[0]


def compared(program: Program) -> str:
    """The largest relative error of what the kernel writes, beside its TTGIR executed as it stands; of a
    persistent kernel one tile, since others may write to the same places with these arguments."""
    numbers = {**scalars(program.function, {}), **dict.fromkeys(grid_arguments(program), 1)}
    place = walkable(program, numbers, PLACE)
    try:
        for seed in range(SEEDS):
            found = [one for one in compare(program, numbers, place, seed) if one.changed]
            if found:
                worst = max(found, key=lambda one: one.error)
                return (
                    f"right ({worst.error:.0e})"
                    if all(one.good for one in found)
                    else f"wrong: {worst.argument} {worst.error:.0e}"
                )
    except TwillError as problem:
        return f"not compared: {said(problem)}"
    return "nothing is written"


def compiled(made: Generated, keep: Path | None) -> tuple[str, tuple[str, ...]]:
    """What nvcc makes of it, and what ptxas warns of."""
    if shutil.which("nvcc") is None:
        return "no nvcc", ()
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files(made).items():
            if name in ("kernel.cu", "kernel.json"):
                write(folder / name, text())
        try:
            return "yes", build(folder)
        except TwillError as problem:
            return "no", (said(problem),)


if __name__ == "__main__":
    main()
