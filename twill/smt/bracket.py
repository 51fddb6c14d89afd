"""The smallest interval bracketed from both sides by SAT on coarse time, in seconds where exact times take minutes.

Let every time be divided by a step k and rounded. **Up**: a schedule in coarse time, stretched again, is one in exact time
(`twill.smt.coarse`). **Down**: a schedule in exact time whose interval is a multiple of k, each start divided by k and rounded down, is
one in coarse time, so if there is none in coarse time, there is none in exact time at that interval, nor (`Problem.monotone`) at a
smaller one. For, with S = floor(s / k):

* DEPENDENCE: s' >= s + d gives S' >= floor((s + d) / k) >= S + floor(d / k).
* UNITS, REGISTERS, SHARED, TENSOR: whatever [S, floor(end / k)) covers coarse residue r, its exact span covers exact time (r + 1) k - 1,
  where the exact sums are within their limits. A range of at most m periods stays one of at most m.
* CONCURRENCY: a wait that comes before another operation issues may fall into the same unit of coarse time, so that is let pass.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Refutation, Solution
from twill.smt import sat
from twill.smt.coarse import coarsen, rounded_down, stretch
from twill.smt.engine import Attempt, Engine

Gap = Callable[[], tuple[Time, Time]]
"""The smallest interval not refuted, and the smallest known to work."""

Word = Refutation | Solution

COARSEST = 64
"""Units of time per interval, at least, to begin with."""

RISE_PATIENCE, FALL_PATIENCE = 10.0, 3.0
"""Seconds for one question: refutations are few and worth a wait, schedules come fast at one interval or another."""

FEW = 2
"""Iterations in flight of the schedules that are looked for in coarse time."""


def bracket(problem: Problem, copies: int, gap: Gap, *, time_limit: float, stop: threading.Event | None = None) -> Iterator[Word]:
    """Ever better refutations and schedules, for joint, monotone problems; the caller keeps account of them in `gap`.

    Halves the step until the gap is closed, both sides have become slow, times are exact or the time is up. At each step both sides
    work at once, from where the gap was when the step began, so that neither's pace changes what the other asks.
    """
    end = time.monotonic() + time_limit
    step = 1 << max(0, (gap()[0] // COARSEST).bit_length() - 1)
    while step and gap()[0] < gap()[1] and time.monotonic() < end:
        rise = _Side(rounded_down(problem, step), problem, copies, step, end, RISE_PATIENCE)
        fall = _Side(coarsen(problem, step), problem, min(FEW, copies) if step > 1 else copies, step, end, FALL_PATIENCE)
        sides = [rise.refutations(*gap()), fall.schedules(*gap())] if step > 1 else [fall.schedules(*gap())]
        yield from _together(sides, rise.halt, fall.halt, gap, stop)
        if fall.late and (rise.late or step == 1):
            return
        step //= 2


@dataclass
class _Side:
    """One side's questions at one step, about `rounded`."""

    rounded: Problem
    problem: Problem
    copies: int
    step: Time
    end: float
    patience: float
    late: bool = False
    """Some question found no answer in time."""
    halt: threading.Event = field(default_factory=threading.Event)

    def refutations(self, low: Time, high: Time) -> Iterator[Word]:
        """Refute multiples of the step from below: in growing leaps, then by bisection."""
        first, leap, top = -(-low // self.step), 1, -(-high // self.step)
        while first < top and not self.halt.is_set():
            at = min(first + leap - 1, (first + top - 1) // 2)
            word = self._ask(sat.refutation, at)
            if word.verdict == "infeasible":
                yield self._refutation(at, word)
                first, leap = at + 1, 2 * leap
            else:
                top = at

    def schedules(self, low: Time, high: Time) -> Iterator[Word]:
        """Find schedules at multiples of the step from below: in growing leaps, then by bisection."""
        first, leap, top = -(-low // self.step), 1, -(-high // self.step)
        while first < top and not self.halt.is_set():
            at = min(first + leap - 1, top - 1) if leap else (first + top - 1) // 2
            word = self._ask(sat.attempt, at)
            if word.solution is not None:
                yield stretch(self.problem, self.step, word.solution)
                top, leap = at, 0
                continue
            if self.step == 1 and word.verdict == "infeasible":
                yield self._refutation(at, word)
            first, leap = at + 1, 2 * leap

    def _refutation(self, at: Time, word: Attempt) -> Refutation:
        by = f"sat on times rounded down to multiples of {self.step}" if self.step > 1 else "sat"
        return Refutation(at * self.step, self.copies, by, word.seconds, below=True)

    def _ask(self, engine: Engine, at: Time) -> Attempt:
        limit = max(0.0, min(self.patience, self.end - time.monotonic()))
        word = engine(self.rounded, at, self.copies, time_limit=limit, stop=self.halt)
        self.late |= word.verdict == "timeout"
        return word


def _together(
    sides: list[Iterator[Word]], rising: threading.Event, falling: threading.Event, gap: Gap, stop: threading.Event | None
) -> Iterator[Word]:
    """The words of all sides as they come; all end when the gap closes, `stop` is set or nobody listens any more."""
    words: queue.SimpleQueue[Word | None] = queue.SimpleQueue()
    threads = [threading.Thread(target=_relay, args=(side, words)) for side in sides]
    for thread in threads:
        thread.start()
    try:
        working = len(threads)
        while working:
            if gap()[0] >= gap()[1] or (stop is not None and stop.is_set()):
                return
            try:
                word = words.get(timeout=0.05)
            except queue.Empty:
                continue
            if word is None:
                working -= 1
            else:
                yield word
    finally:
        rising.set()
        falling.set()
        for thread in threads:
            thread.join()


def _relay(side: Iterator[Word], words: "queue.SimpleQueue[Word | None]") -> None:
    try:
        for word in side:
            words.put(word)
    finally:
        words.put(None)
