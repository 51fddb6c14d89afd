# pyright: reportMissingImports=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""Captured launches as something to measure: `twill bench capture.json:gemm`.

Takes a kernel of a capture file and its built form; gives a `Field` whose shapes are the recorded launches,
numbered from 0, the most frequent first. Arrays have the recorded types, shapes and strides; floats are
random, integers zero, so that indices among them stay in bounds. What Triton's own compilation of the
recorded TTIR computes is right. Raises TwillError for a launch that cannot be made again.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from twill.bench.case import Bench, Tensor, Values
from twill.bench.contenders import Field
from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import Instance
from twill.extract.frontend.cache import Precompiled
from twill.extract.frontend.capture_file import Captured, kernel_of
from twill.extract.frontend.options import OPTIONS
from twill.extract.reader.ttgir import read
from twill.ir.loop import Function, Op, Value
from twill.launch.load import Kernel, own_arguments
from twill.ops.table import role, writes_global

CONSTANT = "constexpr"


def field_of(spec: str, kernel: Kernel) -> Field:
    """Of `FILE.json:NAME`."""
    captured = kernel_of(spec)
    names = [argument.name for argument in own_arguments(kernel.manifest.arguments)]
    launches = sorted(captured.launches, key=lambda launch: -launch["count"])
    outputs = stored(read((kernel.folder / "kernel.ttgir").read_text(), "kernel.ttgir").functions[0], names)

    def make(settings: Values, launch: int = 0) -> Values:
        if not 0 <= launch < len(launches):
            raise TwillError(
                f"{spec} has no launch {launch}", help=f"it has launches 0 to {len(launches) - 1}"
            )
        recorded = launches[launch]
        values = list(_values(captured.signature, recorded["arguments"]))
        if len(values) != len(names):
            raise TwillError(
                f"{spec} was launched with {len(values)} arguments, and the kernel takes {len(names)}:"
                f" {', '.join(names)}"
            )
        return {
            "arguments": dict(zip(names, values, strict=True)),
            "grid": tuple(recorded["grid"]),
            "outputs": outputs,
        }

    instance = Instance(dict.fromkeys(names, ""), frozenset(), {}, {**OPTIONS, **captured.kernel.options})
    shapes = tuple({"launch": i} for i in range(len(launches)))
    return Field(Bench(captured.name, make, shapes), kernel, Recompiled(captured), instance)


def _values(signature: Sequence[Tensor], arguments: Sequence[Values]) -> Iterator[Tensor]:
    """What is passed at run time, in order."""
    for kind, argument in zip(signature, arguments, strict=True):
        if isinstance(kind, tuple):
            yield from _values(kind, argument["tuple"])
        elif kind != CONSTANT:
            yield _value(argument)


def _value(argument: Values) -> Any:
    """One argument anew."""
    match argument:
        case {"array": {"type": type, "shape": shape, "strides": strides}}:
            return _array(type, shape, strides)
        case {"descriptor": {"array": {"array": array}, "shape": shape, "strides": strides, "block": block}}:
            from triton.tools.tensor_descriptor import TensorDescriptor

            return TensorDescriptor(
                _array(array["type"], array["shape"], array["strides"]), shape, strides, block
            )
        case {"value": value}:
            return value
        case _:
            raise TwillError(f"the recorded argument {argument} is not understood")


def _array(type: str, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    import torch

    found = torch.empty_strided(shape, strides, dtype=getattr(torch, type), device="cuda")
    return found.copy_(torch.randn(shape, device="cuda")) if found.dtype.is_floating_point else found.zero_()


# --- what the kernel writes -------------------------------------------------------------------------------


def stored(function: Function, names: Sequence[str]) -> list[str]:
    """The arguments, among `names`, behind whose addresses the kernel stores."""
    origins = {result.id: op.operands[0] for op in function.walk() if op.operands for result in op.results}
    origins |= {arg.id: init for op in function.walk() if role(op) == "for" for arg, init in _carried(op)}
    roots = {_root(op.operands[0], origins).name.lstrip("%") for op in function.walk() if writes_global(op)}
    return [name for name in names if name in roots]


def _carried(op: Op) -> Iterator[tuple[Value, Value]]:
    return zip(op.regions[0].blocks[0].args[1:], op.operands[3:], strict=True)


def _root(value: Value, origins: Mapping[int, Value]) -> Value:
    """The argument that an address is computed from: by the first operands, and by what a carried value
    begins with."""
    while value.id in origins:
        value = origins[value.id]
    return value


# --- Triton's own compilation -----------------------------------------------------------------------------


@dataclass(eq=False)
class Recompiled:
    """Stands for the `@triton.jit` function: `recompiled[grid](*arguments, **arguments, **options)`."""

    captured: Captured
    binaries: dict[tuple[Any, ...], Any] = field(default_factory=dict[tuple[Any, ...], Any])

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        x, y, z = (*grid, 1, 1)[:3]

        def launch(*first: Any, **values: Any) -> None:
            options = {name: values.pop(name) for name in OPTIONS if name in values}
            binary = self.binary({name: value for name, value in options.items() if value is not None})
            binary[(x, y, z)](*_rebuilt(self.captured.signature, chain(first, values.values())))

        return launch

    def binary(self, options: Values) -> Any:
        """Triton's kernel for these launch options; it is launched with the arguments of the original."""
        key = tuple(sorted(options.items()))
        if key not in self.binaries:
            made = compiled(self.captured.kernel, options)
            made.src.signature, made.src.constants = dict(enumerate(self.captured.signature)), {}
            self.binaries[key] = made
        return self.binaries[key]


def compiled(kernel: Precompiled, options: Values) -> Any:
    """Triton's `CompiledKernel` of recorded TTIR."""
    import triton
    from triton.backends.compiler import GPUTarget

    from twill.extract.frontend.triton_errors import triton_errors
    from twill.extract.frontend.triton_passes import capability

    with tempfile.TemporaryDirectory() as folder, triton_errors(kernel.file):
        path = Path(folder, "kernel.ttir")
        path.write_text(kernel.text)
        return triton.compile(
            str(path), target=GPUTarget("cuda", capability(kernel.arch or "sm90"), 32), options=dict(options)
        )


def _rebuilt(signature: Sequence[Tensor], values: Iterator[Tensor]) -> tuple[Any, ...]:
    """The arguments as the original kernel takes them; constants are compiled in, so anything stands for
    them."""
    return tuple(
        _rebuilt(kind, values) if isinstance(kind, tuple) else None if kind == CONSTANT else next(values)
        for kind in signature
    )
