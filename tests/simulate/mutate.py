"""Warp programs with one mistake in them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from twill.ir.program import Program, WarpProgram
from twill.ir.statements import Alternate, For, Pipelined, Statement

Edit = Callable[[Statement], tuple[Statement, ...] | None]
"""What stands there instead; None where the edit does not apply."""


_PARTS: dict[type, tuple[str, ...]] = {Pipelined: ("steady",), For: ("body",), Alternate: ("own", "other")}
"""The lists of statements inside one in which edits apply."""


def mutants(program: Program, edit: Edit) -> Iterator[tuple[str, Program]]:
    """The program with `edit` applied to one statement of a group's body or of a steady state, each in
    run."""
    for position, warps in enumerate(program.groups):
        for where, body in _edited(warps.body, edit):
            groups = (*program.groups[:position], replace(warps, body=body), *program.groups[position + 1 :])
            yield f"group {warps.id}: {where}", replace(program, groups=groups)


def _edited(statements: tuple[Statement, ...], edit: Edit) -> Iterator[tuple[str, tuple[Statement, ...]]]:
    for i, statement in enumerate(statements):
        if (new := edit(statement)) is not None:
            yield str(statement), (*statements[:i], *new, *statements[i + 1 :])
        for part in _PARTS.get(type(statement), ()):
            for where, inside in _edited(getattr(statement, part), edit):
                changed = replace(statement, **{part: inside})
                yield where, (*statements[:i], changed, *statements[i + 1 :])


def swapped(
    program: Program, kind: type[Statement], but: type[Statement] | None = None
) -> Iterator[tuple[str, Program]]:  # pyright: ignore
    """Two statements of one kind in a steady state exchanged; or each exchanged with the statement after it,
    if that is not a `but`."""
    for position, warps in enumerate(program.groups):
        for k, loop in enumerate(warps.body):
            if not isinstance(loop, Pipelined):
                continue
            locations = [i for i, statement in enumerate(loop.steady) if isinstance(statement, kind)]
            neighbours = [
                (i, i + 1)
                for i in locations
                if i + 1 < len(loop.steady) and not (but and isinstance(loop.steady[i + 1], but))
            ]
            pairs = neighbours if but else pairwise(locations)
            for i, j in pairs:
                steady = list(loop.steady)
                steady[i], steady[j] = steady[j], steady[i]
                yield (
                    f"group {warps.id}: {i} with {j}",
                    _with(program, position, warps, k, replace(loop, steady=tuple(steady))),
                )


def _with(program: Program, position: int, warps: WarpProgram, k: int, loop: Pipelined) -> Program:
    body = (*warps.body[:k], loop, *warps.body[k + 1 :])
    return replace(
        program,
        groups=(*program.groups[:position], replace(warps, body=body), *program.groups[position + 1 :]),
    )
