# pyright: basic, reportMissingImports=false
"""A launch as data: the arguments by name, what arrays hold before it, and the grid.

Takes and gives plain values; tensors are made where the launch is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Case = dict[str, Any]
Begin = str | float | Callable[[int], Any]
Array = tuple[str, int, Begin]
"""Element type, elements, and what they are before the launch: "zeros", the standard deviation of normal
numbers, or a function of their number."""


def case(label: str, grid: Sequence[int], numbers: Mapping[str, float], **arrays: Array) -> Case:
    return {"label": label, "grid": tuple(grid), "numbers": dict(numbers), "arrays": arrays}


def described(one: Case, **descriptors: tuple[str, Sequence[int], Sequence[int]]) -> Case:
    """With descriptors that the host makes: by argument, the array, its rows and columns, and the block."""
    return {**one, "descriptors": descriptors}


def pointing(one: Case, **lists: Sequence[str]) -> Case:
    """With arrays of addresses: by argument, the arrays."""
    return {**one, "pointers": lists}


def ragged(one: Case) -> Case:
    """Compared, not timed."""
    return {**one, "time": False}


def by(*sizes: int) -> str:
    return "x".join(map(str, sizes))


def up(size: int, to: int) -> int:
    return -(-size // to) * to


# --- what arrays hold ---------------------------------------------------------------------------------------


def given(values: Sequence[int]) -> Callable[[int], Any]:
    """These integers."""

    def begin(size: int) -> Any:
        import torch

        assert size == len(values)
        return torch.tensor(values)

    return begin


def bits(size: int) -> Any:
    """Packed integers: every pattern of 32 bits."""
    import torch

    return torch.randint(-(2**31), 2**31, (size,), dtype=torch.int64)


def nibbles(size: int) -> Any:
    """Bytes of two numbers of four bits: every one."""
    import torch

    return torch.randint(0, 256, (size,))


def exponents(size: int) -> Any:
    """Scales of blocks that are powers of two with a bias of 127 (e8m0): from 1/8 to 1."""
    import torch

    return torch.randint(124, 128, (size,))


def positive(size: int) -> Any:
    """Scales, steps and logarithms of sums: between 0.5 and 1.5."""
    import torch

    return torch.rand(size) + 0.5


def decays(period: int, inner: int = 1, tokens: int | None = None) -> Callable[[int], Any]:
    """Sums of the logarithms of gates, which begin anew after `period` positions of `inner` elements, and
    with each sequence of `tokens`."""

    def begin(size: int) -> Any:
        import torch

        place = torch.arange(size) // inner
        return -0.02 * ((place % tokens if tokens else place) % period + torch.rand(size))

    return begin
