# pyright: reportMissingImports=false, reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""Kernels through Triton.

Takes `@triton.jit` kernels, or TTGIR text; gives the TTGIR of a kernel as it stands before Triton schedules
it, what Triton's verifier says about a text, and what Triton makes of a text that carries a schedule. No GPU
is needed. Works unchanged with Triton 3.5 to 3.9, by running the backend's own list of passes up to the first
that assigns a schedule, or from there on. Everything that Triton refuses is a TwillError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from twill.diagnostics import Location, TwillError
from twill.extract.frontend.arguments import Instance, Parameter, dtype, resolve
from twill.extract.frontend.cache import Precompiled
from twill.extract.frontend.kernel_files import Kernel, Names, find_kernel, load_file, unwrapped
from twill.extract.frontend.options import OPTIONS
from twill.extract.frontend.triton_errors import triton_errors
from twill.extract.frontend.triton_passes import (
    CUTS,
    OVERWRITING,
    Half,
    Pybind,
    capability,
    front,
    language,
    new_backend,
    new_context,
    only,
    parsed,
    version,
)


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
    warmup: bool = False,
) -> None:
    """Launch a kernel as Triton itself compiles it, on PyTorch's current stream, with other launch options
    than the instance's; for a `warmup`, compile it only, where it can be."""
    import torch
    import triton

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    order = getattr(kernel, "arg_names", tuple(arguments))
    first, named = passed(order, {**arguments, **instance.constants}, instance, options)
    if not warmup:
        kernel[grid](*first, **named)
    elif hasattr(kernel, "warmup"):
        kernel.warmup(*first, grid=grid, **named)


def passed(
    order: Sequence[str], values: Names, instance: Instance, options: Names
) -> tuple[tuple[object, ...], Names]:
    """What a launch passes by position and by name, to a kernel whose parameters have this order: Triton
    takes a keyword for its option also where a parameter is called so."""
    ends = [order.index(name) + 1 for name in OPTIONS if name in instance.types]
    first = order[: max(ends, default=0)]
    named = {name: value for name, value in values.items() if name not in first}
    return tuple(values[name] for name in first), {**named, **instance.options, **options}


# --- the kernel -------------------------------------------------------------------------------------------


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


def validate(text: str, arch: str) -> tuple[str, ...]:
    """What the installed Triton's parser and verifier say against TTGIR `text`, as `LINE:COLUMN: error: ...`.

    Empty where they accept it. Raises ImportError where Triton is not installed.
    """
    try:
        parsed(text, new_context(new_backend(capability(arch))))
    except TwillError as error:
        return tuple(error.message.splitlines())
    return ()
