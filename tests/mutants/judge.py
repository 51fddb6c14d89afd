"""Whether the package that is imported generates right code for some kernels: `python -m tests.mutants.judge
[--simulate] KERNEL...`.

Prints one line of JSON: the judge that found a defect and what it found, or two empty strings. The judges,
the cheapest first: the generator itself, the simulator of warp programs, nvcc, and the machine that executes
PTX.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kernels.builds import numbers
from tests.kernels.programs import (
    CARRIED,
    CLUSTERED,
    EXAMPLES,
    INVARIANT,
    PAIRED,
    architecture,
    joined,
    loops,
    program,
)
from twill.diagnostics import TwillError
from twill.emulate import HazardError
from twill.emulate.build import Build, Request, run, wrong
from twill.emulate.host import compiled
from twill.launch.build import RUNTIME
from twill.launch.describe import manifest
from twill.simulate.compare import compare, scalars
from twill.simulate.explore import explore, same

SMALL: Mapping[str, Mapping[str, float]] = {
    "gathered": {"M": 100, "N": 120, "K": 200},
    "gathered_rows": {"M": 100},
    **{kernel: {"K": 256} for kernel in CARRIED},
    "gemm_persistent_independent": {"M": 256, "N": 256, "K": 256},
    **{kernel: {"M": 80, "N": 272} for kernel in INVARIANT},
}
"""Scalar arguments of kernels in other forms."""
FURTHER: Mapping[str, Sequence[Request]] = {
    "gemm": (
        *(Request({"M": 128, "N": 256, "K": k}, integers=True) for k in (40, 200, 64 * 9)),
        *(Request({"M": 128, "N": 256, "K": 320}, integers=True, schedule=schedule) for schedule in (1, 2)),
        Request({"M": 256, "N": 256, "K": 64}, grid=(2, 1, 1)),
        Request({"M": 128, "N": 256, "K": 0}),
    ),
    "gemm.sm100": (Request({"M": 128, "N": 256, "K": 64 * 6}),),
    "circling": (Request({"M": 128, "N": 208}, grid=(2, 1, 1)),),
    "gemm_pairs.sm100": (Request({"M": 256, "N": 256, "K": 64 * 9}, grid=(2, 1, 1)),),
    "gemm_reduction_pairs.sm100": (Request({"M": 256, "N": 256, "K": 64 * 9}, grid=(2, 1, 1)),),
    "gemm_clustered": (Request({"M": 256, "N": 256, "K": 64 * 9}, grid=(2, 1, 1), schedule=1),),
    "gemm_persistent": (Request({"M": 256, "N": 512, "K": 200}),),
    "gemm_persistent_independent": (
        Request({"M": 256, "N": 512, "K": 64}),
        Request({"M": 256, "N": 512, "K": 200}, schedule=1),
    ),
    "gemm_persistent.sm100": (Request({"M": 256, "N": 512, "K": 200}),),
    "fa_fwd": (Request({"heads": 2, "length": 256, "scale": 0.09}, grid=(2, 2, 1)),),
    "fa_bwd": (Request({"heads": 1, "length": 256, "scale": 0.09}, grid=(2, 1, 1)),),
    "batched": (Request({}, grid=(1, 2, 3)),),
    "pointers": (Request({}, schedule=1), Request({"K": 0})),
    "bumped": (
        Request({"M": 128, "N": 128, "K": 80, "stride": 128}, integers=True),
        Request({"M": 144, "N": 112, "K": 200, "stride": 208}),
    ),
}
"""Runs besides the first: ragged ends, few iterations and many, other orders of what is asynchronous, several
programs. The last of `bumped` is loaded by copies, as its rows wrap around inside of a tile; the two programs
of `fa_bwd` add to the same rows."""


@dataclass(frozen=True, slots=True)
class Found:
    """The first defect; nothing where `judge` is empty."""

    judge: str = ""
    what: str = ""


def found(kernels: Sequence[str], *, simulate: bool) -> Found:
    """The first defect that a judge finds."""
    try:
        for kernel in kernels:
            program(kernel)
        text = joined(kernels)
    except (TwillError, AssertionError, ValueError, LookupError) as problem:
        return Found("generator", str(problem))
    simulated = (
        next((one for kernel in kernels if (one := _simulated(kernel)).judge), Found())
        if simulate
        else Found()
    )
    return simulated if simulated.judge else _emulated(kernels, text)


def _simulated(kernel: str) -> Found:
    place = {"pid.x": 0, "pid.y": 0, "pid.z": 0, "grid.x": 1, "grid.y": 1, "grid.z": 1}
    made, given = program(kernel), _given(kernel)
    try:
        compared = compare(made, scalars(made.function, given), place)
        for trips in range(4 if kernel not in EXAMPLES or kernel == "gemm" else 0):
            explore(made, same(trips))
    except TwillError as problem:
        return Found("simulator", problem.message)
    bad = next((one for one in compared if not one.good), None)
    return Found("simulator", f"{bad.argument} differs by {bad.error:.1e}") if bad else Found()


def _given(kernel: str) -> Mapping[str, float]:
    return numbers(kernel) if kernel.removesuffix(".sm100") in EXAMPLES else SMALL.get(kernel, {})


def _emulated(kernels: Sequence[str], text: str) -> Found:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "all.cu"
        file.write_text(text)
        try:
            host = compiled(file, Path(folder), [RUNTIME], f"{architecture(kernels[0]).removeprefix('sm')}a")
        except TwillError as problem:
            return Found("nvcc", problem.message)
        for kernel in kernels:
            _, scheduled = loops(kernel)
            made = program(kernel)
            described = manifest(made, scheduled, dict.fromkeys((one.loop.path for one in scheduled), 1.0))
            for request in _requests(kernel):
                one = _executed(
                    Build(replace(described, name=kernel.replace(".", "_")), made.function, host), request
                )
                if one.judge:
                    return Found(one.judge, f"{kernel}: {one.what}")
    return Found()


def _requests(kernel: str) -> Iterator[Request]:
    """Pairs and clusters are of two thread blocks, with rows of their own."""
    paired = Request({**numbers(kernel), "M": 256}, grid=(2, 1, 1))
    yield paired if kernel in (*PAIRED, *CLUSTERED) else Request(_given(kernel))
    yield from FURTHER.get(kernel, ())


def _executed(build: Build, request: Request) -> Found:
    try:
        compared = run(build, request)
    except HazardError as problem:
        return Found("emulator: hazard", problem.message)
    except TwillError as problem:
        return Found("emulator: error", problem.message)
    bad = wrong(build, compared)
    return Found("emulator: values", f"{bad.argument} differs by {bad.error:.1e}") if bad else Found()


if __name__ == "__main__":
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    print(
        json.dumps(
            asdict(
                found(
                    [word for word in sys.argv[1:] if word not in options], simulate="--simulate" in options
                )
            )
        )
    )
