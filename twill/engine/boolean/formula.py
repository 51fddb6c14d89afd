"""A 0-1 formula under construction: literals in numpy lanes, clauses and sums over them.

Everything a rule says is said for every time or every residue at once, so the unit of construction is a
*lane*: an array of literals, one per time. A literal is a variable's number, negative where negated; variable
1 is the constant true. Engines translate a finished formula and add nothing to it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Lane: TypeAlias = NDArray[np.int32]
Literals: TypeAlias = Lane | int

TRUE = 1
FALSE = -1

LARGEST = 60_000_000
"""Literals in all clauses together beyond which building stops (about 1 GB in a solver)."""


class TooLargeError(Exception):
    """The formula outgrows `LARGEST`: no result from this engine."""


@dataclass(frozen=True, slots=True)
class Addend:
    """Part of a sum: each literal adds its weight, and none is true unless the one before it is."""

    weights: tuple[int, ...]
    literals: tuple[Literals, ...]


@dataclass(frozen=True, slots=True)
class AtMost:
    """At every position of the lanes, the addends sum to at most `bound`. Weights are positive."""

    addends: tuple[Addend, ...]
    bound: int


class Formula:
    """Clauses and sums over variables 1..`variables`; its methods only ever append."""

    def __init__(self) -> None:
        self.variables = 1
        self.literals = 1
        self.clauses: list[Lane] = [np.array([[TRUE]], np.int32)]
        self.sums: list[AtMost] = []

    def fresh(self, *shape: int) -> Lane:
        """New variables, in an array of this shape."""
        first, count = self.variables + 1, math.prod(shape)
        self.variables += count
        return np.arange(first, first + count, dtype=np.int32).reshape(shape)

    def literal(self) -> int:
        """One new variable."""
        self.variables += 1
        return self.variables

    def clause(self, *literals: Literals) -> None:
        """At every position one of the literals holds; lanes broadcast against each other."""
        if all(isinstance(literal, int) for literal in literals):  # most clauses, so worth a way of their own
            rows = np.array([literals] if TRUE not in literals else [], np.int32)
        else:
            rows = (
                np.stack(np.broadcast_arrays(*literals), axis=-1).astype(np.int32).reshape(-1, len(literals))
            )
            rows = rows[~(rows == TRUE).any(axis=1)]
        if rows.size:
            self.literals += rows.size
            self.clauses.append(rows)
        if self.literals > LARGEST:
            raise TooLargeError

    def imply(self, given: Sequence[Literals], then: Literals) -> None:
        """Where all of `given` hold, so does `then`."""
        self.clause(*(-literal for literal in given), then)

    def contradict(self) -> None:
        """No assignment satisfies the formula."""
        self.clauses.append(np.array([[FALSE]], np.int32))

    def at_most(self, addends: Sequence[Addend], bound: int) -> None:
        """The sum stays within the bound; dropped where it cannot exceed it."""
        used = tuple(addend for addend in addends if any(addend.weights))
        if bound < 0:
            self.contradict()
        elif sum(sum(addend.weights) for addend in used) > bound:
            grain = math.gcd(*(weight for addend in used for weight in addend.weights))
            scaled = (
                Addend(tuple(weight // grain for weight in addend.weights), addend.literals)
                for addend in used
            )
            self.sums.append(AtMost(tuple(scaled), bound // grain))

    def equivalent_any(self, literals: Sequence[int]) -> int:
        """A literal that holds where one of `literals` does, and only there."""
        if TRUE in literals:
            return TRUE
        live = [literal for literal in literals if literal != FALSE]
        if len(live) <= 1:
            return live[0] if live else FALSE
        result = self.literal()
        self.clause(-result, *live)
        for literal in live:
            self.clause(-literal, result)
        return result

    def equivalent_all(self, literals: Sequence[int]) -> int:
        """A literal that holds where all of `literals` do, and only there."""
        return -self.equivalent_any([-literal for literal in literals])
