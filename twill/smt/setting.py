"""What a search is given, and what it knows: two frozen products that its steps pass on."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from twill.engine.clock import Clock, Mark, own_clock
from twill.engine.parallel import Stop
from twill.engine.partitions import Labels
from twill.engine.probe import FEW, Budget
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Refutation, Solution
from twill.ir.search import Options, Progress, Report, Use
from twill.smt.relax import Projection
from twill.smt.symmetry import Family

WORK = 0.5
"""Deterministic seconds of an ordinary probe."""

LARGE = 48
"""Operations above which stating the complete model takes seconds."""


Reserve = Callable[[], Solution | None]
"""Constructs a schedule near the lower bound; a simpler one at the bound is looked for first, quickly."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A problem, how to search, and what is derived from the two alone."""

    problem: Problem
    options: Options
    in_flight: int
    """Schedules of up to this many iterations in flight count."""
    report: Report
    candidates: tuple[Labels, ...]
    """Natural partitions."""
    alike: tuple[Family, ...]
    """Sub-tiles."""
    work: float
    """Deterministic seconds of an ordinary probe; more for larger problems."""
    shortest: Time = 0
    """Cycles that the shortest possible iteration takes."""
    chained: bool = False
    """Sub-tiles pass accumulators on, so that one group executes them one behind the other."""
    began: Mark = field(default_factory=lambda: own_clock().mark())
    clock: Clock = field(default_factory=own_clock)
    hoped: Time = 0
    """The interval of the answer to a wider problem: a smaller one is hardly expected."""
    reserve: Reserve = lambda: None
    use: Use = field(default_factory=Use)
    tied: tuple[Labels, ...] = ()
    """Partitions in which what a wider problem does not tie is together, for an early answer where natural
    ones give none."""

    def useless(self, known: "Evidence") -> bool:
        """What is known is no answer, and no more is to be found out: another problem is searched instead, or
        what a large loop has in different groups is hardly brought together."""
        if known.open:
            return self.use.brief
        return known.best is not None and not self.small and not self.use.kept(known.best)

    @property
    def joint(self) -> bool:
        return not self.options.modulo_only

    @property
    def small(self) -> bool:
        """The complete model is stated soon."""
        return len(self.problem.operations) <= LARGE

    @property
    def subtiled(self) -> bool:
        """There are sub-tiles that compute: loads alone that are alike have nothing to alternate at."""
        operations = self.problem.operations
        return any(not operations[op].variable for family in self.alike for op in family[0])

    def few(self, interval: Time) -> int:
        """Iterations in flight that are probed first: no more than `FEW`, unless the shortest possible
        iteration has more."""
        return min(max(FEW, -(-self.shortest // interval)), self.in_flight)

    @property
    def remaining(self) -> float:
        """Seconds until the time limit."""
        return self.clock.left(self.options.seconds, self.began)

    def within(self, part: float) -> "Setting":
        """The same with a part of the time."""
        options = self.options
        kept = options.time_limit - part * options.seconds
        return replace(self, options=replace(options, reserved=kept))

    def with_at_most(self, part: float) -> "Setting":
        """The same with what is left of the time, but no more than a part of the limit from now on."""
        options = self.options
        seconds = min(self.remaining, part * options.time_limit)
        own = replace(options, reserved=options.time_limit - seconds)
        return replace(self, options=own, began=self.clock.mark())

    @property
    def decomposes(self) -> bool:
        """Projections and coarse time apply: they rest on monotony, and an engine that was chosen works
        alone."""
        return self.options.engine == "auto" and self.joint and self.problem.monotone

    def budget(self, work: float | None, stop: Stop | None = None) -> Budget:
        """For a probe; what one takes that may be stopped is counted by whoever starts it, since only some of
        those that run beside each other count."""
        return Budget(self.remaining, work, stop, None if stop else self.clock)

    def tell(self, what: str, engine: str, interval: Time, detail: str = "") -> None:
        """Report a progress event."""
        self.report(Progress(self.began.ago, engine, interval, what, detail))  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known: every interval below `low` is refuted, `best` works."""

    low: Time
    top: Time
    """The largest interval that could matter: if it does not work, none does."""
    best: Solution | None = None
    refuted: tuple[Refutation, ...] = ()
    partly: Refutation | None = None
    """The largest interval that was refuted for few iterations in flight alone."""
    binding: tuple[tuple[Projection, Time], ...] = ()
    """Projections that refuted something, with the largest interval that they did."""

    @property
    def high(self) -> Time:
        """The smallest interval known to work, or one past the largest worth trying."""
        return self.best.interval if self.best else self.top + 1

    @property
    def open(self) -> bool:
        return self.low < self.high

    def expected(self, hoped: Time) -> Time:
        """The smallest interval that is left and not smaller than that."""
        return max(self.low, min(hoped, self.high - 1))

    def found(self, solution: Solution) -> "Evidence":
        return replace(self, best=solution) if solution.interval < self.high or self.best is None else self

    def excluding(self, refutation: Refutation) -> "Evidence":
        """Where a refutation covers all below, the weaker ones are dropped."""
        kept = tuple(old for old in self.refuted if old.max_in_flight is None or not refutation.below)
        return replace(self, refuted=(*kept, refutation), low=max(self.low, refutation.interval + 1))

    def known(self, interval: Time, in_flight: int) -> Refutation | None:
        """The refutation of `interval` for so many iterations in flight, if there is one already; of monotone
        problems."""
        partly = self.partly
        if partly is None or partly.max_in_flight is None or partly.interval < interval:
            return None
        return partly if partly.max_in_flight >= in_flight else None

    def partly_excluding(self, refutation: Refutation | None) -> "Evidence":
        if refutation is None or (self.partly and self.partly.interval >= refutation.interval):
            return self
        return replace(self, partly=refutation)
