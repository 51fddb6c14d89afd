"""Kernels that Triton has compiled already: the TTIR, and what it was compiled for.

Takes the path of a `.ttir` file, or of a `.ttgir` file in a folder of Triton's cache; gives `Precompiled`.
Such a folder holds NAME.ttir, NAME.ttgir (after all passes: pipelined already) and NAME.json (the target and
the options). Raises TwillError where a file cannot be read.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from twill.diagnostics import Location, TwillError
from twill.extract.frontend.options import OPTIONS

WRITTEN_BY_TRITON = frozenset({"hash", "target", "triton_version"})
"""Members of the metadata that Triton writes beside a compiled kernel, in every version from 3.5 to 3.9."""


@dataclass(frozen=True, slots=True)
class Precompiled:
    """TTIR, which precedes all decisions about layouts and schedules."""

    file: str
    text: str
    arch: str | None = None
    """Such as `sm90`; None where no metadata lies beside the file."""
    options: Mapping[str, int | None] = field(default_factory=dict[str, int | None])
    """Launch options, those of `options.OPTIONS` that the metadata names."""
    version: str | None = None
    """Of the Triton that wrote it."""


def precompiled(file: str) -> Precompiled | None:
    """The TTIR that `file` stands for; None for TTGIR that does not come from Triton's cache.

    Raises TwillError where a file cannot be read, and for TTGIR from the cache whose TTIR is gone.
    """
    path = Path(file)
    metadata = _metadata(path.with_suffix(".json")) if path.suffix in (".ttir", ".ttgir") else None
    if path.suffix != ".ttir" and metadata is None:
        return None
    ttir = path.with_suffix(".ttir")
    if path.suffix == ".ttgir" and not ttir.is_file():
        raise TwillError(
            f"{file} is the result of Triton's own pipelining, and {ttir.name} is not beside it", help=ANOTHER
        )
    return described(str(ttir), text_of(str(ttir)), metadata or {})


ANOTHER = (
    "give what Triton has before it pipelines: the .ttir of the same kernel (in Triton's cache),"
    " FILE.py:FUNCTION, or what MLIR_ENABLE_DUMP=1 prints (with TRITON_ALWAYS_COMPILE=1)"
)
"""How to get a kernel that is not pipelined."""


def described(file: str, text: str, metadata: Mapping[str, Any]) -> Precompiled:
    """TTIR with the metadata that Triton keeps of its compilation."""
    target = cast("Mapping[str, Any]", metadata.get("target") or {})
    if target and target.get("backend") != "cuda":
        raise TwillError(
            f"{file} is compiled for {target.get('backend')}", help="Twill schedules for NVIDIA GPUs"
        )
    options = {name: metadata[name] for name in OPTIONS if isinstance(metadata.get(name), int)}
    arch = f"sm{target['arch']}" if "arch" in target else None
    return Precompiled(file, text, arch, options, metadata.get("triton_version"))


def _metadata(path: Path) -> Mapping[str, Any] | None:
    """What Triton says about a compiled kernel; None where the file is missing or of another program."""
    if not path.is_file():
        return None
    try:
        found: object = json.loads(text_of(str(path)))
    except ValueError:
        return None
    members = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return members if set(members) >= WRITTEN_BY_TRITON else None


def text_of(file: str) -> str:
    """The text of a file. Raises TwillError where there is none."""
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TwillError(
            "this is not a text file", Location(file, 1), help="expected the text of TTGIR"
        ) from error
    except OSError as error:
        raise TwillError(f"cannot read {file}: {error.strerror}") from error
