# pyright: basic, reportMissingImports=false
"""Launches made from others, and what more their arrays may hold."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any

from benchmarks.launches.arrays import Array, Case, case


def below(limit: int) -> Callable[[int], Any]:
    """Indices, each of them below this."""

    def begin(size: int) -> Any:
        import torch

        return torch.randint(0, limit, (size,))

    return begin


def shuffled(size: int) -> Any:
    """Each index once, in any order."""
    import torch

    return torch.randperm(size)


def around(middle: float) -> Callable[[int], Any]:
    """Between half of this and one and a half times as much."""

    def begin(size: int) -> Any:
        import torch

        return middle * (torch.rand(size) + 0.5)

    return begin


def chosen(share: float, period: int = 0) -> Callable[[int], Any]:
    """Ones and zeros, this share of ones; with `period` ones on the diagonals of squares of so many rows."""

    def begin(size: int) -> Any:
        import torch

        made = torch.rand(size) < share
        if period:
            made.view(-1, period, period).diagonal(dim1=1, dim2=2).fill_(True)
        return made

    return begin


def starts(lengths: Sequence[int]) -> list[int]:
    """Where each begins, and the end of the last."""
    return [0, *accumulate(lengths)]


def typed(one: Case, to: str, types: Sequence[str] = ("bf16", "f16")) -> Case:
    """With other elements in place of these types."""
    arrays = {
        name: (to if kind in types else kind, size, begin)
        for name, (kind, size, begin) in one["arrays"].items()
    }
    return {**one, "arrays": arrays}


def on(one: Case, *grid: int) -> Case:
    """With another grid."""
    return {**one, "grid": grid}


def numbered(one: Case, **numbers: float) -> Case:
    """With more numbers, or others."""
    return {**one, "numbers": {**one["numbers"], **numbers}}


def holding(one: Case, **arrays: Array) -> Case:
    """With more arrays, or others."""
    return {**one, "arrays": {**one["arrays"], **arrays}}


def within(one: Case, tolerance: float) -> Case:
    """With this tolerance."""
    return {**one, "tolerance": tolerance}


def shaped(
    label: str,
    grid: Sequence[int],
    numbers: Mapping[str, float],
    type: str,
    shape: Sequence[int],
    begin: float,
    inputs: str,
    outputs: str,
    **more: Array,
) -> Case:
    """Arrays of one shape; `inputs` and `outputs`: names such as "q k v"."""
    size = prod(shape)
    arrays: dict[str, Array] = dict.fromkeys(inputs.split(), (type, size, begin))
    arrays |= dict.fromkeys(outputs.split(), (type, size, "zeros"))
    return case(label, grid, numbers, **{**arrays, **more})
