"""The answer made simple at its interval: fewest groups, channels between them and stages, then what keeps
its warps in order, then the shortest, then the one whose loads are latest and whose other operations are
earliest. Sub-tiles that pass accumulators on stay shifted copies of each other, unless others have fewer
stages.

Groups and channels come first because they cost warps, registers and barriers in every iteration. Fewer
groups are taken only if each can issue what it has within an interval, where those of the answer can. A stage
more is one more iteration whose values are kept apart in the steady state, and one more copy of the loop's
code before it and after it. In order: no group issues two operations at once, which the rules allow and warps
do not do, so that one of them is late (attention forward on an H200: a tenth of the time,
benchmarks/notebook.md); where no schedule of this partition is, the latest starts are taken. Length costs
only the time of the prologue and the epilogue. Latest starts last: what need not be early then takes its
storage no sooner than it must. Where one group computes in registers, MMAs and stores start early
nevertheless: no other group has work for the tensor core while an MMA is late (attention backward on an H200:
27.3 to 27.7 million cycles with dP issued beside S, 27.4 to 27.8 with it late; reports/h200.md).
"""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from twill.engine import decode
from twill.engine.clock import Clock
from twill.engine.parallel import NOTHING, Stop
from twill.engine.partitions import Labels, under
from twill.engine.probe import Probe
from twill.ir.problem import Problem
from twill.ir.schedule import Solution
from twill.modulo.simplest import Proven, issuable, least_groups, proven
from twill.smt import cpsat
from twill.smt.ahead import Solved, Step
from twill.smt.cpsat import Goal, Tactics
from twill.smt.setting import Setting
from twill.smt.symmetry import Family, evenly_spread

SHARE = 0.5
"""Deterministic seconds for each goal."""

LAST = 2.0
"""The same for a number of groups that quick probes leave open, at each level of linearization."""

LARGE = 48
"""Operations above which one probe is enough, of shifted sub-tiles where there are any: stating the rules
takes seconds."""

LARGE_SHARE = 1.0
"""The share for each goal of such a loop."""

LEVELS: tuple[Literal[0, 2], ...] = (0, 2)
"""Levels of linearization: the first finds, the second refutes."""


@dataclass
class Polish:
    """Improves `best` by one goal after the other."""

    setting: Setting
    best: Solution
    in_order: bool = False
    """The best is, and what is found from now on must be."""
    solved: Solved = field(default_factory=Solved)
    """The steps that are known."""
    guess: Stop | None = None
    """Set, it ends this, which does what is left where no proof finds anything, ahead of time."""
    ahead: Stop | None = None
    """Ends the guess that is under way."""

    @property
    def problem(self) -> Problem:
        return self.setting.problem

    @property
    def joint(self) -> bool:
        return self.setting.joint

    @property
    def large(self) -> bool:
        return len(self.problem.operations) > LARGE

    @property
    def alone(self) -> tuple[Family, ...]:
        """Sub-tiles that are all that is looked at: those of a large loop, and those that one group executes
        one behind the other, once they are evenly spread."""
        spread = self.setting.chained and evenly_spread(self.best, self.setting.alike)
        return self.setting.alike if self.large or spread else ()

    @property
    def issuable(self) -> bool:
        """No group of the best has more to issue than fits an interval, and none may have from now on."""
        return self.joint and issuable(self.problem, self.best.interval, self.best.group)

    def _met(self, *, length: bool = False) -> Proven:
        """The goals at their lower bounds, which need no solver; the length only where it counts."""
        return proven(self.problem, self.best, joint=self.joint, in_order=self.in_order, length=length)

    def run(self) -> tuple[Solution, list[str]]:
        """The simplified answer, and the goals whose optimum is not proven. One whose groups need too many
        registers together only has fewer groups, where these are found soon."""
        groups = self.joint and self._groups(self._quickly)
        if not self._fits(self.best):
            return self.best, []
        with self._guessed():
            sure = self._simpler_partition(groups) if self.joint else {}
            sure |= self._simplified()
        return self.best, [goal for goal, done in sure.items() if not done]

    def _simplified(self) -> dict[str, bool]:
        """Fewest stages, in order, then the shortest, with the starts that count; whether the goals are
        proven."""
        sure = {"stages": self._met().stages or self._fewer_stages()}
        self._put_in_order()
        sure["length"] = self._met(length=True).length or self._within_partition("length")
        last = "promptness" if self.in_order else "readiness" if self._one_computes() else "lateness"
        self._improve(last, self._this_partition(), self.alone)
        return sure

    @contextmanager
    def _guessed(self) -> Generator[None]:
        """Meanwhile, all that is left to do is done on another core as if proofs found nothing, which they
        seldom do. Where one does, or this is done before, the guess ends."""
        if self.setting.options.jobs <= 1:
            yield
            return
        self.ahead, clock = Stop(), Clock()
        setting = replace(self.setting, clock=clock, began=clock.mark())
        guess = Polish(setting, self.best, self.in_order, self.solved, self.ahead)
        with ThreadPoolExecutor(1) as pool:
            guessed = pool.submit(guess._simplified)
            try:
                yield
            finally:
                self.ahead.set()
        guessed.result()

    def _proves(self, proof: Callable[[], bool]) -> bool:
        """What mostly proves that there is nothing better, and takes long for that: a guess does without."""
        if self.guess is not None:
            return False
        before, sure = self.best, proof()
        if self.ahead is not None and self.best is not before:
            self.ahead.set()
        return sure

    def _one_computes(self) -> bool:
        """A single group has more than loads to do, and what it computes lies in registers."""
        pairs = zip(self.problem.operations, self.best.group, strict=True)
        wide = {group for op, group in pairs if op.warps > 1}
        return self.joint and len(wide) == 1 and not self.problem.limits.tensor

    def _simpler_partition(self, groups: bool) -> dict[str, bool]:
        """After quick probes for fewer groups, which may have settled them: fewer channels, which often
        leaves a group without work; only then long probes for fewer groups, which find little and prove
        much."""
        channels = self._proves(self._channels)
        if groups or self._met().groups:
            return {"groups": True, "channels": channels}
        if not self.setting.options.proofs:
            return {"groups": False, "channels": channels}
        before, groups = self.best, self._proves(lambda: self._groups(self._freely))
        return {"groups": groups, "channels": channels if self.best is before else self._channels()}

    def _groups(self, attempt: Callable[[int], Probe]) -> bool:
        """Each number of groups below the answer's, upwards from the least, to the first that works; whether
        those below are refuted. For a large loop the first long probe that decides nothing is the last."""
        refuted, last = True, self.large and attempt == self._freely
        for count in range(least_groups(self.problem, self.best), len(self.best.groups)):
            probe = attempt(count)
            if probe.solution is not None and self._spoils(probe.solution):
                if self._narrowed(self.problem):
                    self._groups(attempt)
                return False
            if probe.solution is not None:
                self.best = probe.solution
                return refuted
            refuted = refuted and probe.refuted
            if last and not refuted:
                return False
        return refuted

    def _quickly(self, count: int) -> Probe:
        """Few iterations in flight, freely and under natural partitions; sub-tiles of a large loop under
        these alone, with as many in flight as the answer has."""
        fewer, most = self._within(count), self.setting.in_flight
        few = self.setting.few(self.best.interval)
        natural = [
            under(fewer, labels)
            for labels in self.setting.candidates
            if len(set(labels)) == count and self._counts(labels)
        ]
        if self.alone:
            few = max(few, self.best.in_flight(self.problem))
            probes = (self._probe(one, few, LARGE_SHARE, 0, self.alone) for one in natural)
            return next((probe for probe in probes if probe.solution is not None), NOTHING)
        for problem in (fewer, *natural):
            probe = self._probe(problem, few)
            if probe.solution is not None or (problem is fewer and probe.refuted and few == most):
                return probe
        return NOTHING

    def _freely(self, count: int) -> Probe:
        """All iterations in flight."""
        fewer, most = self._within(count), self.setting.in_flight
        if self.large:
            return self._probe(fewer, most)
        probes = (self._probe(fewer, most, LAST, level) for level in LEVELS)
        return next((probe for probe in probes if probe.conclusive), NOTHING)

    def _probe(
        self,
        problem: Problem,
        in_flight: int,
        work: float = SHARE,
        level: Literal[0, 2] = 2,
        alike: tuple[Family, ...] = (),
    ) -> Probe:
        """Of all schedules first; where what was found does not count, of those that do, unless a partition
        is given."""
        given = problem.apart != self.problem.apart
        for narrow in (False, True) if self.issuable and not given else (False,):
            budget = self.setting.budget(work)
            tactics = Tactics(linearization=level, shifted=alike, issuable=narrow)
            probe = cpsat.attempt(problem, self.best.interval, in_flight, budget=budget, tactics=tactics)
            if probe.refuted or (probe.solution is not None and self._counts(probe.solution.group)):
                return probe
        return NOTHING

    def _fits(self, found: Solution) -> bool:
        """Its groups do not need too many registers together."""
        return self.setting.use.fits(found)

    def _spoils(self, found: Solution) -> bool:
        """Its groups need too many registers together, and those of the best do not."""
        return self._fits(self.best) and not self._fits(found)

    def _narrowed(self, problem: Problem) -> Problem | None:
        """A problem with fewer registers in all, which all problems have from now on, so that nothing is
        proven any more; None where it has no fewer."""
        within = self.setting.use.within
        self.setting = replace(self.setting, problem=within(self.problem, self.best))
        narrowed = within(problem, self.best)
        return None if narrowed == problem else narrowed

    def _counts(self, labels: Labels) -> bool:
        """A schedule under this partition is as good as the best in what its groups are to issue."""
        return not self.issuable or issuable(self.problem, self.best.interval, labels)

    def _channels(self) -> bool:
        """With as many iterations in flight as the answer has first, which is quick, then with all, which
        proves it."""
        if self._met().channels:
            return True
        setting, own = self.setting, self.best.in_flight(self.problem)
        if own < setting.in_flight:
            self.setting = replace(setting, in_flight=own)
            self._fewer_channels()
            self.setting = replace(self.setting, in_flight=setting.in_flight)
            if not setting.options.proofs:
                return False
        return self._fewer_channels()

    def _fewer_channels(self) -> bool:
        """Keeps the answer where there are no fewer: another one may be longer."""
        before = self.best
        sure = self._improve("channels", self._as_few_groups())
        if len(decode.channels(self.problem, self.best.group)) >= len(
            decode.channels(self.problem, before.group)
        ):
            self.best = before
        return sure

    def _put_in_order(self) -> None:
        """In no more stages, one sub-tile after the other first, which is quick."""
        ways = dict.fromkeys((self.setting.alike, self.alone)) if self.joint else ()
        for alike in ways:
            found, _ = self._improved("stages", self._this_partition(), alike, in_order=True)
            if found is not self.best:
                self.best, self.in_order = found, True
                return

    def _within_partition(self, goal: Goal) -> bool:
        """Quicker with sub-tiles one after the other, so that is first; for a large loop that is all."""
        if self.setting.alike:
            self._improve(goal, self._this_partition(), self.setting.alike)
        return not self.alone and self._improve(goal, self._this_partition())

    def _fewer_stages(self) -> bool:
        """Within the partition first, which is quick, one sub-tile after the other; then over all as simple
        ones, which proves it."""
        if (self.large and self.alone) or not self.joint:
            return self._within_partition("stages")
        alike = self.setting.alike
        self._improve("stages", self._this_partition(), alike)
        spread = self.best
        sure = self._proves(lambda: self._improve("stages", self._as_few_groups()))
        if self.setting.chained and self.best.stages == spread.stages:
            self.best = spread
        if alike and not sure:
            self._improve("stages", self._this_partition())
        return sure

    def _improve(self, goal: Goal, problem: Problem, alike: tuple[Family, ...] = ()) -> bool:
        """Whether the best is now proven best by this goal."""
        self.best, sure = self._improved(goal, problem, alike, self.in_order)
        return sure

    def _improved(
        self, goal: Goal, problem: Problem, alike: tuple[Family, ...], in_order: bool
    ) -> tuple[Solution, bool]:
        """The best by this goal, the best so far where none is found, and whether that is proven."""
        if self.setting.remaining <= 0 or (self.guess is not None and self.guess.is_set()):
            return self.best, False
        share = LARGE_SHARE if self.alone else SHARE
        tactics = Tactics(shifted=alike, in_order=in_order, issuable=self.issuable)
        budget = replace(self.setting.budget(share), stop=self.guess)
        step = Step(goal, problem, self.best, self.setting.in_flight, self.joint, tactics, share)
        improved = self.solved.improved(step, budget)
        if improved.best and self._spoils(improved.best):
            narrowed = self._narrowed(problem)
            return (self._improved(goal, narrowed, alike, in_order)[0] if narrowed else self.best), False
        return improved.best or self.best, improved.proven

    def _within(self, groups: int) -> Problem:
        return replace(self.problem, limits=replace(self.problem.limits, groups=groups))

    def _as_few_groups(self) -> Problem:
        return self._within(len(self.best.groups)) if self.joint else self.problem

    def _this_partition(self) -> Problem:
        return under(self._as_few_groups(), self.best.group) if self.joint else self.problem
