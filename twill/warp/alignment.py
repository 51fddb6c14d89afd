"""Several loops of one kernel on the same groups: a variable carried through them stays in one group.

Takes the scheduled loops; gives them with their groups numbered alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twill.diagnostics import TwillError
from twill.warp.dataflow import Code
from twill.warp.tasks import Scheduled


def aligned(code: Code, loops: Sequence[Scheduled], names: Mapping[int, str]) -> tuple[Scheduled, ...]:
    """The loops with their groups numbered alike: a variable carried through several stays in one group.

    Raises TwillError where no numbering does that.
    """
    homes = dict[str, int]()
    found = list[Scheduled]()
    for one in loops:
        kept = carried(code, one, names)
        mapping = dict[int, int]()
        for name, group in kept.items():
            if mapping.setdefault(group, homes.get(name, group)) != homes.get(name, mapping[group]):
                raise _split(code, one, name)
        if len(set(mapping.values())) < len(mapping):
            raise _split(code, one, next(iter(kept)))
        free = [group.id for group in loops[0].solution.groups if group.id not in mapping.values()]
        rest = sorted(group.id for group in one.solution.groups if group.id not in mapping)
        mapping.update(zip(rest, [*free, *range(100, 100 + len(rest))], strict=False))
        found.append(_renumbered(one, mapping))
        homes |= {name: mapping[group] for name, group in kept.items()}
    return tuple(found)


class CarriedSplitError(TwillError):
    """A variable carried through several loops would change its group between them."""


def _split(code: Code, one: Scheduled, name: str) -> CarriedSplitError:
    line = code.module.text.splitlines()[one.loop.location.line - 1]
    return CarriedSplitError(f"{name} would change its group between two loops", one.loop.location, text=line)


def carried(code: Code, one: Scheduled, names: Mapping[int, str]) -> dict[str, int]:
    """The group of every variable that the loop carries."""
    writers = {
        value.id: node.id
        for node in one.graph.nodes
        for index in node.ops
        for value in code.ops[index].results
    }
    return {
        names[c.arg.id]: one.group(writers[c.yielded.id]) for c in one.loop.carried if c.yielded.id in writers
    }


def _renumbered(one: Scheduled, mapping: Mapping[int, int]) -> Scheduled:
    solution = one.solution
    groups = tuple(
        sorted(
            (replace(group, id=mapping[group.id]) for group in solution.groups), key=lambda group: group.id
        )
    )
    return replace(
        one,
        solution=replace(solution, group=tuple(mapping[group] for group in solution.group), groups=groups),
    )
