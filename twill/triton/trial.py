# pyright: reportMissingImports=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false
"""The first launch of a kernel, by Triton and by Twill on the same arguments.

`beside` takes a function that launches Triton's kernel, and the values of the launch; inside, one form of
Twill's after the other is compared with it (`Against`), each in a `Trial`. The memory behind every array is
saved, all kernels run on it, and what Triton's wrote is there at the end: the program sees one launch.
Memory is compared whole, inputs too, so that a store that goes astray inside these allocations is found.
Needs PyTorch.
"""

import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any, Protocol, TypeAlias

from twill.launch.arrays import Passed
from twill.triton.store import NoTrialError, Trial

Tensor: TypeAlias = Any
"""A PyTorch tensor, or in tests whatever a `Memory` saves."""
Run = Callable[[], Any]

ROUNDS, LEAST_ROUNDS = 7, 3
"""Measurements of each kernel; of long ones, whose times vary less."""
LONG = 100.0
"""Milliseconds of measured runs after which the least number is enough."""
CHUNK = 2**24
"""Elements that are compared at a time."""
OUTLIER = 32
"""How many times the tolerance a single element may be off, relative to itself plus the root mean square of
all."""


Measure = Callable[[Mapping[str, Run], Run], Mapping[str, float]]
"""Milliseconds of runs by name; the second function puts the memory back, which each run wants: a kernel may
count in it, or lock."""


Against = Callable[[Run], Trial]
"""Launches a kernel of Twill's. Raises whatever that raises."""


class Memory(Protocol):
    """All bytes of one allocation."""

    name: str
    """Of the argument, by its position."""

    def save(self) -> Tensor: ...
    def restore(self, saved: Tensor) -> None: ...
    def difference(self, right: Tensor, before: Tensor) -> str | None:
        """What is wrong with the bytes as they are; None where they agree with `right`. `before`: as they
        were before both launches."""
        ...


@contextmanager
def beside(triton: Run, memories: Sequence[Memory], measure: Measure | None) -> Generator[Against]:
    """Launches Triton's kernel. Raises whatever that raises, and what saving raises (then nothing has been
    launched, as far as memory tells)."""
    before = [memory.save() for memory in memories]
    triton()
    try:
        right = [memory.save() for memory in memories]
    except BaseException:
        _restore(memories, before)
        raise

    def against(twill: Run) -> Trial:
        _restore(memories, before)
        twill()
        found = (memory.difference(*saved) for memory, *saved in zip(memories, right, before, strict=True))
        result = Trial(wrong=next((wrong for wrong in found if wrong), None))
        if measure and not result.wrong:
            times = measure({"triton": triton, "twill": twill}, lambda: _restore(memories, before))
            result = replace(result, triton_ms=times["triton"], twill_ms=times["twill"])
        return result

    try:
        yield against
    finally:
        _restore(memories, right)


def _restore(memories: Sequence[Memory], saved: Sequence[Tensor]) -> None:
    for memory, content in zip(memories, saved, strict=True):
        memory.restore(content)


# --- with PyTorch -----------------------------------------------------------------------------------------


@contextmanager
def torch_beside(triton: Run, values: Sequence[Passed], measure: bool) -> Generator[Against]:
    """For a launch with these values. Raises NoTrialError where PyTorch is missing, or memory is, as a trial
    inside does."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise NoTrialError("the program does not use PyTorch")
    with _memory_enough(torch), beside(triton, list(allocations(values)), _times if measure else None) as one:

        def against(twill: Run) -> Trial:
            with _memory_enough(torch):
                return one(twill)

        yield against


@contextmanager
def _memory_enough(torch: Any) -> Generator[None]:
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise NoTrialError("there is not enough memory to save its arguments") from error


def _times(runs: Mapping[str, Run], reset: Run) -> Mapping[str, float]:
    """Medians. The copies that put the memory back leave the same in the L2 for both; a sleeping kernel lets
    the host run ahead."""
    import torch

    from twill.bench.measure import SLEEP

    found: dict[str, list[float]] = {name: [] for name in runs}
    while more_rounds(found.values()):
        for name, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            reset()
            torch.cuda._sleep(SLEEP)
            begin.record()
            run()
            end.record()
            end.synchronize()
            found[name].append(begin.elapsed_time(end))
    return {name: median(values) for name, values in found.items()}


def more_rounds(times: Collection[Sequence[float]]) -> bool:
    """Whether to measure on, after these milliseconds of each kernel."""
    rounds = min(map(len, times))
    return rounds < LEAST_ROUNDS or (rounds < ROUNDS and sum(map(sum, times)) < LONG)


def arrays(values: Sequence[Passed], name: str = "argument") -> Iterator[tuple[str, Tensor]]:
    """Tensors among the values of a launch, inside tuples and descriptors too."""
    for i, value in enumerate(values):
        if isinstance(value, tuple | list):
            yield from arrays(value, f"{name} {i}")
        elif hasattr(value, "untyped_storage"):
            yield f"{name} {i}", value
        elif hasattr(value, "base"):  # a TensorDescriptor, or Triton's view of a tensor in another type
            yield from arrays((value.base,), f"{name} {i} base")


def allocations(values: Sequence[Passed]) -> Iterator["_Allocation"]:
    """Each piece of memory once, seen in the type of the first tensor that lies in it."""
    known = set[int]()
    for name, tensor in arrays(values):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known and storage.nbytes():
            known.add(storage.data_ptr())
            yield _Allocation(name, tensor)


class _Allocation:
    """A PyTorch storage."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        import torch

        self.name = name
        self._dtype = tensor.dtype
        self._bytes = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())

    def save(self) -> Tensor:
        return self._bytes.clone()

    def restore(self, saved: Tensor) -> None:
        self._bytes.copy_(saved)

    def difference(self, right: Tensor, before: Tensor) -> str | None:
        import torch

        from twill.launch.arrays import of_torch
        from twill.simulate.compare import TOLERANCE

        if torch.equal(self._bytes, right):
            return None
        size = self._bytes.numel() // self._dtype.itemsize * self._dtype.itemsize
        if not self._dtype.is_floating_point or not size:
            return f"{self.name} differs"
        tolerance = TOLERANCE.get(of_torch(self._dtype), 0.0)
        found, expected, old = (one[:size].view(self._dtype) for one in (self._bytes, right, before))
        return _floats(found, expected, old, tolerance, self.name)


WORDS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
"""Types of PyTorch by which elements of so many bytes are compared bit by bit."""


def _floats(found: Tensor, expected: Tensor, before: Tensor, tolerance: float, name: str) -> str | None:
    """Of the elements that either kernel wrote: by the norm of the difference, and by the largest single one;
    NaN and infinity must stand in the same places. Elements that both left alone say nothing: memory that
    nobody has set may hold any number.
    """
    total, count = 0.0, 0
    for _, right in _written(found, expected, before):
        finite = right[right.isfinite()]
        total, count = total + float((finite * finite).sum()), count + finite.numel()
    mean_square = total / max(1, count)
    off = 0.0
    for one, right in _written(found, expected, before):
        regular = right.isfinite()
        if not (one.isfinite() == regular).all() or not _same(one[~regular], right[~regular]):
            return f"{name} has NaN or infinity in other places"
        difference = (one[regular] - right[regular]).abs()
        if (difference > OUTLIER * tolerance * (right[regular].abs() + mean_square**0.5)).any():
            return f"{name} is off by {float(difference.max()):.1e} at an element"
        off += float((difference * difference).sum())
    error = (off / total) ** 0.5 if total else off
    return None if error <= tolerance else f"{name} has a relative error of {error:.1e}"


def _same(one: Tensor, right: Tensor) -> bool:
    """Of values that are not finite."""
    return bool(((one == right) | (one.isnan() & right.isnan())).all())


def _written(found: Tensor, expected: Tensor, before: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """What was found and what is right, in double precision, a part at a time: whole arrays may not fit four
    times."""
    import torch

    word = getattr(torch, WORDS[found.dtype.itemsize])
    for at in range(0, found.numel(), CHUNK):
        one, right, old = (array[at : at + CHUNK] for array in (found, expected, before))
        changed = (one.view(word) != old.view(word)) | (right.view(word) != old.view(word))
        yield one[changed].double(), right[changed].double()
