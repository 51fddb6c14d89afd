"""The part of an SM that leaves room for more thread blocks, as limits of a loop's problem.

A kernel that leaves an SM idle is scheduled again for such a part (`choices.shared_sm`): with the shared
memory of one of several thread blocks, and no more groups and registers of a thread than its groups need.
What fits these limits fits the whole SM too.
"""

from dataclasses import replace

from twill.inputs import Case
from twill.ir.machine import Machine
from twill.ir.problem import Limits
from twill.warp.residency import shared_bytes


def limited(case: Case, machine: Machine, blocks: int, groups: int, registers: int) -> Case:
    """The loop with the shared memory of one of so many thread blocks on an SM, and no more groups and
    registers of a thread than given; `machine` has a residency."""
    assert machine.residency is not None
    given = case.problem.limits
    own = replace(
        given,
        groups=groups,
        registers_per_thread=min(registers, given.registers_per_thread),
        shared=given.shared - taken(machine, blocks),
    )
    return replace(case, problem=replace(case.problem, limits=own), aligned=machine.residency.aligned)


def taken(machine: Machine, blocks: int) -> int:
    """Bytes of shared memory that one of so many thread blocks on an SM has less than one alone; `machine`
    has a residency."""
    assert machine.residency is not None
    most = machine.limits.shared
    return most - shared_bytes(machine, blocks, most) + machine.residency.aligned


def limited_as(case: Case, stated: Limits) -> tuple[Case, int] | None:
    """The loop in the limits stated, where these are of a part of an SM, and the number of thread blocks that
    have such a part."""
    machine, given = case.machine, case.problem.limits
    within = stated.groups <= given.groups and stated.registers_per_thread <= given.registers_per_thread
    if machine is None or machine.residency is None or not within:
        return None
    for blocks in range(1, machine.residency.blocks + 1):
        one = limited(case, machine, blocks, stated.groups, stated.registers_per_thread)
        if one.problem.limits == stated:
            return one, blocks
    return None
