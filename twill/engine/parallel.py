"""Several probes of one question on several cores, with a result that does not depend on how many cores there
are."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from math import inf

from twill.engine.probe import Probe, Refuted, Unknown


class Stop:
    """A request to stop, which holds for everything that was started under it."""

    def __init__(self, parent: "Stop | None" = None) -> None:
        self._event = threading.Event()
        self._parent = parent

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set() or (self._parent is not None and self._parent.is_set())


def at_once(most: int) -> int:
    """How many solvers to run at once, `most` where there are cores for them: one where other work has all
    cores. What is solved ahead, or beside what decides, is work in vain then: a fifth to a third of what a
    search takes."""
    if not hasattr(os, "getloadavg"):
        return most
    return 1 if os.getloadavg()[0] > (os.cpu_count() or 1) else most


class Cores:
    """How many steps may run at once."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._changed = threading.Condition()

    def take(self) -> None:
        """Wait for one."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0)
            self._free -= 1

    def give(self, count: int = 1) -> None:
        with self._changed:
            self._free += count
            self._changed.notify_all()


Step = Callable[[Stop], Probe]
"""A probe that ends soon after its `Stop` is set, with `Unknown`."""

NOTHING = Probe(Unknown(), "search")

ENOUGH = 0.75
"""No step begins once those before it have taken this part of the time."""


def first_conclusive(steps: Sequence[Step], cores: Cores, stop: Stop, limit: float = inf) -> Probe:
    """The probe of the first step, in their order, that is conclusive; `Unknown` if none is.

    Steps begin in their order, each with one of the `cores`. No step begins behind one that is conclusive, a
    later one is stopped then, and an earlier one is waited for, so that the result is the same for any number
    of cores. Those up to it count, and all where none is; none counts for which those before it leave too
    little of the `limit`, in counted seconds.
    """
    if not steps:
        return NOTHING
    stops, running = [Stop(stop) for _ in steps], list[Future[Probe]]()
    with ThreadPoolExecutor(len(steps)) as pool:
        try:
            for step, own in zip(steps, stops, strict=True):
                cores.take()
                if _decided(running, limit):
                    cores.give()
                    break
                running.append(pool.submit(_with_a_core, step, own, cores))
            counted = 0.0
            for probe in (future.result() for future in running):
                counted += probe.counted
                if probe.conclusive:
                    return replace(probe, counted=counted)
                if counted >= ENOUGH * limit:
                    break
            return replace(NOTHING, counted=counted)
        finally:
            for own in stops:
                own.set()


def _decided(running: Sequence[Future[Probe]], limit: float) -> bool:
    """Whether no step behind these counts, as far as they have ended."""
    ended = [future.result() for future in running if future.done()]
    late = len(ended) == len(running) and sum(probe.counted for probe in ended) >= ENOUGH * limit
    return late or any(probe.conclusive for probe in ended)


def _with_a_core(step: Step, stop: Stop, cores: Cores) -> Probe:
    try:
        return NOTHING if stop.is_set() else step(stop)
    finally:
        cores.give()


def find_and_prove(
    find: Sequence[Step], prove: Sequence[Step], jobs: int, stop: Stop, limit: float = inf
) -> Probe:
    """What `find` finds; else what `prove` found out. A refutation stops `find`, which can find nothing then.
    One of the `jobs` cores is for `prove`, and all of them once `find` has ended.

    What counts is the side that decides, else that which takes longer: a stopped one takes as long as it is
    let. Each side has the `limit`.

    `find` must never return `Refuted`: the refutation that is reported does not depend on which of the two is
    faster.
    """
    if jobs <= 1:
        found = first_conclusive(find, Cores(1), stop, limit)
        return found if found.conclusive else _longer(first_conclusive(prove, Cores(1), stop, limit), found)
    finding, proving, cores = Stop(stop), Stop(stop), Cores(1)

    def proof() -> Probe:
        probe = first_conclusive(prove, cores, proving, limit)
        if isinstance(probe.outcome, Refuted):
            finding.set()
        return probe

    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(proof)
        try:
            found = first_conclusive(find, Cores(jobs - 1), finding, limit)
            if not found.conclusive:
                cores.give(jobs - 1)
                return _longer(second.result(), found)
            return found
        finally:
            proving.set()


def _longer(proved: Probe, found: Probe) -> Probe:
    """What was found out, with what counts, where nothing was found."""
    return proved if proved.conclusive else replace(proved, counted=max(proved.counted, found.counted))
