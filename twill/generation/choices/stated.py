"""The loops of a kernel as they are stated: as it is scheduled, and for other forms of it.

Loops are stated again where another form has other operations, loads that run ahead or warps, not only other
limits; each statement is made when a form is tried that needs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from twill import whatif
from twill.diagnostics import TwillError
from twill.extract.dependence.build import graph
from twill.extract.rewrite.warps.fewer_warps import needed_warps
from twill.generation.choices.part_of_sm import taken
from twill.generation.choices.subtiles import MORE_WARPS
from twill.generation.loop_nest import FEWEST
from twill.inputs import Case, Inputs, cases, chosen_loops, origin
from twill.ir.loop import Loop, Module
from twill.ir.problem import Problem
from twill.ir.schedule import WARPGROUP


@dataclass(frozen=True, eq=False)
class Stated:
    """The loops of a kernel, and how they are stated for other forms of it."""

    inputs: Inputs
    loops: tuple[Case, ...]

    @cached_property
    def one_group(self) -> tuple[Case, ...]:
        """For one group that computes: operations that no other group may have are one, where the order of
        their parts would need more registers."""
        several = self.inputs.groups is None or self.inputs.groups > FEWEST
        return cases(replace(self.inputs, groups=FEWEST)) if several else self.loops

    def in_part(self, blocks: int) -> tuple[Case, ...]:
        """For one of so many thread blocks on an SM: loads of which its shared memory does not hold a further
        tile do not run ahead."""
        machine = self.loops[0].machine
        if machine is None or machine.residency is None:
            return self.loops
        most = machine.limits.shared if self.inputs.shared is None else self.inputs.shared
        return cases(replace(self.inputs, shared=max(0, most - taken(machine, blocks))))

    def wide(self) -> tuple[Case, ...]:
        """For one group that computes with more warps; none where their number is given."""
        given = self.inputs.warps is not None
        return () if given else cases(replace(self.inputs, groups=FEWEST, warps=MORE_WARPS))

    def as_written(self) -> tuple[Case, ...]:
        """Of a kernel that is written for less than a warpgroup, with these warps, one group that computes,
        and the costs that they have in a warpgroup; none for other kernels, and where the number of warps is
        given or makes another kernel of it."""
        return self._with_warps(origin(self.inputs)[0].num_warps)

    def without_copies(self) -> Iterator[tuple[Case, ...]]:
        """`as_written` for fewer warps than a kernel is written for, where several hold the same
        accumulators: for those that hold no copies, then for more of them, with which a thread holds less."""
        module = origin(self.inputs)[0]
        warps = needed_warps(module)
        while warps < min(module.num_warps, WARPGROUP):
            if made := self._with_warps(warps):
                yield made
            warps *= 2

    def _with_warps(self, warps: int) -> tuple[Case, ...]:
        if self.inputs.warps is not None or warps >= WARPGROUP:
            return ()
        try:
            module, _, loops = chosen_loops(replace(self.inputs, warps=warps))
        except TwillError:
            return ()
        modules = [case.module for case in self.loops if case.module]
        if module.num_warps != warps or any(_ops(one) != _ops(module) for one in modules):
            return ()
        return tuple(
            replace(case, problem=_in_one_group(case, module, loop), divided=None, module=module, loop=loop)
            for case, loop in zip(self.loops, loops, strict=True)
        )


def _in_one_group(case: Case, module: Module, loop: Loop) -> Problem:
    """The loop with all that computes in one group, beside another one that loads, whose threads hold what
    those of the module hold."""
    assert case.graph is not None
    before, problem = {one.id: one.tile.registers for one in case.graph.values}, case.problem
    held = {one.id: one.tile.registers for one in graph(module, loop).values}
    values = tuple(
        replace(one, registers=held[one.id])
        if one.id in held and one.registers == before.get(one.id)
        else one
        for one in problem.values
    )
    computing = tuple(op.id for op in problem.operations if op.warps > 1)
    problem = whatif.limited(problem, groups=FEWEST)
    return replace(problem, values=values, together=(*problem.together, computing))


def _ops(module: Module) -> list[tuple[int, str]]:
    """What a module consists of, whatever its layouts."""
    return [(op.index, op.name) for function in module.functions for op in function.walk()]
