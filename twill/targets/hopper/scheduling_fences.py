"""Scheduling fences: they hold arithmetic on its side of the issues and waits that it was scheduled around.

Takes the steady state of a group with its waits; gives it with `SchedulingFence`s. The compiler moves
arithmetic and waits past each other as its own latencies suggest (benchmarks/notebook.md), but keeps
dependences. So a fence in front of each issue or wait holds the vectors just computed, and one after it
those read next.

Where a wait divides an operation row by row, one fence suffices: in front of that wait, on what the operation
reads, so that its other slices stay behind. The compiler then mixes these with what the wait was for, which
takes other units (attention forward on an H200: with more fences 1 to 6% slower, reports/h200.md).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from twill.ir.effects import at, effects, registers
from twill.ir.loop import Scalar, Tensor, Type
from twill.ir.operands import At, Register
from twill.ir.statements import Compute, MmaIssue, MmaWait, Move, SchedulingFence, Statement


def fenced(statements: Sequence[Statement], types: Mapping[str, Type]) -> tuple[Statement, ...]:
    """A loop's statements with scheduling fences. `types` of the group's variables."""
    runs = _runs(statements, types)
    issued = (
        register for s in statements if isinstance(s, MmaIssue) for register in registers(effects(s).writes)
    )
    accumulators = {register.variable for register in issued}
    made = {r for s in statements for r in _writes([s])}

    def fit(register: Register) -> bool:
        kind = types.get(register.variable)
        return (
            isinstance(kind, Tensor)
            and len(kind.shape) == 1
            and kind.dtype == Scalar("f32")
            and register in made
            and register.variable not in accumulators
        )

    found = list[Statement]()
    divided = any(isinstance(s, Compute) and s.by_rows for s in statements)
    for i, (arithmetic, run) in enumerate(runs):
        if divided:
            held = {r for r in _in_front(runs[i - 1][1] if i else [], run) if fit(r)}
            found += _fence(sorted(held, key=str), run) + run
            continue
        ordered = not arithmetic and any(isinstance(s, MmaIssue | MmaWait) for s in run)
        if not ordered:
            found += run
            continue
        before = {r for r in _writes(runs[i - 1][1] if i else []) if fit(r)}
        after = _inputs(runs[(i + 1) % len(runs)][1])
        later = _inputs([s for _, other in (*runs[i + 1 :], *runs[: i + 1]) for s in other])
        first, second = sorted(before & later, key=str), sorted((r for r in after if fit(r)), key=str)
        found += _fence(first, run) + run + _fence(second, run)
    return tuple(found)


def _runs(statements: Sequence[Statement], types: Mapping[str, Type]) -> list[tuple[bool, list[Statement]]]:
    """Runs of arithmetic and of other statements, alternating. A run on vectors alone between two of the
    latter is not worth a fence (measured: ten cycles each and more); it becomes part of them, and the
    compiler schedules it."""
    runs = [(key, list(run)) for key, run in groupby(statements, key=_is_arithmetic)]
    found = runs[:1]
    for i, (arithmetic, run) in enumerate(runs[1:], 1):
        if (not arithmetic or (i + 1 < len(runs) and _small(run, types))) and not found[-1][0]:
            found[-1][1].extend(run)
        else:
            found.append((arithmetic, run))
    return found


def _in_front(before: Sequence[Statement], run: Sequence[Statement]) -> Iterator[Register]:
    """What operations read that a wait of the run divides."""
    waits = any(isinstance(s, MmaWait) for s in run)
    return _read([s for s in before if isinstance(s, Compute) and s.by_rows]) if waits else iter(())


def _small(run: Sequence[Statement], types: Mapping[str, Type]) -> bool:
    touched = {r.variable for s in run for r in (*_writes([s]), *_read([s]))}
    kinds = (types.get(name) for name in touched)
    return not any(isinstance(kind, Tensor) and len(kind.shape) > 1 for kind in kinds)


def _fence(crossing: Sequence[Register], run: Sequence[Statement]) -> list[Statement]:
    when = next((at(s) for s in run), At())
    return [SchedulingFence(tuple(crossing), when)] if crossing else []


def _writes(run: Sequence[Statement]) -> Iterator[Register]:
    yield from (register for one in run if _is_arithmetic(one) for register in registers(effects(one).writes))


def _read(run: Sequence[Statement]) -> Iterator[Register]:
    yield from (register for one in run if _is_arithmetic(one) for register in registers(effects(one).reads))


def _is_arithmetic(statement: Statement) -> bool:
    return isinstance(statement, Compute | Move)


def _inputs(run: Sequence[Statement]) -> set[Register]:
    """What a run reads before it writes it."""
    written, found = set[Register](), set[Register]()
    for statement in run:
        found |= set(_read([statement])) - written
        written |= set(_writes([statement]))
    return found
