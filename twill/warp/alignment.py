"""Several loops of one kernel on the same groups: what is computed from a loop's results stays in the group
that holds them.

Takes loops with their graphs; gives the operations that must share a group (`ties`). Takes the scheduled
loops; gives them with their groups numbered alike (`aligned`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TypeAlias

from twill.diagnostics import TwillError
from twill.ir.graph import Graph
from twill.ir.loop import Carried, Loop, Op, Token, Value
from twill.ir.schedule import Group as Granted
from twill.ops.table import role
from twill.warp.dataflow import EFFECTS, Code, captured
from twill.warp.non_loop_code import closed
from twill.warp.tasks import Scheduled, located
from twill.warp.thread_block import granted, only_moves

Node: TypeAlias = tuple[str, str]
"""An operation of a loop: the loop's path and the node's id."""


@dataclass(frozen=True, slots=True)
class Ties:
    """Operations of one set share a group."""

    sets: Mapping[Node, str]
    """The set of an operation, under the name of a variable that it writes or that is computed from one."""

    def homes(self, code: Code, one: Scheduled) -> dict[str, int]:
        """The group of each set. Raises CarriedSplitError where a set is in two groups of one loop."""
        found = dict[str, int]()
        for node in one.graph.nodes:
            name, group = self.sets.get((one.loop.path, node.id)), one.group(node.id)
            if name is not None and found.setdefault(name, group) != group:
                raise _split(code, one, name)
        return found


class CarriedSplitError(TwillError):
    """A variable carried through several loops, or what is computed from it, would change its group."""


def _split(code: Code, one: Scheduled, name: str) -> CarriedSplitError:
    line = code.module.text.splitlines()[one.loop.location.line - 1]
    return CarriedSplitError(f"{name} would change its group between two loops", one.loop.location, text=line)


# --- what shares a group ----------------------------------------------------------------------------------


def ties(code: Code, loops: Sequence[tuple[Loop, Graph]], names: Mapping[int, str]) -> Ties:
    """Operations that write variables of one name, that read what an earlier iteration or loop left in
    registers, and whose results one operation outside of the loops writes to memory."""
    carried = {one.result.id: (node, names[one.arg.id]) for node, one in _carried(loops)}
    leader = dict[Node, Node]()

    def find(node: Node) -> Node:
        while leader.setdefault(node, node) != node:
            node = leader[node]
        return node

    for members in _together(code, loops, carried):
        for other in members[1:]:
            leader[find(other)] = find(members[0])
    named = defaultdict[Node, list[str]](list)
    for node, name in carried.values():
        named[find(node)].append(name)
    return Ties({node: min(named[find(node)]) for node in tuple(leader) if named[find(node)]})


def _carried(loops: Sequence[tuple[Loop, Graph]]) -> Iterator[tuple[Node, Carried]]:
    """What each loop carries, with the operation that computes it."""
    for loop, graph in loops:
        nodes = {index: node.id for node in graph.nodes for index in node.ops}
        for one in loop.carried:
            if one.yielded.producer in nodes and not isinstance(one.arg.type, Token):
                yield (loop.path, nodes[one.yielded.producer]), one


def _together(
    code: Code, loops: Sequence[tuple[Loop, Graph]], carried: Mapping[int, tuple[Node, str]]
) -> Iterator[list[Node]]:
    def results(values: Sequence[Value]) -> list[Node]:
        """The operations that compute the results of loops that values follow from."""
        return [carried[value][0] for value in sorted(closed(code, values, carried)) if value in carried]

    named = defaultdict[str, list[Node]](list)
    for node, name in carried.values():
        named[name].append(node)
    yield from named.values()
    for node, one in _carried(loops):
        yield [node, *results([one.init])]
    for loop, graph in loops:
        yield from _readers(code, loop, graph, results)
    inside = {op.index for loop, _ in loops for op in loop.op.inner()}
    for op in code.ops.values():
        if op.index not in inside and _writes(op) and (found := results(captured(op))):
            yield found


def _readers(
    code: Code, loop: Loop, graph: Graph, results: Callable[[Sequence[Value]], list[Node]]
) -> Iterator[list[Node]]:
    """The operations of a loop with those that compute what they read from earlier iterations and loops."""
    carried = {one.arg.id: one.result for one in loop.carried}
    inside = {value.id for op in loop.body.walk() for value in op.results}
    for node, values in located(code, loop, graph).items():
        read = [carried.get(value.id, value) for value in values if value.id not in inside]
        if found := results(read):
            yield [(loop.path, node), *found]


def _writes(op: Op) -> bool:
    """It writes memory, or is a branch that does."""
    plain = not any(role(inner) in ("for", "while") for inner in op.inner())
    return op.name in EFFECTS or (
        role(op) == "if" and plain and any(inner.name in EFFECTS for inner in op.inner())
    )


# --- groups numbered alike --------------------------------------------------------------------------------


def aligned(code: Code, loops: Sequence[Scheduled], tied: Ties) -> tuple[Scheduled, ...]:
    """The loops with their groups numbered alike: operations that are tied share a group, and, where there is
    a choice, one that only loads is one that only loads in the loops before, too. (fla's
    chunk_oja_bwd_kernel_dqk begins with an MMA outside of loops: in the group that loads it took that
    group's time and the registers of a second thread block, 0.81 of Triton's speed on an H200, and 1.33.)

    Raises CarriedSplitError where no numbering does that.
    """
    homes = dict[str, int]()
    found = list[Scheduled]()
    for one in loops:
        kept = tied.homes(code, one)
        known = [name for name in kept if name in homes]
        mapping = dict[int, int]()
        for name in known:
            if mapping.setdefault(kept[name], homes[name]) != homes[name]:
                raise _split(code, one, name)
        if len(set(mapping.values())) < len(mapping):
            raise _split(code, one, known[0])
        free = [group.id for group in loops[0].solution.groups]
        mapping |= _of_a_kind(one, granted(found), mapping)
        rest = sorted(group.id for group in one.solution.groups if group.id not in mapping)
        others = (group for group in chain(free, count(100)) if group not in mapping.values())
        mapping |= dict(zip(rest, others, strict=False))
        found.append(_renumbered(one, mapping))
        homes |= {name: mapping[group] for name, group in kept.items()}
    return tuple(found)


def _of_a_kind(one: Scheduled, before: Sequence[Granted], mapping: Mapping[int, int]) -> dict[int, int]:
    """The groups of a loop that are not in the mapping yet with those of the loops before it that only load
    as they do, or compute."""
    taken, found = set(mapping.values()), dict[int, int]()
    for group in sorted(one.solution.groups, key=lambda group: group.id):
        alike = (other.id for other in before if only_moves(other) == only_moves(group))
        home = next((other for other in alike if other not in taken), None)
        if group.id not in mapping and home is not None:
            found[group.id] = home
            taken.add(home)
    return found


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
