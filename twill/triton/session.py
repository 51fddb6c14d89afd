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
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

from twill.diagnostics import TwillError
from twill.triton import store
from twill.triton.arguments import Getter, Passed, UnfitError, arrays_apart, c_types, plan
from twill.triton.callee import Callee, of
from twill.triton.report import Report, Row
from twill.triton.request import CompiledKernel, Request, request
from twill.triton.settings import Settings, log
from twill.triton.store import NoTrialError, Outcome, Trial

if TYPE_CHECKING:
    from twill.triton.trial import Against

Launch = Callable[..., None]
"""As Triton calls its launchers: three extents, stream, function, packed metadata, launch metadata, two
hooks, then the arguments."""

Form = tuple[Callee, Launch]
"""A kernel that is loaded, with its launcher."""

SLOWER = "Twill's is slower"
FORM_BEGUN = f"{SLOWER}; another form of it is being built"
FORM_BUILT = f"{SLOWER}; the next launch decides about another form of it"
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

    def _outcome(self, asked: Request, key: str, form: int = 0) -> Outcome | Future[Outcome]:
        """What comes of a kernel, or a form of it, that is not known; its build, where launches do not wait
        for it, or have waited as long as they may. What was late in an earlier run is not waited for in this
        one."""
        from twill.triton import workers

        patience = self.settings.patience
        if self.settings.compile == "background" or (patience is not None and store.late(key)):
            return workers.begin(asked, key, self.settings, form)
        left = None if patience is None else max(0.0, patience - self.waited)
        began = monotonic()
        found = workers.outcome(asked, key, self.settings, left, form)
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
        self._until_built(
            route,
            Row(*_named(route), "pending", "Twill's is being built"),
            build,
            lambda outcome: self._ready(route, key, outcome),
        )
        route.triton(*values)

    def _until_built(
        self, route: Route, row: Row, build: Future[Outcome], then: Callable[[Outcome], None]
    ) -> None:
        """Triton's kernel until the build has ended; `then` is called in a thread of its own."""
        from twill.triton import workers

        self._record(route, row)
        route.target = route.triton
        build.add_done_callback(lambda done: None if self.closed else then(workers.ended(done)))

    def _ready(self, route: Route, key: str, outcome: Outcome) -> None:
        if outcome.callee is None:
            row = Row(*_named(route), "triton", outcome.refused or "refused")
            self._settle(route, route.triton, row)
        else:
            row = Row(*_named(route), "pending", "Twill's is built; the next launch tries it")
            self._record(route, row)
            route.target = partial(self._take_up, route, partial(self._arrive, route, key, outcome))

    def _form_ready(self, route: Route, slower: Row, waiting: Row, outcome: Outcome) -> None:
        """Another form is built, or refused: the next launch decides again, from what is on disk, unless one
        of other sizes has decided meanwhile."""
        if self.rows.get(f"{route.request.metadata['hash']}") != waiting:
            return
        if outcome.callee is None and not outcome.lasting:
            self._settle(route, route.triton, slower)
        else:
            self._record(route, replace(slower, choice="pending", reason=FORM_BUILT))
            route.target = partial(self._take_up, route, lambda *values: self._decide(route, values))

    def _take_up(self, route: Route, decide: Launch, *values: Passed) -> None:
        if capturing(values[STREAM]):
            return route.triton(*values)
        with self.lock:
            decided = route.target
            if isinstance(decided, partial) and decided.func == self._take_up:
                return decide(*values)
        return decided(*values)

    def _arrive(self, route: Route, key: str, outcome: Outcome, *values: Passed) -> None:
        """Loads the kernel, tries it where that is wanted and new, and settles."""
        if outcome.callee is None:
            return self._stay(route, values, outcome.refused or "refused")
        try:
            callee, twill = self._loaded(route, key, outcome.callee)
        except (TwillError, OSError) as error:
            return self._stay(route, values, getattr(error, "message", str(error)))
        if not (self.settings.verify or self.settings.measure):
            return self._use(route, twill, values, "as the schedule says", callee.interval)
        return self._tried(route, key, outcome, (callee, twill), values)

    def _tried(self, route: Route, key: str, outcome: Outcome, first: Form, values: Sequence[Passed]) -> None:
        """By trials beside this kernel of Triton's, for such sizes, on this kind of GPU, now or in an earlier
        process. Nothing else is launched before these are over."""
        trials = _Trials(route, values, self.settings.measure)
        with trials.launches:
            judged = self._of_trials(route, key, outcome, first, trials)
        if judged.build is None:
            self._settle(route, judged.target, judged.row)
        else:
            row = replace(judged.row, choice="pending", reason=FORM_BEGUN)
            self._until_built(route, row, judged.build, partial(self._form_ready, route, judged.row, row))
        if not trials.launched:
            route.target(*values)

    def _of_trials(
        self, route: Route, key: str, outcome: Outcome, first: Form, trials: "_Trials"
    ) -> "_Judged":
        callee, twill = first
        try:
            judged = self._judged(route, trials.of(key, twill), first)
        except NoTrialError as error:
            ours, why = (
                not self.settings.verify,
                "it cannot be verified" if self.settings.verify else "not measured",
            )
            row = Row(*_named(route), "twill" if ours else "triton", f"{why}: {error}", callee.interval)
            return _Judged(row, twill if ours else route.triton)
        return self._other_forms(route, key, outcome.forms, trials, judged) if judged.slower else judged

    def _other_forms(
        self, route: Route, key: str, forms: int, trials: "_Trials", first: "_Judged"
    ) -> "_Judged":
        """The first of the other forms of a slower kernel that is not slower; its build, where that is not
        waited for; Triton's, with the speed of the fastest, where there is none. What has no trial is left
        out."""
        best = first
        for number in range(1, forms + 1):
            name = store.form_of(key, number)
            found = self._form(route.request, name, number)
            if isinstance(found, Future):
                return replace(best, build=found)
            if found is None or found.callee is None:
                continue
            try:
                form = self._loaded(route, name, found.callee)
                judged = self._judged(route, trials.of(name, form[1]), form)
            except (TwillError, OSError, NoTrialError):
                continue
            if not judged.slower:
                return judged
            best = max(best, judged, key=lambda one: one.row.speed or 0.0)
        return best

    def _form(self, asked: Request, key: str, number: int) -> Outcome | Future[Outcome] | None:
        """Another form of a kernel, as `_outcome` gives it; None where it is not there and nothing is
        built."""
        found = store.find(key)
        if found is not None or self.settings.compile == "cached":
            return found
        return self._outcome(asked, key, number)

    def _judged(self, route: Route, found: Trial, form: Form) -> "_Judged":
        callee, twill = form
        if found.wrong:
            reason = f"Twill's result differs from Triton's: {found.wrong}; please report this"
            log.error("%s (%s): %s", *_named(route), reason)
        else:
            reason = SLOWER if found.speed and found.speed < 1 else "verified"
        ours = reason == "verified"
        reason = f"{reason}, {callee.form}" if ours and callee.form else reason
        row = Row(*_named(route), "twill" if ours else "triton", reason, callee.interval, found.speed)
        return _Judged(row, twill if ours else route.triton)

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

    def _loaded(self, route: Route, key: str, known: Callee) -> Form:
        """Raises TwillError where the kernel does not take what Triton passes, or is not as it was built, and
        OSError where it cannot be loaded."""
        callee, function = loaded(key, known)
        function.argtypes = c_types(callee.arguments)  # pyright: ignore[reportFunctionMemberAccess]
        return callee, launcher(
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


@dataclass(frozen=True, slots=True)
class _Judged:
    """What trials come to."""

    row: Row
    target: Launch
    build: Future[Outcome] | None = None
    """Of another form, which may be faster."""

    @property
    def slower(self) -> bool:
        return self.row.reason == SLOWER


class _Trials:
    """Of one launch: what is kept of earlier ones, or trials now. The first of these launches Triton's
    kernel, whose results are there again when `launches` is left."""

    def __init__(self, route: Route, values: Sequence[Passed], measure: bool) -> None:
        self.launches = ExitStack()
        self._route, self._values, self._measure = route, values, measure
        self._against: Against | None = None
        device = gpu()
        self._name = f"{device} {route.request.metadata['hash']} {sizes(values)}" if device else None
        """Of what Twill's kernel stands beside. Kernels of Triton's that differ in their number of stages
        share one of Twill's, not its trial."""

    @property
    def launched(self) -> bool:
        return self._against is not None

    def of(self, key: str, twill: Launch) -> Trial:
        """Raises NoTrialError where it is not possible."""
        found = store.find_trial(key, self._name) if self._name else None
        if found is None or not self._enough(found):
            if self._against is None:
                self._against = self.launches.enter_context(self._beside())
            found = self._against(partial(twill, *self._values))
            if self._name:
                store.keep_trial(key, self._name, found)
        return found

    def _beside(self) -> AbstractContextManager["Against"]:
        from twill.triton.trial import torch_beside

        return torch_beside(
            partial(self._route.triton, *self._values), self._values[BEFORE_ARGUMENTS:], self._measure
        )

    def _enough(self, found: Trial) -> bool:
        return found.wrong is not None or found.speed is not None or not self._measure


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
        callee = replace(of(known.folder), form=known.form)
        store.keep_callee(key, callee)
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
