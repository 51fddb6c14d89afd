# pyright: reportMissingImports=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""The contenders: the generated kernel, the peers that its file names, and Triton's own compilation of the
same kernel.

Takes a kernel file, a built kernel and a shape; gives functions that launch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from twill.bench.case import Bench, Case, Run, Shape, Values, bench
from twill.bench.measure import times
from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import Instance
from twill.extract.frontend.capture_file import is_capture
from twill.launch.load import Kernel

TWILL, TRITON, WAVE = "twill", "triton", "wave"

WARPS, STAGES, ROUNDS = (4, 8), (2, 3, 4), 3
"""What Triton's compilation is tried with; so often each."""


@dataclass(frozen=True, slots=True)
class Field:
    """A kernel with all that is needed to measure it."""

    bench: Bench
    kernel: Kernel
    triton: Any
    """The `@triton.jit` function."""
    instance: Instance

    def case(self, shape: Shape) -> Case:
        return self.bench.case(self.instance, shape)

    def own(self, case: Case, grid: tuple[int, ...] | None = None) -> Run:
        """The generated kernel, on another grid than the case's where one is given."""
        return lambda: self.kernel[grid or case.grid](**case.arguments)

    def all(self, case: Case, triton: Values) -> dict[str, Run]:
        """Everything that can be run, by name: Triton with these options; WAVE, one thread block of the
        generated kernel per SM."""
        from twill.extract.frontend.triton import launch

        by_triton = partial(launch, self.triton, case.grid, case.arguments, self.instance, triton)
        return {
            TWILL: case.whole(self.own(case)),
            **case.peers,
            TRITON: case.whole(by_triton),
            WAVE: self.own(case, one_wave(case.grid)),
        }

    def tuned(self, case: Case) -> Values | None:
        """The options with which Triton's compilation is fastest; None where it cannot be run at all."""
        runs = {(warps, stages): run for warps, stages, run in self._variants(case)}
        if not runs:
            return None
        found = times(runs, ROUNDS)  # pyright: ignore
        warps, stages = min(runs, key=lambda key: found[key].median)  # pyright: ignore
        return {"num_warps": warps, "num_stages": stages}

    def _variants(self, case: Case) -> Iterator[tuple[int, int, Run]]:
        for warps in sorted({*WARPS, self.instance.options["num_warps"] or WARPS[0]}):
            for stages in STAGES:
                run = self.all(case, {"num_warps": warps, "num_stages": stages})[TRITON]
                if _runs(run):
                    yield warps, stages, run


def one_wave(grid: tuple[int, ...]) -> tuple[int, ...]:
    """The first thread blocks of a grid, as many as there are SMs at most."""
    import torch

    sizes, most = list[int](), torch.cuda.get_device_properties(0).multi_processor_count
    for size in grid:
        sizes.append(min(size, max(1, most)))
        most //= sizes[-1]
    return tuple(sizes)


def _runs(run: Run) -> bool:
    """Whether Triton compiles it and it fits."""
    import torch
    from triton.runtime.errors import OutOfResources

    try:
        run()
        torch.cuda.synchronize()
    except OutOfResources:
        return False
    return True


def field(spec: str, arch: str, settings: Mapping[str, object], kernel: Kernel) -> Field:
    """For `FILE.py:function`. Raises TwillError where the file says nothing about measuring it."""
    from twill.extract.frontend.triton import resolved

    file, _, function = spec.rpartition(":")
    if is_capture(file) or is_capture(spec):
        from twill.bench.captured import field_of

        return field_of(spec, kernel)
    if not file.endswith(".py"):
        advice = "write FILE.py:FUNCTION, or record its launches with twill capture"
        raise TwillError(f"{spec} cannot be measured: its file does not say on what", help=advice)
    triton, names, instance = resolved(file, function, arch, settings)
    return Field(bench(names, file, function), kernel, triton, instance)
