# pyright: reportUnknownVariableType=false
"""Which kernel a launch goes to, decided at the first launch of each kernel that Triton has compiled.

A `Route` stands where Triton's launcher stood. Its first call decides: Twill's kernel, Triton's, or Triton's
until Twill's is built. Then the route puts what was decided in its own place, so that later launches pay for
no decision: Triton finds the launcher by its own look-up of the specialization.

A program whose kernels were built and tried before should start as it does without Twill. What it does not
need is imported where it is used: `workers`, which builds, and `trial`.
"""

import ctypes
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from time import monotonic
from typing import Any
from weakref import WeakSet, ref

from twill.diagnostics import TwillError
from twill.triton import store
from twill.triton.arguments import Getter, Passed, UnfitError, arrays_apart, c_types, plan
from twill.triton.callee import Callee, of
from twill.triton.report import Report, Row
from twill.triton.request import CompiledKernel, Request, request
from twill.triton.settings import Settings, log
from twill.triton.store import Outcome, Trial

Launch = Callable[..., None]
"""As Triton calls its launchers: three extents, stream, function, packed metadata, launch metadata, two
hooks, then the arguments."""

IMPATIENT = (
    "launches have waited for Twill's kernels as long as they may (%g s in all, patience=): others are built"
    " beside the program, and Triton's kernels run until they are there"
)

BEFORE_ARGUMENTS = 9
REMEMBERED = 256
"""Sets of arguments of a kernel."""
STREAM = 3


class Route:
    """In place of the launcher of one `CompiledKernel`."""

    def __init__(self, kernel: CompiledKernel, session: "Session", asked: Request) -> None:
        self.triton: Launch = kernel._run
        self.request = asked
        self.target: Launch = partial(session.first, self)
        self._kernel = ref(kernel)

    def __call__(self, *values: Passed) -> None:
        """Launchers that Inductor makes keep the route; Triton's own path reads the kernel's launcher anew
        each time."""
        self.target(*values)

    def serves(self, kernel: CompiledKernel) -> bool:
        return self._kernel() is kernel

    def settle(self, target: Launch) -> None:
        """All later launches go to `target`."""
        self.target = target
        kernel = self._kernel()
        if kernel is not None:
            kernel._run = target


@dataclass(eq=False)
class Session:
    """From `install` to `uninstall`. Kernels are decided one at a time; several threads may launch."""

    settings: Settings
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    """By the key of the kernel, in the order of first launches."""
    routes: WeakSet[Route] = field(default_factory=WeakSet[Route])
    lock: Any = field(default_factory=threading.RLock)
    closed: bool = False
    waited: float = 0.0
    """Seconds, of all launches."""

    def adopt(self, kernel: CompiledKernel) -> None:
        """Puts a route in the place of a loaded kernel's launcher. Never raises: whatever is wrong, Triton's
        launcher stays."""
        try:
            asked = None if isinstance(kernel._run, Route) else request(kernel)
        except Exception as error:
            log.warning(
                "%s stays Triton's: %s: %s", getattr(kernel, "name", "a kernel"), type(error).__name__, error
            )
            return
        if asked is None:
            return
        route = Route(kernel, self, asked)
        self.routes.add(route)
        kernel._run = route

    def ahead(self, kernel: CompiledKernel) -> None:
        """Starts to build a kernel that is going to be launched, where launches wait for builds."""
        asked = request(kernel)
        if asked is None or asked.unfit or self.settings.compile != "now":
            return
        key = asked.key(self.settings)
        if store.find(key) is None:
            from twill.triton import workers

            workers.begin(asked, key, self.settings)

    def measured(self, kernel: CompiledKernel) -> None:
        """The next launch of a kernel that was tried before decides again: by the trial of its own sizes."""
        row = self.rows.get(f"{kernel.hash}")
        if row is None or row.speed is None:
            return
        route = next((one for one in self.routes if one.serves(kernel)), None)
        if route is None:
            self.adopt(kernel)
        else:
            route.target = partial(self.first, route)
            kernel._run = route

    def first(self, route: Route, *values: Passed) -> None:
        """Decides, and launches once."""
        if capturing(values[STREAM]):
            self._record(
                route,
                Row(
                    *_named(route),
                    "triton",
                    "its first launch is captured in a CUDA graph; launch it once before",
                ),
            )
            return route.triton(*values)
        with self.lock:
            decided = route.target
            if isinstance(decided, partial) and decided.func == self.first:
                return self._decide(route, values)
        return decided(*values)

    def _decide(self, route: Route, values: Sequence[Passed]) -> None:
        if route.request.unfit:
            return self._stay(route, values, route.request.unfit)
        key = route.request.key(self.settings)
        known = store.find(key)
        if known is None and self.settings.compile == "cached":
            return self._stay(route, values, "it has not been built before, and nothing is built now")
        found = known or self._outcome(route.request, key)
        if isinstance(found, Future):
            return self._postpone(route, key, found, values)
        return self._arrive(route, key, found, *values)

    def _outcome(self, asked: Request, key: str) -> Outcome | Future[Outcome]:
        """What comes of a kernel that is not known; its build, where launches do not wait for it, or have
        waited as long as they may. What was late in an earlier run is not waited for in this one."""
        from twill.triton import workers

        patience = self.settings.patience
        if self.settings.compile == "background" or (patience is not None and store.late(key)):
            return workers.begin(asked, key, self.settings)
        left = None if patience is None else max(0.0, patience - self.waited)
        began = monotonic()
        found = workers.outcome(asked, key, self.settings, left)
        self.waited += monotonic() - began
        if isinstance(found, Future):
            store.keep_late(key)
            if left:
                log.warning(IMPATIENT, patience)
        return found

    def _stay(
        self,
        route: Route,
        values: Sequence[Passed],
        reason: str,
        interval: str = "",
        speed: float | None = None,
    ) -> None:
        self._record(route, Row(*_named(route), "triton", reason, interval, speed))
        route.settle(route.triton)
        route.triton(*values)

    def _postpone(self, route: Route, key: str, build: Future[Outcome], values: Sequence[Passed]) -> None:
        """Triton's kernel until the build has ended; the next launch after that takes it up."""
        self._record(route, Row(*_named(route), "pending", "Twill's is being built"))
        from twill.triton import workers

        route.target = route.triton
        build.add_done_callback(lambda done: self._ready(route, key, workers.ended(done)))
        route.triton(*values)

    def _ready(self, route: Route, key: str, outcome: Outcome) -> None:
        """Called in a thread of its own."""
        if self.closed:
            return
        if outcome.callee is None:
            row = Row(*_named(route), "triton", outcome.refused or "refused")
            self._settle(route, route.triton, row)
        else:
            row = Row(*_named(route), "pending", "Twill's is built; the next launch tries it")
            self._record(route, row)
            route.target = partial(self._take_up, route, key, outcome)

    def _take_up(self, route: Route, key: str, outcome: Outcome, *values: Passed) -> None:
        if capturing(values[STREAM]):
            return route.triton(*values)
        with self.lock:
            decided = route.target
            if isinstance(decided, partial) and decided.func == self._take_up:
                return self._arrive(route, key, outcome, *values)
        return decided(*values)

    def _arrive(self, route: Route, key: str, outcome: Outcome, *values: Passed) -> None:
        """Loads the kernel, tries it where that is wanted and new, and settles."""
        if outcome.callee is None:
            return self._stay(route, values, outcome.refused or "refused")
        try:
            callee, function = loaded(key, outcome.callee)
            twill = self._launcher(route, callee, function)
        except (TwillError, OSError) as error:
            return self._stay(route, values, getattr(error, "message", str(error)))
        interval = callee.interval
        if not (self.settings.verify or self.settings.measure):
            return self._use(route, twill, values, "as the schedule says", interval)
        return self._tried(route, key, twill, values, interval)

    def _tried(self, route: Route, key: str, twill: Launch, values: Sequence[Passed], interval: str) -> None:
        """By the trial beside this kernel of Triton's, for such sizes, on this kind of GPU, now or in an
        earlier process. Kernels of Triton's that differ in their number of stages share one of Twill's, not
        its trial."""
        device = gpu()
        name = f"{device} {route.request.metadata['hash']} {sizes(values)}" if device else None
        found, launched = store.find_trial(key, name) if name else None, False
        if not self._enough(found):
            from twill.triton.trial import NoTrialError, torch_trial

            try:
                runs = partial(route.triton, *values), partial(twill, *values)
                found = torch_trial(*runs, values[BEFORE_ARGUMENTS:], self.settings.measure)
                launched = True
            except NoTrialError as error:
                if self.settings.verify:
                    return self._stay(route, values, f"it cannot be verified: {error}", interval)
                return self._use(route, twill, values, f"not measured: {error}", interval)
            store.keep_trial(key, name or "", found)
        return self._judge(route, found or Trial(), () if launched else values, twill, interval)

    def _enough(self, found: Trial | None) -> bool:
        return found is not None and (
            found.wrong is not None or found.speed is not None or not self.settings.measure
        )

    def _judge(
        self, route: Route, found: Trial, values: Sequence[Passed], twill: Launch, interval: str
    ) -> None:
        """`values` is empty where the trial has launched already."""
        if found.wrong:
            reason = f"Twill's result differs from Triton's: {found.wrong}; please report this"
            log.error("%s (%s): %s", *_named(route), reason)
        else:
            reason = "Twill's is slower" if found.speed and found.speed < 1 else "verified"
        if reason == "verified":
            self._settle(route, twill, Row(*_named(route), "twill", reason, interval, found.speed))
        else:
            self._settle(route, route.triton, Row(*_named(route), "triton", reason, interval, found.speed))
        if values:
            route.target(*values)

    def _use(self, route: Route, twill: Launch, values: Sequence[Passed], reason: str, interval: str) -> None:
        self._settle(route, twill, Row(*_named(route), "twill", reason, interval))
        twill(*values)

    def _settle(self, route: Route, target: Launch, row: Row) -> None:
        self._record(route, row)
        route.settle(target)

    def _record(self, route: Route, row: Row) -> None:
        """One line of log for each decision."""
        name = f"{route.request.metadata['hash']}"
        if self.rows.get(name) != row:
            self.rows[name] = row
            log.info("%s", row.line())

    def _launcher(self, route: Route, callee: Callee, function: Callable[..., int]) -> Launch:
        """Raises TwillError where the kernel does not take what Triton passes."""
        function.argtypes = c_types(callee.arguments)  # pyright: ignore[reportFunctionMemberAccess]
        return launcher(
            function,
            plan(route.request.signature, callee.arguments),
            arrays_apart(route.request.signature, callee.arguments, callee.apart),
            route.triton,
            partial(self._failed, route, callee),
        )

    def _failed(self, route: Route, callee: Callee, status: int) -> None:
        """Nothing was launched: Triton's kernel takes over for good."""
        text = callee.text(status)
        self._settle(
            route,
            route.triton,
            Row(*_named(route), "triton", f"the launch of Twill's kernel failed with {text}"),
        )

    def report(self) -> Report:
        return Report(tuple(self.rows.values()))

    def close(self) -> None:
        """Triton's launchers again, everywhere."""
        from twill.triton import workers

        self.closed = True
        workers.stop()
        for route in tuple(self.routes):
            route.settle(route.triton)


def launcher(
    function: Callable[..., int],
    arguments: Getter,
    apart: Callable[[Sequence[Passed], tuple[Any, ...]], bool],
    triton: Launch,
    failed: Callable[[int], None],
) -> Launch:
    """Twill's kernel as Triton launches kernels; no allocation, no synchronization. A launch that does not
    fit, or whose arrays overlap, goes to Triton's."""
    known = set[tuple[Any, ...]]()
    """C arguments of launches whose arrays do not overlap: what a kernel accesses follows from them."""

    def launch(
        x: int,
        y: int,
        z: int,
        stream: int,
        handle: object,
        packed: object,
        metadata: object,
        enter: Callable[..., None] | None,
        leave: Callable[..., None] | None,
        *values: Passed,
    ) -> None:
        if x * y * z == 0:
            return None
        try:
            passed = arguments(values)
        except UnfitError:
            return triton(x, y, z, stream, handle, packed, metadata, enter, leave, *values)
        if passed not in known:
            if not apart(values, passed):
                return triton(x, y, z, stream, handle, packed, metadata, enter, leave, *values)
            if len(known) >= REMEMBERED:
                known.clear()
            known.add(passed)
        if enter is not None:
            enter(metadata)
        status = function(*passed, x, y, z, stream)
        if leave is not None:
            leave(metadata)
        if status:
            failed(status)
            return triton(x, y, z, stream, handle, packed, metadata, None, None, *values)
        return None

    return launch


def _named(route: Route) -> tuple[str, str]:
    return route.request.name, route.request.configuration


def loaded(key: str, known: Callee) -> tuple[Callee, Callable[..., int]]:
    """A kernel and its launcher. A library that is not as it was, or was copied, is compared with its source.
    Raises TwillError, or OSError where it cannot be loaded."""
    callee = known
    if not known.current:
        callee = of(known.folder)
        store.keep(key, Outcome(callee))
    return callee, callee.function()


def gpu() -> str | None:
    """The name of the current GPU; None without PyTorch."""
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name() if torch else None


@cache
def _driver() -> Any:
    """The CUDA driver; None on a machine without."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def sizes(values: Sequence[Passed]) -> str:
    """The grid and the integers of a launch, each as its number of bits: which of two kernels is faster
    depends on how much there is to do, and hardly changes within a factor of two."""
    numbers = (*values[:STREAM], *values[BEFORE_ARGUMENTS:])
    return ",".join(str(number.bit_length()) for number in numbers if type(number) is int)


def capturing(stream: int) -> bool:
    """Whether launches on a stream are recorded into a CUDA graph (CUDA driver API, cuStreamIsCapturing: 0 is
    no)."""
    driver, status = _driver(), ctypes.c_int(0)
    if driver is None:
        return False
    driver.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(status))
    return status.value != 0
