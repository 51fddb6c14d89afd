"""SM cycles by Nsight Compute: steadier than time, which drifts with temperature and the power limit.

Takes a request; runs the contenders once more in a process of their own (`twill.bench.profile_target`) under
`ncu`; gives their cycles. Contenders are told apart by the sleeping kernels between them.
"""

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from twill.bench.profile_target import MARK, Request
from twill.diagnostics import TwillError

CYCLES, INSTRUCTIONS = "sm__cycles_elapsed.max", "sm__inst_executed.sum"
TENSOR_ACTIVE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"


@dataclass(frozen=True, slots=True)
class Counted:
    """What the counters say of one launch; several kernels are added up."""

    cycles: int
    """Of the SM that took longest."""
    tensor: float
    """Percent of them in which the tensor core worked."""
    instructions: int
    """Of warps, on all SMs."""
    main: int | None = None
    """Cycles of the longest kernel, where there are several."""


def available() -> bool:
    return shutil.which("ncu") is not None


def counted(request: Request) -> Iterator[Counted]:
    """For each run of the request, in order. Raises TwillError where ncu cannot read the counters."""
    command = [
        "ncu",
        "--csv",
        "--profile-from-start",
        "off",
        "--clock-control",
        "none",
        "--target-processes",
        "all",
    ]
    command += [
        "--metrics",
        ",".join((CYCLES, TENSOR_ACTIVE, INSTRUCTIONS)),
        sys.executable,
        "-m",
        "twill.bench.profile_target",
        request.text(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line for line in done.stdout.splitlines() if line.startswith('"')]
    if done.returncode or not rows:
        raise TwillError(
            f"ncu cannot count cycles: {(done.stderr or done.stdout).strip()[-400:]}", help="use --no-cycles"
        )
    kernels = dict[str, dict[str, str]]()
    for row in csv.DictReader(rows):
        kernels.setdefault(row["ID"], {"name": row["Kernel Name"]})[row["Metric Name"]] = row["Metric Value"]
    return _sections(list(kernels.values()))


def source_page(request: Request, kernel: str) -> str:
    """The CSV of ncu's source page, SASS with samples of every warp's next instruction, of one launch of the
    kernel called so. Raises TwillError where ncu can not take samples."""
    with tempfile.TemporaryDirectory() as folder:
        report = str(Path(folder) / "samples")
        options = ["--profile-from-start", "off", "--target-processes", "all", "--section", "SourceCounters"]
        options += [
            "--kernel-name",
            rf"regex:^{kernel}(_\d+_blocks)?(_tma)?_kernel$",
            "--launch-count",
            "1",
            "-o",
            report,
        ]
        run = [sys.executable, "-m", "twill.bench.profile_target", request.text()]
        done = subprocess.run(["ncu", *options, *run], capture_output=True, text=True, check=False)
        show = ["ncu", "-i", f"{report}.ncu-rep", "--page", "source", "--csv", "--print-source", "sass"]
        if done.returncode == 0:
            done = subprocess.run(show, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        raise TwillError(
            f"ncu cannot take samples: {(done.stderr or done.stdout).strip()[-400:]}",
            help="leave --profile out",
        )
    return done.stdout


def _sections(kernels: Sequence[dict[str, str]]) -> Iterator[Counted]:
    """The kernels between two marks."""
    section = list[dict[str, str]]()
    for kernel in kernels:
        if MARK not in kernel["name"]:
            section.append(kernel)
        elif section:
            yield _sum(section)
            section = []


def _sum(kernels: Sequence[dict[str, str]]) -> Counted:
    cycles = [_number(kernel[CYCLES]) for kernel in kernels]
    busy = sum(
        part * _number(kernel[TENSOR_ACTIVE]) for part, kernel in zip(cycles, kernels, strict=True)
    ) / sum(cycles)
    instructions = round(sum(_number(kernel[INSTRUCTIONS]) for kernel in kernels))
    main = round(max(cycles)) if len(cycles) > 1 else None
    return Counted(round(sum(cycles)), round(busy, 1), instructions, main)


def _number(text: str) -> float:
    """ncu groups digits and says `n/a` or nothing for what it cannot count."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")
