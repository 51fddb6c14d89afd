"""Several probes of one question on several cores, with a result that does not depend on how many cores there
are."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

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


Step = Callable[[Stop], Probe]
"""A probe that ends soon after its `Stop` is set, with `Unknown`."""

NOTHING = Probe(Unknown(), "search")


def first_conclusive(steps: Sequence[Step], jobs: int, stop: Stop) -> Probe:
    """The probe of the first step, in their order, that is conclusive; `Unknown` if none is.

    Up to `jobs` steps run at once. A later step is stopped as soon as an earlier one is conclusive, and an
    earlier one is waited for, so that the result is the same for any number of jobs.
    """
    if jobs <= 1 or len(steps) <= 1:
        return _one_by_one(steps, stop)
    stops = [Stop(stop) for _ in steps]
    with ThreadPoolExecutor(min(jobs, len(steps))) as pool:
        running = [pool.submit(_unless_stopped, step, own) for step, own in zip(steps, stops, strict=True)]
        try:
            return _first(running)
        finally:
            for own in stops:
                own.set()


def _one_by_one(steps: Sequence[Step], stop: Stop) -> Probe:
    for step in steps:
        probe = _unless_stopped(step, stop)
        if probe.conclusive:
            return probe
    return NOTHING


def _unless_stopped(step: Step, stop: Stop) -> Probe:
    return NOTHING if stop.is_set() else step(stop)


def _first(running: Sequence[Future[Probe]]) -> Probe:
    return next((probe for future in running if (probe := future.result()).conclusive), NOTHING)


def find_and_prove(find: Step, prove: Step, jobs: int, stop: Stop) -> Probe:
    """What `find` finds; else what `prove` found out. A refutation stops `find`, which can find nothing then.

    `find` must never return `Refuted`: the refutation that is reported does not depend on which of the two is
    faster.
    """
    if jobs <= 1:
        return _one_by_one((find, prove), stop)
    finding, proving = Stop(stop), Stop(stop)

    def proof() -> Probe:
        probe = _unless_stopped(prove, proving)
        if isinstance(probe.outcome, Refuted):
            finding.set()
        return probe

    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(proof)
        try:
            found = _unless_stopped(find, finding)
            return found if found.conclusive else second.result()
        finally:
            proving.set()
