# pyright: basic
# pyright: reportMissingImports=false
"""One kernel measured on all its shapes: values, time beside its peers, cycles beside what was predicted.

Takes what a user names; gives a `Report`. Needs PyTorch and a Hopper GPU. Raises TwillError where a value is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from twill.bench import profile
from twill.bench.case import Case, Shape
from twill.bench.contenders import TRITON, TWILL, Field, field
from twill.bench.measure import Spread, cycles, times
from twill.bench.once import Request
from twill.codegen.load import load
from twill.diagnostics import TwillError
from twill.extract.arguments import from_text
from twill.extract.ttgir import loops, read
from twill.generate import Wishes, built
from twill.inputs import Inputs
from twill.ir.loop import Module
from twill.simulate.compare import TOLERANCE
from twill.simulate.trips import trips

ROUNDS, CYCLE_ROUNDS = 15, 7


@dataclass(frozen=True, slots=True)
class Timed:
    """One contender on one shape."""

    name: str
    ms: Spread
    tflops: float | None
    counted: profile.Counted | None
    """By ncu; None where it is not used."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One shape."""

    shape: Mapping[str, int]
    errors: Mapping[str, float]
    """Of each output: norm of the difference by the norm of what is right."""
    contenders: tuple[Timed, ...]
    triton: Mapping[str, Any] | None
    """The options with which Triton's compilation is fastest."""

    def ratio(self, peer: str) -> float:
        """How many times as fast as a peer."""
        by_name = {one.name: one.ms.median for one in self.contenders}
        return by_name[peer] / by_name[TWILL]


@dataclass(frozen=True, slots=True)
class Steady:
    """Cycles per iteration of a loop."""

    path: str
    scheduled: int
    predicted: float
    measured: float
    trips: tuple[int, int]
    """Iterations of the two runs from whose difference it follows."""


@dataclass(frozen=True, slots=True)
class Report:
    """One kernel."""

    kernel: str
    shapes: tuple[Measured, ...]
    loops: tuple[Steady, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a kernel is measured."""

    shapes: tuple[Shape, ...] = ()
    """None for those that the kernel's file names."""
    rounds: int = ROUNDS
    triton: bool = True
    cycles: bool = True
    """Count cycles with ncu, where it is installed."""


def bench(inputs: Inputs, wishes: Wishes, folder: Path | None, wanted: Wanted) -> Report:
    """Of `FILE.py:function`; `folder` is where it was built, None to build it first."""
    arch, settings = inputs.arch or "sm90", from_text(dict(inputs.settings))
    kernel = load(folder or built(inputs, wishes))
    text = kernel.folder / "kernel.ttgir"
    module = read(text.read_text(), str(text))
    lineup = field(inputs.spec, arch, settings, kernel)
    shapes = wanted.shapes or lineup.bench.shapes
    timed = list[Measured]()
    options: Mapping[str, Any] | None = None
    for i, shape in enumerate(shapes):
        case = lineup.case(shape)
        if i == 0 and wanted.triton:
            options = lineup.tuned(case)
        timed.append(_timed(lineup, case, {**lineup.bench.defaults, **shape}, options, wanted.rounds))
    steady, notes = _steady(lineup, module)
    if wanted.cycles and profile.available():
        request = Request(inputs.spec, arch, settings, str(lineup.kernel.folder), tuple(shapes), tuple(one.triton for one in timed))
        timed = _with_cycles(timed, request)
    return Report(lineup.bench.kernel, tuple(timed), steady, (*lineup.kernel.warnings, *notes))


# --- values and time --------------------------------------------------------------------------------------------------


def _timed(lineup: Field, case: Case, shape: Shape, triton: Mapping[str, Any] | None, rounds: int) -> Measured:
    contenders = lineup.contenders(case, triton)
    errors = values(lineup, case)
    found = times(contenders, rounds)
    rows = (Timed(name, ms, _tflops(case, ms), None) for name, ms in found.items())
    return Measured(shape, errors, tuple(rows), triton)


def _tflops(case: Case, ms: Spread) -> float | None:
    return round(case.flops / ms.median / 1e9, 1) if case.flops else None


def values(lineup: Field, case: Case) -> dict[str, float]:
    """Run the kernel on poisoned outputs; relative errors of the outputs. Raises TwillError where one is too large."""
    case.poison()
    run = lineup.contenders(case, None)[TWILL]
    run()
    compared = case.reference() if case.reference else _by_triton(lineup, case)
    errors = {name: _error(*pair) for name, pair in compared.items()}
    wrong = [name for name, (found, _) in compared.items() if not errors[name] <= _tolerance(found)]
    if wrong:
        raise TwillError(
            f"{lineup.bench.kernel} computes a wrong {wrong[0]}: relative error {errors[wrong[0]]:.1e}", help="please report this"
        )
    return errors


def _by_triton(lineup: Field, case: Case) -> dict[str, tuple[Any, Any]]:
    """What the kernel and Triton's compilation of it write."""
    found = {name: case.arguments[name].clone() for name in case.outputs}
    case.poison()
    lineup.contenders(case, {})[TRITON]()
    return {name: (found[name], case.arguments[name]) for name in case.outputs}


def _error(found: Any, right: Any) -> float:
    found, right = found.double(), right.double()
    return float((found - right).norm() / right.norm())


_NAMES = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float32": "f32", "float64": "f64"}


def _tolerance(found: Any) -> float:
    return TOLERANCE.get(_NAMES.get(str(found.dtype).removeprefix("torch."), ""), 0.0)


# --- cycles -----------------------------------------------------------------------------------------------------------


def _with_cycles(timed: Sequence[Measured], request: Request) -> list[Measured]:
    counted = profile.counted(request)
    return [replace(one, contenders=tuple(replace(row, counted=next(counted, None)) for row in one.contenders)) for one in timed]


def _steady(lineup: Field, module: Module) -> tuple[tuple[Steady, ...], tuple[str, ...]]:
    """Cycles per iteration of the loop whose trip count the shapes of the kernel's file change: the difference of two runs of one thread
    block per SM, by that of their iterations."""
    shapes = lineup.bench.shapes
    try:
        first, last = (_one_wave(lineup, module, shape) for shape in (shapes[0], shapes[-1]))
    except TwillError as unknown:
        return (), (f"cycles per iteration: not measured, {unknown.message}",)
    changed = [loop for loop in lineup.kernel.manifest.loops if first.trips[loop.path] != last.trips[loop.path]]
    if len(changed) != 1:
        return (), (f"cycles per iteration: not measured, the shapes change the trip counts of {len(changed)} loops, not of one",)
    (loop,) = changed
    counts = first.trips[loop.path], last.trips[loop.path]
    measured = (last.cycles() - first.cycles()) / (counts[1] - counts[0])
    return (Steady(loop.path, loop.scheduled, loop.simulated, round(measured, 1), counts),), ()


@dataclass(frozen=True, slots=True)
class _Wave:
    """One thread block for each SM at most."""

    trips: Mapping[str, int]
    """The most that a thread block takes of each loop."""
    cycles: Callable[[], float]


def _one_wave(lineup: Field, module: Module, shape: Shape) -> _Wave:
    import torch

    case = lineup.case(shape)
    grid = _clipped(case.grid, torch.cuda.get_device_properties(0).multi_processor_count)
    found = {loop.path: loop for loop in loops(module)}
    counts = {one.path: max(_trips(module, found[one.path], case, grid)) for one in lineup.kernel.manifest.loops}
    ordered = [case.arguments[argument.name] for argument in lineup.kernel.manifest.arguments]
    return _Wave(counts, lambda: cycles(lambda: lineup.kernel[grid](*ordered), CYCLE_ROUNDS))


def _clipped(grid: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The first thread blocks of a grid, as many as there are SMs at most."""
    sizes = list[int]()
    for size in grid:
        sizes.append(min(size, max(1, most)))
        most //= sizes[-1]
    return tuple(sizes)


def _trips(module: Module, loop: Any, case: Case, grid: tuple[int, ...]) -> list[int]:
    """Of every thread block."""
    numbers = {
        value.id: np.asarray(case.arguments[argument])
        for value in loop.function.args
        if isinstance(case.arguments.get(argument := value.name.lstrip("%")), int | float)
    }
    sizes = {f"grid.{axis}": size for axis, size in zip("xyz", (*grid, 1, 1), strict=False)}
    places = product(*(range(size) for size in grid))
    return [trips(loop.function, loop.op, numbers, sizes | _place(place)) for place in places]


def _place(place: tuple[int, ...]) -> dict[str, int]:
    return {f"pid.{axis}": at for axis, at in zip("xyz", (*place, 0, 0), strict=False)}
