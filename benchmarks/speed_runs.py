"""The commands that reports/speed.md times: each loop of it, alone or beside a load, on cores of its own."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from speed_record import Outcome, Run

Cores = tuple[int, int] | None
"""The two that a command runs on, with all that it starts; None for all."""

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
    """A row of the table: an example, and the seconds that its answer, and its proof, are to take."""

    name: str
    answer: float
    proof: float | None
    more: tuple[str, ...] = ()
    folder: str = "examples/ttgir"

    @property
    def spec(self) -> str:
        return f"{self.folder}/{self.name}.ttgir"


ARCHS = ("sm90", "sm100")

WORKS = re.compile(r"(?P<loop>.*?): .* interval (?P<interval>\d+) works, by ")
"""A line of progress on a schedule."""

WARM = ("gemm.sm90", "fa_fwd_subtiled.sm100")
"""Run before all others, without and with solvers: Python then has compiled Twill, as an installation has."""

PATIENCE, MARGIN = 3.0, 120.0
"""A command is killed after so many times the limit of a search (it has two loops at most), and this many
seconds more."""

LOOPS = (
    *(
        Loop(f"{name}.{arch}", 0.6, 0.6)
        for name in ("gemm", "gemm_persistent", "dual_gemm", "gemm_reduction")
        for arch in ARCHS
    ),
    Loop("fa_fwd_subtiled.sm90", 1.5, 3),
    Loop("fa_fwd_subtiled.sm100", 3, 8),
    Loop("fa_fwd.sm90", 2, 8),
    Loop("fa_fwd.sm100", 3, 8),
    Loop("fa_fwd_causal.sm90", 6, 15),
    Loop("fa_fwd_causal.sm100", 10, 60),
    *(Loop(f"{name}.{arch}", 5, 15) for name in ("fa_bwd", "fa_bwd_subtiled") for arch in ARCHS),
    Loop("fa_fwd_four.sm100", 8, 15, (*RULES_OFF, "--groups", "6"), "benchmarks"),
    *(Loop(f"{name}_eight.sm100", 60, None, RULES_OFF, "benchmarks") for name in ("fa_fwd", "fa_bwd")),
)

LOOPS_BY_NAME = {loop.name: loop for loop in LOOPS}


def run(loop: Loop, limit: float, cores: Cores = None) -> Run:
    """The command on these cores, with a line for every event of its search."""
    told = bound(cores, "import twill.cli.progress as p, twill.cli; p.PATIENCE = 0.0; twill.cli.main()")
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["schedule", loop.spec, "--out", folder, "--no-drawings", "--time-limit", str(limit)]
        begin, lines = time.monotonic(), list[tuple[float, str]]()
        process = subprocess.Popen(
            [sys.executable, "-c", told, *arguments, *loop.more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        last = threading.Timer(PATIENCE * limit + MARGIN, process.kill)
        last.start()
        lines += [(time.monotonic() - begin, line) for line in process.stderr or ()]
        code = process.wait()
        last.cancel()
        wall = time.monotonic() - begin
        loops = Outcome.all_in(Path(folder))
        reached = answers(lines)
        answered = max(reached.values()) if len(reached) == len(loops) > 0 else None
        failed = f"exit status {code}: {lines[-1][1].strip() if lines else ''}" if code or not loops else ""
        return Run(wall, answered, loops, failed)


def answers(lines: Iterable[tuple[float, str]]) -> dict[str, float]:
    """When each loop had the smallest of its intervals first, from the lines of progress."""
    best, reached = dict[str, int](), dict[str, float]()
    for when, line in lines:
        found = WORKS.match(line)
        if found and int(found["interval"]) < best.get(found["loop"], int(found["interval"]) + 1):
            best[found["loop"]], reached[found["loop"]] = int(found["interval"]), when
    return reached


@contextmanager
def load(processes: int, cores: Cores = None) -> Generator[None]:
    """Keeps these cores busy with so many processes."""
    told = bound(cores, "while True: pass")
    busy = [subprocess.Popen([sys.executable, "-c", told]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def bound(cores: Cores, code: str) -> str:
    """Python code that runs on these cores."""
    return code if cores is None else f"import os; os.sched_setaffinity(0, {cores})\n{code}"


class Pairs:
    """Pairs of cores that measure side by side; a single one is not bound to any."""

    def __init__(self, count: int) -> None:
        """Raises ValueError where there are fewer cores."""
        cores = sorted(os.sched_getaffinity(0)) if count > 1 else []
        if 2 * count > max(2, len(cores)):
            raise ValueError(f"{count} pairs need {2 * count} cores, and there are {len(cores)}")
        self.count, self._free = count, Queue[Cores]()
        for pair in list(zip(cores[::2], cores[1::2], strict=False))[:count] or [None]:
            self._free.put(pair)

    @contextmanager
    def one(self) -> Generator[Cores]:
        """A pair that nothing else runs on meanwhile."""
        pair = self._free.get()
        try:
            yield pair
        finally:
            self._free.put(pair)
