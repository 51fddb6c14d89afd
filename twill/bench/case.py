# pyright: reportMissingImports=false
"""What is measured: the table `BENCH` in the file of a kernel.

    BENCH = {"gemm": {"case": product, "shapes": [{"K": 1024}, {"K": 16384}]}}

    def product(settings, M=8192, N=8192, K=4096):
        a, b = (torch.randn(...).to(settings["a"]) ...
        return {
            "arguments": {"a": a, "b": b, "c": c, "M": M, "N": N, "K": K},
            "grid": (triton.cdiv(M, settings["BLOCK_M"]) * triton.cdiv(N, settings["BLOCK_N"]),),
            "outputs": ["c"],
            "flops": 2 * M * N * K,
            "reference": lambda: {"c": (c, a.float() @ b.float().T)},
            "peers": {"cublas": lambda: torch.mm(a, b.T)},
        }

The function makes one case: `settings` are the kernel's constants by name, and PyTorch's type for every
pointer; the other parameters are the shape, with a default each. Outputs are filled with NaN before a kernel
runs. `reference` gives pairs of what was found and what is right (in float32 or float64); without it, what
Triton's own compilation of the kernel computes is right. `zeroed` names outputs that the kernel adds to, and
so need zeros instead of NaN; `before` and `after` are functions that run around the kernel and count as its
time, where a peer does such work too (zeroing what is added to, rounding a result); `tolerance` is the
relative error that is right, where the types of the outputs do not say enough. All but `arguments`, `grid`
and `outputs` may be left out; `shapes` too: then there is one, the defaults.

`triton` beside `case` lists what else Triton's own compilation is tried with, besides numbers of warps and
stages: other constants (`{"BLOCK_M": 64}`), and another kernel of the file that does the same
(`{"kernel": "gemm_persistent", "BLOCK_M": 64}`), which has its own case on the same shape.

Takes the loaded file; gives `Case`s. Raises TwillError for a table that is not as described.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeAlias

from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import Instance

TORCH = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "i1": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""Triton's names of types in PyTorch."""

Shape = Mapping[str, int]
Tensor: TypeAlias = Any
"""An array of PyTorch, or another argument of a kernel."""
Values: TypeAlias = Mapping[str, Any]
"""Values by name: arguments of a kernel, its constants, or options of Triton."""
Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel on one shape."""

    arguments: Values
    """By name: tensors and numbers."""
    grid: tuple[int, ...]
    outputs: Sequence[str]
    flops: float | None = None
    reference: Callable[[], Mapping[str, tuple[Tensor, Tensor]]] | None = None
    """What was found and what is right, by name."""
    peers: Mapping[str, Run] = field(default_factory=dict[str, Run])
    zeroed: Sequence[str] = ()
    """Outputs that the kernel adds to: zero before it runs."""
    before: Run | None = None
    """Runs before the kernel, in its time."""
    after: Run | None = None
    """Runs after it, in its time."""
    tolerance: float | None = None
    """Relative error that is right; None for what the types of the outputs allow."""

    def array(self, name: str) -> Tensor:
        """The array of an argument; of a descriptor, what it describes."""
        value = self.arguments[name]
        return value.base if hasattr(value, "block_shape") else value

    def whole(self, kernel: Run) -> Run:
        """A launch of the kernel with what counts as its time."""
        parts = [part for part in (self.before, kernel, self.after) if part is not None]
        return lambda: [part() for part in parts]

    def poison(self) -> None:
        """Fill the outputs with NaN, integers with a number nobody expects; with zeros where the kernel
        adds."""
        for name in self.outputs:
            output = self.array(name)
            output.fill_(
                0 if name in self.zeroed else float("nan") if output.dtype.is_floating_point else 0x55
            )


@dataclass(frozen=True, slots=True)
class Bench:
    """The entry of one kernel in the table."""

    kernel: str
    make: Callable[..., Values]
    shapes: tuple[Shape, ...]
    triton: tuple[Values, ...] = ()
    """Other constants, and `kernel` for other functions of the file, that Triton is tried with."""

    @property
    def defaults(self) -> Shape:
        """The shape where nothing else is said."""
        return {name: p.default for name, p in list(inspect.signature(self.make).parameters.items())[1:]}

    def case(self, instance: Instance, shape: Shape) -> Case:
        """The case of a shape, with fresh random inputs."""
        made = dict(self.make(_settings(instance), **self._known(shape)))
        members = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(Case)}
        wrong = [name for name in made if name not in members] + [
            name for name, needed in members.items() if needed and name not in made
        ]
        if wrong:
            raise TwillError(
                f"the case of {self.kernel} must have no other members than {', '.join(members)}: look at"
                f" {wrong[0]!r}"
            )
        given, wanted = set(made["arguments"]), set(instance.types)
        if given != wanted:
            raise TwillError(
                f"the case of {self.kernel} must give every argument a value: look at"
                f" {sorted(given ^ wanted)[0]!r}"
            )
        return Case(**made)

    def _known(self, shape: Shape) -> Shape:
        unknown = sorted(set(shape) - set(self.defaults))
        if unknown:
            raise TwillError(
                f"the shape of {self.kernel} has no {unknown[0]!r}", help=f"it has {', '.join(self.defaults)}"
            )
        return shape


def _settings(instance: Instance) -> Values:
    import torch

    pointers = {name: kind.lstrip("*") for name, kind in instance.types.items() if kind.startswith("*")}
    return {
        **instance.constants,
        **{name: getattr(torch, TORCH.get(kind, kind)) for name, kind in pointers.items()},
    }


def bench(names: Values, file: str, kernel: str) -> Bench:
    """The entry of a kernel among the `names` of its file."""
    entry = names.get("BENCH", {}).get(kernel)
    if entry is None:
        raise TwillError(
            f"{file} does not say what to measure of {kernel}",
            help=f'add BENCH = {{"{kernel}": {{"case": FUNCTION}}}}: see docs/kernel-to-cuda.md',
        )
    unknown = sorted(set(entry) - {"case", "shapes", "triton"})
    if unknown or not callable(entry.get("case")):
        raise TwillError(
            f"BENCH[{kernel!r}] of {file} has `case`, a function, `shapes` and `triton`, nothing else"
        )
    return Bench(kernel, entry["case"], tuple(entry.get("shapes", [{}])), tuple(entry.get("triton", ())))
