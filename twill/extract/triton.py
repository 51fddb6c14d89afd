# pyright: basic
"""The one door to Triton.

Takes `@triton.jit` kernels, or TTGIR text; gives the TTGIR of a kernel as it stands before Triton schedules it, and
Triton's own judgement of a text. No GPU is needed. Works unchanged with Triton 3.5 to 3.9, by running the backend's
own list of passes up to the first that assigns a schedule. Everything that Triton refuses is a TwillError.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from types import ModuleType
from typing import Any

from twill.diagnostics import Location, TwillError
from twill.extract.arguments import Instance, Parameter, resolve

CUTS = {90: "add_hopper_warpspec", 100: "add_assign_latencies"}
"""By compute capability, the pass before which nothing has been scheduled and everything else is settled."""


def version() -> str | None:
    """The installed Triton's version, or None."""
    try:
        return package_version("triton")
    except PackageNotFoundError:
        return None


def capability(arch: str) -> int:
    """90 for `sm90`, `sm_90a`. Raises TwillError for architectures without a cut."""
    digits = arch.removeprefix("sm").removeprefix("_").removesuffix("a")
    if not digits.isdigit() or int(digits) not in CUTS:
        raise TwillError(f"architecture `{arch}` is not supported", help="use " + " or ".join(f"sm{cc}" for cc in CUTS))
    return int(digits)


def capture(file: str, function: str, arch: str, settings: Mapping[str, object], *, scheduled: bool = False) -> str:
    """TTGIR before scheduling of the kernel `function` in the Python file `file`, which is executed for it.

    With `scheduled`, as Triton itself schedules it, for comparison. `settings` override what the file says
    (`twill.extract.arguments`). Source locations in the text name `file` as it is given here, so that the text is the
    same on every machine.
    """
    cc = capability(arch)
    with triton_errors(file, function):
        module = load_file(file)
        kernel, config = find_kernel(module, file, function)
        instance = resolve(function, parameters(kernel), config, *declared(module, function, cc), settings)
        text = ttgir(kernel, instance, cc, None if scheduled else CUTS[cc])
    return relative_paths(text, file)


# --- the kernel -------------------------------------------------------------------------------------------------------


def load_file(file: str) -> ModuleType:
    """Executes a Python file as a module; files beside it can be imported by it."""
    path = Path(file)
    if not path.is_file():
        raise TwillError(f"there is no file {file}")
    name = f"_twill_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise TwillError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise import_failure(error, file) from error
    finally:
        sys.path.pop(0)
    return module


def import_failure(error: Exception, file: str) -> TwillError:
    """An exception raised by the user's file, at the line of the file that led to it."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "triton":
        return TwillError(f"{file} needs Triton, which is not installed", help="pip install triton")
    path = str(Path(file).resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = getattr(error, "lineno", None) or (lines or [1])[-1]
    return TwillError(f"{type(error).__name__}: {error}", Location(file, line or 1))


def find_kernel(module: ModuleType, file: str, function: str) -> tuple[Any, dict[str, object]]:
    """The `@triton.jit` function, and the settings of the first configuration where it is autotuned."""
    from triton.runtime.jit import JITFunction

    kernel, config = unwrapped(getattr(module, function, None))
    if not isinstance(kernel, JITFunction):
        names = sorted(name for name, value in vars(module).items() if isinstance(unwrapped(value)[0], JITFunction))
        raise TwillError(f"{file} has no Triton kernel `{function}`", help=f"it has {', '.join(names) or 'none'}")
    return kernel, config


def unwrapped(value: Any) -> tuple[Any, dict[str, object]]:
    """Takes off `@triton.autotune` and `@triton.heuristics`."""
    config: dict[str, object] = {}
    while hasattr(value, "fn") and not hasattr(value, "params"):
        if getattr(value, "configs", None):
            first = value.configs[0]
            config |= first.kwargs | {"num_warps": first.num_warps, "num_stages": first.num_stages}
        value = value.fn
    return value, config


def parameters(kernel: Any) -> list[Parameter]:
    return [
        Parameter(p.name, bool(p.is_constexpr), p.annotation_type, p.default if p.has_default else None, p.has_default)
        for p in kernel.params
    ]


def declared(module: ModuleType, function: str, cc: int) -> tuple[dict[str, object], dict[str, object]]:
    """The entry of a kernel in the table `TWILL`, and the part of it for one architecture."""
    entry = getattr(module, "TWILL", {}).get(function, {})
    common = {name: value for name, value in entry.items() if name not in {f"sm{known}" for known in CUTS}}
    return common, entry.get(f"sm{cc}", {})


# --- Triton's passes --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Switch:
    """Whether passes are being added to the pass manager."""

    cut: str | None
    on: bool = True


class Gate:
    """Stands for a module of pass builders; from the pass `cut` on, adding a pass does nothing."""

    def __init__(self, builders: Any, switch: Switch) -> None:
        self._builders = builders
        self._switch = switch

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._builders, name)
        if isinstance(inner, ModuleType):
            return Gate(inner, self._switch)
        return self._gated(name, inner) if name.startswith("add_") else inner

    def _gated(self, name: str, add: Any) -> Any:
        self._switch.on = self._switch.on and name != self._switch.cut
        return add if self._switch.on else lambda *_: None


@contextmanager
def passes_until(cut: str | None) -> Generator[Switch]:
    """Makes the NVIDIA backend add only the passes before `cut`, or all of them. Not for several threads at once."""
    import triton.backends.nvidia.compiler as backend

    switch = Switch(cut)
    passes, nvidia = backend.passes, backend.nvidia
    backend.passes, backend.nvidia = Gate(passes, switch), Gate(nvidia, switch)
    try:
        yield switch
    finally:
        backend.passes, backend.nvidia = passes, nvidia


def new_context(backend: Any) -> Any:
    """An MLIR context that knows Triton's dialects."""
    from triton._C.libtriton import ir

    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return context


def new_backend(cc: int) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend

    return make_backend(GPUTarget("cuda", cc, 32))


def ttgir(kernel: Any, instance: Instance, cc: int, cut: str | None) -> str:
    """Runs the front end, the TTIR stage, and the TTGIR stage up to the pass `cut`."""
    from triton.compiler import ASTSource

    backend = new_backend(cc)
    options = backend.parse_options({**instance.options, "enable_fp_fusion": True})
    context = new_context(backend)
    source = ASTSource(
        kernel,
        {name: instance.types.get(name, "constexpr") for name in kernel.arg_names},
        dict(instance.constants),
        {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in sorted(instance.divisible)},
    )
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    module = source.make_ir(backend.target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    module = stages["ttir"](module, {})
    with passes_until(cut) as switch:
        module = stages["ttgir"](module, {})
    if cut and switch.on:
        raise TwillError(f"Triton {version()} has no pass {cut}", help="use Triton 3.5 to 3.9")
    return str(module)


def relative_paths(text: str, file: str) -> str:
    """Names the kernel's file as the user did, and Triton's own files from the package on."""
    import triton

    packages = Path(triton.__file__).parent.parent
    text = text.replace(f'"{Path(file).resolve()}"', f'"{Path(file).as_posix()}"')
    text = text.replace(f'"{Path(file).resolve().parent}/', f'"{Path(file).parent.as_posix()}/')
    return text.replace(f'"{packages}/', '"')


# --- what Triton refuses ----------------------------------------------------------------------------------------------


@contextmanager
def triton_errors(file: str, function: str) -> Generator[None]:
    """Turns the exceptions of a compilation into a TwillError, at the line of the kernel where there is one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TwillError:
        raise
    except ImportError as error:
        raise TwillError(f"{file} needs Triton: {error}", help="pip install triton") from error
    except Exception as error:
        raise compile_failure(error, file, function) from error


def compile_failure(error: BaseException, file: str, function: str) -> TwillError:
    """Follows a compilation error to its cause; its line counts from the start of the kernel's source."""
    while getattr(error, "error_message", None) is None and error.__cause__ is not None:
        error = error.__cause__
    message = getattr(error, "error_message", None) or str(error) or type(error).__name__
    line = getattr(getattr(error, "node", None), "lineno", None)
    start = kernel_line(file, getattr(error, "src", None))
    place = Location(file, start + line - 1) if line and start else None
    return TwillError(f"Triton does not compile {function}: {message.strip().splitlines()[0]}", place)


def kernel_line(file: str, source: str | None) -> int | None:
    """The line of `file` on which `source` begins."""
    before, found, _ = Path(file).read_text(encoding="utf-8").partition(source or "\0")
    return before.count("\n") + 1 if found else None


def validate(text: str, arch: str) -> tuple[str, ...]:
    """What the installed Triton's parser and verifier say against TTGIR `text`, as `LINE:COLUMN: error: ...`.

    Empty where they accept it.

    Raises ImportError where Triton is not installed.
    """
    from triton._C.libtriton import ir

    context = new_context(new_backend(capability(arch)))
    with tempfile.TemporaryDirectory() as folder:
        path, said = Path(folder, "text.ttgir"), Path(folder, "said")
        path.write_text(text, encoding="utf-8")
        try:
            with standard_error_to(said):
                ir.parse_mlir_module(str(path), context)
        except RuntimeError as error:
            complaints = re.sub(rf'(?:loc\("{path}":|{path}:)(\d+):(\d+)\)?', r"\1:\2", said.read_text(errors="replace"))
            return tuple(line for line in complaints.splitlines() if "error:" in line) or (str(error),)
    return ()


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
