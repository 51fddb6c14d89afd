"""Measures the costs a tile-level scheduler uses, on the Hopper GPU of this machine.

Takes nothing but `nvcc` and a GPU: builds `calibrate.cu` beside this file, runs it, and writes its records as JSON with
the device, the date and the command that made them (`results/<device>.json`). `the_only` and `per_kib` turn
records into the numbers of a machine file. All numbers are SM cycles.

    python benchmarks/calibrate/calibrate.py [OUTPUT]
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parents[1] / "twill" / "codegen" / "runtime"
FLAGS = ("-std=c++17", "-O3", "-gencode=arch=compute_90a,code=sm_90a")


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement: `once` is a lone repeat's latency, `each` the slope over many (occupancy), in cycles.

    Beside a neighbour that keeps the tensor core busy, `once` is None: only the slope has a meaning there.
    """

    name: str
    parameters: dict[str, str | int]
    once: float | None
    each: float


@dataclass(frozen=True, slots=True)
class Line:
    """`base` + `slope` per KiB, in cycles: the least-squares fit of a size sweep."""

    base: float
    slope: float


def build(output: Path) -> None:
    """Compiles the microbenchmarks to `output`."""
    command = ("nvcc", *FLAGS, f"-I{RUNTIME}", "-o", str(output), str(HERE / "calibrate.cu"))
    subprocess.run(command, check=True)


def measure() -> tuple[dict[str, Any], tuple[Record, ...]]:
    """Builds and runs the microbenchmarks: what they ran on, and their records in order."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "calibrate"
        build(program)
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    device, *records = map(json.loads, lines)
    return device, tuple(Record(**record) for record in records)


def select(records: tuple[Record, ...], name: str, **parameters: str | int) -> tuple[Record, ...]:
    """The records of `name` that have all of `parameters`, in order."""
    return tuple(r for r in records if r.name == name and parameters.items() <= r.parameters.items())


def the_only(records: tuple[Record, ...], name: str, **parameters: str | int) -> Record:
    """The one record that matches. Raises LookupError unless exactly one does."""
    matches = select(records, name, **parameters)
    if len(matches) != 1:
        raise LookupError(f"{len(matches)} records of {name} match {parameters}")
    return matches[0]


def per_kib(points: tuple[tuple[float, float], ...]) -> Line:
    """Fits (bytes, cycles) points of a sweep. Needs two sizes or more."""
    sizes = [size / 1024 for size, _ in points]
    cycles = [y for _, y in points]
    mean_size, mean_cycles = sum(sizes) / len(sizes), sum(cycles) / len(cycles)
    spread = sum((s - mean_size) ** 2 for s in sizes)
    slope = sum((s - mean_size) * (c - mean_cycles) for s, c in zip(sizes, cycles, strict=True)) / spread
    return Line(mean_cycles - slope * mean_size, slope)


def load(path: Path) -> tuple[Record, ...]:
    """The records of a results file."""
    return tuple(Record(**record) for record in json.loads(path.read_text())["records"])


def document(device: dict[str, Any], records: tuple[Record, ...], date: str) -> str:
    """The results file: one record a line, so that two runs compare line by line."""
    head = {"schema": 1, **device, "date": date, "command": "python benchmarks/calibrate/calibrate.py"}
    rows = [json.dumps({"name": r.name, "parameters": r.parameters, "once": r.once, "each": r.each}) for r in records]
    body = ",\n    ".join(rows)
    return json.dumps(head, indent=2)[:-2] + f',\n  "records": [\n    {body}\n  ]\n}}\n'


def main() -> None:
    """Measures and writes the results file."""
    device, records = measure()
    default = HERE / "results" / f"{device['device'].split()[-1].lower()}.json"
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(document(device, records, datetime.date.today().isoformat()))
    print(f"{len(records)} records written to {output}")


if __name__ == "__main__":
    main()
