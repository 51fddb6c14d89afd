"""A generated kernel, executed beside the TTGIR that it was made from.

Takes the folder that `twill codegen` wrote (kernel.cu, kernel.json, kernel.ttgir), values for the scalar
arguments, and a grid. Calls the launcher of kernel.cu, executes the PTX that nvcc makes of it on what that
launches, and the TTGIR on the same random memory. Gives the relative error of each array. Raises TwillError,
as HazardError where the kernel does what it must not do.
"""

import ctypes
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from twill.diagnostics import TwillError
from twill.emulate.arrays import decoded, encoded
from twill.emulate.host import Host, Launched, compiled
from twill.emulate.machine.cta import Meter
from twill.emulate.memory.clocks import Array
from twill.emulate.memory.device import Device
from twill.extract.reader.ttgir import read as read_ttgir
from twill.files.text import load as text_of
from twill.ir.loop import GRID, Function, Module, Op, Scalar, Tensor, Value
from twill.launch.build import RUNTIME
from twill.launch.folders import MANIFEST, SOURCE
from twill.launch.manifest import Manifest, read
from twill.ops.table import names
from twill.ops.values import element
from twill.simulate.compare import (
    TOLERANCE,
    Compared,
    arguments,
    compared,
    of_order,
    scalars,
    useful,
)
from twill.simulate.global_memory import Memory
from twill.simulate.index_arrays import Fills
from twill.simulate.interpret import interpret

TTGIR = "kernel.ttgir"
ALLOCATED = 1 << 20
"""Bytes that a launcher may allocate on the device: tensor maps of 128 bytes for each thread block."""
Triple = tuple[int, int, int]
DIFFERENT: Triple = (2, 3, 5)
"""Extents of a grid."""


@dataclass(frozen=True, slots=True)
class Request:
    """One run."""

    numbers: Mapping[str, float]
    """Scalar arguments; others get the values that `twill simulate` gives them."""
    grid: Triple = (1, 1, 1)
    programs: tuple[Triple, ...] | None = None
    """Of the grid; None for all."""
    integers: bool = False
    """The arrays hold small integers, whose sums are exact in every order."""
    seed: int = 0
    """Of the memory."""
    schedule: int = 0
    """0 lets what is asynchronous happen as late as possible; others choose at random, two of three with
    lanes of a warp apart (`Adversary`)."""
    processors: int = 1
    """Multiprocessors, for persistent kernels."""


class Integers(Memory):
    """Memory of integers from -2 to 2."""

    def _fresh(self, argument: str, chunk: int) -> Array:
        held = super()._fresh(argument, chunk)
        random = np.random.default_rng((self.seed, crc32(argument.encode()), chunk, 1))
        return random.integers(-2, 3, len(held)).astype(held.dtype) if held.dtype.kind == "f" else held


@dataclass(frozen=True, slots=True)
class Build:
    """A folder, read and compiled."""

    manifest: Manifest
    function: Function
    host: Host


def load(folder: Path) -> Build:
    """Raises TwillError where a file is missing, or nvcc."""
    manifest = read(text_of(folder / MANIFEST), str(folder / MANIFEST))
    module = read_ttgir(text_of(folder / TTGIR), str(folder / TTGIR))
    function = next((one for one in module.functions if one.public), None)
    if function is None:
        raise TwillError(f"{folder / TTGIR} has no kernel")
    with tempfile.TemporaryDirectory() as made:
        host = compiled(folder / SOURCE, Path(made), [RUNTIME], architecture(module))
        return Build(manifest, function, host)


def architecture(module: Module) -> str:
    """What nvcc compiles for, with the instructions of this architecture alone: 90a of `cuda:90`."""
    return f"{(module.target or 'cuda:90').rpartition(':')[2]}a"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What one run starts from, and what it must end with."""

    numbers: Mapping[str, float]
    """Every scalar argument."""
    expected: Memory
    """After the execution of the TTGIR."""
    before: Mapping[str, Array]
    """Every array, as large as the kernel needs it."""

    def raw(self) -> dict[str, Array]:
        """A copy of the arrays as they lie in a GPU's memory, by the names of the arguments."""
        return {name: encoded(array, self.expected.types[name]) for name, array in self.before.items()}


def prepared(build: Build, request: Request) -> Prepared:
    """Executes the TTGIR. Raises TwillError."""
    numbers, programs = _numbers(build.function, request), list(_programs(build.function, request))
    contents = useful(build.function, numbers, programs[0], request.seed)
    expected = _memory(build.function, numbers, request, contents)
    for program in programs:
        values, _ = arguments(build.function, numbers, request.seed)
        interpret(build.function, values, expected, program)
    if expected.undefined:
        raise TwillError(f"the results are not defined: {', '.join(sorted(expected.undefined))}")
    before = _sizes(_memory(build.function, numbers, request, contents), expected)
    return Prepared(numbers, expected, dict(before))


def run(build: Build, request: Request, meter: Meter | None = None) -> tuple[Compared, ...]:
    """Executes both. Raises TwillError, as BudgetError where the meter's limit is reached."""
    start = prepared(build, request)
    raw = start.raw()
    execute(build, start.numbers, request, raw, meter)
    return tuple(
        compared(name, kind, start.expected.array(name, len(found))[: len(found)], found, start.before[name])
        for name, kind in start.expected.types.items()
        for found in [decoded(raw[name], kind)]
    )


def _numbers(function: Function, request: Request) -> dict[str, float]:
    """Scalar arguments, with the grid's extents where the kernel walks over it."""
    found = scalars(function, request.numbers)
    for value, attributes in zip(function.args, function.arg_attributes, strict=True):
        axis = attributes.get(GRID)
        if isinstance(axis, int):
            found[value.name.lstrip("%")] = request.grid[axis]
    return found


def walks(function: Function) -> bool:
    """Whether thread blocks walk over the grid, as persistent kernels do."""
    return any(GRID in attributes for attributes in function.arg_attributes)


def _programs(function: Function, request: Request) -> Iterator[dict[str, int]]:
    """The programs as the TTGIR's execution knows them."""
    x, y, z = (request.processors, 1, 1) if walks(function) else request.grid
    every = [(a, b, c) for c in range(z) for b in range(y) for a in range(x)]
    for place in request.programs or every:
        yield {
            f"{what}.{axis}": value
            for what, of in (("grid", (x, y, z)), ("pid", place))
            for axis, value in zip("xyz", of, strict=True)
        }


def _memory(function: Function, numbers: Mapping[str, float], request: Request, contents: Fills) -> Memory:
    _, plain = arguments(function, numbers, request.seed, contents)
    return (
        Integers(
            plain.types,
            request.seed,
            addresses=plain.addresses,
            fills=contents,
            kinds=plain.kinds,
        )
        if request.integers
        else plain
    )


def _sizes(fresh: Memory, grown: Memory) -> Iterator[tuple[str, Array]]:
    """Every array as it was before, as large as the kernel needs it."""
    fresh.types |= grown.types
    for name in grown.types:
        yield name, fresh.array(name, max(1, len(grown.arrays.get(name, ()))))


_C: Mapping[str, Any] = {
    "i1": ctypes.c_bool,
    **{
        f"i{bits}": kind
        for bits, kind in (
            (8, ctypes.c_int8),
            (16, ctypes.c_int16),
            (32, ctypes.c_int32),
            (64, ctypes.c_int64),
        )
    },
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


def execute(
    build: Build,
    numbers: Mapping[str, float],
    request: Request,
    arrays: Mapping[str, Array],
    meter: Meter | None = None,
) -> None:
    """Runs what the launcher launches, on arrays by the names of arguments, which change. Raises
    TwillError."""
    device, passed = Device(), list[Any]()
    pointed = {
        int(name[1:]): device.register(array, name) for name, array in arrays.items() if name[0] == "*"
    }
    for argument in build.manifest.arguments:
        if argument.type.startswith("*"):
            array = _located(arrays[argument.name], pointed) if pointed else arrays[argument.name]
            passed.append(ctypes.c_void_p(device.register(array, argument.name)))
        else:
            value = numbers[argument.name]
            passed.append(_C[argument.type](value if argument.type.startswith("f") else int(value)))
    memory = device.register(np.zeros(ALLOCATED, np.uint8), "memory that the launcher allocates", poison=True)

    def launched(grid: Triple) -> list[Launched]:
        sizes = [ctypes.c_int(extent) for extent in grid]
        return build.host.call(
            f"{build.manifest.name}_launch",
            [*passed, *sizes, ctypes.c_void_p(0)],
            request.processors,
            (memory, ALLOCATED),
            lambda address, value, count: device.write(address, np.full(count, value, np.uint8)),
        )

    blocks = _blocks(request, launched) if request.programs else None
    for one in launched(request.grid):
        _launch(build, one, request, device, blocks, meter)


def _blocks(request: Request, launched: Callable[[Triple], list[Launched]]) -> tuple[Triple, ...]:
    """The thread blocks of the programs that are run: the launcher may launch the axes of the grid in another
    order, which extents that differ show."""
    grid = next((one.grid for one in launched(DIFFERENT)), DIFFERENT)
    order = [DIFFERENT.index(extent) for extent in grid if extent in DIFFERENT]
    x, y, z = order if len(order) == len(DIFFERENT) else range(3)
    return tuple((one[x], one[y], one[z]) for one in request.programs or ())


def _located(array: Array, pointed: Mapping[int, int]) -> Array:
    """An array with the addresses of the device in place of those that name an array of the TTGIR's
    execution; the array itself where it holds none."""
    if array.dtype != np.int64:
        return array
    found = [(place, pointed[number]) for place, number in enumerate(array.tolist()) if number in pointed]
    changed = array.copy() if found else array
    for place, address in found:
        changed[place] = address
    return changed


def _launch(
    build: Build,
    one: Launched,
    request: Request,
    device: Device,
    blocks: tuple[Triple, ...] | None,
    meter: Meter | None,
) -> None:
    if one.shared > one.most_shared:
        raise TwillError(
            f"{one.name} is launched with {one.shared} bytes of shared memory, and at most {one.most_shared}"
            " were asked for"
        )
    build.host.module.kernel(one.name).launch(
        one.grid,
        one.arguments,
        block=one.block,
        cluster=None if one.cluster == (1, 1, 1) else one.cluster,  # then what the kernel itself says
        shared=one.shared,
        seed=request.schedule,
        device=device,
        ctas=blocks,
        meter=meter,
    )


TF32 = 2e-3
"""Relative error of a dot of computed float32: the tensor core ignores 13 bits of their fraction, and sums in
another order lie on the other side of a number of tf32."""
CHAINED = 3
"""Such dots that read each other's results, at most: scores, their gradient, the gradient of an operand."""
QUANTIZED = 1e-2
"""Relative error of integers that are rounded from floats."""


def wrong(build: Build, compared: Sequence[Compared]) -> Compared | None:
    """The first array that differs by more than rounding explains: of what is stored, of the operands of
    dots, of every value that the kernel narrows, and of every step of its reductions, as a sum in another
    order may be rounded otherwise."""
    narrowed = max((of_order(build.function), *_narrowings(build.function)))
    whole = QUANTIZED if any(_quantizes(op) for op in build.function.walk()) else 0.0
    return next(
        (
            one
            for one in compared
            if not one.good and one.error > (narrowed if one.type in TOLERANCE else whole)
        ),
        None,
    )


def _narrowings(function: Function) -> Iterator[float]:
    """The tolerances of types that values are rounded to."""
    rounded = [op for op in function.walk() if op.name in _DOTS and _of_f32(op)]
    yield TF32 * min(len(rounded), CHAINED)
    for op in function.walk():
        wide, narrow = (_tolerances(values) for values in (op.operands, op.results))
        if wide and narrow and max(narrow) > min(wide):
            yield max(narrow)


def _of_f32(dot: Op) -> bool:
    return getattr(dot.operands[0].type, "dtype", None) == Scalar("f32")


def _tolerances(values: Sequence[Value]) -> list[float]:
    names = [element(value.type) for value in values if isinstance(value.type, Tensor)]
    return [TOLERANCE[name] for name in names if name in TOLERANCE]


def _quantizes(op: Op) -> bool:
    """Floats become integers."""
    wide = [name for name in map(element, (result.type for result in op.results)) if name[:1] == "i"]
    return bool(_tolerances(op.operands)) and any(name != "i1" for name in wide)


_DOTS = frozenset(names("dot", "wgmma", "tensor_memory_mma"))
