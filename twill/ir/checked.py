"""What was run to check a generated kernel before it was handed over."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckedRun:
    """One comparison with the TTGIR executed as it stands."""

    by: str
    """What ran the kernel: `simulator` runs its warp programs, `emulator` the PTX that nvcc made of it."""
    arguments: str
    trips: tuple[int | None, ...]
    """Iterations of each loop; None where they follow from memory."""
    values: int
    """How many numbers were compared."""
    error: float
    """The largest relative error of an array."""
    skipped: str = ""
    """Why nothing was compared."""


@dataclass(frozen=True, slots=True)
class Checked:
    """All of it."""

    iterations: tuple[int, ...]
    """For which trip counts the interleavings of the groups were explored."""
    states: int
    """How many states they have."""
    runs: tuple[CheckedRun, ...]

    @property
    def values(self) -> int:
        """How many numbers were compared in all."""
        return sum(run.values for run in self.runs)
