"""Sums as clauses: from a formula with sums to one of clauses alone, for engines that know nothing else.

Addends of equal weight are counted by a totalizer (Bailleux, Boufkhad 2003), which makes one addend of them.
The few that remain become a decision diagram (Abío, Nieuwenhuis, Oliveras, Rodríguez-Carbonell,
Mayer-Eichberger 2012): a node says that the addends from some position on stay within some slack, and slacks
that no remaining addends tell apart share a node. All is built once, of lanes. Both are one-sided: literals
are forced where the sum is large, never where it is small.
"""

import heapq
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from twill.engine.boolean.formula import FALSE, TRUE, Addend, AtMost, Formula, Lane, Literals


def clausify(formula: Formula) -> Formula:
    """An equivalent formula, over more variables, without sums; the first variables are those of
    `formula`."""
    result = Formula()
    result.variables, result.literals, result.clauses = (
        formula.variables,
        formula.literals,
        list(formula.clauses),
    )
    for total in formula.sums:
        counted = AtMost(tuple(_counted(result, total)), total.bound)
        result.clause(_Diagram.of(result, counted).node(0, total.bound).literal)
    return result


def _counted(formula: Formula, total: AtMost) -> Iterator[Addend]:
    """Addends of equal weights merged into one, up to the first number of them that is too many."""
    equal: dict[tuple[int, bool], list[Lane]] = {}
    for addend in total.addends:
        weight = addend.weights[0]
        if set(addend.weights) == {weight}:
            lanes = np.broadcast_arrays(
                *(np.atleast_1d(np.asarray(literal, np.int32)) for literal in addend.literals)
            )
            equal.setdefault((weight, _shape((addend,)) == ()), []).append(np.stack(lanes))
        else:
            yield addend
    for (weight, scalar), chains in equal.items():
        count = _count(formula, chains, total.bound // weight + 1)
        yield Addend((weight,) * len(count), tuple(int(lane[0]) if scalar else lane for lane in count))


def _count(formula: Formula, chains: list[Lane], most: int) -> Lane:
    """A chain, at most `most` long, forced as far as the literals of all chains together are true; merges the
    two shortest first."""
    queue = [(len(chain), order, chain[:most]) for order, chain in enumerate(chains)]
    heapq.heapify(queue)
    for order in range(len(chains), 2 * len(chains) - 1):
        (_, _, one), (_, _, other) = heapq.heappop(queue), heapq.heappop(queue)
        heapq.heappush(queue, (len(one) + len(other), order, _merge(formula, one, other, most)))
    return queue[0][2]


def _merge(formula: Formula, one: Lane, other: Lane, most: int) -> Lane:
    count = formula.fresh(min(len(one) + len(other), most), max(one.shape[1], other.shape[1]))
    formula.imply([count[1:]], count[:-1])
    formula.imply([one], count[: len(one)])
    formula.imply([other], count[: len(other)])
    x, y = (index.ravel() for index in np.indices((len(one), len(other))))
    formula.imply([one[x], other[y]], count[np.minimum(x + y + 1, most - 1)])
    return count


@dataclass(frozen=True, slots=True)
class Node:
    """`literal` implies that what is left stays within any slack in [low, high]; all these mean the same."""

    literal: Literals
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Diagram:
    """Nodes made so far, per position in `addends` in ascending order of slack."""

    formula: Formula
    addends: tuple[Addend, ...]
    rest: tuple[int, ...]
    """Most that the addends from a position on can sum to."""
    shapes: tuple[tuple[int, ...], ...]
    """Shape of the lanes of nodes at a position."""
    made: tuple[list[Node], ...] = field(repr=False)

    @classmethod
    def of(cls, formula: Formula, total: AtMost) -> "_Diagram":
        """Large weights come first; what is the same at all positions comes last, where nodes then are
        too."""
        addends = tuple(
            sorted(total.addends, key=lambda addend: (_shape((addend,)) == (), -addend.weights[0]))
        )
        suffixes = [addends[position:] for position in range(len(addends) + 1)]
        rest = tuple(sum(sum(addend.weights) for addend in suffix) for suffix in suffixes)
        return cls(formula, addends, rest, tuple(map(_shape, suffixes)), tuple([] for _ in suffixes))

    def node(self, position: int, slack: int) -> Node:
        """The node for the addends from `position` on."""
        if slack < 0:
            return Node(FALSE, -math.inf, -1)
        if slack >= self.rest[position]:
            return Node(TRUE, self.rest[position], math.inf)
        made = self.made[position]
        at = bisect_left(made, slack, key=lambda node: node.high)
        if at == len(made) or made[at].low > slack:
            made.insert(at, self._new(position, slack))
        return made[at]

    def _new(self, position: int, slack: int) -> Node:
        """Each true literal of the addend takes its weight off the slack."""
        addend = self.addends[position]
        taken = [0, *(int(value) for value in np.cumsum(addend.weights))]
        below = [self.node(position + 1, slack - value) for value in taken]
        low = max(node.low + value for node, value in zip(below, taken, strict=True))
        high = min(node.high + value for node, value in zip(below, taken, strict=True))
        if all(node is below[0] for node in below):
            return Node(below[0].literal, low, high)
        literal = self.formula.fresh(*self.shapes[position])
        self.formula.imply([literal], below[0].literal)
        for condition, node, before in zip(addend.literals, below[1:], below, strict=False):
            if node is not before:
                self.formula.imply([literal, condition], node.literal)
            if node.high < 0:
                break
        return Node(literal, low, high)


def _shape(addends: tuple[Addend, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*(np.shape(literal) for addend in addends for literal in addend.literals))
