"""Writes reports/emulator.md: what the emulator has executed, from whom the PTX is, and whether the results
were right.

python benchmarks/emulator.py

Runs the tests of tests/emulate that execute compiled kernels, and notes each launch: a row of the table is a
test that passed or failed. Needs nvcc and Triton; a GPU is not used.
"""

import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from twill.emulate.module import Kernel

TESTS = ("tests/emulate/test_examples.py", "tests/emulate/test_triton.py", "tests/emulate/test_blackwell.py")
REPORT = Path("reports/emulator.md")


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: str
    target: str
    opcodes: frozenset[str]
    instructions: int
    seconds: float


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
            start = time.perf_counter()
            plain(kernel, *arguments, **options)
            used = frozenset(one.opcode for one in kernel.function.instructions)
            count = len(kernel.function.instructions)
            name = re.sub(r"^_Z\d+(\w+?)_kernel.*", r"\1", kernel.function.name)
            self.launches.append(
                Launch(name, kernel.module.text.target, used, count, time.perf_counter() - start)
            )

        return launch


def rows(recorder: Recorder) -> Iterator[str]:
    for test, passed, launches in recorder.rows:
        source = "Triton" if "test_examples" not in test else "nvcc"
        parameters = re.search(r"\[(.*)\]$", test)
        for one in launches:
            detail = parameters[1] if parameters and source == "Triton" else ""
            yield (
                f"| {one.kernel} | {detail} | {source} | {one.target} | {one.instructions} |"
                f" {len(one.opcodes)} | {one.seconds:.1f} s | {'right' if passed else 'wrong'} |"
            )


def document(recorder: Recorder) -> str:
    launches = [one for _, _, held in recorder.rows for one in held]
    opcodes = {opcode for one in launches for opcode in one.opcodes}
    wrong = sum(not passed for _, passed, _ in recorder.rows)
    nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"release ([\d.]+)", nvcc)
    triton = __import__("triton").__version__
    head = [
        "# PTX executed on the CPU",
        "",
        (
            f"Made by `python benchmarks/emulator.py` on {time.strftime('%Y-%m-%d')} with Python"
            f" {platform.python_version()},"
        ),
        (
            f"nvcc {release and release[1]} and Triton {triton}; no GPU. Each row is a kernel that"
            " `twill.emulate` executed instruction by"
        ),
        (
            "instruction, with late asynchronous operations and all hazards checked. Kernels of nvcc are"
            " Twill's generated CUDA, compared with"
        ),
        (
            "the TTGIR executed in NumPy. Kernels of Triton are those of tests/emulate/triton_kernels.py,"
            " compared with NumPy; GEMM of small"
        ),
        "integers must agree bit for bit.",
        "",
        (
            f"{len(launches)} launches, {len(opcodes)} different opcodes with their modifiers, {wrong} wrong."
            " Seconds are of the execution"
        ),
        "alone, on a machine with 2 cores that other work shares.",
        "",
        "| kernel | parameters | PTX of | target | instructions | opcodes | time | result |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *rows(recorder),
        "",
        (
            "Not executed: `call`, `wmma`, sparse MMA, im2col and gather modes of TMA, `multimem`, textures."
            " Such an instruction is an error"
        ),
        "with its line. This report compares with no GPU's bits.",
        "",
    ]
    return "\n".join(head)


def main(arguments: Sequence[str] = ()) -> None:
    recorder = Recorder()
    plain = Kernel.launch
    setattr(Kernel, "launch", recorder.launched(plain))  # noqa: B010
    tests = [test for test in TESTS if Path(test).exists()]
    pytest.main([*tests, "-q", "-n", "0", "-p", "no:cacheprovider", *arguments], plugins=[recorder])
    REPORT.write_text(document(recorder), encoding="utf-8")


if __name__ == "__main__":
    main()
