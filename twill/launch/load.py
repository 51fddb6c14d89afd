"""Built kernels, called from Python.

    kernel = twill.load_kernel("build/")        # the folder that `twill codegen` wrote
    kernel[grid](q, k, v, o, lse, scale, heads, length=8192)

Takes arrays of PyTorch, CuPy or anything with `__cuda_array_interface__` or `__dlpack__`, and numbers, in the
order of the kernel's arguments or by their names. Launches on the current stream of the first array's
library.
"""

import ctypes
import hashlib
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf, prod
from operator import index
from pathlib import Path
from typing import SupportsIndex, TypeAlias, cast

from twill.diagnostics import TwillError
from twill.emit.files import digest, recorded
from twill.files.text import load as text_of
from twill.launch.arrays import Array, Passed, current_stream, library, on_device, seen
from twill.launch.build import complaints
from twill.launch.c_types import C_TYPES
from twill.launch.folders import LIBRARY, MANIFEST, SOURCE
from twill.launch.manifest import Argument, Manifest, read
from twill.launch.overlap import refuse
from twill.launch.runtime import Runtime

_BYTES = frozenset({"i1", "i8", "f8E4M3FN", "f8E5M2"})
"""Types whose arrays may be passed as bytes by libraries that lack them."""

Grid: TypeAlias = SupportsIndex | Iterable[SupportsIndex]
"""How many programs, in up to three dimensions."""

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
    runtime: Runtime | None = None
    """CUDA's, of the same library."""

    @property
    def source(self) -> str:
        """The CUDA text."""
        return (self.folder / SOURCE).read_text()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What ptxas warned of: spills, serialized wgmma."""
        return complaints(self.folder)

    def __getitem__(self, grid: Grid | Callable[[Mapping[str, Passed]], Grid]) -> Callable[..., None]:
        """The kernel on a grid of up to three dimensions, to be called with its arguments. `grid` may be a
        function: it gets the arguments and the constants by name. A grid without programs launches nothing.

        Raises TwillError, with the name of the argument, for what does not fit; and, with CUDA's text, where
        the launch fails.
        """
        if not callable(grid):
            _grid(self.manifest, grid)

        def call(*positional: Passed, **named: Passed) -> None:
            values = expanded(self.manifest, _bound(self.manifest, positional, named))
            numbers = {
                one.name: _whole(values[one.name])
                for one in self.manifest.arguments
                if one.type.startswith("i")
            }
            passed = [
                _passed(argument, values[argument.name], numbers) for argument in self.manifest.arguments
            ]
            pairs = zip(self.manifest.arguments, passed, strict=True)
            refuse(self.manifest.apart, {at.name: one for at, one in pairs if isinstance(one, Array)})
            size = _grid(self.manifest, _computed(self.manifest, grid, values) if callable(grid) else grid)
            if 0 not in size:
                self._launch(passed, values, size)

        return call

    def _launch(
        self, passed: Sequence[Passed], values: Mapping[str, Passed], size: tuple[int, int, int]
    ) -> None:
        """On the current stream of the first array's library, on the GPU in whose memory the arrays are."""
        first = next(
            (argument.name for argument in self.manifest.arguments if argument.type.startswith("*")), None
        )
        origin = library(values[first]) if first else ""
        device = self._device(passed)
        array = next((one for one in passed if isinstance(one, Array)), None)
        with on_device(origin, device) or (self.runtime.on(device) if self.runtime else nullcontext()):
            stream = current_stream(origin, device)
            if stream is None and array:
                stream = array.stream
            cast = [ctypes.c_void_p(one.address) if isinstance(one, Array) else one for one in passed]
            status = self.launch(*cast, *size, ctypes.c_void_p(stream or 0))
        if status:
            text = self.runtime.text(status) if self.runtime else f"CUDA error {status}"
            raise TwillError(
                f"the launch of {self.manifest.name} failed with {text}", help=ADVICE.get(status)
            )

    def _device(self, passed: Sequence[Passed]) -> int | None:
        """The GPU of all arrays. Raises TwillError where they are on several."""
        devices = dict[int, str]()
        for argument, one in zip(self.manifest.arguments, passed, strict=True):
            if isinstance(one, Array):
                known = (
                    one.device
                    if one.device is not None or self.runtime is None
                    else self.runtime.device(one.address)
                )
                if known is not None:
                    devices.setdefault(known, argument.name)
        if len(devices) > 1:
            where = ", ".join(f"`{name}` on GPU {device}" for device, name in sorted(devices.items()))
            raise TwillError(f"the arrays are on different GPUs: {where}", help="move them to one")
        return next(iter(devices), None)


ADVICE = {
    1: "a kernel of pairs of thread blocks (--pairs) needs even numbers of tiles",
    9: "a kernel of pairs of thread blocks (--pairs) needs an even first size of the grid",
    100: "there is no GPU",
    209: "the kernel is built for another GPU: sm_90a is Hopper (H100, H200), sm_100a is Blackwell (B200)",
    701: "a thread block does not fit: was the kernel scheduled for another machine?",
}
"""By cudaError_t."""


def load(folder: str | Path) -> Kernel:
    """The kernel in a folder that `twill codegen` wrote. Raises TwillError where it was not built."""
    folder = Path(folder)
    manifest = described(folder)
    library = ctypes.CDLL(str((folder / LIBRARY).resolve()))
    return Kernel(manifest, folder, library[f"{manifest.name}_launch"], Runtime(library))


def described(folder: str | Path) -> Manifest:
    """What a folder says of its kernel. Raises TwillError where it was not built, or not of its source."""
    folder = Path(folder)
    manifest = read(text_of(folder / MANIFEST), str(folder / MANIFEST))
    if not (folder / LIBRARY).exists():
        raise TwillError(
            f"{folder} has no {LIBRARY}", help="run twill codegen with --build, where nvcc is installed"
        )
    _same_source(folder)
    return manifest


def _same_source(folder: Path) -> None:
    """Raises TwillError for a library that is not built of the source beside it, or is not as it was
    written."""
    source, known = folder / SOURCE, recorded(folder).get(LIBRARY)
    library = (folder / LIBRARY).read_bytes()
    marked = not source.exists() or f"twill-source:{digest(source)}".encode() in library
    if not marked or (known and known[1] != hashlib.sha256(library).hexdigest()):
        raise TwillError(
            f"{folder / LIBRARY} is not built of the {SOURCE} beside it",
            help="run twill codegen with --build again",
        )


def _grid(manifest: Manifest, grid: Grid) -> tuple[int, int, int]:
    """The extents, of which some may be 0."""
    try:
        sizes = tuple(index(size) for size in (grid if isinstance(grid, Iterable) else (grid,)))
    except TypeError:
        raise TwillError(
            f"a grid of {grid!r} can not be launched", help="give one to three whole numbers"
        ) from None
    largest = (2**31 - 1,) * 3 if manifest.persistent else LARGEST_GRID
    if not 1 <= len(sizes) <= 3 or not all(
        0 <= size <= most for size, most in zip(sizes, largest, strict=False)
    ):
        raise TwillError(
            f"a grid of {sizes} can not be launched", help=f"one to three sizes, of at most {largest}"
        )
    if prod(sizes) >= 2**31 and manifest.persistent:
        raise TwillError(
            f"a grid of {sizes} can not be walked over: it has 2^31 programs or more",
            help="launch a smaller grid several times, or generate the kernel with --no-persistent",
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _computed(
    manifest: Manifest, grid: Callable[[Mapping[str, Passed]], Grid], values: Mapping[str, Passed]
) -> Grid:
    """What a function says of the arguments and constants."""
    constants = {one.name: literal_eval(one.value) for one in manifest.constants}
    try:
        return grid({**constants, **values})
    except KeyError as missing:
        known = ", ".join([*constants, *values])
        raise TwillError(
            f"the grid depends on {missing}, which is not known", help=f"known: {known}"
        ) from missing


def _bound(
    manifest: Manifest, positional: Sequence[Passed], named: Mapping[str, Passed]
) -> dict[str, Passed]:
    """Values by the arguments' names; tuples are passed as their elements."""
    positional = tuple(flat(positional))
    names = [argument.name for argument in own_arguments(manifest.arguments)]
    given = dict(zip(names, positional, strict=False))
    twice, unknown = sorted(set(given) & set(named)), sorted(set(named) - set(names))
    missing = [name for name in names if name not in given and name not in named]
    signature = f"{manifest.name}({', '.join(names)})"
    if len(positional) > len(names):
        raise TwillError(
            f"{len(positional)} arguments are given, and the kernel has {len(names)}", help=signature
        )
    for complaint, found in (
        ("is given twice", twice),
        ("is no argument of the kernel", unknown),
        ("is missing", missing),
    ):
        if found:
            raise TwillError(
                f"argument `{found[0]}` {complaint}",
                help=f"{signature}; constants are settled when it is compiled",
            )
    return given | dict(named)


def flat(values: Iterable[Passed]) -> Iterator[Passed]:
    """The elements of tuples, and of tuples in them."""
    for value in values:
        if isinstance(value, tuple):
            yield from flat(cast(tuple[Passed, ...], value))
        else:
            yield value


def own_arguments(arguments: Iterable[Argument]) -> Iterator[Argument]:
    """What a caller passes: a descriptor brings the numbers behind it."""
    rest = iter(arguments)
    for argument in rest:
        yield argument
        for _ in range(2 * len(argument.descriptor)):
            next(rest)


def expanded(manifest: Manifest, values: Mapping[str, Passed]) -> dict[str, Passed]:
    """Values of all arguments of the launcher, by name."""
    found, numbers = dict[str, Passed](), list[Passed]()
    for argument in manifest.arguments:
        if numbers:
            found[argument.name] = numbers.pop(0)
        elif argument.descriptor:
            found[argument.name], *numbers = descriptor(argument, values[argument.name])
        else:
            found[argument.name] = values[argument.name]
    return found


def descriptor(argument: Argument, value: Passed) -> tuple[Passed, ...]:
    """The array of a `TensorDescriptor`, its shape and its strides. Raises TwillError for anything else."""
    block = "x".join(map(str, argument.descriptor))
    if not all(hasattr(value, name) for name in ("base", "shape", "strides", "block_shape")):
        raise TwillError(
            f"argument `{argument.name}`: a descriptor of blocks of {block} is needed", help=_DESCRIPTOR
        )
    if tuple(value.block_shape) != argument.descriptor:
        given = "x".join(map(str, value.block_shape))
        raise TwillError(
            f"argument `{argument.name}`: its blocks are {given}, and the kernel is compiled for {block}"
        )
    if getattr(value, "padding", "zero") != "zero" or getattr(value, "round_f32_to_tf32", False):
        raise TwillError(
            f"argument `{argument.name}`: descriptors that pad with NaN or round to TF32 are not supported"
        )
    return (value.base, *value.shape, *value.strides)


_DESCRIPTOR = (
    "pass triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(array, block), or an object with the"
    " same members"
)


def _passed(argument: Argument, value: Passed, numbers: Mapping[str, int]) -> Passed:
    """What the launcher gets: an array, or a C value."""
    try:
        return _array(argument, value, numbers) if argument.type.startswith("*") else _scalar(argument, value)
    except TwillError as error:
        raise TwillError(f"argument `{argument.name}`: {error.message}", help=error.help) from None


def _array(argument: Argument, value: Passed, numbers: Mapping[str, int]) -> Array:
    array, wanted = seen(value), argument.type[1:]
    if array is None:
        raise TwillError(f"an array of {wanted} is needed, not {type(value).__name__}")
    if array.type != wanted and not (array.type == "i8" and wanted in _BYTES):
        raise TwillError(
            f"the kernel takes {wanted}, and this array has {array.type}",
            help="convert it, or compile the kernel for that type",
        )
    if not argument.descriptor and not array.row_major and not _addressed(argument, array, numbers):
        raise TwillError(
            f"it is not contiguous: shape {array.shape}, strides {array.strides}, and the kernel addresses it"
            f" {_words(argument, numbers)}",
            help="pass a contiguous copy",
        )
    if array.address % argument.divisible:
        raise TwillError(
            f"its address is no multiple of {argument.divisible}",
            help="pass an aligned copy, or compile the kernel without `:16`",
        )
    return array


def _addressed(argument: Argument, array: Array, numbers: Mapping[str, int]) -> bool:
    """Whether the kernel addresses an array as its strides say. Each dimension needs a stride of the
    kernel's; those that follow from extents and constants are meant for rows behind one another, so they must
    not grow from dimension to dimension."""
    strides = array.merged()
    known = [(one.value(numbers), one.told) for one in argument.strides or ()]

    def fits(dimension: int, left: Sequence[tuple[int, bool]], least: float) -> bool:
        if dimension == len(strides):
            return True
        candidates = [one for one in left if one[0] == strides[dimension] and (one[1] or one[0] <= least)]
        return any(
            fits(
                dimension + 1,
                [*left[: left.index(one)], *left[left.index(one) + 1 :]],
                least if one[1] else one[0],
            )
            for one in candidates
        )

    return fits(0, known, inf)


def _words(argument: Argument, numbers: Mapping[str, int]) -> str:
    if argument.strides is None:
        return "in a way that can not be compared with these"
    return f"with strides {', '.join(str(one.value(numbers)) for one in argument.strides) or 'of nothing'}"


def _whole(value: Passed) -> int:
    """The value of an integer argument; 0 for one that is refused for its type anyway."""
    try:
        return index(value)
    except TypeError:
        return 0


def _scalar(argument: Argument, value: Passed) -> Passed:
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
        raise TwillError(
            f"{value} is no multiple of {argument.divisible}", help="compile the kernel without `:16` for it"
        )
    return passed
