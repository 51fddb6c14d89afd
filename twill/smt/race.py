"""One interval, decided from two sides at once.

One side finds and proves nothing: a hunt under natural partitions, then `twill.smt.benders`, for few iterations in flight. The other
proves: projections, `twill.smt.benders` for all iterations in flight, then the complete engines on the whole. What the first side finds is
the answer, however long it takes, and what the second finds counts where the first gives up: so the answer is always the same.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from twill.engine.probe import FEW, Probe, Unknown, best
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Refutation, Solution
from twill.ir.search import Options
from twill.smt import benders, cpsat
from twill.smt.cpsat import Tactics
from twill.smt.partitions import Labels, under
from twill.smt.portfolio import complete_engines
from twill.smt.relax import Projection

GLANCE = 4
"""A part of the share: what works under a natural partition is mostly found soon."""

PATIENCE = 10.0
"""Seconds for `twill.smt.benders`, per share."""


@dataclass
class Race:
    """Deciding `interval`: everything known that may help, and how long everyone may take."""

    problem: Problem
    options: Options
    interval: Time
    share: float
    """Deterministic seconds, about, for each look."""
    remaining: Callable[[], float]
    hasty: bool
    """Where few iterations in flight are refuted, the whole is not put to the complete engines: there are other intervals to look at."""
    best: Solution | None
    """An answer at a larger interval."""
    candidates: tuple[Labels, ...]
    binding: tuple[Projection, ...]
    partly: Refutation | None = None
    """What was refuted on the way, for fewer iterations in flight than asked for."""
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Probe:
        """A find, a refutation, or a timeout."""
        with ThreadPoolExecutor(2) as pool:
            sides = pool.submit(self._find), pool.submit(self._prove)
            try:
                found = sides[0].result()
                return found if found.solution is not None else best([found, sides[1].result()])
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

    def _nothing(self, name: str) -> Probe:
        return Probe(Unknown(), name)

    def _find(self) -> Probe:
        """Natural partitions at a glance, then others, then the natural ones again, for few iterations in flight. One alone comes first: it
        leaves little to decide, and the solver sees sooner whether it works than whether more do."""
        ways = (
            lambda: self._hunt([1, FEW], self.share / GLANCE),
            lambda: self._split(min(FEW, self.options.max_in_flight)),
            lambda: self._hunt([FEW], self.share),
            lambda: self._hunt([FEW + 1], self.share / GLANCE),
        )
        return self._first(*ways, until=self._elsewhere)

    def _elsewhere(self) -> bool:
        """The answer is probably not at this interval, and others are still to be looked at."""
        return self.hasty and self.partly is not None

    def _prove(self) -> Probe:
        """Projections, partitions one after the other, then the complete engines on the whole; a proof ends the race."""
        found = self._first(self._by_projection, lambda: self._split(self.options.max_in_flight))
        if not self._elsewhere():
            found = self._first(lambda: found, self._by_engines)
        if found.refuted:
            self.stop.set()
        return found

    def _first(self, *ways: Callable[[], Probe], until: Callable[[], bool] = lambda: False) -> Probe:
        """The first conclusive probe."""
        found = self._nothing("cpsat")
        for way in ways:
            if not found.conclusive and not self.stop.is_set() and not until():
                found = way()
        return found

    def _hunt(self, flights: list[int], effort: float) -> Probe:
        """Look under each natural partition, that of the best answer first; what fails here proves nothing."""
        for in_flight, problem in self._looks(flights):
            if self.stop.is_set() or self.left <= 0:
                break
            tactics = Tactics(effort, proving=False, hint=self.best)
            found = cpsat.attempt(
                problem, self.interval, in_flight, joint=self.joint, time_limit=self.left, stop=self.stop, tactics=tactics
            )
            if found.solution is not None:
                return found
        return self._nothing("cpsat")

    def _looks(self, flights: list[int]) -> Iterator[tuple[int, Problem]]:
        """(in_flight, problem) pairs."""
        if self.options.engine not in ("auto", "cpsat"):
            return
        partitions = dict.fromkeys((*((self.best.group,) if self.best else ()), *self.candidates))
        problems = [under(self.problem, labels) for labels in partitions] if self.joint else [self.problem]
        for in_flight in (n for n in flights if n <= self.options.max_in_flight):
            for problem in problems:
                yield in_flight, problem

    def _split(self, in_flight: int) -> Probe:
        """A partition from times rounded down, then times under it; a refutation is conclusive if it is for all iterations in flight."""
        if not self.tricks:
            return self._nothing("benders")
        patience = min(self.left, PATIENCE * self.share)
        found = benders.attempt(self.problem, self.interval, in_flight, time_limit=patience, stop=self.stop)
        if found.refuted and in_flight < self.options.max_in_flight:
            self.partly = found.refutation(self.interval, in_flight, below=True)
            return self._nothing(found.engine)
        return found

    def _by_projection(self) -> Probe:
        for projection in self.binding if self.tricks else ():
            small, in_flight = projection.at(self.interval), self.options.max_in_flight
            found = cpsat.attempt(small, self.interval, in_flight, time_limit=self.left, stop=self.stop, tactics=Tactics(2 * self.share))
            if found.refuted:
                return replace(found, engine=f"cpsat on the {projection.name} projection")
        return self._nothing("cpsat")

    def _by_engines(self) -> Probe:
        engines = complete_engines(self.problem, self.options, self.interval)
        patience = self.left if self.options.engine != "auto" else min(self.left, 3 * self.share)
        with ThreadPoolExecutor(len(engines)) as pool:
            running = [
                pool.submit(
                    run, self.problem, self.interval, self.options.max_in_flight, joint=self.joint, time_limit=patience, stop=self.stop
                )
                for run in engines
            ]
            return best([probe.result() for probe in running])
