# pyright: reportMissingImports=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""The contenders: the generated kernel, the peers that its file names, and Triton's own compilation of the
same kernel.

Takes a kernel file, a built kernel and a shape; gives functions that launch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from os import cpu_count
from typing import Any

from twill.bench.case import Bench, Case, Run, Shape, Tensor, Values, bench
from twill.bench.measure import times
from twill.diagnostics import TwillError
from twill.extract.frontend.arguments import Instance
from twill.extract.frontend.capture_file import is_capture
from twill.extract.frontend.options import OPTIONS
from twill.launch.load import Kernel

TWILL, TRITON, WAVE = "twill", "triton", "wave"

WARPS, STAGES, ROUNDS = (4, 8), (2, 3, 4), 3
"""What every form of Triton's is tried with; so often each."""


@dataclass(frozen=True, slots=True)
class Form:
    """Something that Triton compiles for the same task."""

    named: Values
    """What it has of its own, as the file's table says: constants, and `kernel` for another function."""
    bench: Bench
    triton: Any
    """The `@triton.jit` function."""
    instance: Instance


@dataclass(frozen=True, slots=True)
class Field:
    """A kernel with all that is needed to measure it."""

    bench: Bench
    kernel: Kernel
    triton: Any
    """The `@triton.jit` function."""
    instance: Instance
    forms: tuple[Form, ...] = ()
    """Others that Triton is tried with."""

    def case(self, shape: Shape) -> Case:
        return self.bench.case(self.instance, shape)

    def own(self, case: Case, grid: tuple[int, ...] | None = None) -> Run:
        """The generated kernel, on another grid than the case's where one is given."""
        return lambda: self.kernel[grid or case.grid](**case.arguments)

    def all(self, case: Case, shape: Shape, triton: Values) -> dict[str, Run]:
        """Everything that can be run, by name: Triton with these values, as `tuned` gives them; WAVE, one
        thread block of the generated kernel per SM."""
        return {
            TWILL: case.whole(self.own(case)),
            **case.peers,
            TRITON: self.by_triton(case, shape, triton),
            WAVE: self.own(case, one_wave(case.grid)),
        }

    def by_triton(self, case: Case, shape: Shape, values: Values) -> Run:
        """Triton's compilation with what `tuned` gives, on the arrays of the case where it takes the like."""
        options = {name: value for name, value in values.items() if name in OPTIONS}
        named = {name: value for name, value in values.items() if name not in OPTIONS}
        form = next(form for form in (self._own, *self.forms) if form.named == named)
        made = self._case(form, case, shape)
        return made.whole(_launch(form, made, options))

    def tuned(self, case: Case, shape: Shape) -> Values | None:
        """The form and the options with which Triton is fastest: `kernel` where it is another function, its
        constants, `num_warps` and `num_stages`; None where it cannot be run at all."""
        tried = list(self._tried(case, shape))
        _compile([one.launch for one in tried])
        runs = {str(number): one.run for number, one in enumerate(tried) if _runs(one.run)}
        if not runs:
            return None
        found = times(runs, ROUNDS)
        return tried[int(min(runs, key=lambda number: found[number].median))].values

    def _tried(self, case: Case, shape: Shape) -> Iterator["Tried"]:
        warps = sorted({*WARPS, self.instance.options["num_warps"] or WARPS[0]})
        for form in (self._own, *self.forms):
            made = self._case(form, case, shape)
            for number, stages in product(warps, STAGES):
                options = {"num_warps": number, "num_stages": stages}
                launched = _launch(form, made, options)
                yield Tried({**form.named, **options}, launched, made.whole(launched))

    def _case(self, form: Form, case: Case, shape: Shape) -> Case:
        """That of a form, where `case` is the kernel's own."""
        return _alike(form, shape, case) if form.named else case

    @property
    def _own(self) -> Form:
        return Form({}, self.bench, self.triton, self.instance)


@dataclass(frozen=True, slots=True)
class Tried:
    """What Triton is tried with."""

    values: Values
    launch: Callable[..., Any]
    """Compiles it only, where it is called with `warmup`."""
    run: Run
    """A launch with what counts as its time."""


def _launch(form: Form, case: Case, options: Values) -> Callable[..., Any]:
    from twill.extract.frontend.triton import launch

    return partial(launch, form.triton, case.grid, case.arguments, form.instance, options)


def _compile(launches: Sequence[Callable[..., Any]]) -> None:
    """Compile all of them in parallel, if this version of Triton can. The launch raises errors again."""
    import triton

    mode = getattr(triton, "AsyncCompileMode", None)
    if mode is not None:
        with ThreadPoolExecutor(cpu_count()) as pool, mode(pool, ignore_errors=True):
            for one in launches:
                one(warmup=True)


def _alike(form: Form, shape: Shape, case: Case) -> Case:
    """The case of another form, on the arrays of this one where they are alike, and with what counts as this
    one's time where the arguments are: nothing else of the form's is kept, since some shapes fill a GPU's
    memory."""
    made = form.bench.case(form.instance, {key: shape[key] for key in form.bench.defaults if key in shape})
    arguments = {
        name: case.arguments[name] if _same(case.arguments.get(name), value) else value
        for name, value in made.arguments.items()
    }
    first = case if set(arguments) == set(case.arguments) else made
    return replace(first, arguments=arguments, grid=made.grid)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two arguments are arrays of the same type, shape and strides."""
    both = all(hasattr(array, "stride") for array in (one, other))
    return both and (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())


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
    own = bench(names, file, function)
    return Field(own, kernel, triton, instance, tuple(_forms(own, file, arch, settings)))


def _forms(own: Bench, file: str, arch: str, settings: Values) -> Iterator[Form]:
    """Those of the file's table."""
    from twill.extract.frontend.triton import resolved

    for named in own.triton:
        function = named.get("kernel", own.kernel)
        constants = {name: value for name, value in named.items() if name != "kernel"}
        triton, names, instance = resolved(file, function, arch, {**settings, **constants})
        yield Form(named, bench(names, file, function), triton, instance)
