"""Kernels in a file that `twill capture` wrote (`twill.capture/1`).

Takes `FILE.json:NAME`; gives the kernel as TTIR with what it was compiled for, and its launches. Raises
TwillError where the file is not one, or names no such kernel.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from twill.diagnostics import TwillError
from twill.extract.frontend.cache import Precompiled, described, text_of

SCHEMA = "twill.capture/1"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Captured:
    """One kernel that a program launched."""

    name: str
    """Distinct among the kernels of the file."""
    configuration: str
    kernel: Precompiled
    signature: tuple[Any, ...]
    """Triton's type of each parameter, tuples as tuples."""
    launches: tuple[Json, ...]
    """`grid`, `arguments` (`array`, `descriptor`, `tuple` or `value`), `count`."""


def is_capture(file: str) -> bool:
    """Whether a `.json` file is a capture; its first characters say so."""
    path = Path(file)
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as opened:
        return SCHEMA in opened.read(64)


def kernel_of(spec: str) -> Captured:
    """The kernel of `FILE.json:NAME`, or the only one of `FILE.json`."""
    file, _, name = (spec, "", "") if Path(spec).exists() else spec.rpartition(":")
    kernels = kernels_in(file)
    chosen = [kernel for kernel in kernels if not name or kernel.name == name]
    if len(chosen) != 1:
        there = "; ".join(f"{kernel.name} ({kernel.configuration})" for kernel in kernels) or "none"
        wrong = f"{file} has no kernel {name}" if name else f"{file} has {len(kernels)} kernels"
        example = (
            f"choose one, such as {file}:{kernels[0].name}"
            if kernels
            else "capture a program that launches a kernel with a dot"
        )
        raise TwillError(f"{wrong}; it has: {there}", help=example)
    return chosen[0]


def kernels_in(file: str) -> tuple[Captured, ...]:
    """All kernels of a file."""
    try:
        root = json.loads(text_of(file))
        if root["schema"] != SCHEMA:
            raise TwillError(
                f"{file} is {root['schema']}, not {SCHEMA}", help="write one with twill capture -- COMMAND"
            )
        return tuple(_kernel(file, entry) for entry in root["kernels"])
    except (ValueError, KeyError, TypeError) as error:
        message = f"{file} is no {SCHEMA}: {type(error).__name__}: {error}"
        raise TwillError(message, help="write it anew with twill capture -- COMMAND") from error


def _kernel(file: str, entry: Json) -> Captured:
    name = str(entry["id"])
    kernel = described(f"{file}:{name}", str(entry["ttir"]), entry["metadata"])
    launches = cast("Sequence[Json]", entry["launches"])
    return Captured(name, str(entry["configuration"]), kernel, _types(entry["signature"]), tuple(launches))


def _types(signature: Sequence[Any]) -> tuple[Any, ...]:
    """JSON has no tuples."""
    return tuple(_types(cast("list[Any]", one)) if isinstance(one, list) else one for one in signature)
