"""One kernel that Triton has compiled, as a request to Twill.

Takes Triton's `CompiledKernel`; gives a `Request`, which names the kernel on disk (`key`) and says at once
where Twill has nothing for it.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from twill.costs.machine_files import DEFAULTS, available
from twill.extract.frontend.options import OPTIONS
from twill.launch.folders import sources
from twill.triton import store
from twill.triton.hooks import CompiledKernel
from twill.triton.settings import Settings

LOCATION = re.compile(r"^#loc\d* = loc\(.*$", re.MULTILINE)
"""A line of TTIR that names a place in the source."""
WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
"""In TTGIR, the number that the kernel was compiled for; where Triton specializes warps, its metadata counts
those that it adds."""
DOTS = ("tt.dot ", "tt.dot_scaled ")
"""Without one of these there is nothing to schedule."""


@dataclass(frozen=True, slots=True)
class Request:
    """A kernel with one set of types, constants and options."""

    name: str
    configuration: str
    """Constants and options, for people."""
    signature: tuple[Any, ...]
    """The type of each parameter, in order."""
    ttir: str
    arch: str
    metadata: Mapping[str, Any]
    """As in the `.json` that Triton keeps beside its kernels."""

    @property
    def unfit(self) -> str | None:
        """Why Twill has no kernel in any case; None where it may have one."""
        if not self.ttir:
            return "Triton kept no TTIR of it"
        if not any(name in self.ttir for name in DOTS):
            return "it has no dot"
        if self.arch not in DEFAULTS:
            return f"Twill generates kernels for {', '.join(DEFAULTS)}, and this is {self.arch}"
        if self.metadata.get("num_ctas", 1) != 1:
            return "it runs on clusters of thread blocks (num_ctas)"
        return "it is launched cooperatively" if self.metadata.get("launch_cooperative_grid") else None

    def key(self, settings: Settings) -> str:
        """Names all that the generated kernel depends on: the TTIR (source, types, constants), options,
        Triton's version, the machine, Twill itself, sub-tiles, and how long may be searched.

        The number of stages is left out: it decides how Triton pipelines, after the point where Twill takes
        the kernel. Configurations of a tuner that differ in it alone share a kernel. Where the source lies is
        left out, too.
        """
        options = {name: self.metadata.get(name) for name in OPTIONS if name != "num_stages"}
        parts = (
            LOCATION.sub("", self.ttir),
            json.dumps(options),
            self.metadata.get("triton_version"),
            _machine(settings.machine, self.arch),
            settings.time_limit,
            settings.subtile,
            sources(),
        )
        return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:40]

    def save(self, key: str) -> Path:
        """Writes the request for a process that serves it; gives the path of the TTIR."""
        from twill.emit.files import write  # a program whose kernels are there writes nothing

        path = store.folder_of(key) / f"{self.name}.ttir"
        write(path.with_suffix(".json"), json.dumps(self.metadata))
        write(path, self.ttir)
        return path


@cache
def _machine(name: str | None, arch: str) -> str:
    """A machine that comes with Twill by its name, since its file is one of Twill's sources; all numbers of
    another one."""
    if not name or name in available():
        return name or DEFAULTS[arch]
    from twill.costs.machine import load  # takes longer than all the rest of the key

    return str(load(name))


def request(kernel: CompiledKernel) -> Request | None:
    """Of a `CompiledKernel`; None where it is not for an NVIDIA GPU."""
    target = kernel.metadata.target
    if target.backend != "cuda":
        return None
    metadata = {
        "hash": kernel.hash,
        "target": {"backend": target.backend, "arch": target.arch, "warp_size": target.warp_size},
        "triton_version": getattr(kernel.metadata, "triton_version", None),
        "launch_cooperative_grid": bool(getattr(kernel.metadata, "launch_cooperative_grid", False)),
        **{name: getattr(kernel.metadata, name, default) for name, default in OPTIONS.items()},
    }
    warps = WARPS.search(str(dict[str, Any].get(kernel.asm, "ttgir", "")))
    if warps:
        metadata["num_warps"] = int(warps[1])
    signature = kernel.src.signature
    return Request(
        name=kernel.metadata.name,
        configuration=configuration(
            list(signature), getattr(kernel.src, "constants", {}), metadata, unaligned(kernel.src)
        ),
        signature=tuple(signature.values()),
        ttir=str(dict[str, Any].get(kernel.asm, "ttir", "")),
        arch=f"sm{target.arch}",
        metadata=metadata,
    )


def configuration(
    names: Sequence[Any],
    constants: Mapping[Any, Any],
    metadata: Mapping[str, Any],
    unaligned: Sequence[str] = (),
) -> str:
    """Constants by the names of their parameters, then the arguments that are no multiples of 16, the warps
    and the stages. Left out are absent arguments (None)."""
    shown = [
        f"{_named(names, path)}={value}"
        for path, value in constants.items()
        if isinstance(value, int | float | str)
    ]
    shown += [f"unaligned={'+'.join(unaligned)}"] if unaligned else []
    return ", ".join([*shown, f"num_warps={metadata['num_warps']}", f"num_stages={metadata['num_stages']}"])


def unaligned(source: Any) -> list[str]:
    """The integers and pointers for which Triton did not find a multiple of 16: launches that differ in this
    alone have kernels of their own."""
    attributes = getattr(source, "attrs", None)
    if not attributes:
        return []
    return [
        str(name)
        for at, (name, kind) in enumerate(source.signature.items())
        if str(kind).startswith(("*", "i32", "i64")) and not attributes.get((at,))
    ]


def _named(names: Sequence[Any], path: str | tuple[int, ...]) -> str:
    """Triton names constants by the position of the parameter, and positions inside tuples."""
    if not isinstance(path, tuple):
        return str(path)
    return ".".join([str(names[path[0]]), *map(str, path[1:])])
