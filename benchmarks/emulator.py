"""Writes reports/emulator.md: what the emulator has executed, from whom the PTX is, and whether the results
were right.

python benchmarks/emulator.py [DIR ...]

Each DIR is a folder with another Triton (pip install --target DIR --no-deps triton==3.5.1). Runs the tests of
tests/emulate that execute compiled kernels, and notes each launch: a row of the table is a test that passed
or failed. Needs nvcc and Triton; a GPU is not used.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from twill.emulate import HazardError, Kernel

OURS = ("tests/emulate/test_examples.py", "tests/emulate/test_blackwell.py")
TRITON = ("tests/emulate/test_triton.py", "tests/emulate/test_triton_blackwell.py")
REPORT = Path("reports/emulator.md")
HEAD = """# PTX executed on the CPU

Made by `python benchmarks/emulator.py` on {date} with Python {python}, nvcc {nvcc}, {sources}; no GPU.
Each row is a kernel that `twill.emulate` executed instruction by instruction, with late asynchronous
operations and all hazards checked. Kernels of nvcc are Twill's generated CUDA, compared with the TTGIR
executed in NumPy. Kernels of Triton are those of tests/emulate/triton_kernels.py and gluon_kernels.py,
compared with NumPy; GEMM of small integers must agree bit for bit.

{launches} launches, {opcodes} different opcodes with their modifiers ({blackwell} of tcgen05 and
clusterlaunchcontrol), {wrong} wrong, {reported} in which a hazard is reported. Seconds are of the execution
alone, on a machine with 2 cores that other work shares. What is reported of Triton is what the PTX ISA leaves
undefined: Triton 3.5 stores data over mbarriers that it did not invalidate.

| kernel | parameters | PTX of | target | instructions | opcodes | time | result |
| --- | --- | --- | --- | --- | --- | --- | --- |"""
TAIL = """
Not executed: `call`, `wmma`, sparse MMA, `tcgen05.shift` and `.ws`, im2col and gather modes of TMA,
`multimem`, textures. Such an instruction is an error with its line. This report compares with no GPU's bits.

Of the 58 instructions for tensor memory, barriers, TMA and pairs of floats that Twill's kernels of the tests
for sm_100a have, 43 are in Triton's PTX with the same modifiers. Ten more differ in a word or a width:
mbarrier with .acquire or .release, loads and reductions by TMA with .tile, of five dimensions, or without a
group, x16 and x32, .rm and .ftz, block16 in a pair. Triton's kernels lack tcgen05.fence and bulk copies
without a tensor map. What these do is checked against the TTGIR, and by the machine's own tests, alone.
"""


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: str
    target: str
    opcodes: tuple[str, ...]
    instructions: int
    seconds: float
    reported: str = ""
    """What was reported about it."""


@dataclass(slots=True)
class Recorder:
    """A pytest plugin: the launches of each test, and whether it passed."""

    launches: list[Launch] = field(default_factory=list[Launch])
    rows: list[tuple[str, bool, tuple[Launch, ...]]] = field(
        default_factory=list[tuple[str, bool, tuple[Launch, ...]]]
    )

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.rows.append((report.nodeid, report.passed, tuple(self.launches)))
            self.launches.clear()

    def launched(self, plain: Callable[..., None]) -> Callable[..., None]:
        """`Kernel.launch`, noted."""

        def launch(kernel: Kernel, *arguments: Any, **options: Any) -> None:
            start, reported = time.perf_counter(), ""
            try:
                plain(kernel, *arguments, **options)
            except HazardError as problem:
                reported = problem.message
                raise
            finally:
                used = tuple(sorted({one.opcode for one in kernel.function.instructions}))
                count, name = len(kernel.function.instructions), kernel.function.name
                name = re.sub(r"^_Z\d+(\w+?)_kernel.*", r"\1", name)
                spent = time.perf_counter() - start
                self.launches.append(
                    Launch(name, kernel.module.text.target, used, count, spent, reported.split(",")[0])
                )

        return launch


@dataclass(frozen=True, slots=True)
class Row:
    """A launch of a test."""

    source: str
    parameters: str
    launch: Launch
    passed: bool

    @property
    def result(self) -> str:
        if self.passed:
            return "right"
        return f"reported: {self.launch.reported}" if self.launch.reported else "wrong"


def recorded(tests: Sequence[str], source: str) -> list[Row]:
    """Runs tests in this process."""
    recorder, plain = Recorder(), Kernel.launch
    setattr(Kernel, "launch", recorder.launched(plain))  # noqa: B010
    pytest.main([*tests, "-q", "-n", "0", "-p", "no:cacheprovider"], plugins=[recorder])
    setattr(Kernel, "launch", plain)  # noqa: B010
    found = list[Row]()
    for test, passed, launches in recorder.rows:
        detail = re.search(r"\[(.*)\]$", test)
        name = detail[1] if detail and source != "nvcc" else ""
        found += [Row(source, name, one, passed) for one in launches]
    return found


def elsewhere(folder: str) -> list[Row]:
    """The rows of the Triton in a folder, from a process of its own."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "rows.json"
        places = os.pathsep.join([folder, str(Path.cwd())])
        environment = {**os.environ, "PYTHONPATH": places, "TRITON_CACHE_DIR": made}
        subprocess.run([sys.executable, __file__, "--rows", str(file)], env=environment, check=True)
        held = json.loads(file.read_text())
    return [Row(**one | {"launch": Launch(**one["launch"])}) for one in held]


def shown(row: Row) -> str:
    one = row.launch
    return (
        f"| {one.kernel} | {row.parameters} | {row.source} | {one.target} | {one.instructions} |"
        f" {len(one.opcodes)} | {one.seconds:.1f} s | {row.result} |"
    )


def document(rows: Sequence[Row]) -> str:
    opcodes = {opcode for row in rows for opcode in row.launch.opcodes}
    blackwell = {opcode for opcode in opcodes if opcode.startswith(("tcgen05", "clusterlaunch"))}
    wrong = sum(row.result == "wrong" for row in rows)
    reported = sum(row.result.startswith("reported") for row in rows)
    nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release ([\d.]+)", nvcc)
    sources = sorted({row.source for row in rows} - {"nvcc"})
    head = HEAD.format(
        date=time.strftime("%Y-%m-%d"),
        python=platform.python_version(),
        nvcc=release and release[1],
        sources=" and ".join(sources),
        launches=len(rows),
        opcodes=len(opcodes),
        blackwell=len(blackwell),
        wrong=wrong,
        reported=reported,
    )
    return "\n".join([head, *map(shown, rows), TAIL])


def main(arguments: Sequence[str]) -> None:
    source = f"Triton {metadata.version('triton')}"
    os.environ["TWILL_EVERY_KERNEL"] = "1"
    if arguments[:1] == ["--rows"]:
        rows = [asdict(row) for row in recorded(TRITON, source)]
        Path(arguments[1]).write_text(json.dumps(rows), encoding="utf-8")
        return
    rows = [*recorded(OURS, "nvcc"), *recorded(TRITON, source)]
    for folder in arguments:
        rows += elsewhere(folder)
    REPORT.write_text(document(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
