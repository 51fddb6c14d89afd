"""Trials of two kernels on the same memory, which here is a NumPy array."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from twill.triton.store import Trial
from twill.triton.trial import Measure, Run, beside, more_rounds


@dataclass
class Array:
    """One allocation."""

    name: str
    data: Any

    def save(self) -> Any:
        return self.data.copy()

    def restore(self, saved: Any) -> None:
        self.data[...] = saved

    def difference(self, right: Any, before: Any) -> str | None:
        return None if np.array_equal(self.data, right) else f"{self.name} differs"


@pytest.fixture
def memory() -> Array:
    return Array("argument 0", np.arange(4))


def trial(triton: Run, twill: Run, memories: list[Array], measure: Measure | None) -> Trial:
    """Of one kernel."""
    with beside(triton, memories, measure) as against:
        return against(twill)


def adds(memory: Array, amount: int) -> Callable[[], None]:
    """A kernel that works in place."""

    def run() -> None:
        memory.data += amount

    return run


def test_both_start_from_the_same_memory_and_the_program_sees_one_launch(memory: Array) -> None:
    found = trial(adds(memory, 1), adds(memory, 1), [memory], None)
    assert found.wrong is None
    assert memory.data.tolist() == [1, 2, 3, 4]


def test_one_form_after_the_other_starts_from_the_same_memory(memory: Array) -> None:
    """Triton's kernel is launched once, and a kernel that differs spoils nothing for the next one."""
    launched: list[int] = []

    def triton() -> None:
        launched.append(1)
        adds(memory, 1)()

    with beside(triton, [memory], None) as against:
        assert against(adds(memory, 2)).wrong == "argument 0 differs"
        assert against(adds(memory, 1)).wrong is None
    assert (memory.data.tolist(), launched) == ([1, 2, 3, 4], [1])


def test_a_difference_is_found_and_tritons_result_stays(memory: Array) -> None:
    assert trial(adds(memory, 1), adds(memory, 2), [memory], None).wrong == "argument 0 differs"
    assert memory.data.tolist() == [1, 2, 3, 4]


def test_a_kernel_that_does_nothing_is_found(memory: Array) -> None:
    assert trial(adds(memory, 1), lambda: None, [memory], None).wrong == "argument 0 differs"


def test_measuring_leaves_no_trace(memory: Array) -> None:
    begun: list[Any] = []

    def measure(runs: Mapping[str, Run], reset: Run) -> Mapping[str, float]:
        for run in [*runs.values()] * 3:
            reset()
            begun.append(memory.data.tolist())
            run()
        return {"triton": 3.0, "twill": 2.0}

    assert trial(adds(memory, 1), adds(memory, 1), [memory], measure).speed == 1.5
    assert begun == [[0, 1, 2, 3]] * 6
    assert memory.data.tolist() == [1, 2, 3, 4]


def test_a_wrong_kernel_is_not_measured(memory: Array) -> None:
    found = trial(
        adds(memory, 1), adds(memory, 2), [memory], lambda runs, reset: pytest.fail("there is no point")
    )
    assert found.speed is None


def test_where_memory_runs_out_after_tritons_launch_nothing_has_happened(
    memory: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller launches once more."""
    save, saved = Array.save, list[Any]()

    def runs_out(array: Array) -> Any:
        if saved:
            raise MemoryError
        saved.append(save(array))
        return saved[0]

    monkeypatch.setattr(Array, "save", runs_out)
    with pytest.raises(MemoryError):
        trial(adds(memory, 1), adds(memory, 1), [memory], None)
    assert memory.data.tolist() == [0, 1, 2, 3]


def test_a_launch_that_raises_leaves_tritons_result(memory: Array) -> None:
    def fails() -> None:
        raise RuntimeError("launch")

    with pytest.raises(RuntimeError):
        trial(adds(memory, 1), fails, [memory], None)
    assert memory.data.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("rounds", "milliseconds", "more"),
    [(0, 50.0, True), (2, 50.0, True), (3, 50.0, False), (3, 1.0, True), (7, 1.0, False)],
)
def test_long_kernels_are_measured_less_often(rounds: int, milliseconds: float, more: bool) -> None:
    """So that a trial takes no longer than a tuner's own measurement."""
    assert more_rounds([[milliseconds] * rounds] * 2) == more
