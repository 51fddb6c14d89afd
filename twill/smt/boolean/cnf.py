"""Sums as clauses: from a formula with sums to one of clauses alone, for engines that know nothing else.

The encoding is the generalized totalizer (Joshi, Martins, Manquinho 2015), one-sided: a tree of partial sums, each with a literal per
value it can reach. Addends are merged cheapest pair first, which gives a balanced tree for equal weights and a counter for unequal ones.
"""

import heapq
from bisect import bisect_right
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from twill.smt.boolean.formula import Addend, AtMost, Formula, Literals

PAIRWISE = 5
"""Up to this many mutually exclusive addends are kept apart pair by pair."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial sum: `reached[k]` is forced where it is at least `values[k]`; values ascend."""

    values: tuple[int, ...]
    reached: tuple[Literals, ...]


def clausify(formula: Formula) -> Formula:
    """An equivalent formula, over more variables, without sums; the first variables are those of `formula`."""
    result = Formula()
    result.variables, result.literals, result.clauses = formula.variables, formula.literals, list(formula.clauses)
    for total in formula.sums:
        _encode(result, total)
    return result


def _encode(formula: Formula, total: AtMost) -> None:
    leaves = [_leaf(formula, addend, total.bound) for addend in total.addends]
    leaves = [leaf for leaf in leaves if leaf.values]
    least = sorted(leaf.values[0] for leaf in leaves)
    if len(leaves) <= PAIRWISE and (len(leaves) < 2 or least[0] + least[1] > total.bound):
        for one, other in combinations(leaves, 2):
            formula.clause(-one.reached[0], -other.reached[0])
    else:
        _tree(formula, leaves, total.bound)


def _leaf(formula: Formula, addend: Addend, bound: int) -> Partial:
    """An addend's values within the bound; beyond it its literals are false."""
    values = [int(value) for value in np.cumsum(addend.weights)]
    kept = bisect_right(values, bound)
    if kept < len(values):
        formula.clause(-addend.literals[kept])
    return Partial(tuple(values[:kept]), addend.literals[:kept])


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
    pairs = {(x, y): value for x in (0, *one.values) for y in (0, *other.values) if 0 < (value := x + y) <= bound}
    values = tuple(sorted(set(pairs.values())))
    shape = np.broadcast_shapes(*(np.shape(literal) for literal in (*one.reached, *other.reached)))
    reached = {value: formula.fresh(*shape) for value in values}
    for less, more in pairwise(values):
        formula.clause(-reached[more], reached[less])
    left, right = dict(zip(one.values, one.reached, strict=True)), dict(zip(other.values, other.reached, strict=True))
    for (x, y), value in pairs.items():
        given = [side[part] for side, part in ((left, x), (right, y)) if part]
        formula.imply(given, reached[value])
    _forbid(formula, one, other, bound)
    return Partial(values, tuple(reached[value] for value in values))


def _forbid(formula: Formula, one: Partial, other: Partial, bound: int) -> None:
    """Not both at least x and at least the least y with x + y beyond the bound."""
    for x, reached in zip(one.values, one.reached, strict=True):
        beyond = bisect_right(other.values, bound - x)
        if beyond < len(other.values):
            formula.clause(-reached, -other.reached[beyond])
