"""The strides with which a kernel addresses memory: polynomials of its scalar arguments."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A number times arguments."""

    factor: int
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stride:
    """Elements from one index to the next: the sum of `terms`."""

    terms: tuple[Term, ...]
    told: bool = False
    """The caller says it in an argument that bounds nothing, and so means it as a stride."""

    def value(self, numbers: Mapping[str, int]) -> int:
        """With the values of the scalar arguments."""
        total = 0
        for term in self.terms:
            product = term.factor
            for name in term.arguments:
                product *= numbers[name]
            total += product
        return total
