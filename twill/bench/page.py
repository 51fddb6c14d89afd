# pyright: reportMissingImports=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
"""What was measured, as text and as JSON (`twill.bench/1`).

Takes `Report`s; gives text. Ratios are above 1 where the generated kernel is faster.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from twill.bench.contenders import TWILL
from twill.bench.run import Measured, Report, Steady, Timed

SCHEMA = "twill.bench/1"


def text(report: Report) -> str:
    """A table for each shape, then cycles per iteration."""
    lines = [line for one in report.shapes for line in _shape(report.kernel, one)]
    lines += [line for loop in report.loops for line in _loop(loop)]
    return "\n".join([*lines, *(f"warning: {warning}" for warning in report.warnings)])


def _shape(kernel: str, one: Measured) -> list[str]:
    errors = ", ".join(f"{name} {error:.1e}" for name, error in one.errors.items())
    lines = [f"{kernel} {named(one.shape)}: relative errors {errors}"]
    return [*lines, *(f"  {row.name:<8} {_row(row, one)}" for row in one.contenders)]


def named(shape: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in shape.items())


def _row(row: Timed, one: Measured) -> str:
    parts = [f"{row.ms.median:.4f} ms ({row.ms.low:.4f} to {row.ms.high:.4f})"]
    parts += [f"{row.tflops:.0f} TFLOP/s"] if row.tflops else []
    if row.counted:
        main = f" ({row.counted.main / 1e6:.3f} in its longest kernel)" if row.counted.main else ""
        parts += [f"{row.counted.cycles / 1e6:.3f} M cycles{main}, tensor core {row.counted.tensor:.1f}%"]
    parts += [] if row.name == TWILL else [f"twill is {one.ratio(row.name):.3f} times as fast"]
    parts += [f"with {named(one.triton)}"] if row.name == "triton" and one.triton else []
    return "  ".join(parts)


def _loop(loop: Steady) -> list[str]:
    off = loop.predicted / loop.measured - 1
    first, last = loop.trips
    runs = "whole grids, cycles of a thread block" if loop.grid else "one thread block per SM"
    return [
        f"{loop.path}: {loop.measured:.0f} cycles per iteration measured, {loop.predicted:.0f} predicted"
        f" ({off:+.1%}), {loop.scheduled} scheduled; from runs of {first} and {last} iterations, {runs}"
    ]


def document(report: Report) -> str:
    """JSON of one report."""
    return json.dumps(record({report.kernel: report}), indent=2)


def record(reports: Mapping[str, Report]) -> dict[str, Any]:
    """The machine, then every report by its name."""
    return {
        "schema": SCHEMA,
        "machine": machine(),
        "reports": {name: asdict(report) for name, report in reports.items()},
    }


def machine() -> dict[str, str]:
    """The GPU in this machine and what drives it."""
    import torch

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split("\n")[0].strip()
    return {
        "gpu": torch.cuda.get_device_name(0),
        "driver": driver,
        "cuda": str(torch.version.cuda),
        "pytorch": torch.__version__,
    }
