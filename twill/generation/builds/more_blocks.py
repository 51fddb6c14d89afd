"""The kernel of one group in more thread blocks on an SM, with fewer registers for its threads, where ptxas
spills nothing so, or little, and with fewer slots where shared memory has no more.

Schedules count registers before ptxas does, which often takes fewer, and takes all that a thread may have to
order loads. Takes a kernel that was built without warnings and the registers that ptxas used; gives another
one with the same schedules, or None.
"""

from dataclasses import replace
from math import inf

from twill.diagnostics import TwillError
from twill.generation.attempt import time_of_sm, trips_if_short
from twill.generation.builds.spills import (
    COST_OF_FEW,
    FEW,
    Compiled,
    in_fewer_registers,
    printed,
    spills_little,
)
from twill.generation.choices.multistage import fill_more
from twill.generation.generated import Generated, pace_of_sm, source
from twill.ir.channels import Channel
from twill.ir.program import Launch, Program
from twill.simulate.predict import busy, intervals, shared
from twill.targets import target
from twill.warp.channels import LOADED
from twill.warp.dataflow import read
from twill.warp.lower import lower
from twill.warp.plan import Options as Lowering
from twill.warp.residency import persistent, registers_in_warps

LEAST_USED = 0.6
"""The least part of the registers that ptxas used with which another thread block is tried: with fewer it has
to have fewer loads in flight, or to compute again what it had kept."""
LEAST_GIVEN = 0.5
"""The same of the registers that a schedule counts, where ptxas has not been asked: it often takes half as
many. Where loops are known to be short: in longer ones tiles in flight hide what blocks wait for. (On an
H200, one group of eight warps that loads too in two thread blocks, in place of one with a group that loads:
Sparse VideoGen's _euclid_assign_kernel, two iterations, 114 registers for 248, 0.365 ms and 0.415; vLLM's
fused MoE in fp8, 106 for 248, predicted 1.33 times as fast, 0.662 ms and 0.457.)"""
GAIN = 1.05
"""How many times as long another form has to take. (On an H200, predicted and measured gains of one group in
more thread blocks over a group that loads in fewer: LMDeploy's fp8 product of experts 1.13 and 1.09,
applied-ai's stay_attention 1.10 and 1.23, vLLM's attention over int4 pages 1.26 and 1.20.)"""
CLEARLY = 1.1
"""The same of the kernel itself beside one of more thread blocks that has fewer slots (estimate)."""
LEAST_SLOTS = 2
"""Slots of a channel of which one is read while the other one is loaded."""


def in_more_blocks(
    built: Compiled,
    used: int,
    most: int,
    lowering: Lowering,
    slower: float = inf,
    least: float = LEAST_USED,
    apart: Generated | None = None,
) -> Compiled | None:
    """The kernel with the most thread blocks on an SM, `most` of them at most, that ptxas does not warn of;
    or one that spills little, where it is predicted to be clearly faster than without. None where it walks
    over programs itself, of which an SM is given one, or there is no such kernel that is clearly faster than
    one of `slower` machine cycles (`time_of_sm`), nor than it is itself where it waits for little that other
    blocks would hide or has fewer slots so. It may take about as long as the kernel `apart`, of
    `slower` cycles, whose loads are those of another group, where its blocks fill SMs and those do not
    (`choices.multistage.fills_more`). `least`: part of the registers `used` that threads have at least."""
    made, program = built.made, built.made.program
    machine, launch = made.loops[0].machine, program.launch
    if machine.residency is None or len(program.groups) > 1 or not launch.even or program.by_tma:
        return None
    if persistent(read(program.module, program.function), made.loops, nested=False):
        return None
    busiest = shared(made.loops, list(map(busy, made.loops)))
    waits = pace_of_sm(made) > machine.residency.idle * busiest or trips_if_short(program, made.loops)
    found, before = None, time_of_sm(made)
    for blocks in range(launch.blocks + 1, min(most, machine.residency.blocks) + 1):
        registers = registers_in_warps(machine.limits, blocks * launch.threads // 32)
        if registers < least * used or blocks * launch.threads > machine.residency.threads:
            break
        fitting = _fitting(made, blocks, lowering)
        if fitting is None:
            break
        if registers >= used and fitting is made:  # as many are on an SM as it is
            continue
        wanted = _in(fitting.program, blocks, registers)
        after = time_of_sm(replace(fitting, program=wanted))
        faster = CLEARLY * after <= before
        sooner = GAIN * after <= slower or (apart and fill_more(apart, replace(fitting, program=wanted)))
        if not sooner or not (faster or (waits and fitting is made)):
            continue
        fitting = replace(fitting, cuda=made.cuda)  # it may differ in its slots alone
        other = printed(replace(built, made=fitting, loading=f"{blocks} thread blocks on an SM"), wanted)
        worth_it = COST_OF_FEW * after <= before
        if other is None or (other.said and not (spills_little(other, FEW) and worth_it)):
            break
        if other.said:
            return in_fewer_registers(other)
        found, before = other, after
    return found


def _in(program: Program, blocks: int, registers: int) -> Program:
    (group,) = program.groups
    launch: Launch = replace(program.launch, blocks=blocks, entry_registers=registers)
    return replace(program, launch=launch, groups=(replace(group, registers=registers),))


def _fitting(made: Generated, blocks: int, lowering: Lowering) -> Generated | None:
    """The kernel with as many slots as so many thread blocks on an SM have shared memory for; as it is where
    all of them fit; None where two do not."""
    machine, channels = made.loops[0].machine, loaded(made.program)
    residency = machine.residency
    assert residency is not None
    room = residency.shared // blocks - residency.aligned // 2 - residency.reserved
    most = max((one.depth for one in channels), default=0)
    least = max(1, min(most, LEAST_SLOTS))  # one where a loop fills no more
    for slots in range(most, least - 1, -1):
        ahead = sum(min(one.depth, slots) * one.stride for one in channels)
        dropped = sum(one.depth * one.stride for one in channels) - ahead
        if made.program.shared.bytes - dropped <= room and blocks * ahead <= residency.shared:
            return made if not dropped else _with_slots(made, slots, lowering)
    return None


def _with_slots(made: Generated, slots: int, lowering: Lowering) -> Generated | None:
    """The kernel with so many slots of each loaded channel at most, not checked; None where the user has
    decided, or it can not be lowered so."""
    module, blocks = made.cases[0].module, made.program.launch.blocks
    if lowering.depths or module is None:
        return None
    depths = {one.id: min(one.depth, slots) for one in loaded(made.program)}
    wanted = replace(lowering, depths=depths, multistage=True, most_blocks=blocks, room=blocks)
    try:
        program = lower(module, made.loops, target(made.loops[0].machine.arch), wanted)
    except TwillError:
        return None
    if len(program.groups) > 1 or not program.launch.even or program.by_tma:
        return None
    cuda, paces = source(program, made.loops), intervals(program, made.loops)
    return replace(made, program=program, cuda=cuda, intervals=paces, checked=None)


def loaded(program: Program) -> list[Channel]:
    """The channels that are loaded, and have slots of their own."""
    return [one for one in program.channels if one.filled_by in LOADED and one.slot_owner == one.id]
