"""The kernel of one group in more thread blocks on an SM, with fewer registers for its threads, where ptxas
spills nothing so.

Schedules count registers before ptxas does, which often takes fewer, and takes all that a thread may have to
order loads. Takes a kernel that was built without warnings and the registers that ptxas used; gives another
one with the same code, or None.
"""

from dataclasses import replace

from twill.generation.attempts import trips_if_short
from twill.generation.generated import pace_of_sm
from twill.generation.spills import Compiled, printed
from twill.ir.channels import Channel
from twill.ir.machine import Machine
from twill.ir.program import Launch, Program
from twill.simulate.predict import busy, shared
from twill.warp.channels import LOADED
from twill.warp.residency import registers_in_warps

LEAST_USED = 0.85
"""The least part of the registers that ptxas used with which another thread block is tried: with fewer it has
to have fewer loads in flight, or to compute again what it had kept (estimate)."""


def in_more_blocks(built: Compiled, used: int, most: int) -> Compiled | None:
    """The kernel with the most thread blocks on an SM, `most` of them at most, that ptxas does not warn of.
    None where it waits for nothing that other blocks would hide, or there is no such kernel."""
    made, program = built.made, built.made.program
    machine, launch = made.loops[0].machine, made.program.launch
    if machine.residency is None or len(program.groups) > 1 or not launch.even or program.by_tma:
        return None
    busiest = shared(made.loops, list(map(busy, made.loops)))
    if not trips_if_short(program, made.loops) and pace_of_sm(made) <= machine.residency.idle * busiest:
        return None
    found = None
    for blocks in range(launch.blocks + 1, min(most, machine.residency.blocks) + 1):
        registers = registers_in_warps(machine.limits, blocks * launch.threads // 32)
        if not _fits(program, machine, blocks) or registers < LEAST_USED * used:
            break
        if registers >= used:  # as many are on an SM as it is
            continue
        other = printed(
            replace(built, loading=f"{blocks} thread blocks on an SM"), _in(program, blocks, registers)
        )
        if other is None or other.said:
            break
        found = other
    return found


def _in(program: Program, blocks: int, registers: int) -> Program:
    (group,) = program.groups
    launch: Launch = replace(program.launch, blocks=blocks, entry_registers=registers)
    return replace(program, launch=launch, groups=(replace(group, registers=registers),))


def _fits(program: Program, machine: Machine, blocks: int) -> bool:
    """Whether an SM has threads and shared memory for so many, and L2 keeps what their slots are loaded
    with."""
    residency = machine.residency
    assert residency is not None
    ahead = sum(one.depth * one.stride for one in loaded(program))
    block = program.shared.bytes + residency.aligned // 2 + residency.reserved
    return (
        blocks * program.launch.threads <= residency.threads
        and blocks * block <= residency.shared
        and blocks * ahead <= residency.in_flight
    )


def loaded(program: Program) -> list[Channel]:
    """The channels that are loaded, and have slots of their own."""
    return [one for one in program.channels if one.filled_by in LOADED and one.slot_owner == one.id]
