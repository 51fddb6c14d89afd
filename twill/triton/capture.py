"""Records every kernel that a program launches: `twill.capture/1`.

Takes launches as Triton makes them; gives a JSON file with each kernel's TTIR, types, constants and options,
and the grids and arguments of its launches, each different one once with a count. Arrays are recorded by
type, shape and strides; their contents are not. Each process writes a part, beside the file that `merge`
makes of all.
"""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from twill.emit.files import write
from twill.launch.arrays import Passed
from twill.triton.hooks import Hooks
from twill.triton.request import DOTS, CompiledKernel, Request, request
from twill.triton.session import BEFORE_ARGUMENTS

SCHEMA = "twill.capture/1"

Recorded: TypeAlias = dict[str, Any]
"""A kernel, or one of its launches, as the file holds it."""
MOST = 64
"""Different launches of one kernel that are recorded; further ones are only counted."""


@dataclass
class Kernel:
    """One kernel with one set of types, constants and options."""

    request: Request
    launches: dict[str, int] = field(default_factory=dict[str, int])
    """How often each was made, by its JSON."""
    more: int = 0
    """Launches beyond MOST different ones."""

    def note(self, launch: Recorded) -> bool:
        """Whether the launch is a new one."""
        text = json.dumps(launch)
        fresh = text not in self.launches
        if fresh and len(self.launches) >= MOST:
            self.more += 1
            return False
        self.launches[text] = self.launches.get(text, 0) + 1
        return fresh


class Recorder:
    """Stands in front of Triton's launchers; the file is written anew at each different launch, so that a
    killed process leaves it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kernels: dict[str, Kernel] = {}
        self.hooks = Hooks(self.adopt)

    def adopt(self, kernel: CompiledKernel) -> None:
        found = None if isinstance(kernel._run, _NotedLauncher) else request(kernel)
        if found is None or not any(name in found.ttir for name in DOTS):
            return
        record = self.kernels.setdefault(str(found.metadata["hash"]), Kernel(found))
        kernel._run = _NotedLauncher(kernel._run, partial(self.note, record))

    def note(self, kernel: Kernel, values: Sequence[Passed]) -> None:
        """Nothing is read from the GPU, so launches may be captured in a graph."""
        arguments = [described(value) for value in values[BEFORE_ARGUMENTS:]]
        if kernel.note({"grid": list(values[:3]), "arguments": arguments}):
            self.save()

    def save(self) -> None:
        write(
            self.path,
            json.dumps({"schema": SCHEMA, "kernels": [_record(kernel) for kernel in self.kernels.values()]}),
        )

    def stop(self) -> None:
        self.hooks.remove()
        if self.kernels:
            self.save()


@dataclass(frozen=True)
class _NotedLauncher:
    """Triton's launcher of a kernel, whose launches are noted."""

    triton: Callable[..., None]
    note: Callable[[Sequence[Passed]], None]

    def __call__(self, *values: Passed) -> None:
        self.note(values)
        self.triton(*values)


def described(value: Passed) -> Any:
    """An argument without its contents."""
    if isinstance(value, tuple | list):
        return {"tuple": list(map(described, cast(Sequence[Any], value)))}
    if hasattr(value, "block_shape"):
        return {
            "descriptor": {
                "array": described(value.base),
                "shape": list(value.shape),
                "strides": list(value.strides),
                "block": list(value.block_shape),
            }
        }
    if hasattr(value, "data_ptr"):
        shape = list(getattr(value, "shape", ()))
        strides = list(value.stride()) if hasattr(value, "stride") else []
        return {
            "array": {"type": str(value.dtype).removeprefix("torch."), "shape": shape, "strides": strides}
        }
    return {"value": value if isinstance(value, bool | int | float | str | None) else str(value)}


def _record(kernel: Kernel) -> Recorded:
    found = asdict(kernel.request)
    launches = [{**json.loads(text), "count": count} for text, count in kernel.launches.items()]
    return {**found, "launches": launches, "more": kernel.more}


# --- several processes ------------------------------------------------------------------------------------


def part(path: Path) -> Path:
    """Where this process writes."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def parts(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f".{path.name}.[0-9]*"))


def merge(path: Path) -> list[Recorded]:
    """Writes what all processes recorded to `path`, if they launched any kernel, and removes the parts; gives
    the kernels. Kernels get distinct names (`id`)."""
    found: dict[str, Recorded] = {}
    for place in parts(path):
        for kernel in json.loads(place.read_text())["kernels"]:
            _add(found.setdefault(kernel["metadata"]["hash"], {**kernel, "launches": []}), kernel)
        place.unlink()
    kernels = [
        {"id": name, **kernel} for name, kernel in zip(_distinct(found.values()), found.values(), strict=True)
    ]
    if kernels:
        write(path, json.dumps({"schema": SCHEMA, "kernels": kernels}, indent=1))
    return kernels


def _add(kernel: Recorded, other: Recorded) -> None:
    """The launches of another process."""
    for launch in other["launches"]:
        same = [
            one
            for one in kernel["launches"]
            if (one["grid"], one["arguments"]) == (launch["grid"], launch["arguments"])
        ]
        if same:
            same[0]["count"] += launch["count"]
        else:
            kernel["launches"].append(dict(launch))


def _distinct(kernels: Iterable[Recorded]) -> list[str]:
    """Names, numbered where several kernels share one."""
    names = [kernel["name"] for kernel in kernels]
    return [
        f"{name}.{names[:i].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)
    ]
