# pyright: basic, reportMissingImports=false
"""What Twill hands to Triton, on a Hopper GPU, beside Triton's own schedule of the same TTGIR.

    python benchmarks/handed_over.py build BINARIES      # anywhere with Triton: schedules, compiles
    python benchmarks/handed_over.py measure BINARIES    # with the GPU: values and times

`gluon` is `twill export --to gluon`; `pipeline` and `tasks` are `twill schedule --triton`, through Triton's
passes; `triton3` and `triton4` are Triton's own schedule with 3 and 4 stages. Every kernel is compared with
the reference of examples/kernels.py; times are medians of interleaved rounds with a flushed L2.
"""

import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cubins import Binary, write

ROOT = Path(__file__).resolve().parent.parent
KERNELS = (
    *("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction", "fa_fwd", "fa_fwd_subtiled", "fa_fwd_causal"),
    *("fa_bwd", "fa_bwd_subtiled"),
)
STAGES = (3, 4)
"""With which Triton schedules a kernel itself."""
TASK_WARPS = 4
"""Warps of the modules that Triton's warp specialization for Hopper takes."""
TOLERANCE = 5e-3
"""Norm of the error by the norm of what is right, where an example does not say."""


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("binaries", type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, type=click.Choice(KERNELS))
def build(binaries: Path, only: tuple[str, ...]) -> None:
    """Schedule the examples and compile them with Triton, each in every form."""
    for kernel in only or KERNELS:
        folder = binaries / kernel
        folder.mkdir(parents=True, exist_ok=True)
        for form, problem in [("gluon", _gluon(kernel, folder)), *_attributes(kernel, folder)]:
            click.echo(f"{kernel} {form}: {problem or 'compiled'}")


def _twill(*words: object) -> str:
    """Runs the command; the last line of a failure."""
    command = [sys.executable, "-m", "twill", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    return (errors or [done.stderr[-200:]])[0] if done.returncode else ""


def _source(kernel: str) -> Path:
    return ROOT / "examples" / "ttgir" / f"{kernel}.sm90.ttgir"


def _function(kernel: str) -> Any:
    from twill.extract.reader.ttgir import read

    source = _source(kernel)
    return next(one for one in read(source.read_text(), str(source)).functions if one.public)


def _names(kernel: str) -> list[str]:
    return [value.name.lstrip("%") for value in _function(kernel).args]


def _gluon(kernel: str, folder: Path) -> str:
    """What went wrong; nothing where it is compiled."""
    from twill.extract.frontend.gluon import compiled

    problem = _twill("export", _source(kernel), "--arch", "sm90", "--to", "gluon", "--out", folder.resolve())
    if problem:
        return problem
    made = compiled((folder / f"{kernel}_gluon.py").read_text(), _function(kernel), "sm90")
    fits = write(folder / "gluon.cubin", made.ptx, made.cubin, made.shared_bytes, _names(kernel))
    return "" if fits else f"{made.shared_bytes} bytes of shared memory"


def _attributes(kernel: str, folder: Path) -> list[tuple[str, str]]:
    """Attributes, and Triton's own schedules."""
    from twill.extract.frontend.triton_passes import OVERWRITING

    text, nothing = _source(kernel).read_text(), frozenset[str]()
    found = [(f"triton{n}", _finished(kernel, folder / f"triton{n}", text, n, nothing)) for n in STAGES]
    warps = f'"ttg.num-warps" = {TASK_WARPS} ' in text
    dialects = {"pipeline": OVERWRITING, **({"tasks": nothing} if warps else {})}
    for dialect, skipped in dialects.items():
        out = (folder / dialect).resolve()
        problem = _twill("schedule", _source(kernel), "--arch", "sm90", "--triton", dialect, "--out", out)
        handed = sorted(out.glob("*.ttgir"))
        if problem or len(handed) != 1:
            found.append((dialect, problem or "has several loops, which are annotated one by one"))
        else:
            found.append((dialect, _finished(kernel, folder / dialect, handed[0].read_text(), 3, skipped)))
    return found


def _finished(kernel: str, path: Path, text: str, stages: int, skipped: frozenset[str]) -> str:
    """What went wrong with the rest of Triton's passes; nothing where they compile it."""
    from twill.diagnostics import TwillError
    from twill.extract.frontend.triton import finish

    warps = re.search(r'"ttg.num-warps" = (\d+)', text)
    assert warps
    try:
        made = finish(text, "sm90", int(warps[1]), num_stages=stages, skipped=skipped)
    except TwillError as error:
        return error.message
    fits = write(path.with_suffix(".cubin"), made.ptx, made.cubin, made.shared_bytes, _names(kernel))
    return "" if fits else f"{made.shared_bytes} bytes of shared memory"


# --- on the GPU -------------------------------------------------------------------------------------------


@main.command()
@click.argument("binaries", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rounds", default=7, show_default=True)
@click.option("--length", default=8192, show_default=True, help="Of the sequences in attention.")
@click.option("--heads", default=64, show_default=True)
def measure(binaries: Path, rounds: int, length: int, heads: int) -> None:
    """A line for each kernel and form: error, milliseconds, speed beside the faster of Triton's schedules."""
    wrong = list[str]()
    click.echo(f"{'kernel':18}{'form':10}{'error':>9}{'ms':>9}{'x Triton':>10}")
    for folder in sorted(path for path in binaries.iterdir() if any(path.glob("*.cubin"))):
        shape = {"length": length, "heads": heads} if folder.name.startswith("fa_") else {}
        wrong += _compared(folder, shape, rounds)
    if wrong:
        raise click.ClickException(f"wrong values: {', '.join(wrong)}")


def _case(kernel: str, shape: Mapping[str, int]) -> Any:
    """The case of an example, on fresh random arrays."""
    import torch

    from twill.bench.case import Case

    names = runpy.run_path(str(ROOT / "examples" / "kernels.py"))
    given = {**names["TWILL"][kernel], **names["TWILL"][kernel].get("sm90", {})}
    types = {"fp16": torch.float16, "fp32": torch.float32}
    pointers = {key: kind for key, kind in given.items() if str(kind).startswith("*")}
    settings = {**given, **{key: types[kind[1:].split(":")[0]] for key, kind in pointers.items()}}
    return Case(**names["BENCH"][kernel]["case"](settings, **shape))


def _compared(folder: Path, shape: Mapping[str, int], rounds: int) -> list[str]:
    from twill.bench.measure import times

    case = _case(folder.name, shape)
    assert case.reference
    runs, errors = dict[str, Any](), dict[str, float]()
    for path in sorted(folder.glob("*.cubin")):
        binary = Binary(path)
        case.poison()
        binary.launch(case.grid, case.arguments)
        pairs = case.reference().values()
        errors[path.stem] = max(float((a.double() - b.double()).norm() / b.double().norm()) for a, b in pairs)
        runs[path.stem] = lambda binary=binary: binary.launch(case.grid, case.arguments)
    ms = {name: found.median for name, found in times(runs, rounds).items()}
    best = min((time for name, time in ms.items() if name.startswith("triton")), default=0.0)
    for name, time in sorted(ms.items()):
        click.echo(f"{folder.name:18}{name:10}{errors[name]:9.1e}{time:9.3f}{best / time:10.2f}")
    return [f"{folder.name} {one}" for one, off in errors.items() if not off <= (case.tolerance or TOLERANCE)]


if __name__ == "__main__":
    main()
