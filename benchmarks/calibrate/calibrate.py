"""Measures the costs a tile-level scheduler uses, on the Hopper or Blackwell GPU of this machine.

Takes nothing but `nvcc` and a GPU: builds `hopper.cu` or `blackwell.cu` beside this file, runs it, and writes
its records as JSON with the device, the date and the command that made them (`results/<device>.json`). All
numbers are SM cycles. `machine.py` puts those of a Blackwell GPU into its machine file.

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
RUNTIME = HERE.parents[1] / "twill" / "targets" / "runtime"
FLAGS = ("-std=c++17", "-O3")
SOURCES = {"9.0": ("hopper.cu", "90a"), "10.0": ("blackwell.cu", "100a"), "10.3": ("blackwell.cu", "103a")}
"""By compute capability: the microbenchmarks, and the architecture that they are compiled for."""


@dataclass(frozen=True, slots=True)
class Record:
    """One measurement: `once` is a lone repeat's latency, `each` the slope over many (occupancy), in cycles.

    Beside a neighbour that keeps the tensor core busy, `once` is None: only the slope has a meaning there.
    """

    name: str
    parameters: dict[str, str | int]
    once: float | None
    each: float


def capability() -> str:
    """Of this machine's first GPU, such as 10.0."""
    command = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader", "--id=0")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def build(output: Path, of: str) -> None:
    """Compiles the microbenchmarks of a compute capability to `output`."""
    if of not in SOURCES:
        sys.exit(f"there are no microbenchmarks for compute capability {of}, only {', '.join(SOURCES)}")
    source, arch = SOURCES[of]
    target = f"-gencode=arch=compute_{arch},code=sm_{arch}"
    command = ("nvcc", *FLAGS, target, f"-I{RUNTIME}", "-o", str(output), str(HERE / source))
    subprocess.run(command, check=True)


def measure() -> tuple[dict[str, Any], tuple[Record, ...]]:
    """Builds and runs the microbenchmarks: what they ran on, and their records in order."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "calibrate"
        build(program, capability())
        lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    device, *records = map(json.loads, lines)
    return device, tuple(Record(**record) for record in records)


def document(device: dict[str, Any], records: tuple[Record, ...], date: str) -> str:
    """The results file: one record a line, so that two runs compare line by line."""
    head = {"schema": 1, **device, "date": date, "command": "python benchmarks/calibrate/calibrate.py"}
    rows = [
        json.dumps({"name": r.name, "parameters": r.parameters, "once": r.once, "each": r.each})
        for r in records
    ]
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
