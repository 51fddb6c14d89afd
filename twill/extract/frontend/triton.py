# pyright: reportMissingImports=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""The one door to Triton.

Takes `@triton.jit` kernels, or TTGIR text; gives the TTGIR of a kernel as it stands before Triton schedules
it, Triton's own judgement of a text, and what Triton makes of a text that carries a schedule. No GPU is
needed. Works unchanged with Triton 3.5 to 3.9, by running the backend's own list of passes up to the first
that assigns a schedule, or from there on. Everything that Triton refuses is a TwillError.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from twill.diagnostics import Location, TwillError
from twill.extract.frontend.arguments import Instance, Parameter, dtype, resolve
from twill.extract.frontend.cache import Precompiled

Pybind: TypeAlias = Any
"""An object of Triton's C++ library, which has no types."""
Names: TypeAlias = Mapping[str, Any]
"""Objects by name: of a Python file, arguments of a kernel, or options of Triton."""
Kernel: TypeAlias = Any
"""A kernel under `@triton.jit`, `@triton.autotune` or `@triton.heuristics`."""
CUTS = {90: "add_hopper_warpspec", 100: "add_assign_latencies"}
"""By compute capability, the pass before which nothing has been scheduled and everything else is settled."""

FLATTENING = frozenset({"add_fuse_nested_loops"})
"""Passes before the cut that make one loop of a loop nest (`tl.range(..., flatten=True)`); the scheduler
wants the nest."""

LOADED = "_twill_kernels_"
"""Begins the names of modules made from users' files."""


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


def capture(
    file: str, function: str, arch: str, settings: Mapping[str, object], *, scheduled: bool = False
) -> str:
    """TTGIR before scheduling of the kernel `function` in the Python file `file`, which is executed for it.

    With `scheduled`, as Triton itself schedules it, for comparison. `settings` override what the file says
    (`twill.extract.frontend.arguments`). Source locations in the text name `file` as it is given here, so
    that the text is the same on every machine.
    """
    return captured(file, function, arch, settings, scheduled=scheduled)[0]


def captured(
    file: str, function: str, arch: str, settings: Mapping[str, object], *, scheduled: bool = False
) -> tuple[str, Mapping[str, object]]:
    """As `capture`, with the values of the kernel's constants."""
    with triton_errors(function):
        module = load_file(file)
        text, constants = compiled(
            find_kernel(module, file, function), vars(module), arch, settings, scheduled
        )
    return relative_paths(text, file), constants


def capture_kernel(
    kernel: Kernel, arch: str, settings: Mapping[str, object] | None = None
) -> tuple[str, Mapping[str, object]]:
    """TTGIR before scheduling of a `@triton.jit` function at hand, for instance in a notebook, and the values
    of its constants."""
    with triton_errors(getattr(kernel, "__name__", "the kernel")):
        inner, _ = unwrapped(kernel)
        return compiled(kernel, inner.fn.__globals__, arch, settings or {}, scheduled=False)


def compiled(
    kernel: Kernel, names: Names, arch: str, settings: Mapping[str, object], scheduled: bool
) -> tuple[str, Mapping[str, object]]:
    """The TTGIR of a kernel whose file defines `names`, and the values of its constants that are plain
    ones."""
    inner, instance = instance_of(kernel, names, arch, settings)
    cc = capability(arch)
    plain = {
        name: value
        for name, value in instance.constants.items()
        if isinstance(value, int | float | str | None)
    }
    return ttgir(inner, instance, cc, None if scheduled else CUTS[cc]), plain


def instance_of(
    kernel: Kernel, names: Names, arch: str, settings: Mapping[str, object]
) -> tuple[Kernel, Instance]:
    """The `@triton.jit` function itself, and what it is compiled for."""
    inner, config = unwrapped(kernel)
    entry: dict[str, Any] = names.get("TWILL", {}).get(inner.__name__, {})
    by_arch = {f"sm{known}" for known in CUTS}
    common = {name: value for name, value in entry.items() if name not in by_arch}
    own = entry.get(f"sm{capability(arch)}", {})
    instance = resolve(inner.__name__, parameters(inner), config, common, own, settings)
    return inner, replace(
        instance, constants={name: constant(value) for name, value in instance.constants.items()}
    )


def constant(value: object) -> object:
    """A value as the kernel sees it: `tl.bfloat16`, which a command line gives as text, is a type."""
    from triton.language import dtype as triton_dtype

    name = re.sub(r"^(i|u)(?=\d)", lambda found: {"i": "int", "u": "uint"}[found[1]], dtype(value) or "")
    return triton_dtype(name) if name else value


def resolved(
    file: str, function: str, arch: str, settings: Mapping[str, object]
) -> tuple[Kernel, Names, Instance]:
    """A kernel of a Python file, the names that the file defines, and what the kernel is compiled for."""
    with triton_errors(function):
        module = load_file(file)
        kernel, instance = instance_of(find_kernel(module, file, function), vars(module), arch, settings)
    return kernel, vars(module), instance


def launch(
    kernel: Kernel,
    grid: tuple[int, ...],
    arguments: Names,
    instance: Instance,
    options: Names,
) -> None:
    """Launch a kernel as Triton itself compiles it, on PyTorch's current stream, with other launch options
    than the instance's."""
    import torch
    import triton

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    kernel[grid](**arguments, **instance.constants, **{**instance.options, **options})


# --- the kernel -------------------------------------------------------------------------------------------


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


def parameters(kernel: Kernel) -> list[Parameter]:
    return [
        Parameter(
            p.name,
            bool(p.is_constexpr),
            p.annotation_type,
            p.default if p.has_default else None,
            p.has_default,
        )
        for p in kernel.params
    ]


# --- Triton's passes --------------------------------------------------------------------------------------


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


def ttgir(kernel: Kernel, instance: Instance, cc: int, cut: str | None) -> str:
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
    stages: dict[str, Pybind] = {}
    backend.add_stages(stages, options, source.language)
    module = source.make_ir(
        backend.target,
        options,
        backend.get_codegen_implementation(options),
        backend.get_module_map(),
        context,
    )
    return front(stages["ttgir"], stages["ttir"](module, {}), cut)


def front(stage: Pybind, module: Pybind, cut: str | None) -> str:
    """What the TTGIR stage makes of a TTIR module with the passes before `cut`, or with all where that is
    None."""
    half = Half(cut, skipped=FLATTENING if cut else frozenset())
    with only(half):
        module = stage(module, {})
    if cut and not half.reached:
        raise TwillError(f"Triton {version()} has no pass {cut}", help="use Triton 3.5 to 3.9")
    return str(module)


def lowered(found: Precompiled, arch: str, options: Mapping[str, int | None]) -> str:
    """TTGIR before scheduling, from TTIR that Triton wrote. Raises TwillError where the installed Triton
    cannot read it."""
    cc = capability(arch)
    with triton_errors(found.file):
        backend = new_backend(cc)
        stages: dict[str, Pybind] = {}
        backend.add_stages(stages, backend.parse_options({**options, "enable_fp_fusion": True}), language())
        try:
            module = parsed(found.text, new_context(backend))
        except TwillError as error:
            raise unreadable(found, error) from error
        return front(stages["ttgir"], module, CUTS[cc])


def unreadable(found: Precompiled, error: TwillError) -> TwillError:
    """The first complaint of Triton's parser about TTIR, at its line."""
    at = re.match(r"(\d+):(\d+): (?:error: )?(.*)", error.message.splitlines()[0])
    place = Location(found.file, int(at[1]), int(at[2])) if at else None
    text = found.text.splitlines()[place.line - 1] if place else None
    other = found.version and found.version != version()
    advice = f"it was written by Triton {found.version}, and {version()} is installed" if other else None
    return TwillError(
        f"Triton cannot read it: {at[3] if at else error.message}", place, text=text, help=advice
    )


@dataclass(frozen=True, slots=True)
class Binary:
    """What Triton makes of a scheduled text."""

    ttgir: str
    """After the rest of Triton's passes."""
    ptx: str
    cubin: bytes
    shared_bytes: int
    tensor_columns: int


OVERWRITING = frozenset({"add_hopper_warpspec", "add_assign_latencies", "add_schedule_loops"})
"""Passes that would put a schedule of Triton's own in the place of one that the text carries as
`loop.stage`."""


def finish(
    text: str, arch: str, num_warps: int, *, num_stages: int = 3, skipped: frozenset[str] = OVERWRITING
) -> Binary:
    """Runs the passes from the cut on over TTGIR that `capture` gave and that has been annotated since, down
    to machine code.

    Triton checks neither capacity: compare `shared_bytes` and `tensor_columns` with what the machine has.
    """
    cc = capability(arch)
    with triton_errors("the scheduled text"):
        backend = new_backend(cc)
        options = backend.parse_options(
            {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True}
        )
        metadata: dict[str, Any] = {**options.__dict__, "target": backend.target}
        stages: dict[str, Pybind] = {}
        backend.add_stages(stages, options, language())
        module = parsed(text, new_context(backend))
        with only(Half(CUTS[cc], front=False, skipped=skipped)):
            module = stages["ttgir"](module, metadata)
        after = str(module)
        ptx = stages["ptx"](stages["llir"](module, metadata), metadata)
        return Binary(
            after, ptx, stages["cubin"](ptx, metadata), metadata["shared"], metadata["tmem_size"] or 0
        )


def language() -> Pybind:
    from triton.backends.compiler import Language

    return Language.TRITON


def relative_paths(text: str, file: str) -> str:
    """Names the kernel's file as the user did, Triton's own files from the package on, others as seen from
    here."""
    import triton

    packages = Path(triton.__file__).parent.parent
    text = text.replace(f'"{Path(file).resolve()}"', f'"{Path(file).as_posix()}"')
    text = text.replace(f'"{Path(file).resolve().parent}/', f'"{Path(file).parent.as_posix()}/')
    text = text.replace(f'"{packages}/', '"')
    return text if Path(file).is_absolute() else text.replace(f'"{Path.cwd()}/', '"')


# --- what Triton refuses ----------------------------------------------------------------------------------


@contextmanager
def triton_errors(function: str) -> Generator[None]:
    """Turns the exceptions of a compilation into a TwillError, at the line of the kernel where there is
    one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except TwillError:
        raise
    except ImportError as error:
        raise TwillError(f"{function} needs Triton: {error}", help="pip install triton") from error
    except Exception as error:
        raise compile_failure(error, function) from error


def compile_failure(error: BaseException, function: str) -> TwillError:
    """Follows a compilation error to its cause, which knows the source of the function it is in."""
    while getattr(error, "error_message", None) is None and error.__cause__ is not None:
        error = error.__cause__
    node = getattr(error, "node", None)
    place, text = source_place(
        getattr(error, "src", None), getattr(node, "lineno", None), getattr(node, "col_offset", 0)
    )
    return TwillError(f"Triton does not compile {function}: {complaint(error, node)}", place, text=text)


def complaint(error: BaseException, node: ast.AST | None) -> str:
    """The first line of what Triton says; of an assertion, that it fails, and its text where it has no
    message."""
    said = getattr(error, "error_message", None)
    failed = type(error).__name__ == "CompileTimeAssertionFailure"
    if failed and not said and node is not None:
        return f"`{ast.unparse(node)}` fails"
    first = (said or str(error) or type(error).__name__).strip().splitlines()[0]
    return f"static_assert fails: {first}" if failed else first


def source_place(source: str | None, line: int | None, column: int) -> tuple[Location | None, str | None]:
    """Where line number `line` of a kernel's source stands, and its text: in the file of a loaded module that
    holds this source."""
    files = {
        str(getattr(module, "__file__", ""))
        for name, module in sys.modules.items()
        if name.startswith(LOADED)
    }
    for file in sorted(files) if source and line else ():
        text = Path(file).read_text(encoding="utf-8")
        before, found, _ = text.partition(source or "")
        if found:
            number = before.count("\n") + (line or 0)
            return Location(os.path.relpath(file), number, column + 1), text.splitlines()[number - 1]
    return None, None


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


def validate(text: str, arch: str) -> tuple[str, ...]:
    """What the installed Triton's parser and verifier say against TTGIR `text`, as `LINE:COLUMN: error: ...`.

    Empty where they accept it. Raises ImportError where Triton is not installed.
    """
    try:
        parsed(text, new_context(new_backend(capability(arch))))
    except TwillError as error:
        return tuple(error.message.splitlines())
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
