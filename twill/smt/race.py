"""One interval, decided three ways at once.

A hunt under natural partitions and a hunt in coarse time find and prove nothing; projections and the complete engines prove. The first
way that has an answer, in this order, gives it, however long the others took: so the answer is always the same.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from twill.ir.problem import Problem, Time
from twill.ir.schedule import Solution
from twill.ir.search import Options
from twill.smt import cpsat, sat
from twill.smt.coarse import coarsen, rounded_down, stretch
from twill.smt.engine import Attempt
from twill.smt.partitions import Labels, under
from twill.smt.portfolio import complete_engines, engine
from twill.smt.relax import Projection
from twill.smt.symmetry import Family

COARSE_UNITS = (100, 200)
"""Units of time per interval that the hunt in coarse time tries, one after the other."""

ROUNDED_UNITS = 144
"""Units of time per interval, about, of the refutation in coarse time."""

COARSE_PATIENCE = 10.0
"""Seconds it gets for each, per share."""


@dataclass
class Race:
    """Deciding `interval`: everything known that may help, and how long everyone may take."""

    problem: Problem
    options: Options
    interval: Time
    share: float
    """Deterministic seconds, about, for each look."""
    remaining: Callable[[], float]
    best: Solution | None
    """An answer at a larger interval."""
    candidates: tuple[Labels, ...]
    binding: tuple[Projection, ...]
    alike: tuple[Family, ...] = ()
    """Sub-tiles (see `twill.smt.symmetry`)."""
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Attempt:
        """A find, at this interval or (in coarse time) a little above it; or a refutation, or a timeout."""
        with ThreadPoolExecutor(3) as pool:
            ways = [pool.submit(way) for way in (self._hunt, self._coarse, self._prove)]
            try:
                words: list[Attempt] = []
                for way in ways:
                    words.append(way.result())
                    if words[-1].verdict != "timeout":
                        break
                return _best_word(words)
            finally:
                self.stop.set()

    @property
    def left(self) -> float:
        return max(0.0, self.remaining())

    @property
    def joint(self) -> bool:
        return not self.options.modulo_only

    @property
    def tricks(self) -> bool:
        """Projections and coarse time may be used: they rest on monotony, and a chosen engine is to answer alone."""
        return self.options.engine == "auto" and self.joint and self.problem.monotone

    def _nothing(self, name: str) -> Attempt:
        return Attempt("timeout", name, 0.0)

    def _hunt(self) -> Attempt:
        """Look under each natural partition, that of the best answer first; what fails here proves nothing."""
        for copies, problem, alike in self._looks():
            if self.stop.is_set() or self.left <= 0:
                break
            word = cpsat.attempt(
                problem,
                self.interval,
                copies,
                joint=self.joint,
                time_limit=self.left,
                stop=self.stop,
                effort=self.share / (1 if copies == 2 or alike else 4),
                proving=False,
                hint=self.best,
                shifted=alike,
            )
            if word.solution is not None:
                return word
        return self._nothing("cpsat")

    def _looks(self) -> Iterator[tuple[int, Problem, tuple[Family, ...]]]:
        """(copies, problem, parts that take turns): sub-tiles in turn first; then two iterations in flight before one alone, which works
        at very large intervals."""
        if self.options.engine not in ("auto", "cpsat"):
            return
        partitions = dict.fromkeys((*((self.best.group,) if self.best else ()), *self.candidates))
        problems = [under(self.problem, labels) for labels in partitions] if self.joint else [self.problem]
        for copies in (n for n in (2, 3) if self.alike and n <= self.options.copies):
            yield from ((copies, problem, self.alike) for problem in problems)
        for copies in (n for n in (2, 1, 3) if n <= self.options.copies):
            yield from ((copies, problem, ()) for problem in problems)

    def _coarse(self) -> Attempt:
        """SAT on times rounded up, in about 100, then 200 units an interval: finds at or a little above this interval."""
        if not self.tricks:
            return self._nothing("sat")
        for units in COARSE_UNITS:
            step = -(-self.interval // units)
            turns = -(-self.interval // step)
            if step == 1 or (self.best and turns * step >= self.best.interval) or self.stop.is_set():
                continue
            small, copies = coarsen(self.problem, step), min(2, self.options.copies)
            word = engine("sat")(small, turns, copies, time_limit=min(self.left, COARSE_PATIENCE * self.share), stop=self.stop)
            if word.solution is not None:
                return replace(word, solution=stretch(self.problem, step, word.solution))
        return self._nothing("sat")

    def _prove(self) -> Attempt:
        """Projections, times rounded down, then the complete engines on the whole; a proof ends the race for everyone."""
        word = self._by_projection() or self._by_rounding() or self._by_engines()
        if word.verdict == "infeasible":
            self.stop.set()
        return word

    def _by_projection(self) -> Attempt | None:
        if not self.tricks:
            return None
        for projection in self.binding:
            small, copies = projection.at(self.interval), self.options.copies
            word = cpsat.attempt(small, self.interval, copies, time_limit=self.left, stop=self.stop, effort=2 * self.share)
            if word.verdict == "infeasible":
                return replace(word, engine=f"cpsat on the {projection.name} projection")
        return None

    def _by_rounding(self) -> Attempt | None:
        """SAT on times rounded down: what has no schedule there has none here (see `twill.smt.bracket`)."""
        step = self.interval // ROUNDED_UNITS
        turns = -(-self.interval // step) if step > 1 else 0
        if not self.tricks or not turns or (self.best and turns * step >= self.best.interval):
            return None
        small, patience = rounded_down(self.problem, step), min(self.left, COARSE_PATIENCE * self.share)
        word = sat.refutation(small, turns, self.options.copies, time_limit=patience, stop=self.stop)
        return replace(word, engine=f"sat on times rounded down to multiples of {step}") if word.verdict == "infeasible" else None

    def _by_engines(self) -> Attempt:
        engines = complete_engines(self.problem, self.options, self.interval)
        patience = self.left if self.options.engine != "auto" else min(self.left, 3 * self.share)
        with ThreadPoolExecutor(len(engines)) as pool:
            words = [
                pool.submit(run, self.problem, self.interval, self.options.copies, joint=self.joint, time_limit=patience, stop=self.stop)
                for run in engines
            ]
            return _best_word([word.result() for word in words])


def _best_word(words: list[Attempt]) -> Attempt:
    """A find before a refutation before a timeout."""
    rank = {"feasible": 0, "infeasible": 1, "timeout": 2}
    return min(words, key=lambda word: rank[word.verdict])
