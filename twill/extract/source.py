"""What a user names on the command line, to a `Module`.

Takes `FILE.ttgir`, the dump of a compilation, or `FILE.py:function` with settings; gives the module that is scheduled.
Only Python files need Triton. Raises TwillError where the file cannot be read, does not fit the architecture, or is no
kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twill.diagnostics import Location, TwillError
from twill.extract.arguments import from_text
from twill.extract.dump import at_the_cut
from twill.extract.ttgir import read
from twill.ir.loop import Module


def load(spec: str, arch: str | None = None, settings: Mapping[str, str] | None = None) -> Module:
    """The module of `spec`. `arch` (`sm90`, `sm100`) may be left out for a file that names its target."""
    file, _, function = spec.rpartition(":") if ".py:" in spec else (spec, "", "")
    if file.endswith(".py"):
        return from_python(file, function, arch, settings or {})
    if settings:
        raise TwillError(f"{spec} is compiled already, so --set has nothing to set", help="--set is for FILE.py:function")
    module = read(at_the_cut(text_of(file), file), file)
    check_target(module, arch)
    return module


def from_python(file: str, function: str, arch: str | None, settings: Mapping[str, str]) -> Module:
    """Compiles a kernel up to where scheduling begins; the module's file is named after the kernel."""
    from twill.extract.triton import capability, capture

    if not function:
        raise TwillError(f"which kernel of {file} is meant?", help=f"write {file}:FUNCTION")
    if arch is None:
        raise TwillError(f"{file}:{function} can be compiled for several architectures", help="give --arch sm90 or --arch sm100")
    text = capture(file, function, arch, from_text(settings))
    return read(text, f"{function}.sm{capability(arch)}.ttgir")


def text_of(file: str) -> str:
    """The text of a file."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TwillError("this is not a text file", Location(file, 1), help="expected the text of TTGIR") from error
    except OSError as error:
        raise TwillError(f"cannot read {file}: {error.strerror}") from error


def check_target(module: Module, arch: str | None) -> None:
    """Whether a module is meant for `arch`."""
    compiled = (module.target or "").rpartition(":")[2]
    wanted = (arch or "").removeprefix("sm").removeprefix("_").removesuffix("a")
    if compiled and wanted and compiled != wanted:
        raise TwillError(f"{module.file} is compiled for sm{compiled}, not for sm{wanted}", help=f"use --arch sm{compiled}")
