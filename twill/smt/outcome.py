"""What the search ends with: the answer with its evidence.

Takes a `Setting` and the `Evidence` of the search; gives a `Result`.
"""

from twill.ir.schedule import Bounds, Result, Status
from twill.smt.setting import Evidence, Setting


def outcome(setting: Setting, evidence: Evidence, lower: Bounds, notes: tuple[str, ...]) -> Result:
    """The answer with its evidence."""
    partly = evidence.partly
    on_the_way = (partly,) if partly and partly.interval >= evidence.low else ()
    notes = (*notes, *_flight_note(setting, evidence, lower))
    return Result(
        setting.problem,
        _status(evidence),
        lower,
        evidence.low,
        evidence.best,
        (*evidence.refuted, *on_the_way),
        (),
        notes,
        max_in_flight=setting.in_flight,
    )


def time_note(setting: Setting, stopped: bool) -> tuple[str, ...]:
    """Where the time limit, and no budget of work, ended the search or what simplifies the answer."""
    limit = setting.options.time_limit
    return (f"stopped at the time limit of {limit:g} s",) if stopped or setting.remaining <= 0 else ()


def _flight_note(setting: Setting, evidence: Evidence, lower: Bounds) -> tuple[str, ...]:
    """Where the answer has as many iterations in flight as were considered, and more of them are not ruled
    out, nor more than the loop has."""
    best = evidence.best
    if best is None or best.interval <= lower.value or best.in_flight(setting.problem) < setting.in_flight:
        return ()
    if setting.options.few:
        return ()
    return (
        (
            f"the answer has all {setting.in_flight} iterations in flight that were considered; more may be"
            " faster"
        ),
    )


def _status(evidence: Evidence) -> Status:
    if evidence.best:
        return "optimal" if evidence.low >= evidence.best.interval else "feasible"
    return "infeasible" if evidence.low > evidence.top else "unknown"
