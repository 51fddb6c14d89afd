"""Live ranges folded to residues: how many instances of something are live there.

A range begins at the first of some events and ends at the last of others; events and their conditions are
decisions. Instance k lies k * I later, so j instances are live at residue r where one range covers both some
time t = r (mod I) and t + (j - 1) * I.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from twill.engine.boolean.formula import FALSE, Formula, Lane
from twill.engine.boolean.starts import Starts
from twill.ir.problem import Time


@dataclass(frozen=True, slots=True)
class Event:
    """Time s(op) + shift, counted where all literals of `when` hold."""

    op: int
    shift: Time = 0
    when: tuple[int, ...] = ()

    @property
    def possible(self) -> bool:
        return FALSE not in self.when


def latest_span(starts: Starts, begins: Sequence[Event], ends: Sequence[Event]) -> Time:
    """No range from one of `begins` to one of `ends` is longer."""
    spans = [
        _reach(starts, end) - _first(starts, begin) - starts.slack
        for begin in begins
        for end in ends
        if begin.possible and end.possible
    ]
    return max([0, *spans])


def _first(starts: Starts, event: Event) -> Time:
    return starts.windows[event.op].low + event.shift


def _reach(starts: Starts, event: Event) -> Time:
    return starts.windows[event.op].high + event.shift


def count(
    formula: Formula, starts: Starts, begins: Sequence[Event], ends: Sequence[Event], into: Sequence[Lane]
) -> None:
    """Force into[j][r] where more than j instances are live at residue r; `into` must hold `depth` lanes."""
    for begin, end in product(begins, ends):
        if begin.possible and end.possible and (begin.op, begin.shift) != (end.op, end.shift):
            for extra, lane in enumerate(into):
                _cover(formula, starts, begin, end, extra * starts.interval, lane)


def _cover(formula: Formula, starts: Starts, begin: Event, end: Event, later: Time, lane: Lane) -> None:
    """begin <= t and end > t + later force the lane at t mod I."""
    times = np.arange(_first(starts, begin), _reach(starts, end) - later)
    begun = starts.at_most(begin.op, times - begin.shift)
    unfinished = starts.at_least(end.op, times + later + 1 - end.shift)
    formula.imply([*begin.when, *end.when, begun, unfinished], lane[times % starts.interval])


def exceeds(formula: Formula, starts: Starts, begin: int, ends: Sequence[Event], length: Time) -> int:
    """A literal forced where the range from the start of `begin` to the last of `ends` is longer than
    `length`."""
    if latest_span(starts, [Event(begin)], ends) <= length:
        return FALSE
    longer = formula.literal()
    for end in ends:
        if end.possible:
            times = starts.windows[end.op].times
            latest = times + end.shift - length
            formula.imply(
                [*end.when, starts.at_least(end.op, times), -longer], starts.at_least(begin, latest)
            )
    return longer
