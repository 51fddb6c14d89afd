"""Coarse time: the same problem in units of a step, every time rounded down, where the SAT engine answers in
a second.

A schedule in exact time whose interval is a multiple of the step k, each start divided by k and rounded down,
is one in coarse time; so if there is none in coarse time, there is none in exact time at that interval, nor
(`Problem.monotone`) at a smaller one. That there is one proves nothing. For, with S = floor(s / k):

* DEPENDENCE: s' >= s + d gives S' >= floor((s + d) / k) >= S + floor(d / k).
* UNITS, REGISTERS, SHARED, TENSOR: whatever [S, floor(end / k)) covers coarse residue r, its exact span
  covers exact time (r + 1) k - 1, where the exact sums are within their limits. A range of at most m periods
  stays one of at most m.
* CONCURRENCY: a wait that comes before another operation issues may fall into the same unit of coarse time,
  so that is let pass (`grace` of `twill.engine.boolean.formulate`).
"""

from dataclasses import replace

from twill.ir.problem import Edge, Operation, Problem, Time, Value


def rounded_down(problem: Problem, step: Time) -> Problem:
    """Every delay, duration, hold and issue time in units of `step`; aggregate units, which bound the
    interval alone, are left out."""
    real = {unit.name for unit in problem.units if not unit.aggregate}

    def operation(op: Operation) -> Operation:
        uses = tuple(replace(use, cycles=use.cycles // step) for use in op.reservations if use.unit in real)
        return replace(op, reservations=uses, latency=op.latency // step, issue=op.issue // step)

    def edge(link: Edge) -> Edge:
        return replace(
            link,
            delay=link.delay // step,
            cross_delay=None if link.cross_delay is None else link.cross_delay // step,
        )

    def value(held: Value) -> Value:
        return replace(held, uses=tuple(replace(use, hold=use.hold // step) for use in held.uses))

    return replace(
        problem,
        units=tuple(unit for unit in problem.units if not unit.aggregate),
        operations=tuple(map(operation, problem.operations)),
        edges=tuple(map(edge, problem.edges)),
        values=tuple(map(value, problem.values)),
    )
