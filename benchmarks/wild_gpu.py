# pyright: basic, reportMissingImports=false
"""Kernels of other projects on a Hopper GPU, beside Triton's own compilation of the same TTGIR.

    python benchmarks/wild_gpu.py prepare SNAPSHOTS BUILDS     # anywhere: Triton's binaries, for the GPU
    python benchmarks/wild_gpu.py measure BUILDS CASES.py OUT  # with the GPU: values and times
    python benchmarks/wild_gpu.py report OUT --date DAY        # counts and tables in reports/wild.md

SNAPSHOTS is the folder of TTGIR of `benchmarks/wild.py`, BUILDS the one that its --keep wrote. CASES.py has a
table `CASES`, as benchmarks/launches/cases.py has: by the name of a kernel, its launches, each with `label`,
`numbers` (scalar arguments by name), `arrays` (by name: element type, size, and "zeros", the standard
deviation of normal numbers or a function of the size), `grid`, and where wanted `time` (False: values only),
`tolerance`, `pointers` (arrays of addresses: by argument, the arrays) and `descriptors` (made by the host: by
argument, the array, its shape and the block). Both kernels start from the same memory; whatever either has
written is compared. Times are medians of rounds in random order with a flushed L2. Each kernel runs in a
process of its own, which ends with it; one process at a time uses the GPU, others start meanwhile.
"""

import fcntl
import importlib.util
import json
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.cubins import Binary, TensorMap, write
from benchmarks.launches.cases import CASES

STAGES = (3, 4)
"""With which Triton compiles a kernel; the faster one counts."""
ROUNDS, WARM = 9, 2
PATIENCE = 40
"""Seconds for one launch of both, with its arrays and times."""
SLEEP = 1_500_000
"""Cycles that the GPU waits while the host prepares a launch."""
TOLERANCE = 1e-2
"""Norm of the difference by the norm, where a case does not say."""
REPORT = Path(__file__).resolve().parent.parent / "reports" / "wild.md"
SPEEDS = REPORT.with_name("wild_speeds.json")
Runs = Mapping[str, Callable[[], None]]


@click.group(help=__doc__)
def main() -> None:
    pass


# --- Triton's binaries ------------------------------------------------------------------------------------


@main.command()
@click.argument("snapshots", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("builds", type=click.Path(exists=True, file_okay=False, path_type=Path))
def prepare(snapshots: Path, builds: Path) -> None:
    """Compile with Triton every kernel that has a build."""
    for folder in sorted(path.parent for path in builds.glob("*/kernel.so")):
        for stages in STAGES:
            compiled(snapshots / f"{folder.name}.ttgir", folder, stages)


def compiled(snapshot: Path, folder: Path, stages: int) -> None:
    """One binary, and what a launch needs to know of it."""
    from twill.extract.frontend.triton import finish
    from twill.extract.reader.ttgir import read
    from twill.extract.rewrite.parameter_names import named_as_in_source

    text = snapshot.read_text()
    warps = re.search(r'"ttg.num-warps" = (\d+)', text)
    named = named_as_in_source(read(text, str(snapshot)))
    function = next(one for one in named.functions if one.public)
    assert warps
    made = finish(text, "sm90", int(warps[1]), num_stages=stages, skipped=frozenset())
    arguments = [value.name.lstrip("%") for value in function.args]
    write(folder / f"triton{stages}.cubin", made.ptx, made.cubin, made.shared_bytes, arguments)


# --- on the GPU -------------------------------------------------------------------------------------------


@main.command()
@click.argument("builds", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("cases", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--jobs", default=8, show_default=True, help="Kernels that are prepared at the same time.")
def measure(builds: Path, cases: Path, out: Path, jobs: int) -> None:
    """Compare values and times of every case that has a build."""
    table = launches(cases)
    folders = (path.parent for path in sorted(builds.glob("*/kernel.so")))
    with ThreadPoolExecutor(jobs) as pool, out.open("w", encoding="utf-8") as file:
        for found in pool.map(partial(apart, cases), (one for one in folders if one.name in table)):
            file.write(found)
            file.flush()
            click.echo(found, nl=False)


def apart(cases: Path, folder: Path) -> str:
    """Lines of a kernel's launches, measured in another process."""
    command = (sys.executable, __file__, "launch", str(folder), str(cases))
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout
    said = (done.stderr.strip().splitlines() or [""])[-1]
    ended = f"not done within {PATIENCE} s" if done.returncode == -signal.SIGALRM else said
    lost = {"name": folder.name, "case": "", "refused": ended or f"ended by signal {-done.returncode}"}
    return done.stdout + json.dumps(lost) + "\n"


@main.command("launch", hidden=True)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("cases", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def launched(folder: Path, cases: Path) -> None:
    """Print a line for each launch of a kernel."""
    import torch

    torch.cuda.init()
    for case in launches(cases)[folder.name]:
        with alone(folder.parent / "gpu.lock"):
            found = tried(folder, case)
        click.echo(json.dumps({"name": folder.name, "case": case["label"], **found}))
        sys.stdout.flush()


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """With the GPU, for so long at most; a launch that does not end takes its process with it."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        signal.alarm(PATIENCE)
        yield
        signal.alarm(0)


# --- the report -------------------------------------------------------------------------------------------


@main.command("report")
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--gpu", default="H200", show_default=True, help="What the rows were measured on.")
@click.option("--date", required=True, help="The day they were measured: YYYY-MM-DD.")
def write_report(rows: Path, gpu: str, date: str) -> None:
    """Keep the rows in reports/wild_speeds.json and write the part of reports/wild.md that has them."""
    import wild_speeds
    from wild_report import with_part

    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines() if line[:1] == "{"]
    speeds = wild_speeds.with_rows(wild_speeds.read(SPEEDS, gpu), found, date)
    wild_speeds.write(SPEEDS, gpu, speeds)
    part = wild_speeds.part(gpu, speeds, listed=CASES)
    REPORT.write_text(with_part(REPORT.read_text(encoding="utf-8"), part), encoding="utf-8")


# --- one launch -------------------------------------------------------------------------------------------


def launches(path: Path) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    found = importlib.util.spec_from_file_location("cases", path)
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.CASES


def tried(folder: Path, case: Mapping[str, Any]) -> dict[str, Any]:
    from twill.diagnostics import TwillError

    try:
        return compare(folder, case)
    except TwillError as problem:
        return {"refused": problem.message}


def compare(folder: Path, case: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    from twill.launch.load import load

    torch.manual_seed(0)
    before = {name: array(*how) for name, how in case["arrays"].items()}
    numbers = case["numbers"]
    kernel, binaries = (
        load(folder),
        {path.stem: Binary(path) for path in sorted(folder.glob("triton*.cubin"))},
    )
    if not binaries:
        return {"refused": "no binary of Triton: run prepare"}
    wanted = {one.name for one in kernel.manifest.arguments}

    right, mine = ({name: tensor.clone() for name, tensor in before.items()} for _ in range(2))
    addresses = {**numbers, **mine, **pointers(case, mine)}
    passed = {name: value for name, value in (addresses | for_twill(case, mine)).items() if name in wanted}
    theirs = {**numbers, **right, **pointers(case, right), **for_driver(case, right)}
    next(iter(binaries.values())).launch(case["grid"], theirs)
    kernel[case["grid"]](**passed)
    torch.cuda.synchronize()
    found: dict[str, Any] = {"errors": errors(before, right, mine)}
    found["wrong"] = [name for name, one in found["errors"].items() if one > case.get("tolerance", TOLERANCE)]
    if case.get("time", True):
        given = addresses | for_driver(case, mine)
        runs = {name: lambda one=one: one.launch(case["grid"], given) for name, one in binaries.items()}
        found["ms"] = times({"twill": lambda: kernel[case["grid"]](**passed), **runs})
        found["ratio"] = min(ms for name, ms in found["ms"].items() if name != "twill") / found["ms"]["twill"]
    return found


def pointers(case: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of addresses."""
    import torch

    listed = case.get("pointers", {}).items()
    return {
        name: torch.tensor([arrays[one].data_ptr() for one in names], device="cuda") for name, names in listed
    }


def for_twill(case: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Descriptors as a user passes them."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return {
        name: TensorDescriptor.from_tensor(arrays[one].view(*shape), list(block))
        for name, (one, shape, block) in case.get("descriptors", {}).items()
    }


def for_driver(case: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Descriptors as Triton passes them to the kernel: a tensor map, then the shape and the strides."""
    found = dict[str, Any]()
    for name, (one, shape, block) in case.get("descriptors", {}).items():
        matrix = arrays[one].view(*shape)
        found[name] = TensorMap(matrix, block)
        found |= {f"{name}.shape.{i}": size for i, size in enumerate(shape)}
        found |= {f"{name}.stride.{i}": stride for i, stride in enumerate(matrix.stride())}
    return found


def array(type: str, size: int, begin: Any) -> Any:
    """As it is before a launch."""
    import torch

    kinds = {"f8": "float8_e4m3fn", "f16": "float16", "f32": "float32", "i32": "int32", "i64": "int64"}
    dtype = getattr(torch, kinds.get(type, "bfloat16" if type == "bf16" else type))
    if callable(begin):
        made: Any = begin(size)
        return made.to(dtype).cuda()
    if begin == "zeros":
        return torch.zeros(size, dtype=dtype, device="cuda")
    return (torch.randn(size, device="cuda") * begin).to(dtype)


def errors(before: Mapping[str, Any], right: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, float]:
    """Of every array that either kernel has written; infinite where one of both is not finite."""
    found = dict[str, float]()
    for name in before:
        one, other, start = (array[name].double() for array in (right, mine, before))
        written = (one != start) | (other != start)
        if not written.any():
            continue
        one, other = one[written], other[written]
        finite = one.isfinite()
        same = bool((finite == other.isfinite()).all())
        off = (one[finite] - other[finite]).norm() / one[finite].norm().clamp_min(1e-30) if same else None
        found[name] = float("inf") if off is None else float(off)
    return found


def times(runs: Runs) -> dict[str, float]:
    """Milliseconds."""
    import torch

    junk, found = torch.empty(2**28, dtype=torch.int8, device="cuda"), {name: [] for name in runs}
    for number in range(ROUNDS + WARM):
        for name in random.sample(list(runs), len(runs)):
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            junk.zero_()
            torch.cuda._sleep(SLEEP)
            began.record()
            runs[name]()
            ended.record()
            ended.synchronize()
            if number >= WARM:
                found[name].append(began.elapsed_time(ended))
    return {name: median(values) for name, values in found.items()}


if __name__ == "__main__":
    main()
