"""The lean form of a program: fewer registers for more instructions and waits.

Takes a `Program`; gives the one with the same schedule that ptxas is tried with where it spills. What is
printed otherwise follows from `Program.lean`; the epilogues of loops wait for MMAs more often.
"""

from dataclasses import replace

from twill.ir.effects import at
from twill.ir.operands import Register
from twill.ir.program import Program
from twill.ir.statements import CommitGroup, MmaIssue, MmaWait, Pipelined, Statement, Statements, with_inner


def lean(program: Program) -> Program:
    """The program with the same values in fewer registers."""
    groups = (replace(group, body=_with_waits(group.body)) for group in program.groups)
    return replace(program, lean=True, groups=tuple(groups))


def _with_waits(body: Statements) -> Statements:
    return tuple(_in_loops(statement) for statement in body)


def _in_loops(statement: Statement) -> Statement:
    inside = with_inner(statement, _with_waits)
    if isinstance(inside, Pipelined):
        return replace(inside, epilogue=_between_intervals(inside.epilogue))
    return inside


def _between_intervals(epilogue: Statements) -> Statements:
    """Before each interval of an epilogue, waits for the MMAs whose operands are in registers, as the steady
    state does at its back edge. Without these waits the operands and what the next interval computes are live
    together, which they are nowhere in the loop."""
    lines, flying, before = list[Statement](), list[bool](), 0
    for statement in epilogue:
        cycle = at(statement).cycle
        if cycle is not None and cycle < before and any(flying):
            pending = flying[::-1].index(True)
            waits = isinstance(statement, MmaWait) and statement.pending <= pending
            lines += [] if waits else [MmaWait(pending, at(statement), early=True)]
            flying = _latest(flying, pending)
        before = before if cycle is None else cycle
        if isinstance(statement, MmaWait):
            flying = _latest(flying, statement.pending)
        elif isinstance(statement, MmaIssue) and isinstance(statement.completion, CommitGroup):
            flying.append(any(isinstance(read.location, Register) for read in statement.reads))
        lines.append(statement)
    return tuple(lines)


def _latest(flying: list[bool], count: int) -> list[bool]:
    return flying[len(flying) - count :] if count < len(flying) else flying
