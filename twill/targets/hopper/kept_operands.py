"""Operands of wgmma in registers that a loop reads in every iteration and never writes.

ptxas 12.9 and 13.0 (13.4 does not) may take such an operand for constant in the loop, copy it to the
registers of the instruction in front of the loop, and give the same registers to other values inside: from
the second iteration on the MMA reads those. (vLLM's attention with relative positions: the queries'
registers held probabilities.) Takes the statements of a loop; gives them with a `SchedulingFence` on these
operands, behind which the compiler can no longer know their value: they are carried round the loop like any
other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twill.ir.effects import at, effects, registers
from twill.ir.operands import Register
from twill.ir.statements import MmaIssue, MmaWait, SchedulingFence, Statement


def kept(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The same where no MMA reads such an operand. Where MMAs that do are always in flight, the loop waits
    for them at its end: ptxas would serialize all MMAs for a fence without a wait."""
    written = {register for one in statements for register in registers(effects(one).writes)}
    operands = {register for one in statements for register in _operands(one)} - written
    if not operands:
        return tuple(statements)
    places = list(_places(statements, operands))
    found = list(statements)
    if not places:
        places = [len(found)]
        found.append(MmaWait(0, at(found[-1])))
    fences = [i for i in places if isinstance(found[i], SchedulingFence)]
    place, own = (fences or places)[0], tuple(sorted(operands, key=str))
    match found[place]:
        case SchedulingFence(held) as fence:
            found[place] = replace(fence, registers=(*held, *own))
        case waited:
            found.insert(place + 1, SchedulingFence(own, at(waited)))
    return tuple(found)


def _places(statements: Sequence[Statement], operands: set[Register]) -> Iterator[int]:
    """Waits and fences behind which no MMA that reads one of the operands is in flight, from one iteration to
    the next."""
    flying = list[bool]()
    for i, one in [*enumerate(statements)] * 2:
        match one:
            case MmaIssue():
                flying.append(not operands.isdisjoint(_operands(one)))
            case MmaWait(pending):
                flying = flying[-pending:] if pending else []
            case SchedulingFence():
                pass
            case _:
                continue
        if not any(flying) and not isinstance(one, MmaIssue):
            yield i


def _operands(statement: Statement) -> Iterator[Register]:
    """What an MMA reads in registers."""
    if isinstance(statement, MmaIssue):
        yield from (one.location for one in statement.reads if isinstance(one.location, Register))
