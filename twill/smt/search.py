"""The search over intervals: the smallest one that works, with evidence for every smaller one.

Takes a `Problem` and `Options`; gives a `Result`. It starts at the lower bound, finds some interval that
works, and closes the gap from both sides, each interval decided by a `twill.smt.race`. Where the problem is
monotone (`Problem.monotone`), a refutation at I covers all below, so projections raise the lower end and the
gap is bisected; elsewhere every interval is decided, one after the other.
"""

from dataclasses import dataclass, replace

from twill.engine.anchor import fastened
from twill.engine.clock import SEARCHED, Mark, own_clock
from twill.engine.partitions import Labels, kept_together, partitions, under
from twill.engine.probe import Feasible, Outcome, Refuted, Unknown
from twill.ir.problem import Problem, Time
from twill.ir.schedule import Refutation, Result, Solution
from twill.ir.search import Options, Report, Use
from twill.modulo.start import MOST, Start, start
from twill.smt import cpsat
from twill.smt.cpsat import FINDING, Tactics
from twill.smt.early import early, soon
from twill.smt.gap import by_slots
from twill.smt.largest import largest
from twill.smt.lowest import hopeless, lowest, lowest_of_large
from twill.smt.outcome import outcome, time_note
from twill.smt.polish import Polish
from twill.smt.projecting import raise_by
from twill.smt.race import QUICK, Race, Stage, decide
from twill.smt.reasons import reasons
from twill.smt.relax import Projection, dependences, projections, units
from twill.smt.setting import WORK, Evidence, Reserve, Setting
from twill.smt.symmetry import chained, families

FEW_OPERATIONS = 32
"""Above so many, the work of a probe grows with the square of their number. It is doubled each round."""

DECIDING = 0.85
"""Part of the time limit for intervals; the rest is for a simpler schedule at the one that is found."""

ANALYSED = 300
"""Operations up to which natural partitions and sub-tiles are computed: that takes seconds beyond."""

NEAR = 16
"""Once few iterations in flight leave a gap of this part of the interval, more of them are probed, or a loop
that has no more is done with ..."""

MIDWAY = 4
"""... with this part of a share."""

FAR = 8
"""Without proofs, schedules with more than few iterations in flight are looked for where few of them leave a
gap of this part of the interval."""

PROBE = 0.25
"""Part of the time limit that an ordinary probe of a large problem takes at most."""

ANY = Use()

UNFIT = "not made simpler, as its groups need too many registers together"

MISSES = 4
"""Intervals without an answer after which the largest is decided: whether there is any schedule at all."""


def search(
    problem: Problem,
    options: Options,
    report: Report,
    begin: Start | None = None,
    made: Solution | None = None,
    began: Mark | None = None,
    wider: Result | None = None,
    reserve: Reserve = lambda: None,
    use: Use = ANY,
) -> Result:
    """The smallest interval that works under all rules, or under timing alone where `options.modulo_only`.

    `begin` is `twill.modulo.start`'s, where it is there already; a problem that it refutes is not one for
    this search. `made` is a schedule, where one is known; the time limit counts from `began` on. `wider` is
    the result of a problem of which every schedule of this one is a schedule: what it excludes stays
    excluded, and where it is optimal no more iterations in flight are considered. `reserve`
    constructs a schedule, which is taken where quick probes find none at the lower bound. `use`: which
    schedules are of use.
    """
    begin = begin or start(problem, joint=not options.modulo_only)
    in_flight = max(begin.max_in_flight(options), 0 if made is None else made.in_flight(problem))
    setting = replace(_setting(problem, options, report, begin, in_flight, began), reserve=reserve, use=use)
    if wider is not None and wider.problem.together != problem.together and setting.candidates:
        setting = replace(setting, tied=kept_together(problem))
    sure = wider if wider is not None and wider.status == "optimal" else None
    if sure is not None and sure.solution is not None and problem.monotone:
        setting = replace(setting, hoped=sure.solution.interval)
    deciding, known = setting.within(DECIDING), Evidence(begin.low, begin.top, made, begin.refuted)
    evidence = _decided(deciding, known if wider is None else _excluded(setting, known, wider.refuted))
    if options.max_in_flight is None and (sure is None or sure.max_in_flight > in_flight):
        deciding, evidence = _deepened(deciding, evidence, begin)
    setting = replace(setting, in_flight=deciding.in_flight)
    stopped = evidence.open and deciding.remaining <= 0
    evidence, notes = _polished(setting, evidence)
    result = outcome(setting, evidence, begin.bounds, (*notes, *time_note(setting, stopped)))
    if setting.useless(evidence):
        return result
    return replace(result, reasons=reasons(setting, evidence, result))


def _excluded(setting: Setting, evidence: Evidence, refuted: tuple[Refutation, ...]) -> Evidence:
    """With what refutations cover all below, for all iterations in flight that count, or for few."""
    for one in refuted if setting.problem.monotone else ():
        if not one.below or one.interval < evidence.low:
            continue
        whole = one.max_in_flight is None or one.max_in_flight >= setting.in_flight
        evidence = evidence.excluding(one) if whole else evidence.partly_excluding(one)
    return evidence


def at_bound(
    problem: Problem, options: Options, report: Report, begin: Start, began: Mark
) -> Solution | None:
    """A schedule at the lower end of `begin`, where quick probes find one; they prove nothing."""
    setting = _setting(problem, options, report, begin, begin.max_in_flight(options), began)
    found = soon(setting, Evidence(begin.low, begin.top))
    if found is not None:
        setting.tell("feasible", "cpsat", found.interval)
    return found


def up_to(
    problem: Problem, options: Options, report: Report, begin: Start, highest: Time, *, best: bool
) -> Outcome:
    """A schedule whose interval is at most `highest`, the best one or any; `Refuted` where there is none."""
    setting = _setting(problem, options, report, begin, begin.max_in_flight(options), None)
    top = min(begin.top, highest)
    evidence = Evidence(begin.low, top, refuted=begin.refuted)
    found = _reached(setting.within(DECIDING), evidence, best=best)
    if found.best is not None:
        return Feasible(found.best)
    return Refuted() if found.low > top else Unknown("time")


def _deepened(setting: Setting, evidence: Evidence, begin: Start) -> tuple[Setting, Evidence]:
    """Twice as many iterations in flight, while they help: one probe just below the answer decides."""
    best, undecided = evidence.best, evidence.open and setting.options.proofs
    if setting.useless(evidence):
        return setting, evidence
    if best is None or undecided or best.interval == begin.low or not _deepens(setting):
        return setting, evidence
    if 2 * setting.remaining < setting.options.seconds:  # a better one would not be proven the best
        return setting, evidence
    deeper = replace(setting, in_flight=2 * setting.in_flight)
    setting.tell("trying", "cpsat", best.interval - 1, f"up to {deeper.in_flight} iterations in flight")
    probe = cpsat.attempt(
        setting.problem,
        best.interval - 1,
        deeper.in_flight,
        joint=setting.joint,
        budget=setting.budget(WORK),
        tactics=FINDING,
    )
    setting.tell(probe.what, probe.engine, best.interval - 1)
    refutation = probe.refutation(best.interval - 1, deeper.in_flight, below=True)
    if refutation:
        return deeper, evidence.excluding(refutation)
    if probe.solution is None:
        return setting, evidence
    again = Evidence(begin.low, begin.top, probe.solution, begin.refuted)
    return _deepened(deeper, _decided(deeper, again), begin)


def _deepens(setting: Setting) -> bool:
    return setting.in_flight < MOST and setting.problem.monotone and setting.small


def _setting(
    problem: Problem, options: Options, report: Report, begin: Start, in_flight: int, began: Mark | None
) -> Setting:
    joint = not options.modulo_only
    size = max(1.0, (len(problem.operations) / FEW_OPERATIONS) ** 2)
    clock = own_clock()
    began = clock.mark() if began is None else began
    analysed = len(problem.operations) <= ANALYSED
    candidates = partitions(problem) if joint and analysed else ()
    alike = families(problem) if analysed else ()
    behind = chained(problem) if analysed and joint and not alike else ()
    return Setting(
        problem,
        options,
        in_flight,
        report,
        candidates,
        alike or behind,
        max(WORK, min(WORK * size, PROBE * options.seconds / SEARCHED)),
        begin.shortest,
        bool(behind),
        began,
        clock,
    )


@dataclass(frozen=True, slots=True)
class _Agenda:
    """Which interval comes next: `undecided` ones took a share of work without a conclusive result."""

    work: float
    tried: frozenset[Time] = frozenset()
    undecided: frozenset[Time] = frozenset()
    misses: int = 0
    stage: Stage = "few"
    """Proofs for more than few iterations in flight come last, where one is enough."""
    descended: frozenset[Labels] = frozenset()
    """Partitions under which the lowest interval was probed."""
    midway: bool = False
    """More than few were probed before the interval for few was found."""
    hope: Time | None = None
    """The smallest interval that a projection, having refuted others, allowed for few iterations in
    flight."""
    halved: bool = False
    """What is left was probed by numbers of slots, before the long proofs."""


def _reached(setting: Setting, evidence: Evidence, *, best: bool) -> Evidence:
    """Any schedule first: by quick probes, and by deciding the largest interval; the best one only where
    there is any."""
    agenda, evidence = _Agenda(setting.work), early(setting, evidence)
    for projection in _projections(setting):
        if evidence.best is None and evidence.open:
            evidence, agenda = _raised(setting, evidence, agenda, projection)
    if evidence.best is None and evidence.open:
        evidence, agenda = _decide(setting, evidence, agenda, evidence.top)
    return _decided(setting, evidence) if best and evidence.best else evidence


def _projections(setting: Setting) -> list[Projection]:
    return list(projections(setting.problem)) if setting.joint and setting.problem.monotone else []


def _decided(setting: Setting, evidence: Evidence) -> Evidence:
    """Decide intervals until the gap is closed or the time is up."""
    agenda, pending = _Agenda(setting.work), _projections(setting)
    evidence = _as_long(setting, largest(setting, evidence))
    evidence, agenda = _by_units(setting, evidence, agenda)
    while pending and evidence.open and pending[0].quick:
        evidence, agenda = _raised(setting, evidence, agenda, pending.pop(0))
    before, evidence = evidence.best, _first(setting, evidence)
    if setting.useless(evidence):
        return evidence
    settles = setting.options.proofs and setting.problem.monotone and setting.in_flight > 1
    if evidence.best is not before and setting.subtiled and settles:
        while pending and evidence.open:
            evidence, agenda = _raised(setting, evidence, agenda, pending.pop(0))
        answer = evidence.best
        evidence, agenda = _settled(setting, evidence, agenda)
        evidence = by_slots(setting, evidence) if evidence.best is answer else evidence
    if _near_enough(setting, evidence):
        return evidence
    if not setting.options.proofs and _never(setting, evidence):
        return _decide(setting, evidence, agenda, evidence.top)[0]
    while evidence.open and setting.remaining > 0:
        evidence, agenda = _probed_midway(setting, evidence, agenda)
        evidence, agenda = _halved(setting, evidence, agenda)
        if not evidence.open or _enough(setting, evidence, agenda) or _near_enough(setting, evidence):
            break
        agenda, interval = _next(setting, evidence, agenda)
        evidence, agenda = _decide(setting, evidence, agenda, interval)
        evidence, agenda = _descended(setting, evidence, agenda)
        while pending and evidence.open and not _near(setting, evidence):
            evidence, agenda = _raised(setting, evidence, agenda, pending.pop(0))
    return evidence


def _as_long(setting: Setting, evidence: Evidence) -> Evidence:
    """Without intervals of which all iterations in flight together are shorter than one iteration can be,
    where the loop has no more of them: dependences alone refute those, at once."""
    known = setting.joint and setting.problem.monotone
    interval = min(-(-setting.shortest // setting.in_flight) - 1, evidence.top)
    if not known or interval < evidence.low or setting.options.engine not in ("auto", "cpsat"):
        return evidence
    alone, budget = dependences(setting.problem), setting.budget(setting.work)
    probe = cpsat.attempt(alone.at(interval), interval, setting.in_flight, joint=False, budget=budget)
    refutation = replace(probe, engine=alone.engine).refutation(interval, setting.in_flight, below=True)
    setting.tell(probe.what, probe.engine, interval)
    return evidence.excluding(refutation) if refutation else evidence


def _by_units(setting: Setting, evidence: Evidence, agenda: _Agenda) -> tuple[Evidence, _Agenda]:
    """Without intervals at which circuits leave operations too few starts on their units, which is soon
    decided where most operations are in circuits. It is no resource that a reason could name."""
    if not (evidence.open and setting.decomposes) or fastened(setting.problem) is None:
        return evidence, agenda
    raised, agenda = _raised(setting, evidence, agenda, units(setting.problem))
    return replace(raised, binding=evidence.binding), agenda


def _near(setting: Setting, evidence: Evidence) -> bool:
    """So little is left below an answer that nobody wants proven that raising the lower end spares less than
    it takes."""
    return not setting.options.proofs and evidence.best is not None and not _far(evidence)


def _near_enough(setting: Setting, evidence: Evidence) -> bool:
    """There is an answer so near the lower end that nobody wants a better one: of a loop whose iterations
    overlap, but are few, and without proofs."""
    few = setting.options.few and setting.in_flight > 1 and not setting.options.proofs
    return few and evidence.best is not None and NEAR * (evidence.high - evidence.low) <= evidence.high


def _roughly(setting: Setting, evidence: Evidence) -> bool:
    """There is an answer of a large loop, or of one whose best nobody wants: the lowest interval, which
    takes longest to decide, comes last."""
    few = setting.options.few and setting.in_flight > 1 and not setting.options.proofs
    return (few or not setting.small) and setting.problem.monotone and evidence.best is not None


def _far(evidence: Evidence) -> bool:
    return FAR * (evidence.high - evidence.low) >= evidence.high


def _first(setting: Setting, evidence: Evidence) -> Evidence:
    """An early answer, and the lowest interval under any partition: that first where no natural partition
    could issue its work there."""
    if evidence.open and hopeless(setting, evidence.low):
        evidence = lowest(setting, evidence)
        return early(setting, evidence) if evidence.open else evidence
    evidence = lowest_of_large(setting, evidence) if evidence.open else evidence
    evidence = early(setting, evidence) if evidence.open else evidence
    enough = _near_enough(setting, evidence) or _roughly(setting, evidence)
    return evidence if not evidence.open or enough or setting.use.brief else lowest(setting, evidence)


def _settled(setting: Setting, evidence: Evidence, agenda: _Agenda) -> tuple[Evidence, _Agenda]:
    """The interval just below an early answer for sub-tiles, which is mostly the best. Where a better one is
    found there, the middle of what is left is decided next, before any long proof."""
    if evidence.best is None or not evidence.open:
        return evidence, agenda
    evidence, agenda = _decide(setting, evidence, replace(agenda, stage="full"), evidence.high - 1)
    return evidence, replace(agenda, stage="few")


def _raised(
    setting: Setting, evidence: Evidence, agenda: _Agenda, projection: Projection
) -> tuple[Evidence, _Agenda]:
    raised = raise_by(setting, evidence, projection)
    return raised.evidence, replace(agenda, hope=raised.hope or agenda.hope)


def _probed_midway(setting: Setting, evidence: Evidence, agenda: _Agenda) -> tuple[Evidence, _Agenda]:
    """The middle of what is left for all, soon, once little is left for few iterations in flight: the last
    steps for few are spared where more of them are faster."""
    low, high, middle = evidence.low, evidence.high, (evidence.low + evidence.high - 1) // 2
    little = NEAR * (high - _floor(evidence, agenda)) <= high < 2 * NEAR * (high - low)
    known = evidence.known(middle, setting.few(middle)) if setting.problem.monotone else None
    if agenda.midway or agenda.stage != "few" or evidence.best is None or known is None or not little:
        return evidence, agenda
    share, tried = replace(agenda, work=agenda.work / MIDWAY, stage="brief"), replace(agenda, midway=True)
    return _decide(setting, evidence, share, middle)[0], tried


def _halved(setting: Setting, evidence: Evidence, agenda: _Agenda) -> tuple[Evidence, _Agenda]:
    """Most of what is left by numbers of slots, before the long proofs begin."""
    if agenda.halved or agenda.stage != "brief" or not agenda.undecided:
        return evidence, agenda
    return by_slots(setting, evidence, last_too=True), replace(agenda, halved=True)


def _descended(setting: Setting, evidence: Evidence, agenda: _Agenda) -> tuple[Evidence, _Agenda]:
    """The lowest interval under the partition of the answer, soon, once for each partition: where one fits at
    all, it often does down to the bound."""
    best = evidence.best
    if best is None or not (evidence.open and setting.joint) or best.group in agenda.descended:
        return evidence, agenda
    agenda = replace(agenda, descended=agenda.descended | {best.group})
    most = min(max(setting.few(evidence.low) + 1, best.in_flight(setting.problem)), setting.in_flight)
    budget, tactics = setting.budget(agenda.work / QUICK), replace(FINDING, hint=best)
    own = under(setting.problem, best.group)
    found = cpsat.attempt(own, evidence.low, most, budget=budget, tactics=tactics).solution
    if found is None:
        return evidence, agenda
    setting.tell("feasible", "cpsat", found.interval)
    return evidence.found(found), agenda


def _floor(evidence: Evidence, agenda: _Agenda) -> Time:
    """The lowest interval that is left at this stage."""
    low, high, partly = evidence.low, evidence.high, evidence.partly
    few = () if partly is None or agenda.stage != "few" else (min(partly.interval + 1, high),)
    return max([low, *few, *(i + 1 for i in agenda.undecided if low <= i < high)])


def _next(setting: Setting, evidence: Evidence, agenda: _Agenda) -> tuple[_Agenda, Time]:
    """The lowest interval when it is new (or what projections leave of it), then far above until something
    works, then the middle of the gap."""
    low, high = evidence.low, evidence.high
    if evidence.best is None and agenda.hope and agenda.hope not in agenda.tried:
        return agenda, max(low, agenda.hope)
    if not setting.problem.monotone or not (agenda.tried or _roughly(setting, evidence)):
        return agenda, evidence.expected(setting.hoped)
    floor = _floor(evidence, agenda)
    if floor >= high:
        return _again(agenda, evidence)
    if agenda.stage == "brief" and low == high - 1:
        return replace(agenda, stage="full"), low
    if evidence.best:
        return agenda, (floor + high - 1) // 2
    above = floor + floor * 4**agenda.misses // 64
    return agenda, min(evidence.top, above) if agenda.misses < MISSES else evidence.top


def _never(setting: Setting, evidence: Evidence) -> bool:
    """No schedule is left to be found: one that overlaps iterations is one without overlap at an interval of
    its length, where a longer interval never hurts, and at the largest there is none."""
    if evidence.best is not None or not evidence.open or not (setting.problem.monotone and setting.small):
        return False
    budget, tactics = setting.budget(setting.work), Tactics(linearization=2)
    probe = cpsat.attempt(
        setting.problem, evidence.top, 1, joint=setting.joint, budget=budget, tactics=tactics
    )
    return probe.refuted


def _enough(setting: Setting, evidence: Evidence, agenda: _Agenda) -> bool:
    """There is an answer, every interval below it was tried, and nobody wants a proof."""
    if setting.options.proofs or evidence.best is None or not setting.problem.monotone or not agenda.tried:
        return False
    return _floor(evidence, agenda) >= evidence.high and (agenda.stage != "few" or not _far(evidence))


def _again(agenda: _Agenda, evidence: Evidence) -> tuple[_Agenda, Time]:
    """Every interval between was tried: first the proofs that would settle it, where there was no answer yet,
    or one interval is all that is left, all of them at once; then all again with a larger share."""
    fresh, low, high = replace(agenda, undecided=frozenset()), evidence.low, evidence.high
    match agenda.stage:
        case "few":
            alone = evidence.best is None or low == high - 1
            return replace(fresh, stage="full" if alone else "brief"), high - 1
        case "brief":
            return replace(fresh, stage="full"), high - 1
        case "full":
            return replace(fresh, work=2 * agenda.work), (low + high - 1) // 2


def _decide(
    setting: Setting, evidence: Evidence, agenda: _Agenda, interval: Time
) -> tuple[Evidence, _Agenda]:
    """Decide one interval with the current share."""
    setting.tell("trying", "search", interval)
    agenda = replace(agenda, tried=agenda.tried | {interval})
    binding = tuple(projection for projection, _ in evidence.binding)
    fewer = agenda.stage != "few" or (setting.problem.monotone and evidence.best is not None)
    stage: Stage = agenda.stage if fewer else "brief"
    known = evidence.known(interval, setting.few(interval)) if setting.problem.monotone else None
    decision = decide(Race(setting, interval, agenda.work, stage, evidence.best, binding, known))
    probe = decision.probe
    if stage != "few" or decision.partly is None:
        setting.tell(probe.what, probe.engine, interval)
    if probe.solution is not None:
        return evidence.found(probe.solution), agenda
    refutation = probe.refutation(interval, setting.in_flight, below=setting.problem.monotone)
    agenda = replace(agenda, misses=agenda.misses + 1)
    if refutation:
        return evidence.excluding(refutation), agenda
    if decision.partly:
        setting.tell(
            "note",
            probe.engine,
            interval,
            f"none at {interval} with up to {setting.few(interval)} iterations in flight",
        )
    return evidence.partly_excluding(decision.partly), replace(
        agenda, undecided=agenda.undecided | {interval}
    )


def _polished(setting: Setting, evidence: Evidence) -> tuple[Evidence, tuple[str, ...]]:
    """Fewest groups, channels between them and stages, then the shortest: each within a share of work."""
    best = evidence.best
    if best is None or setting.remaining <= 0 or setting.useless(evidence):
        return evidence, ()
    if not (setting.small or setting.use.fits(best)):
        return evidence, (UNFIT,)
    setting.tell(
        "trying", "cpsat", best.interval, "fewest groups, channels and stages, then the shortest length"
    )
    best, unproven = Polish(setting, best).run()
    setting.tell("improved", "cpsat", best.interval)
    if not setting.use.fits(best):
        return replace(evidence, best=best), (UNFIT,)
    return replace(evidence, best=best), tuple(f"least {goal} not proven" for goal in unproven)
