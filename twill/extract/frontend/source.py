"""What a user names on the command line, to a `Module`.

Takes `FILE.ttgir`, the dump of a compilation (`FILE:KERNEL` or `FILE:LINE` where it holds several), its text,
`FILE.ttir`, a kernel in Triton's cache (either of its files), a captured kernel (`FILE.json:NAME`), or
`FILE.py:function` (`FILE.py` where it has one kernel) with settings; gives the module that is scheduled. TTIR
and Python files need Triton.
Raises TwillError where the file cannot be read, does not fit the architecture, or is no kernel.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from re import search
from typing import Any

from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import from_text
from twill.extract.frontend.cache import Precompiled, precompiled, text_of
from twill.extract.frontend.capture_file import is_capture, kernel_of
from twill.extract.frontend.options import OPTIONS
from twill.extract.reader.dump import at_the_cut
from twill.extract.reader.ttgir import read
from twill.ir.loop import Module

DOTS = frozenset({"dot", "dot_scaled"})
"""Functions of Triton's language that make a loop worth scheduling."""

log = logging.getLogger(__name__)


def load(
    spec: str,
    arch: str | None = None,
    settings: Mapping[str, str] | None = None,
    tile: tuple[str, int] | None = None,
) -> Module:
    """The module of `spec`. `arch` (`sm90`, `sm100`) may be left out for a file that names its target; `tile`
    is a constexpr of a Python kernel with a value that is no power of two."""
    if tile is not None and not _python(spec):
        raise TwillError(f"{spec} is compiled already: --tile is for FILE.py:function")
    if "\n" in spec:
        return of_text(spec, arch)
    file, _, which = spec.rpartition(":") if ":" in spec and not Path(spec).exists() else (spec, "", "")
    if file.endswith(".py"):
        return from_python(file, which, arch, settings or {}, tile)
    if is_capture(file):
        return from_ttir(kernel_of(spec).kernel, arch, settings or {})
    if found := precompiled(file):
        return from_ttir(found, arch, settings or {})
    if settings:
        raise TwillError(
            f"{spec} is compiled already, so --set has nothing to set", help="--set is for FILE.py:function"
        )
    module = read(at_the_cut(text_of(file), file, which), file)
    check_target(module, arch)
    return module


def _python(spec: str) -> bool:
    return "\n" not in spec and spec.partition(":")[0].endswith(".py")


def of_text(text: str, arch: str | None) -> Module:
    """A module that is no file; it is named after its function."""
    file = f"{_named(text)}.ttgir"
    module = read(at_the_cut(text, file), file)
    check_target(module, arch)
    return module


def _named(text: str) -> str:
    """The kernel in a text."""
    name = search(r"tt\.func public @(\w+)", text)
    return name[1] if name else "kernel"


def from_python(
    file: str,
    function: str,
    arch: str | None,
    settings: Mapping[str, str],
    tile: tuple[str, int] | None = None,
) -> Module:
    """Compiles a kernel up to where scheduling begins; the module's file is named after the kernel."""
    from twill.extract.frontend.triton import captured
    from twill.extract.frontend.triton_passes import capability

    function = function or _only_kernel(file)
    if arch is None:
        raise TwillError(
            f"{file}:{function} can be compiled for several architectures",
            help="give --arch sm90 or --arch sm100",
        )
    if tile is not None:
        return _of_tile(file, function, arch, from_text(settings), tile)
    text, constants = captured(file, function, arch, from_text(settings))
    return replace(read(text, f"{function}.sm{capability(arch)}.ttgir"), constants=constants)


def _only_kernel(file: str) -> str:
    """The one kernel of a Python file, read without executing the file: the one function with a decorator
    `jit`, or the one that no other calls and that has a dot, itself or in what it calls. Raises TwillError
    where there is none, or a choice."""
    try:
        tree = ast.parse(Path(file).read_text(), file)
    except OSError as problem:
        raise TwillError(f"cannot read {file}: {problem.strerror}") from problem
    except (UnicodeDecodeError, SyntaxError) as problem:
        raise TwillError(f"{file} is no Python file: {problem}") from problem
    kernels = {
        one.name: _called(one)
        for one in tree.body
        if isinstance(one, ast.FunctionDef)
        and any(search(r"\bjit\b", ast.unparse(decorator)) for decorator in one.decorator_list)
    }
    match _with_dots(kernels) or list(kernels):
        case [only]:
            return only
        case []:
            raise TwillError(
                f"{file} has no function with @triton.jit",
                help=f"name a kernel that it imports or makes otherwise: {file}:FUNCTION",
            )
        case several:
            names = ", ".join(several)
            raise TwillError(f"{file} has several kernels: {names}", help=f"write {file}:{several[0]}")


def _called(function: ast.FunctionDef) -> frozenset[str]:
    """Names of what it calls, without their modules."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return frozenset(ast.unparse(call).rpartition(".")[2] for call in calls)


def _with_dots(kernels: Mapping[str, frozenset[str]]) -> list[str]:
    """Of functions with what they call, those that no other calls and that lead to a dot."""
    helpers = {name for caller, names in kernels.items() for name in names if name != caller}

    def leads(name: str, seen: frozenset[str]) -> bool:
        names = kernels.get(name, frozenset())
        return not names.isdisjoint(DOTS) or any(leads(one, seen | {name}) for one in names - seen - {name})

    return [name for name in kernels if name not in helpers and leads(name, frozenset())]


def _of_tile(
    file: str, function: str, arch: str, settings: Mapping[str, object], tile: tuple[str, int]
) -> Module:
    """As above, for a size that Triton does not compile."""
    from twill.extract.frontend.tiles import instantiated
    from twill.extract.frontend.triton import captured
    from twill.extract.frontend.triton_passes import capability

    (name, size), constants = tile, dict[str, object]()

    def compiled(value: int) -> str:
        text, found = captured(file, function, arch, {**settings, name: value})
        if found.get(name) != value:
            raise TwillError(f"{function} has no constexpr {name}", help="--tile sets a constexpr")
        constants.update(found)
        return text

    if capability(arch) != 90:
        raise TwillError(
            f"--tile {name}={size}: such tiles are generated for sm90 alone",
            help=f"give a size that Triton compiles, a power of two, by --set {name}=SIZE",
        )
    text = instantiated(compiled, name, size)
    module = read(text, f"{function}.{name}{size}.sm90.ttgir")
    return replace(module, constants={**constants, name: size})


def from_ttir(found: Precompiled, arch: str | None, settings: Mapping[str, str]) -> Module:
    """Runs Triton's passes over TTIR up to where scheduling begins; says so in the log.

    `arch` and `settings` (launch options) override what Triton's metadata says. Raises TwillError where
    neither names an architecture.
    """
    from twill.extract.frontend.triton import lowered
    from twill.extract.frontend.triton_passes import capability

    given = from_text(settings)
    wrong = sorted(
        name for name, value in given.items() if name not in OPTIONS or not isinstance(value, int | None)
    )
    if wrong:
        raise TwillError(
            f"--set {wrong[0]} does not fit {found.file}, which is compiled already",
            help=f"set {', '.join(OPTIONS)} only",
        )
    target = arch or found.arch
    if target is None:
        raise TwillError(
            f"{found.file} does not say what it is compiled for", help="give --arch sm90 or --arch sm100"
        )
    options = {
        **OPTIONS,
        **found.options,
        **{name: value for name, value in given.items() if isinstance(value, int)},
    }
    text = lowered(found, target, options)
    origin = f", compiled by Triton {found.version} for {found.arch}" if found.version else ""
    shown = ", ".join(f"{name} = {value}" for name, value in options.items() if value is not None)
    log.info("the kernel is taken from %s%s; lowered for %s with %s", found.file, origin, target, shown)
    return read(text, f"{_named(found.text)}.sm{capability(target)}.ttgir")


def described(
    kernel: Any, arch: str, settings: Mapping[str, object]
) -> tuple[str, tuple[tuple[str, str], ...], tuple[tuple[str, object], ...]]:
    """What a program passes (a `@triton.jit` function, a path, a text) as a command line would name it: a
    `spec`, and settings; for a function, its constants too."""
    if not isinstance(kernel, str | Path):
        text, constants = from_function(kernel, arch, settings)
        return text, (), tuple(sorted(constants.items()))
    return (
        str(kernel),
        tuple((name, value if isinstance(value, str) else repr(value)) for name, value in settings.items()),
        (),
    )


def from_function(kernel: Any, arch: str, settings: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """The TTGIR of a function at hand, which must be a plain Triton kernel, and its constants."""
    wrapper = type(kernel).__name__
    if not type(kernel).__module__.startswith("triton."):
        raise TwillError(
            f"{wrapper} is no kernel",
            help="give a @triton.jit function, FILE.py:function, FILE.ttgir or the text of TTGIR",
        )
    if hasattr(kernel, "fn") and hasattr(kernel.fn, "fn"):
        name = getattr(kernel, "__name__", "kernel")
        raise TwillError(
            f"`{name}` is wrapped in {wrapper}, which decides its constants at each launch",
            help=f"give {name}.fn, and the constants as settings",
        )
    from twill.extract.frontend.triton import capture_kernel

    return capture_kernel(kernel, arch, settings)


def check_target(module: Module, arch: str | None) -> None:
    """Raises TwillError where a module is not meant for `arch`, or `arch` is no architecture."""
    compiled = (module.target or "").rpartition(":")[2]
    wanted = (arch or "").lower().removeprefix("sm").removeprefix("_").removesuffix("a")
    if wanted and not wanted.isdecimal():
        raise TwillError(
            f"`{arch}` is no architecture",
            help="use --arch sm90 or --arch sm100; a GPU's name goes with --machine, such as --machine h200",
        )
    if compiled and wanted and compiled != wanted:
        raise TwillError(
            f"{module.file} is compiled for sm{compiled}, not for sm{wanted}",
            help=f"use --arch sm{compiled}, or a machine of that architecture",
        )
