"""Results that a group computes outside of pipelined loops and never reads: they are not computed.

Takes the statements of one group; gives them without such writes, and without the operations and statements
that only served them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twill.ir.effects import effects, registers
from twill.ir.operands import ONCE, Register, TensorMemory
from twill.ir.statements import Compute, MmaIssue, Statement, Statements, walk, with_inner
from twill.warp.dataflow import Code, captured, pure


def without_dead_code(code: Code, body: Statements, kept: frozenset[str] = frozenset()) -> Statements:
    """The body of a group; variables that are read elsewhere are `kept`."""
    while (smaller := tuple(_list(code, body, _read(body) | kept))) != body:
        body = smaller
    return body


def _read(body: Statements) -> frozenset[str]:
    """The variables that any statement reads."""
    found = [register for statement in walk(body) for register in registers(effects(statement).reads)]
    found += [
        one.accumulator
        for one in walk(body)
        if isinstance(one, MmaIssue) and isinstance(one.accumulator, Register)
    ]
    return frozenset(register.variable for register in found)


def _list(code: Code, statements: Statements, read: frozenset[str]) -> Iterator[Statement]:
    for statement in statements:
        if isinstance(statement, Compute) and statement.at.iteration == ONCE:
            yield from _needed_part(code, statement, read)
        else:
            yield with_inner(statement, lambda inside: tuple(_list(code, inside, read)))


def _needed_part(code: Code, statement: Compute, read: frozenset[str]) -> Iterator[Compute]:
    """The statement without what nothing reads, if anything is left."""
    writes = tuple(write for write in statement.writes if write.register.variable in read)
    ops = _needed(code, statement.ops, {write.value for write in writes})
    bound = {value.id for index in ops for value in captured(code.ops[index])}
    reads = tuple(
        one for one in statement.reads if one.value in bound or isinstance(one.location, TensorMemory)
    )
    if ops:
        yield replace(statement, ops=ops, reads=reads, writes=writes)


def _needed(code: Code, ops: Sequence[int], values: set[int]) -> tuple[int, ...]:
    """The operations that have effects, or make one of the values or an operand of another that is needed."""
    wanted, kept = set(values), list[int]()
    for index in reversed(ops):
        op = code.ops[index]
        if not pure(op) or any(result.id in wanted for result in op.results):
            kept.append(index)
            wanted |= {value.id for value in captured(op)}
    return tuple(reversed(kept))
