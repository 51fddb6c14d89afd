"""The kernel of a schedule in the way that ptxas spills least: its lean form (`Program.lean`), and other
registers for the groups that load.

`compiled` builds a kernel; `least_spilled` takes a `Compiled` one and returns one.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from twill.diagnostics import TwillError
from twill.generation.attempt import time_of_sm
from twill.generation.builds.checked_build import write_buildable
from twill.generation.builds.retries import paced_by_copies
from twill.generation.builds.shared_forms import shared_forms
from twill.generation.choices.multistage import fill_more
from twill.generation.generated import Generated, source
from twill.ir.problem import Limits
from twill.ir.program import Launch, Program
from twill.ir.statements import ProducerLoad, walk
from twill.launch.build import severity, short_of_registers
from twill.targets.cuda.registers.masks import kept_masks
from twill.warp.lean import lean
from twill.warp.plan import Options as Lowering
from twill.warp.thread_block import granted, registers_at_entry, regranted

MOST_SPILLED = 1024
"""Bytes spilled beyond which no other grant of registers is tried for the same schedule. Grants move some 48
registers to a group, 192 bytes; of 5264 bytes 5184 remained, of 4464 bytes 1888 (Triton's attention tutorial,
backward), each after seven runs of nvcc."""
LITTLE = 128
"""Bytes spilled at most in a kernel that comes before slower ones without spills: a thread stores and loads
some 30 numbers, once or in each iteration. (fla's kda backward in tiles of 32 x 32 on an H200: Triton's two
thread blocks of 128 threads on an SM, which spill 112 bytes, take 0.53 of the time of one of eight warps that
spills nothing.)"""
COST_OF_LITTLE = 1.25
"""How many times as long a kernel takes that spills `LITTLE` (estimate). (fla's gradients inside of KDA's
chunks on an H200, both in three thread blocks, predicted at 430 and 510 cycles: 40 bytes spilled beside a
group that loads, 0.78 of Triton's speed; none where the group that computes loads too, 1.32.)"""
FEW = 32
"""Bytes spilled at most in more thread blocks on an SM than spill nothing. (On an H200 16 bytes in three
thread blocks for two took 0.84 of the time in FastVideo's sparse attention, 12 in four for three 0.66 in
aiter's sparse attention; 120 bytes in four for three 1.2
times the time in vLLM's prefill attention, 96 in seven for four 1.1 times in fla's chunk_fwd_o.)"""
COST_OF_FEW = 1.2
"""How many times as long blocks that spill nothing have to take for more that spill `FEW` bytes to come first
(estimate). (On an H200, predicted and measured: vLLM's inverse of triangles, eight blocks that spill 12
bytes for seven 1.14 and 1.00; LMDeploy's index of DeepSeek, eight that spill 12 bytes for seven, of which a
launch chooses how many an SM holds, 1.14 and 0.86.)"""
LEAN = "masks and offsets in fewer registers"
SPARING = "fewer registers for what ptxas optimizes"
ALL_REGISTERS = "all registers of a thread"
IN_SHARED = "tiles in shared memory"
STEPS = 3
"""How many numbers of registers for groups that load are tried, more or fewer."""
LEAPS = (4, 8)
"""Steps by which threads that load get more registers where one and two do not help. (Nine loops of a
convolution, lean: 72 bytes with 48 registers for these, 428, 244, 132 with 56 to 72, none with 80.)"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel that was built."""

    made: Generated
    said: tuple[str, ...]
    """What ptxas warns of."""
    changes: tuple[str, ...] = ()
    """What is different, in words."""
    loading: str = ""
    """What is different in the registers of groups."""
    what: str = ""
    """The retry that it is of; empty for the schedule that there was before."""
    worth_it: bool = False
    """It spills little, and is predicted to be clearly faster than in fewer thread blocks on an SM."""


COPYING = "iterations copy tiles that they would exchange"


def compiled(made: Generated, changes: tuple[str, ...] = (), what: str = "") -> Compiled:
    """A kernel with what ptxas warns of. Raises TwillError where it can not be built."""
    return Compiled(made, _warnings(made), changes, what=what)


def least_spilled(built: Compiled) -> Compiled:
    """The kernel with the same schedule of which ptxas spills least: in all registers of a thread, with other
    registers for the groups that load while iterations exchange tiles, else in the form that copies these, in
    its lean form, and with other registers for the groups that load, or for all threads of a group that is
    alone. As it is where far too much is spilled for that to help, or ptxas has registers enough. (Seven runs
    of nvcc for the gradients of FlagGems' attention, whose MMAs ptxas serialized for what lies between them,
    of 56 s.)"""
    built = in_all_registers(built)
    if not built.said:
        return built
    copying = _copying(built)
    if copying is not built and not far_too_much(built.said):
        exchanging = _regranted(built)
        if not exchanging.said:
            return exchanging
    built = leaner(copying) if far_too_much(copying.said) and _keeps_masks(copying.made.program) else copying
    if not built.said or far_too_much(built.said) or not short_of_registers(built.said):
        return built
    fewer = _with_fewer_blocks(built)
    if fewer and (not fewer.said or fewer.worth_it):
        return fewer
    return min((_best_regranted(built), *([fewer] if fewer else [])), key=_severity)


def _keeps_masks(program: Program) -> bool:
    """Whether groups keep tiles of truth values, which only the lean form packs. (Gradients of fla's native
    sparse attention, 96 of these of a thread: 1464 bytes are spilled, 76 in the lean form.)"""
    return not program.lean and any(map(kept_masks, program.groups))


def in_all_registers(built: Compiled) -> Compiled:
    """The kernel whose threads, which keep the registers that they begin with, may have all that a thread can
    have, where that spills less: an SM grants them in steps of 8, of the last of which a thread can use all
    but one. As it is where an SM has no more of them."""
    program, limits = built.made.program, built.made.loops[0].machine.limits
    if not short_of_registers(built.said) or far_too_much(built.said):
        return built
    launch, by_tma = all_registers(program.launch, limits), program.by_tma
    form = replace(program, launch=launch, by_tma=by_tma and all_registers(by_tma, limits))
    found = printed(replace(built, changes=(*built.changes, ALL_REGISTERS)), form)
    return found if found and _spills_less(found, built) else built


def all_registers(launch: Launch, limits: Limits) -> Launch:
    """A launch whose threads may have all registers; as it is where it has none of those left."""
    step, warps = limits.register_step, launch.threads * launch.blocks // 32
    most = limits.registers_per_thread // step * step
    left = limits.registers_total // (4 * 32 * -(-warps // 4)) > limits.registers_per_thread
    all_but_few = launch.even and launch.entry_registers == most and left
    return replace(launch, entry_registers=limits.registers_per_thread) if all_but_few else launch


def _copying(built: Compiled) -> Compiled:
    """The kernel whose loops copy tiles that they would exchange (`Program.exchanges`), where less is spilled
    so."""
    plain = replace(built.made.program, exchanges=False)
    other = printed(replace(built, changes=(*built.changes, COPYING)), plain)
    return other if other and _spills_less(other, built) else built


def _with_fewer_blocks(built: Compiled) -> Compiled | None:
    """The kernel of one group that loads and computes, in the most thread blocks on an SM, half as many at
    least, whose threads have registers enough, or in more that spill `FEW` bytes where that is predicted to
    be clearly faster; else the one of two at least that spills `LITTLE`; None where there is none."""
    program, limits = built.made.program, built.made.loops[0].machine.limits
    launch = program.launch
    group, *others = program.groups
    if others:
        return None
    first = replace(built, loading=f"{launch.blocks} thread blocks on an SM")
    few = first if spills_little(built, FEW) else None
    little, most = None, launch.entry_registers
    for blocks in range(launch.blocks - 1, max(1, launch.blocks // 2) - 1, -1):
        registers = registers_at_entry(limits, launch.threads * blocks)
        if registers <= most:
            continue
        most = registers
        fewer = replace(launch, blocks=blocks, entry_registers=registers)
        other = replace(program, launch=fewer, groups=(replace(group, registers=registers),))
        found = printed(replace(built, loading=f"{blocks} thread blocks on an SM"), other)
        found = found and in_all_registers(found)
        if found and not found.said:
            worth_it = few is not None and _worth_it(few.made, found.made)
            return _not_spilling(few) if few and worth_it else found
        if found and blocks > 1 and spills_little(found):
            little = found
            few = few or (found if spills_little(found, FEW) else None)
    return little


def _not_spilling(few: Compiled) -> Compiled:
    """More thread blocks that spill `FEW` bytes, in the way that spills nothing if there is one."""
    other = in_fewer_registers(few)
    return replace(other, worth_it=True) if other.said else other


def in_fewer_registers(built: Compiled) -> Compiled:
    """The kernel with the same schedule, groups and thread blocks on an SM, in all registers of a thread, as
    ptxas optimizes it for fewer registers, in its lean form, or both, or with tiles in shared memory: the
    first of these that spills nothing; at most in all registers where all do. (Less is no faster: vLLM's
    TurboQuant attention over fp8 on an H200 has 0.95 of Triton's speed with 32 bytes spilled, 0.86 with 24 in
    such a form, and 0.86 with none in all registers and both, which is not tried.) Not the lean form where
    threads would compute masks again for longer than an iteration takes. (vLLM's MaxSim in four thread blocks
    on an SM spills 4 bytes, 16 where ptxas optimizes for fewer registers, and has 109 of 128 registers in its
    lean form.)"""
    built = in_all_registers(built)
    program = built.made.program
    sparing, less = replace(program, sparing=True), lean(program)
    forms = [((SPARING,), sparing)]
    if not program.lean and paced_by_copies(replace(built.made, program=less)) is None:
        forms += [((LEAN,), less)]
        forms += [] if ALL_REGISTERS in built.changes else [((SPARING, LEAN), replace(less, sparing=True))]
    for changes, form in forms if built.said else ():
        found = printed(replace(built, changes=(*built.changes, *changes)), form)
        if found and not found.said:
            return replace(found, made=replace(found.made, checked=None)) if form.lean else found
    kept = with_tiles_in_shared(built, grants=False)
    return built if kept.said else kept


def with_tiles_in_shared(
    built: Compiled, lowering: Lowering | None = None, *, grants: bool = True
) -> Compiled:
    """The kernel with tiles in shared memory that it holds while loops run, as few as spill nothing; as it is
    where it spills with any. `grants`: with other registers for the groups that load, too, where little is
    spilled. `lowering`: with fewer slots where these leave no room. (The last form is tried first: a run of
    nvcc for the forward pass of fla's wall attention takes 25 s, which spills 144 bytes with three tiles.)"""
    spilled = _severity(built)[1]
    forms = list(shared_forms(built.made, spilled, lowering)) if spilled else []
    found = _in_shared(built, *forms[-1], grants=grants) if forms else None
    if not found or found.said:
        return built
    first = (_in_shared(built, *one, grants=grants) for one in forms[:-1])
    return next((one for one in first if one and not one.said), found)


def _in_shared(
    built: Compiled, program: Program, paces: Mapping[str, float], *, grants: bool
) -> Compiled | None:
    found = printed(replace(built, changes=(*built.changes, IN_SHARED)), program)
    if found is None:
        return None
    found = replace(found, made=replace(found.made, intervals=paces, checked=None))
    return _regranted(found) if grants and spills_little(found) else found


def _worth_it(few: Generated, none: Generated) -> bool:
    """Whether more thread blocks that spill `FEW` bytes come before those that spill nothing: they are
    predicted to be clearly faster, or to take about as long and to fill SMs."""
    return COST_OF_FEW * time_of_sm(few) <= time_of_sm(none) or fill_more(none, few)


def spills_little(built: Compiled, most: int = LITTLE) -> bool:
    """Whether ptxas warns of few spills, of `most` bytes, and of nothing else."""
    others, spilled = _severity(built)
    return not others and 0 < spilled <= most


def leaner(built: Compiled) -> Compiled:
    """The kernel with fewer registers for more instructions, where less is spilled so."""
    other = _lean(built)
    return other if other and _spills_less(other, built) else built


def _lean(built: Compiled) -> Compiled | None:
    return printed(replace(built, changes=(*built.changes, LEAN)), lean(built.made.program))


def _best_regranted(built: Compiled) -> Compiled:
    """The kernel in its lean form or not, with other registers for its groups that load: that which spills
    less is tried first, and the other one where that spills whatever registers it has and threads copy tiles:
    how many accesses they have in flight, and what they keep, follows from both. (A convolution on an H200:
    with 80 registers for each thread the lean form spills 312 bytes for 268, with 64 none for 464.) Where
    both spill the same bytes, what the lean form saves is not what is spilled: one of them is enough."""
    lean_form = _lean(built)
    if lean_form is None:
        return _regranted(built)
    lean_first = _spills_less(lean_form, built)
    first, second = (lean_form, built) if lean_first else (built, lean_form)
    best, (others, spilled) = _regranted(first), _severity(built)
    alike = spilled > 0 and _severity(lean_form) == (others, spilled)
    if not best.said or alike or far_too_much(second.said) or not _threads_copy(built.made.program):
        return best
    return min(best, _regranted(second), key=_severity)


def _threads_copy(program: Program) -> bool:
    """Whether threads of groups that only load access tiles themselves."""
    bodies = [group.body for group in program.groups if group.only_moves]
    fills = [one for body in bodies for one in walk(body) if isinstance(one, ProducerLoad)]
    return any(load.vector for fill in fills for load in fill.loads)


def _regranted(built: Compiled) -> Compiled:
    """The kernel with so many registers for its groups that load, and so few for those that compute, that
    ptxas spills least: more for those that load, or fewer, whichever spills less; in steps that get smaller.
    Both are tried at the same time. Where no step helps, far more are tried: what ptxas spills does not
    shrink with each register that a group gets. Where two steps leave all warnings as they are, those are of
    something else than these registers, and no more are tried. (The gradients of fla's preconditioned kda in
    one thread block spilled 984 bytes in each of fourteen runs of nvcc.)"""
    if not built.said:
        return built
    step, best = built.made.loops[0].problem.limits.register_step, built
    wide = {way: other for way, other in _each(built, (2 * step, -2 * step)).items() if other}
    if wide and all(_severity(other) == _severity(built) for other in wide.values()):
        return built
    for way, other in sorted(wide.items(), key=lambda each: _severity(each[1]))[:1]:
        best = _further(other, way, STEPS - 1) if _spills_less(other, built) else built
    first = _each(built, (step, -step)) if best is built else {}
    for way in (step, -step):
        other = first[way] if best is built else _with_more(best, way) if best.said else None
        best = other if other is not None and _spills_less(other, best) else best
    leaps = _each(built, [many * step for many in LEAPS]) if best is built else {}
    return min((best, *filter(None, leaps.values())), key=_severity)


def _each(built: Compiled, ways: Sequence[int]) -> dict[int, Compiled | None]:
    """By so many registers: the kernel whose threads that load have that many more, or fewer."""
    with ThreadPoolExecutor(min(len(ways), os.cpu_count() or 1)) as threads:
        return dict(zip(ways, threads.map(partial(_with_more, built), ways), strict=True))


def _severity(built: Compiled) -> tuple[int, int]:
    return severity(built.said)


def _spills_less(other: Compiled, built: Compiled) -> bool:
    return _severity(other) < _severity(built)


def _further(best: Compiled, more: int, steps: int) -> Compiled:
    """The kernel with `more` registers for each thread that loads, as often as that spills less."""
    for _ in range(steps):
        other = _with_more(best, more) if best.said else None
        if other is None or not _spills_less(other, best):
            break
        best = other
    return best


def _with_more(built: Compiled, more: int) -> Compiled | None:
    """The kernel whose threads that load have `more` registers; None where that can not be built."""
    made = built.made
    scheduled = {group.id: group.registers for group in granted(made.loops)}
    program = regranted(made.program, made.loops[0].problem.limits, scheduled, more)
    if program is None:
        return None
    loading = max(group.registers for group in program.groups if group.only_moves)
    return printed(replace(built, loading=registers_in_words(loading)), program)


def registers_in_words(registers: int) -> str:
    return f"{registers} registers for each thread that loads"


def printed(built: Compiled, program: Program) -> Compiled | None:
    """The kernel of another program, built; None where it is the same, or can not be built."""
    cuda = source(program, built.made.loops)
    if cuda == built.made.cuda:
        return None
    other = replace(built.made, program=program, cuda=cuda)
    try:
        return replace(built, made=other, said=_warnings(other))
    except TwillError:
        return None


def far_too_much(said: Sequence[str]) -> bool:
    """Whether more is spilled than another grant of registers helps against."""
    return severity(said)[1] > MOST_SPILLED


def _warnings(made: Generated) -> tuple[str, ...]:
    """What ptxas warns of."""
    from twill.launch.tries import tried

    with TemporaryDirectory() as folder:
        write_buildable(made, Path(folder))
        return tried(Path(folder))
