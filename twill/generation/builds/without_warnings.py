"""The kernel to build in place of one of which ptxas spills registers or serializes MMAs.

`without_warnings` takes the kernel and what ptxas said; returns its schedule in the way that ptxas spills
least, that in a form whose threads have more registers (`REMEDIES`), or another schedule (`best_retry`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from twill.diagnostics import TwillError
from twill.generation.builds.best_retry import best_retry, tried
from twill.generation.builds.more_blocks import loaded
from twill.generation.builds.retries import (
    FEWEST_GROUPS,
    LONGEST,
    ON_AN_SM,
    TOGETHER,
    Retry,
    for_registers,
    in_half_as_many,
    keeps_little,
    loading_too,
    paced_by_copies,
    retries,
    starved,
)
from twill.generation.builds.shared_forms import tiles_in_shared, with_room_for
from twill.generation.builds.spills import (
    ALL_REGISTERS,
    IN_SHARED,
    LEAN,
    SPARING,
    Compiled,
    all_registers,
    compiled,
    far_too_much,
    least_spilled,
    printed,
    registers_in_words,
    spills_little,
    with_tiles_in_shared,
)
from twill.generation.generate import Check, generate, notes, right
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback, noted, pace_of_sm
from twill.generation.known.kept_remedies import Remedy, load, save
from twill.generation.searches import Solve, solved
from twill.inputs import Inputs
from twill.ir.program import Program, WarpProgram
from twill.warp.lean import lean
from twill.warp.plan import Options as Lowering
from twill.warp.residency import shared_bytes

CLOSELY = 1.01
"""How many times as long a kernel may take that is predicted to be as fast."""
FEWER_SLOWER = 1.6
"""How many times as long a kernel has to take in fewer thread blocks on an SM, at least, to be scheduled
again for the registers of those that it was lowered for (estimate: half as many, where an SM waits). (On an
H200, fla's parallax decoding, predicted 1.83 times as long in one thread block as in two that are scheduled
for 128 registers: 0.313 ms and 0.263; 0.313 in two that spill 80 bytes.)"""


def without_warnings(
    inputs: Inputs,
    options: GenerateOptions,
    made: Generated,
    said: Sequence[str],
    on_progress: ProgressCallback = lambda name, event: None,
    check: Check | None = None,
    solve: Solve = solved,
    known: Path | None = None,
) -> Generated | None:
    """Another kernel where ptxas spilled registers or serialized MMAs (`said`): in its lean form
    (`Program.lean`), with other registers for the groups that load, with sub-tiles, with more warps, with
    fewer thread blocks on an SM, scheduled for fewer warp groups or registers, or in another form; its last
    note says which. Where no such kernel is right and built without these warnings in the time that there is,
    one as fast that spills at most half, or the same schedule in the way that spills least. Given schedules
    are kept. None where nothing is better. `check` and `solve` are
    those of `generation.generate.generate`; `check` may leave a kernel with warnings unchecked. `known`: the
    file of what helped a kernel like this one (`kept_remedies`)."""
    if not said:
        return None
    warned = _Warned(inputs, options, made, tuple(said), on_progress, check, solve, known)
    if other := warned.checked(_as_helped_before(warned)):
        return other
    first = _same_schedule(warned)
    built = (remedy(warned, first) for remedy in REMEDIES)
    if other := next(filter(None, map(warned.checked, built)), None):
        return other
    seconds = min(options.time_limit, LONGEST) * len(made.loops)
    tried = (warned.report, warned.checked, warned.roomy, warned.in_shared)
    found = best_retry(first, warned.retries(little=spills_little(first)), seconds, *tried)
    return found or (None if first.made is made else warned.checked(first))


@dataclass(frozen=True, slots=True)
class _Warned:
    """A kernel that ptxas warns of, and what makes others in its place."""

    inputs: Inputs
    options: GenerateOptions
    made: Generated
    said: tuple[str, ...]
    on_progress: ProgressCallback
    check: Check | None
    solve: Solve
    known: Path | None

    @property
    def warning(self) -> str:
        return self.said[0].split(":")[0]

    def report(self, what: str) -> None:
        notes(self.made.program, "ptxas", self.on_progress)(f"{self.warning}; trying {what}")

    def retries(self, *, little: bool = False) -> Iterator[Retry]:
        """What is tried in its place; `little` is spilled in the way that spills least."""
        pace, far = pace_of_sm(self.made), far_too_much(self.said)
        return retries(self.inputs, self.options, self.made, pace, self.on_progress, self.solve, far, little)

    def roomy(self, found: Compiled) -> Compiled:
        return _roomy(found, self.options, self.on_progress, self.solve)

    def in_shared(self, found: Compiled) -> Compiled:
        """With tiles in shared memory. The first schedule as it is comes before the form of it in which ptxas
        spills least, which computes more in each iteration."""
        if found.what or not found.changes:
            return with_tiles_in_shared(found, self.options.lowering)
        plain = with_tiles_in_shared(Compiled(self.made, self.said), self.options.lowering)
        return plain if not plain.said else with_tiles_in_shared(found, self.options.lowering)

    def checked(self, found: Compiled | None) -> Generated | None:
        """The kernel with a note, checked; None where there is none, or it is wrong. How one without warnings
        was made is kept in `known`; one with warnings `check` may leave unchecked."""
        if found is None:
            return None
        check, known = (None, None) if found.said else (self.check, self.known)
        changes = ", ".join((*found.changes, *([found.loading] if found.loading else [])))
        why = "fewer are predicted to be slower" if found.worth_it else f"otherwise {self.warning}"
        try:
            made = right((noted(found.made, f"{changes}: {why}"),), self.options, self.on_progress, check)
        except TwillError:
            return None
        if known is not None:
            program = found.made.program
            granted, tiles = tuple(one.registers for one in program.groups), tiles_in_shared(program)
            entry = program.launch.entry_registers
            save(known, Remedy(found.what, program.lean, granted, program.sparing, tiles, entry))
        return made


def _as_helped_before(warned: _Warned) -> Compiled | None:
    """As a kernel with the same loops was built without warnings."""
    if warned.known is None or not (remedy := load(warned.known)):
        return None
    warned.report("what helped a kernel with the same loops")
    return _as_before(Compiled(warned.made, warned.said), remedy, warned.retries(), warned.options.lowering)


def _same_schedule(warned: _Warned) -> Compiled:
    """Its schedule in the way that ptxas spills least."""
    warned.report("fewer registers for masks and offsets, and other registers for groups that load")
    return warned.roomy(least_spilled(Compiled(warned.made, warned.said)))


def _with_registers_to_load(warned: _Warned, first: Compiled) -> Compiled | None:
    """With few groups, where threads that load are starved."""
    if first.said or not starved(first.made):
        return None
    warned.report(f"{FEWEST_GROUPS}, so that threads which load have more registers")
    return _with_fewest_groups(warned.retries())


def _loading_too(warned: _Warned, first: Compiled) -> Compiled | None:
    """Loads by the group that computes, where threads that copy are too late for an iteration."""
    late = None if first.said else paced_by_copies(first.made)
    if late is None:
        return None
    retry = loading_too(warned.inputs, warned.options, first.made, warned.on_progress, warned.solve, late)
    if retry is None:
        return None
    warned.report(f"{TOGETHER}, as copies that compute masks again take longer than an iteration")
    found = tried(retry, late)
    return found if found and not found.said else None


def _keeping_masks(warned: _Warned, first: Compiled) -> Compiled | None:
    """In fewer thread blocks on an SM, where threads that copy keep little."""
    if not keeps_little(first.made):
        return None
    warned.report("fewer thread blocks on an SM, whose threads keep masks and offsets")
    half = in_half_as_many(warned.options, warned.made, warned.on_progress, warned.solve, inf)
    return _in_fewer_blocks((*warned.retries(), half), pace_of_sm(first.made))


def _scheduled_for_blocks(warned: _Warned, first: Compiled) -> Compiled | None:
    """Scheduled for the registers of as many thread blocks on an SM as it was lowered for, where its schedule
    has enough in fewer alone, in which an SM is predicted to take clearly longer."""
    program, given = warned.made.program, warned.options.schedules or warned.inputs.registers
    fewer = first.made.program.resident_blocks < program.resident_blocks and len(program.groups) == 1
    slowest = pace_of_sm(first.made) / FEWER_SLOWER
    if given or first.said or not fewer or pace_of_sm(warned.made) > slowest:
        return None
    for registers in _registers_below(program.launch.entry_registers, warned.made):
        retry = for_registers(
            warned.options, warned.made, warned.on_progress, warned.solve, registers, slowest
        )
        warned.report(retry.what)
        found = _as_scheduled(retry)
        if found and not found.said and found.made.program.resident_blocks == program.resident_blocks:
            return found
    return None


def _registers_below(most: int, made: Generated) -> Iterator[int]:
    """Numbers of registers to schedule for: ptxas needs more for some schedules than they count."""
    step = made.loops[0].problem.limits.register_step
    yield from (most, most - step)


def _as_scheduled(retry: Retry) -> Compiled | None:
    """A kernel as ptxas takes it; None where there is none, or it takes too many cycles."""
    try:
        other = retry.make(retry.slowest)
        built = pace_of_sm(other) <= retry.slowest
        return compiled(other, (retry.why,), retry.what) if built else None
    except TwillError:
        return None


def _as_it_is(warned: _Warned, first: Compiled) -> Compiled | None:
    return first if first.worth_it or not first.said else None


REMEDIES = (_with_registers_to_load, _loading_too, _keeping_masks, _scheduled_for_blocks, _as_it_is)
"""What is built in place of a kernel that ptxas warns of, in this order, before any other is searched for."""


def _roomy(
    found: Compiled, options: GenerateOptions, on_progress: ProgressCallback, solve: Solve
) -> Compiled:
    """The kernel of one group in fewer thread blocks on an SM than its slots were laid out for, with the
    slots that these have room for; as it is where ptxas warns of that one, or there is no room. (vLLM's
    fused_moe in fp8 in tiles of 64 x 128 x 128: three thread blocks with the two slots of four.)"""
    made, program = found.made, found.made.program
    launch, machine = program.launch, made.loops[0].machine
    room = shared_bytes(machine, launch.blocks, machine.limits.shared) - program.shared.bytes
    least = min((one.stride for one in loaded(program)), default=room + 1)
    alone = launch.even and len(program.groups) == 1 and not program.lean
    if found.said or not alone or room < least:
        return found
    lowering = replace(options.lowering, most_blocks=launch.blocks, multistage=True)
    wanted = replace(options, lowering=lowering, check=False, execute=False)
    try:
        other = generate(made.inputs, wanted, on_progress, made.searched, None, solve)
        built = compiled(other, found.changes, found.what)
    except TwillError:
        return found
    more = sum(one.depth for one in other.program.channels) > sum(one.depth for one in program.channels)
    alike = other.program.launch.blocks == launch.blocks and not built.said
    return replace(built, loading=found.loading) if more and alike else found


def _with_fewest_groups(retries: Iterable[Retry]) -> Compiled | None:
    """The kernel of one group that loads and one that computes, where it is not lean and does not spill."""
    retry = next((one for one in retries if one.what == FEWEST_GROUPS), None)
    found = tried(retry, inf) if retry else None
    return found if found and not found.said and not found.made.program.lean else None


def _in_fewer_blocks(retries: Iterable[Retry], pace: float) -> Compiled | None:
    """The kernel in fewer thread blocks on an SM, where it is predicted to be as fast, and is neither lean
    nor spills: the first whose threads keep masks and offsets, or else the first."""
    first: Compiled | None = None
    for retry in retries:
        found = tried(retry, CLOSELY * pace) if retry.what.endswith(ON_AN_SM) else None
        if found and not found.said and not found.made.program.lean:
            if not keeps_little(found.made):
                return found
            first = first or found
    return first


def _as_before(
    built: Compiled, remedy: Remedy, retries: Iterable[Retry], lowering: Lowering
) -> Compiled | None:
    """The kernel made as another one that did not spill; None where it is not built without warnings."""
    if remedy.what:
        retry = next((one for one in retries if one.what == remedy.what), None)
        try:
            other = retry and retry.make(retry.slowest)
        except TwillError:
            return None
        if retry is None or other is None:
            return None
        built = Compiled(other, ("not built",), (retry.why,), what=retry.what)
    other = _remade(built, remedy, lowering)
    found = other and (
        printed(*other) or (compiled(built.made, built.changes, built.what) if remedy.what else None)
    )
    return found if found and not found.said else None


def _remade(built: Compiled, remedy: Remedy, lowering: Lowering) -> tuple[Compiled, Program] | None:
    """What is different, and the program with these registers and in this form; None where it has other
    groups, or no room for the tiles."""
    before, limits = built.made.program, built.made.loops[0].machine.limits
    program = with_room_for(built.made, remedy.in_shared, lowering)
    if program is None or len(program.groups) != len(remedy.registers):
        return None
    all_of_them, leaner = remedy.entry == limits.registers_per_thread, remedy.lean and not before.lean
    changed = {
        ALL_REGISTERS: all_of_them,
        SPARING: remedy.sparing,
        IN_SHARED: bool(remedy.in_shared),
        LEAN: leaner,
    }
    granted = tuple(map(_granting, program.groups, remedy.registers))
    moving = [one for one, group in zip(remedy.registers, before.groups, strict=True) if group.only_moves]
    launch = all_registers(program.launch, limits) if all_of_them else program.launch
    other = replace(program, groups=granted, sparing=remedy.sparing, launch=launch)
    same = [one.registers for one in before.groups] == list(remedy.registers)
    what = "" if same else registers_in_words(max(moving, default=0))
    changes = (*built.changes, *(one for one, made in changed.items() if made))
    return replace(built, changes=changes, loading=what), lean(other) if leaner else other


def _granting(group: WarpProgram, registers: int) -> WarpProgram:
    return group if group.registers == registers else replace(group, registers=registers)
