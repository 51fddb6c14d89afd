"""Schedule files against a problem built afresh: what `twill check` runs.

Takes a `ScheduleDocument` and the `Problem` that it claims to answer; gives every `Violation`: members that
contradict each other (DOCUMENT), operations, edges, costs or limits that are not the problem's (PROBLEM),
broken rules, and a status without its evidence.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

from twill.files.graph import graph_document
from twill.files.schedule import ScheduleDocument, schedule_document
from twill.files.text import Json, render
from twill.ir.problem import Problem
from twill.verify.evidence import check_result
from twill.verify.violation import Violation

SHOWN = 20
"""So many differences of a kind are worth reading."""

Ties = tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, str], ...]]
"""Operations in one group, and pairs in different groups."""


def check_document(document: ScheduleDocument, problem: Problem) -> tuple[Violation, ...]:
    """All violations; rules are judged with the problem's numbers, not the document's.

    A schedule may keep ties between operations that the problem does not have (`ties`): they are judged with
    the rules, and the status is of schedules that keep them. Ties that the document's problem lacks are
    judged too; what was refuted without them is impossible with them. A document without a schedule speaks of
    the problem as it is.
    """
    problem = _implemented(problem, document.result.problem.implementation)
    scheduled = document.result.solution is not None
    stated, derived = document.raw, schedule_document(document.result, document.options)
    own = islice(differences(stated, _plain(derived)), SHOWN)
    found = [
        Violation("DOCUMENT", f"{path} is {a}; the rest of the document makes it {b}") for path, a, b in own
    ]
    one, two = document.result.problem, problem
    if scheduled:
        one, two = map(_untied, (one, two))
    other = islice(differences(_comparable(one), _comparable(two)), SHOWN)
    found += [
        Violation("PROBLEM", f"{path} is {a} in the schedule and {b} in the problem") for path, a, b in other
    ]
    if [op.id for op in problem.operations] != [op.id for op in document.result.problem.operations]:
        return tuple(found)
    options = document.options
    fresh = replace(document.result, problem=tied(document, problem) if scheduled else problem)
    return (
        *found,
        *check_result(fresh, joint=not options.modulo_only, in_flight=document.result.max_in_flight),
    )


def same_problem(stated: Problem, problem: Problem) -> bool:
    """Whether a schedule of one problem is judged as one of the other: all numbers agree, but for ties."""
    own = _implemented(problem, stated.implementation)
    return _comparable(_untied(stated)) == _comparable(_untied(own))


def ties(document: ScheduleDocument, problem: Problem) -> Ties:
    """What the schedule ties beyond the problem's rules, because other loops of its kernel use the same
    groups: operations in one group, and pairs in different groups."""
    stated = document.result.problem
    own = {frozenset(pair) for pair in problem.apart}
    return (
        tuple(ops for ops in stated.together if not any(set(ops) <= set(same) for same in problem.together)),
        tuple(pair for pair in stated.apart if frozenset(pair) not in own),
    )


def tied(document: ScheduleDocument, problem: Problem) -> Problem:
    """The problem with the ties that the schedule adds."""
    together, apart = ties(document, problem)
    return replace(problem, together=(*problem.together, *together), apart=(*problem.apart, *apart))


def _untied(problem: Problem) -> Problem:
    return replace(problem, together=(), apart=())


def _implemented(problem: Problem, name: str) -> Problem:
    """The problem with the implementation that an answer states, where it has that."""
    return problem.implemented(name) if name in [one.name for one in problem.implementations] else problem


def differences(a: Json, b: Json, path: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, a's text, b's text) wherever two documents differ; rows are matched by name, not by position."""
    match a, b:
        case (Mapping(), Mapping()):
            for name in sorted({*a, *b}):
                yield from _members(a, b, name, f"{path}.{name}" if path else name)
        case (Sequence(), Sequence()) if _named(a) and _named(b):
            yield from differences(_by_name(a), _by_name(b), path)
        case _ if a != b:
            yield path, _short(a), _short(b)
        case _:
            pass


def _members(
    a: Mapping[str, Json], b: Mapping[str, Json], name: str, path: str
) -> Iterator[tuple[str, str, str]]:
    if name in a and name in b:
        yield from differences(a[name], b[name], path)
    else:
        yield path, _short(a[name]) if name in a else "missing", _short(b[name]) if name in b else "missing"


def _named(rows: Sequence[Json]) -> bool:
    return not isinstance(rows, str) and len(rows) > 0 and all(isinstance(row, Mapping) for row in rows)


def _by_name(rows: Sequence[Json]) -> dict[str, Json]:
    """Rows by what names them: an id, a name, or the ends of an edge; repeated names are numbered."""
    named: dict[str, Json] = {}
    for row in cast("Sequence[Mapping[str, Json]]", rows):
        base = next(
            (str(row[key]) for key in ("id", "name", "value", "unit", "interval", "op") if key in row),
            f"{row.get('src')} -> {row.get('dst')}",
        )
        name, turn = base, 2
        while name in named:
            name, turn = f"{base} ({turn})", turn + 1
        named[name] = row
    return named


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _comparable(problem: Problem) -> Json:
    """A problem as plain members, without the names of files, which depend on where it was read from."""
    source = replace(problem.source, file="-") if problem.source else None
    operations = tuple(
        replace(op, location=replace(op.location, file="-") if op.location else None)
        for op in problem.operations
    )
    return _plain(graph_document(replace(problem, source=source, operations=operations, name="-")))


def _plain(document: Mapping[str, Json]) -> Json:
    return json.loads(render(document))
