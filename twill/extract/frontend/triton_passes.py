# pyright: reportMissingImports=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""Triton's NVIDIA backend with a part of its passes: those before the first that assigns a schedule, or those
from it on.

Takes modules of Triton's C++ library or their text; gives the module or the text after the passes.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from twill.diagnostics import TwillError

Pybind: TypeAlias = Any
"""An object of Triton's C++ library, which has no types."""

CUTS = {90: "add_hopper_warpspec", 100: "add_assign_latencies"}
"""By compute capability, the pass before which nothing has been scheduled and everything else is settled."""

FLATTENING = frozenset({"add_fuse_nested_loops"})
"""Passes before the cut that make one loop of a loop nest (`tl.range(..., flatten=True)`); the scheduler
wants the nest."""


def version() -> str | None:
    """The installed Triton's version, or None."""
    try:
        return package_version("triton")
    except PackageNotFoundError:
        return None


def capability(arch: str) -> int:
    """90 for `sm90`, `sm_90a`. Raises TwillError for architectures without a cut."""
    digits = arch.lower().removeprefix("sm").removeprefix("_").removesuffix("a")
    if not digits.isdecimal() or int(digits) not in CUTS:
        raise TwillError(
            f"architecture `{arch}` is not supported", help="use " + " or ".join(f"sm{cc}" for cc in CUTS)
        )
    return int(digits)


@dataclass(slots=True)
class Half:
    """Which passes of a list run: those before `cut` or those from it on, except some."""

    cut: str | None
    front: bool = True
    skipped: frozenset[str] = frozenset()
    reached: bool = False

    def admits(self, name: str) -> bool:
        """Whether the next pass, `name`, runs."""
        self.reached = self.reached or name == self.cut
        return self.reached != self.front and name not in self.skipped


class Gate:
    """Stands for a module of pass builders; adding a pass that its half does not admit does nothing."""

    def __init__(self, builders: Pybind, half: Half) -> None:
        self._builders = builders
        self._half = half

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._builders, name)
        if isinstance(inner, ModuleType):
            return Gate(inner, self._half)
        return inner if not name.startswith("add_") or self._half.admits(name) else _skipped


def _skipped(*_: Any) -> None:
    """Adds no pass."""


@contextmanager
def only(half: Half) -> Generator[None]:
    """Makes the NVIDIA backend add only the passes of `half`. Not for several threads at once."""
    import triton.backends.nvidia.compiler as backend

    passes, nvidia = backend.passes, backend.nvidia
    backend.passes, backend.nvidia = Gate(passes, half), Gate(nvidia, half)
    try:
        yield
    finally:
        backend.passes, backend.nvidia = passes, nvidia


def new_context(backend: Pybind) -> Pybind:
    """An MLIR context that knows Triton's dialects."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return context


def new_backend(cc: int) -> Pybind:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend

    return make_backend(GPUTarget("cuda", cc, 32))


def front(stage: Pybind, module: Pybind, cut: str | None) -> str:
    """What the TTGIR stage makes of a TTIR module with the passes before `cut`, or with all where that is
    None."""
    half = Half(cut, skipped=FLATTENING if cut else frozenset())
    with only(half):
        module = stage(module, {})
    if cut and not half.reached:
        raise TwillError(f"Triton {version()} has no pass {cut}", help="use Triton 3.5 to 3.9")
    return str(module)


OVERWRITING = frozenset({"add_hopper_warpspec", "add_assign_latencies", "add_schedule_loops"})
"""Passes that would put a schedule of Triton's own in the place of one that the text carries as
`loop.stage`."""


def language() -> Pybind:
    from triton.backends.compiler import Language

    return Language.TRITON


def parsed(text: str, context: Pybind) -> Pybind:
    """The module of a TTGIR text. Raises TwillError with all that the parser and the verifier say against
    it."""
    from triton._C.libtriton import ir

    with tempfile.TemporaryDirectory() as folder:
        path, said = Path(folder, "text.ttgir"), Path(folder, "said")
        path.write_text(text, encoding="utf-8")
        try:
            with standard_error_to(said):
                module = ir.parse_mlir_module(str(path), context)
        except RuntimeError as error:
            complaints = re.sub(
                rf'(?:loc\("{path}":|{path}:)(\d+):(\d+)\)?', r"\1:\2", said.read_text(errors="replace")
            )
            raise TwillError(
                "\n".join(line for line in complaints.splitlines() if "error:" in line) or str(error)
            ) from error
    module.context = context
    return module


@contextmanager
def standard_error_to(path: Path) -> Generator[None]:
    """Sends what the process writes to standard error, libraries included, to a file."""
    sys.stderr.flush()
    saved = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
