# pyright: reportMissingImports=false
"""One kernel measured on all its shapes: values, time against its peers, predicted and measured cycles.

Takes what a user names, and where it was built; gives a `Report`. Needs PyTorch and a GPU of its
architecture. Raises TwillError where a value is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from statistics import mean

import numpy as np

from twill.bench import profile
from twill.bench.case import Case, Shape, Tensor, Values
from twill.bench.contenders import TRITON, TWILL, WAVE, Field, field, one_wave
from twill.bench.measure import Spread, cycles, times
from twill.bench.profile_target import Request, Runs
from twill.bench.stalls import Profile
from twill.bench.stalls import profile as attributed
from twill.diagnostics import TwillError
from twill.extract.dependence.loops import loops
from twill.extract.frontend.arguments import from_text
from twill.extract.frontend.persistent import GRID
from twill.extract.reader.ttgir import read
from twill.inputs import Inputs
from twill.ir.loop import Function, Loop, Module
from twill.launch.arrays import of_torch
from twill.launch.disassembly import disassembled
from twill.launch.folders import LIBRARY, SOURCE
from twill.launch.load import expanded, load
from twill.launch.manifest import Manifest
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
    triton: Values | None
    """What Triton is fastest with (`contenders.Field.tuned`)."""

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
    """Iterations of a thread block in the two runs from whose difference it follows."""
    grid: bool = False
    """The runs are of whole grids, whose thread blocks have so many iterations on average."""


@dataclass(frozen=True, slots=True)
class Report:
    """One kernel."""

    kernel: str
    shapes: tuple[Measured, ...]
    loops: tuple[Steady, ...]
    warnings: tuple[str, ...]
    """Of ptxas."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a kernel is measured."""

    shapes: tuple[Shape, ...] = ()
    """None for those that the kernel's file names."""
    rounds: int = ROUNDS
    triton: bool = True
    cycles: bool = True
    """Count cycles with ncu, where it is installed."""


def bench(inputs: Inputs, folder: Path, wanted: Wanted) -> Report:
    """For `FILE.py:function`, built in a folder."""
    arch, settings = inputs.arch or "sm90", from_text(dict(inputs.settings))
    kernel = load(folder)
    text = kernel.folder / "kernel.ttgir"
    module = read(text.read_text(), str(text))
    lineup = field(inputs.spec, arch, settings, kernel)
    shapes = wanted.shapes or lineup.bench.shapes
    timed = list[Measured]()
    for shape in shapes:
        case = lineup.case(shape)
        whole = {**lineup.bench.defaults, **shape}
        options = lineup.tuned(case, whole) if wanted.triton else None
        timed.append(_timed(lineup, case, whole, options, wanted.rounds))
    ends = lineup.bench.shapes[0], lineup.bench.shapes[-1]
    samples = _samples(lineup, module, ends)
    name = WAVE if samples[0].blocks == 1 else TWILL
    if wanted.cycles and profile.available():
        request = Request(inputs.spec, arch, settings, str(kernel.folder), ())
        timed, runs = _counted(request, timed, ends, name)
    else:
        runs = tuple(cycles(lineup.all(lineup.case(shape), shape, {})[name], CYCLE_ROUNDS) for shape in ends)
    steady = _steady(kernel.manifest, samples, runs)
    return Report(lineup.bench.kernel, tuple(timed), steady, kernel.warnings)


def stalls(inputs: Inputs, folder: Path, shape: Shape) -> tuple[Manifest, Profile]:
    """What the warps of a kernel built in a folder wait for. Raises TwillError where ncu, the disassembler or
    line information is missing."""
    arch, settings, kernel = inputs.arch or "sm90", from_text(dict(inputs.settings)), load(folder)
    if not profile.available():
        raise TwillError("ncu is not on the PATH", help="install Nsight Compute, or leave --profile out")
    listing = disassembled(folder / LIBRARY)
    if listing is None:
        raise TwillError("cuobjdump and nvdisasm are missing", help="install the CUDA toolkit, or Triton")
    request = Request(inputs.spec, arch, settings, str(kernel.folder), (Runs(shape, (TWILL,), {}),))
    page = profile.source_page(request, kernel.manifest.name)
    return kernel.manifest, attributed(page, listing, (folder / SOURCE).read_text())


# --- values and time --------------------------------------------------------------------------------------


def _timed(lineup: Field, case: Case, shape: Shape, triton: Values | None, rounds: int) -> Measured:
    names = (TWILL, *case.peers, *([TRITON] if triton else []))
    contenders = lineup.all(case, shape, triton or {})
    errors = values(lineup, case)
    found = times({name: contenders[name] for name in names}, rounds)
    rows = (Timed(name, ms, _tflops(case, ms), None) for name, ms in found.items())
    return Measured(shape, errors, tuple(rows), triton)


def _tflops(case: Case, ms: Spread) -> float | None:
    return round(case.flops / ms.median / 1e9, 1) if case.flops else None


def values(lineup: Field, case: Case) -> dict[str, float]:
    """Run the kernel on poisoned outputs; relative errors of the outputs. Raises TwillError where one is too
    large."""
    case.poison()
    lineup.own(case)()
    compared = case.reference() if case.reference else _by_triton(lineup, case)
    errors = {name: _error(*pair) for name, pair in compared.items()}
    wrong = [
        name
        for name, (found, _) in compared.items()
        if not errors[name] <= (case.tolerance or _tolerance(found))
    ]
    if wrong:
        raise TwillError(
            f"{lineup.bench.kernel} computes a wrong {wrong[0]}: relative error {errors[wrong[0]]:.1e}",
            help="please report this",
        )
    return errors


def _by_triton(lineup: Field, case: Case) -> dict[str, tuple[Tensor, Tensor]]:
    """What the kernel and Triton's compilation of it write."""
    found = {name: case.array(name).clone() for name in case.outputs}
    case.poison()
    lineup.by_triton(case, {}, {})()
    return {name: (found[name], case.array(name)) for name in case.outputs}


def _error(found: Tensor, right: Tensor) -> float:
    found, right = found.double(), right.double()
    return float((found - right).norm() / right.norm())


def _tolerance(found: Tensor) -> float:
    return TOLERANCE.get(of_torch(found.dtype), 0.0)


# --- cycles -----------------------------------------------------------------------------------------------


def _counted(
    request: Request, timed: Sequence[Measured], ends: Sequence[Shape], name: str
) -> tuple[list[Measured], tuple[int, ...]]:
    """With the cycles that ncu counts; and those of a contender on the first and the last shape of the
    kernel's file."""
    runs = [Runs(one.shape, tuple(row.name for row in one.contenders), one.triton or {}) for one in timed]
    runs += [Runs(shape, (name,), {}) for shape in ends]
    counted = iter(profile.counted(replace(request, runs=tuple(runs))))
    found = [
        replace(one, contenders=tuple(replace(row, counted=next(counted)) for row in one.contenders))
        for one in timed
    ]
    return found, tuple(one.cycles for one in counted)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a run of a kernel executes."""

    iterations: Mapping[str, float]
    """Of a thread block, by the path of their loop; empty where they are not known beforehand."""
    blocks: float = 1
    """Thread blocks that an SM takes one after the other, on average."""


def _samples(lineup: Field, module: Module, ends: Sequence[Shape]) -> list[Sample]:
    """One thread block for each SM at each of the shapes, where these have equal work; else whole grids: in a
    wave the longest block runs beside fewer and fewer others, unlike in a grid."""
    cases = [lineup.case(shape) for shape in ends]
    cases = [replace(case, arguments=expanded(lineup.kernel.manifest, case.arguments)) for case in cases]
    waves = [_iterations(lineup, module, case, one_wave(case.grid)) for case in cases]
    if all(len(set(found)) == 1 for wave in waves for found in wave.values()):
        return [Sample({path: found[0] for path, found in wave.items()}) for wave in waves]
    return [
        Sample(
            {path: mean(found) for path, found in _iterations(lineup, module, case, case.grid).items()},
            prod(case.grid) / prod(one_wave((prod(case.grid),))),
        )
        for case in cases
    ]


def _iterations(lineup: Field, module: Module, case: Case, grid: tuple[int, ...]) -> dict[str, list[int]]:
    """Of every thread block, by the path of their loop; empty where they are not known beforehand."""
    found = {loop.path: loop for loop in loops(module)}
    try:
        return {one.path: _trips(found[one.path], case, grid) for one in lineup.kernel.manifest.loops}
    except TwillError:
        return {}


def _steady(manifest: Manifest, samples: Sequence[Sample], runs: Sequence[float]) -> tuple[Steady, ...]:
    """Of the loop whose trip count changes from the first to the last shape, where it is one: the difference
    of the cycles of a thread block by that of its iterations, in which begin and end cancel out. Nothing
    where there are less than twice as many iterations: other things then differ by as much."""
    (first, last), (before, after) = samples, runs
    changed = [
        loop for loop in manifest.loops if first.iterations.get(loop.path) != last.iterations.get(loop.path)
    ]
    if len(changed) != 1:
        return ()
    (loop,) = changed
    ends = first.iterations[loop.path], last.iterations[loop.path]
    if ends[1] < 2 * ends[0]:
        return ()
    measured = round((after / last.blocks - before / first.blocks) / (ends[1] - ends[0]), 1)
    grid, trips = max(first.blocks, last.blocks) > 1, (round(ends[0]), round(ends[1]))
    return (Steady(loop.path, loop.scheduled, loop.simulated, measured, trips, grid),)


def _trips(loop: Loop, case: Case, grid: tuple[int, ...]) -> list[int]:
    """Of every thread block."""
    numbers = {key: np.asarray(value) for key, value in _scalars(loop.function, case, grid)}
    if any(GRID in marks for marks in loop.function.arg_attributes):
        grid = (prod(grid),)
    sizes = {f"grid.{axis}": size for axis, size in zip("xyz", (*grid, 1, 1), strict=False)}
    places = product(*(range(size) for size in grid))
    return [trips(loop.function, loop.op, numbers, sizes | _place(place)) for place in places]


def _scalars(function: Function, case: Case, grid: tuple[int, ...]) -> Iterator[tuple[int, float]]:
    """Numbers among the arguments, by value id; in a kernel that walks over its grid, the extents of that are
    some."""
    for value, marks in zip(function.args, function.arg_attributes, strict=True):
        axis = marks.get(GRID)
        number = (*grid, 1, 1)[axis] if isinstance(axis, int) else case.arguments.get(value.name.lstrip("%"))
        if isinstance(number, int | float):
            yield value.id, number


def _place(place: tuple[int, ...]) -> dict[str, int]:
    return {f"pid.{axis}": at for axis, at in zip("xyz", (*place, 0, 0), strict=False)}
