"""Waits of TMA stores for earlier ones: only where an earlier store may still read shared memory.

Takes the statements of one group; gives them with `StoreTile.waits` false where no store of the group can
precede.
"""

from dataclasses import replace

from twill.ir.statements import For, If, Pipelined, Statement, Statements, StoreTile, StoreWait, While


def with_store_waits(body: Statements) -> Statements:
    """The body of a group, from its beginning."""
    return _list(body, False)[0]


def _list(statements: Statements, reading: bool) -> tuple[Statements, bool]:
    """The statements, entered with a store that may still read (or none), and the same behind them."""
    found = list[Statement]()
    for statement in statements:
        changed, reading = _one(statement, reading)
        found.append(changed)
    return tuple(found), reading


def _repeated(statements: Statements, reading: bool) -> tuple[Statements, bool]:
    """The body of a loop: what one iteration leaves, the next one finds."""
    _, behind = _list(statements, reading)
    changed, behind = _list(statements, reading or behind)
    return changed, reading or behind


def _one(statement: Statement, reading: bool) -> tuple[Statement, bool]:
    match statement:
        case StoreTile():
            return replace(statement, waits=reading), True
        case StoreWait():
            return statement, False
        case For(body=body):
            changed, behind = _repeated(body, reading)
            return replace(statement, body=changed), behind
        case While(before=before, body=body):
            both, behind = _repeated((*before, *body), reading)
            return replace(statement, before=both[: len(before)], body=both[len(before) :]), behind
        case If(then=then, otherwise=otherwise):
            (first, one), (second, other) = _list(then, reading), _list(otherwise, reading)
            return replace(statement, then=first, otherwise=second), one or other
        case Pipelined(prologue=prologue, steady=steady, epilogue=epilogue, short=short):
            first, behind = _list(prologue, reading)
            middle, behind = _repeated(steady, behind)
            last, behind = _list(epilogue, behind)
            alone, other = _repeated(short, reading)
            return replace(
                statement, prologue=first, steady=middle, epilogue=last, short=alone
            ), behind or other
        case _:
            return statement, reading
