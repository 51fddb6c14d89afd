"""Python files with kernels: executed as modules, and the kernel of a name in them.

Takes the path of a file; gives its names, or one kernel without the decorators around `@triton.jit`. What the
file raises is a TwillError at its line.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from twill.diagnostics import Location, TwillError

Names: TypeAlias = Mapping[str, Any]
"""Objects by name: of a Python file, arguments of a kernel, or options of Triton."""

Kernel: TypeAlias = Any
"""A kernel under `@triton.jit`, `@triton.autotune` or `@triton.heuristics`."""

LOADED = "_twill_kernels_"
"""Begins the names of modules made from users' files."""


def load_file(file: str) -> ModuleType:
    """Executes a Python file as a module; files beside it can be imported by it."""
    path = Path(file)
    if not path.is_file():
        raise TwillError(f"there is no file {file}")
    name = LOADED + path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise TwillError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise import_failure(error, file) from error
    finally:
        sys.path.pop(0)
    return module


def import_failure(error: Exception | SystemExit, file: str) -> TwillError:
    """An exception raised by the user's file, at the line of the file that led to it."""
    if isinstance(error, ModuleNotFoundError) and error.name == "triton":
        return TwillError(f"{file} needs Triton, which is not installed", help="pip install triton")
    path = str(Path(file).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if isinstance(error, SyntaxError) and error.lineno and error.filename == path:
        return TwillError(
            f"{type(error).__name__}: {error.msg}",
            Location(file, error.lineno, error.offset or 1),
            text=error.text,
        )
    return TwillError(f"{type(error).__name__}: {error}", Location(file, (lines or [1])[-1] or 1))


def find_kernel(module: ModuleType, file: str, function: str) -> Kernel:
    """The Triton kernel called `function`."""
    from triton.runtime.jit import JITFunction

    kernel = getattr(module, function, None)
    if not isinstance(unwrapped(kernel)[0], JITFunction):
        names = sorted(
            name for name, value in vars(module).items() if isinstance(unwrapped(value)[0], JITFunction)
        )
        raise TwillError(
            f"{file} has no Triton kernel `{function}`",
            help=f"it has {', '.join(names)}" if names else "no function in it is under @triton.jit",
        )
    return kernel


def unwrapped(value: Kernel) -> tuple[Kernel, dict[str, object]]:
    """Takes off `@triton.autotune` and `@triton.heuristics`; the settings of the first configuration come
    with the kernel."""
    config: dict[str, object] = {}
    while hasattr(value, "fn") and not hasattr(value, "params"):
        if getattr(value, "configs", None):
            first = value.configs[0]
            config |= first.kwargs | {"num_warps": first.num_warps, "num_stages": first.num_stages}
        value = value.fn
    return value, config
