# pyright: basic
"""Built kernels, called from Python.

    kernel = twill.load_kernel("build/")        # the folder that `twill codegen` wrote
    kernel[grid](q, k, v, o, lse, scale, heads, length=8192)

Takes arrays of PyTorch, CuPy or anything with `__cuda_array_interface__` or `__dlpack__`, and numbers, in the order of the kernel's
arguments or by their names. Launches on the current stream of the first array's library.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twill.diagnostics import TwillError
from twill.files.text import load as text_of
from twill.launch.arrays import Array, current_stream, library, on_device, seen
from twill.launch.build import LIBRARY, MANIFEST, SOURCE, complaints
from twill.launch.manifest import Argument, Manifest, read

C_TYPES = {
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
"""Scalars that a launcher takes."""
_BYTES = frozenset({"i1", "i8", "f8E4M3FN", "f8E5M2"})
"""Types whose arrays may be passed as bytes by libraries that lack them."""

LARGEST_GRID = (2**31 - 1, 65535, 65535)
"""CUDA C++ Programming Guide, technical specifications."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A loaded kernel."""

    manifest: Manifest
    folder: Path
    """With kernel.cu, its source, and kernel.so."""
    launch: Callable[..., int]
    """NAME_launch of the library."""

    @property
    def source(self) -> str:
        """The CUDA text."""
        return (self.folder / SOURCE).read_text()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What ptxas warned of: spills, serialized wgmma."""
        return complaints(self.folder)

    def __getitem__(self, grid: int | Sequence[int]) -> Callable[..., None]:
        """The kernel on a grid of up to three dimensions, to be called with its arguments.

        Raises TwillError, with the name of the argument, for what does not fit; and where the launch fails.
        """
        size = _grid((grid,) if isinstance(grid, int) else tuple(grid))

        def call(*positional: Any, **named: Any) -> None:
            values = _bound(self.manifest, positional, named)
            numbers = {value for value in values.values() if isinstance(value, int)}
            passed = [_passed(argument, values[argument.name], numbers) for argument in self.manifest.arguments]
            array = next((one for one in passed if isinstance(one, Array)), None)
            origin = library(next((values[a.name] for a in self.manifest.arguments if a.type.startswith("*")), None))
            device = array.device if array else None
            with on_device(origin, device):
                stream = current_stream(origin, device)
                if stream is None and array:
                    stream = array.stream
                cast = [ctypes.c_void_p(one.address) if isinstance(one, Array) else one for one in passed]
                status = self.launch(*cast, *size, ctypes.c_void_p(stream or 0))
            if status:
                raise TwillError(f"the launch of {self.manifest.name} failed with CUDA error {status}", help=_ADVICE.get(status))

        return call


_ADVICE = {
    100: "there is no GPU",
    209: "the kernel is built for sm_90a: a Hopper GPU (H100, H200) is needed",
    701: "a thread block does not fit: was the kernel scheduled for another machine?",
}
"""By cudaError_t."""


def load(folder: str | Path) -> Kernel:
    """The kernel in a folder that `twill codegen` wrote. Raises TwillError where it was not built."""
    folder = Path(folder)
    manifest = read(text_of(folder / MANIFEST), str(folder / MANIFEST))
    path = folder / LIBRARY
    if not path.exists():
        raise TwillError(f"{folder} has no {LIBRARY}", help="run twill codegen with --build, where nvcc is installed")
    return Kernel(manifest, folder, ctypes.CDLL(str(path.resolve()))[f"{manifest.name}_launch"])


def _grid(grid: tuple[int, ...]) -> tuple[int, int, int]:
    if not 1 <= len(grid) <= 3 or not all(1 <= size <= most for size, most in zip(grid, LARGEST_GRID, strict=False)):
        raise TwillError(f"a grid of {grid} can not be launched", help=f"one to three sizes, each from 1 to {LARGEST_GRID}")
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z


def _bound(manifest: Manifest, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Values by the arguments' names."""
    names = [argument.name for argument in manifest.arguments]
    given = dict(zip(names, positional, strict=False))
    twice, unknown = sorted(set(given) & set(named)), sorted(set(named) - set(names))
    missing = [name for name in names if name not in given and name not in named]
    signature = f"{manifest.name}({', '.join(names)})"
    if len(positional) > len(names):
        raise TwillError(f"{len(positional)} arguments are given, and the kernel has {len(names)}", help=signature)
    for complaint, found in (("is given twice", twice), ("is no argument of the kernel", unknown), ("is missing", missing)):
        if found:
            raise TwillError(f"argument `{found[0]}` {complaint}", help=f"{signature}; constants are settled when it is compiled")
    return given | dict(named)


def _passed(argument: Argument, value: Any, numbers: set[int]) -> Any:
    """What the launcher gets: an array, or a C value."""
    try:
        return _array(argument, value, numbers) if argument.type.startswith("*") else _scalar(argument, value)
    except TwillError as error:
        raise TwillError(f"argument `{argument.name}`: {error.message}", help=error.help) from None


def _array(argument: Argument, value: Any, numbers: set[int]) -> Array:
    array, wanted = seen(value), argument.type[1:]
    if array is None:
        raise TwillError(f"an array of {wanted} is needed, not {type(value).__name__}")
    if array.type != wanted and not (array.type == "i8" and wanted in _BYTES):
        raise TwillError(
            f"the kernel takes {wanted}, and this array has {array.type}", help="convert it, or compile the kernel for that type"
        )
    if not array.row_major and any(
        step != 1 and size != 1 and step not in numbers for size, step in zip(array.shape, array.strides, strict=True)
    ):
        raise TwillError(
            f"it is not contiguous: shape {array.shape}, strides {array.strides}, and the kernel is not told these strides",
            help="pass a contiguous copy",
        )
    if array.address % argument.divisible:
        raise TwillError(
            f"its address is no multiple of {argument.divisible}", help="pass an aligned copy, or compile the kernel without `:16`"
        )
    return array


def _scalar(argument: Argument, value: Any) -> Any:
    kind = C_TYPES.get(argument.type)
    if kind is None:
        raise TwillError(f"a number of type {argument.type} can not be passed")
    try:
        passed = kind(value)
    except TypeError:
        raise TwillError(f"a number of type {argument.type} is needed, not {type(value).__name__}") from None
    if argument.type.startswith("i") and passed.value != value:
        raise TwillError(f"{value} does not fit into {argument.type}")
    if argument.divisible > 1 and value % argument.divisible:
        raise TwillError(f"{value} is no multiple of {argument.divisible}", help="compile the kernel without `:16` for it")
    return passed
