"""Sums as clauses: from a formula with sums to one of clauses alone, for engines that know nothing else.

The encoding is the generalized totalizer (Joshi, Martins, Manquinho 2015), one-sided: a tree of partial sums, each with a literal per
value it can reach. Addends are merged cheapest pair first, which gives a balanced tree for equal weights and a counter for unequal ones.
"""

import heapq
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from twill.smt.boolean.formula import Addend, AtMost, Formula, Lane

PAIRWISE = 5
"""Up to this many mutually exclusive addends are kept apart pair by pair."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial sum at each position of a lane: `reached[k]` is forced where it is at least `values[k]`; values ascend."""

    values: NDArray[np.int64]
    reached: Lane
    """Shape (values, positions), one position where it is the same at all."""


def clausify(formula: Formula) -> Formula:
    """An equivalent formula, over more variables, without sums; the first variables are those of `formula`."""
    result = Formula()
    result.variables, result.literals, result.clauses = formula.variables, formula.literals, list(formula.clauses)
    for total in formula.sums:
        _encode(result, total)
    return result


def _encode(formula: Formula, total: AtMost) -> None:
    leaves = [_leaf(formula, addend, total.bound) for addend in total.addends]
    leaves = [leaf for leaf in leaves if leaf.values.size]
    least = sorted(int(leaf.values[0]) for leaf in leaves)
    if len(leaves) <= PAIRWISE and (len(leaves) < 2 or least[0] + least[1] > total.bound):
        for one, other in combinations(leaves, 2):
            formula.clause(-one.reached[0], -other.reached[0])
    else:
        _tree(formula, leaves, total.bound)


def _leaf(formula: Formula, addend: Addend, bound: int) -> Partial:
    """An addend's values within the bound; beyond it its literals are false."""
    values = np.cumsum(addend.weights)
    kept = int(np.searchsorted(values, bound, "right"))
    if kept < len(values):
        formula.clause(-addend.literals[kept])
    lanes = [np.atleast_1d(np.asarray(literal, np.int32)) for literal in addend.literals[:kept]]
    return Partial(values[:kept], np.stack(np.broadcast_arrays(*lanes)) if lanes else np.empty((0, 1), np.int32))


def _tree(formula: Formula, leaves: list[Partial], bound: int) -> None:
    """Merge the two partial sums with the fewest values until two are left, whose sum must stay within the bound."""
    queue = [(len(leaf.values), order, leaf) for order, leaf in enumerate(leaves)]
    heapq.heapify(queue)
    order = len(leaves)
    while len(queue) > 2:
        (_, _, one), (_, _, other) = heapq.heappop(queue), heapq.heappop(queue)
        merged = _merge(formula, one, other, bound)
        heapq.heappush(queue, (len(merged.values), order, merged))
        order += 1
    _forbid(formula, queue[0][2], queue[1][2], bound)


def _merge(formula: Formula, one: Partial, other: Partial, bound: int) -> Partial:
    both = one.values[:, None] + other.values
    x, y = np.nonzero(both <= bound)
    values = np.unique(np.concatenate([one.values, other.values, both[x, y]]))
    reached = formula.fresh(len(values), max(one.reached.shape[1], other.reached.shape[1]))
    formula.clause(-reached[1:], reached[:-1])
    formula.imply([one.reached], reached[np.searchsorted(values, one.values)])
    formula.imply([other.reached], reached[np.searchsorted(values, other.values)])
    formula.imply([one.reached[x], other.reached[y]], reached[np.searchsorted(values, both[x, y])])
    _forbid(formula, one, other, bound)
    return Partial(values, reached)


def _forbid(formula: Formula, one: Partial, other: Partial, bound: int) -> None:
    """Not both at least x and at least the least y with x + y beyond the bound."""
    beyond = np.searchsorted(other.values, bound - one.values, "right")
    some = beyond < len(other.values)
    formula.clause(-one.reached[some], -other.reached[beyond[some]])
