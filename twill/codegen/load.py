# pyright: basic
"""Kernels called from Python: schedule, generate, build, load.

    kernel = twill.compile("kernel.ttgir", arch="sm90")
    kernel[grid](q, k, v, o, lse, scale, heads, length)

Takes arrays of PyTorch, CuPy or anything with `__cuda_array_interface__`, and numbers, in the order of the kernel's arguments. Launches on
PyTorch's current stream where PyTorch is in use, otherwise on the default stream.
"""

import ctypes
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twill.codegen.build import build
from twill.codegen.emit.kernel import source
from twill.codegen.emit.scope import identifier
from twill.codegen.plan import program
from twill.diagnostics import TwillError
from twill.extract.persistent import GRID
from twill.inputs import Inputs, cases
from twill.ir.loop import Pointer, Scalar, Type
from twill.ir.program import Program
from twill.ir.search import Options

_TYPES = {"i1": ctypes.c_bool, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
_C = {**_TYPES, "f32": ctypes.c_float, "f64": ctypes.c_double}


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A loaded kernel."""

    program: Program
    library: Path
    launch: Callable[..., int]
    warnings: tuple[str, ...]
    """What ptxas warned of: spills, serialized wgmma."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """The kernel on a grid of up to three dimensions. Raises TwillError where the launch fails."""
        x, y, z = (*grid, 1, 1)[:3]

        def call(*arguments: Any) -> None:
            function = self.program.function
            types = [arg.type for arg, marks in zip(function.args, function.arg_attributes, strict=True) if GRID not in marks]
            passed = [_passed(kind, value) for kind, value in zip(types, arguments, strict=True)]
            status = self.launch(*passed, x, y, z, ctypes.c_void_p(_stream()))
            if status:
                raise TwillError(f"the launch failed with CUDA error {status}")

        return call


def compile(spec: str, arch: str = "sm90", time_limit: float = 60.0, **questions: Any) -> Kernel:  # noqa: A001 (as users say it)
    """Schedule, generate and build a kernel; `questions` are the other fields of `Inputs`."""
    from twill.pipeline import solve

    found = cases(Inputs(spec, arch=arch, **questions))
    made, _ = program(found, lambda problem: solve(problem, Options(time_limit=time_limit, explain=False)))
    return load(made, Path(tempfile.mkdtemp(prefix="twill-")))


def load(made: Program, folder: Path) -> Kernel:
    """Build a program in a folder and load it."""
    name = identifier(made.function.name)
    library, found = build(source(made), folder, name)
    return Kernel(made, library, ctypes.CDLL(str(library))[f"{name}_launch"], found)


def _passed(type: Type, value: Any) -> Any:
    match type:
        case Pointer():
            return ctypes.c_void_p(_address(value))
        case Scalar(name) if name in _C:
            return _C[name](value)
        case _:
            raise TwillError(f"an argument of type {type} can not be passed")


def _address(array: Any) -> int:
    if hasattr(array, "data_ptr"):
        return array.data_ptr()
    return array.__cuda_array_interface__["data"][0]


def _stream() -> int:
    torch = sys.modules.get("torch")
    return torch.cuda.current_stream().cuda_stream if torch else 0
