# pyright: reportMissingImports=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Time and cycles of contenders on the GPU in this machine.

Takes functions that launch kernels; gives milliseconds, or cycles. Contenders are interleaved, in random
order in each round: what runs before a contender cools or heats the card, and beside a fixed neighbour its
time changes by up to 10%. Before each, the L2 is flushed, and a kernel that sleeps lets the host run
ahead, so that nobody is charged for its own launch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from random import Random
from statistics import median, quantiles

from twill.bench.case import Run
from twill.diagnostics import TwillError

SLEEP = 1_500_000
"""Cycles: more than the slowest host side of a launch takes (about 0.1 ms)."""
SPIN = 100_000
"""Cycles by which the clock is measured: short relative to the time in which the clock changes."""
SEED = 0
"""Of the order of contenders, the same in every run."""
WARM = 2
"""Rounds that do not count."""


GPUS: Mapping[str, tuple[tuple[int, int], str]] = {
    "sm90": ((9, 0), "a Hopper GPU (H100, H200)"),
    "sm100": ((10, 0), "a Blackwell GPU (B200)"),
}
"""By architecture: the compute capability that its kernels need, and the GPUs that have it."""


def present() -> str | None:
    """The architecture of this machine's GPU, of those that kernels are generated for; None where there is
    no such GPU, or no PyTorch."""
    if find_spec("torch") is None:
        return None
    import torch

    found = torch.cuda.get_device_capability() if torch.cuda.is_available() else None
    return next((arch for arch, (capability, _) in GPUS.items() if capability == found), None)


def ready(arch: str) -> None:
    """Raises TwillError where no kernel of an architecture can be measured."""
    if find_spec("torch") is None:
        raise TwillError(
            "measuring needs PyTorch, which is not installed",
            help="pip install torch; twill simulate needs no GPU",
        )
    if arch not in GPUS or present() != arch:
        what = GPUS[arch][1] if arch in GPUS else f"a GPU of {arch}"
        raise TwillError(f"measuring needs {what}, and there is none", help="twill simulate needs no GPU")


@dataclass(frozen=True, slots=True)
class Spread:
    """Repeated measurements."""

    median: float
    low: float
    """A quarter is below."""
    high: float
    """A quarter is above."""
    values: tuple[float, ...] = ()
    """All of them, as measured."""


def spread(values: list[float]) -> Spread:
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return Spread(middle, low, high, tuple(values))


def times(contenders: Mapping[str, Run], rounds: int) -> dict[str, Spread]:
    """Milliseconds of each."""
    import torch

    junk = torch.empty(_flushed(), dtype=torch.int8, device="cuda")
    found: dict[str, list[float]] = {name: [] for name in contenders}
    order = Random(SEED)
    for number in range(rounds + WARM):
        for name in order.sample(sorted(contenders, key=str), len(contenders)):
            torch.cuda._sleep(SLEEP)
            junk.zero_()
            (ms,) = _timed(contenders[name])
            if number >= WARM:
                found[name].append(ms)
    return {name: spread(values) for name, values in found.items()}


def _flushed() -> int:
    """Bytes that drive everything else out of the L2."""
    import torch

    return 4 * torch.cuda.get_device_properties(0).L2_cache_size


def _timed(*runs: Run) -> list[float]:
    """Milliseconds of each run, one right behind the other."""
    import torch

    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(runs) + 1)]
    events[0].record()
    for run, ended in zip(runs, events[1:], strict=True):
        run()
        ended.record()
    torch.cuda.synchronize()
    return [began.elapsed_time(ended) for began, ended in pairwise(events)]


def cycles(run: Run, rounds: int) -> float:
    """SM cycles that a run takes: its time, by the clock that a kernel which counts cycles shows right behind
    it.

    Less sure than a profiler: in a run of more than a millisecond the power limit changes the clock
    meanwhile.
    """
    import torch

    found = list[float]()
    for _ in range(rounds + WARM):
        torch.cuda._sleep(SLEEP)
        ms, spin = _timed(run, lambda: torch.cuda._sleep(SPIN))
        found.append(ms * SPIN / spin)
    return median(found[WARM:])
