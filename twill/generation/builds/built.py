"""Kernels that nvcc has built: another one where ptxas spills registers or serializes MMAs.

`built` takes `Inputs` and returns the folder of the kernel in the user's cache, `built_form` that of one of
its other forms; `without_warnings` returns the kernel to build instead of one that ptxas warns of.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.engine.clock import own_clock
from twill.generation.attempts import time_of_sm, trips_if_short
from twill.generation.builds import forms
from twill.generation.builds.checked_build import check_beside_build, library, warnings
from twill.generation.builds.for_grids import with_choice
from twill.generation.builds.more_blocks import LEAST_GIVEN, LEAST_USED, in_more_blocks, loaded
from twill.generation.builds.retries import (
    FEWEST_GROUPS,
    LONGEST,
    ON_AN_SM,
    TOGETHER,
    Retry,
    in_half_as_many,
    keeps_little,
    loading_too,
    paced_by_copies,
    retries,
    starved,
)
from twill.generation.builds.spills import (
    COST_OF_LITTLE,
    LEAN,
    Compiled,
    compiled,
    far_too_much,
    leaner,
    least_spilled,
    printed,
    registers_in_words,
    spills_little,
)
from twill.generation.candidates import Solve, solved
from twill.generation.generate import Check, files, generate, notes, right
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback, noted, pace_of_sm
from twill.generation.known.given import INSTEAD
from twill.generation.known.kept_remedies import Remedy, load, place, save
from twill.generation.known.kept_searches import kept
from twill.inputs import Inputs, origin
from twill.ir.program import WarpProgram
from twill.launch.build import registers_used, severity, unbuilt
from twill.launch.one_at_a_time import Aside, alone
from twill.warp.lean import lean
from twill.warp.plan import Options as Lowering
from twill.warp.plan import most_blocks
from twill.warp.residency import shared_bytes

RETRIES = 5
"""Time limits for each loop after which no other kernel is searched for ..."""
FOUND = 2
"""... and the same where there is one without warnings, which may take longer than the kernel with them."""
BUILT = 3.0
"""Seconds that lowering, simulating and building another kernel count for (about what they take)."""
CLOSELY = 1.01
"""How many times as long a kernel may take that is predicted to be as fast."""
LESS = 2
"""How many times as much a kernel must spill for another one that spills too, and is as fast, to be taken."""


def built(
    inputs: Inputs,
    options: GenerateOptions | None = None,
    on_progress: ProgressCallback = lambda name, event: None,
    aside: Aside = nullcontext,
) -> Path:
    """The folder of the generated and built kernel, in the user's cache; built only if it is not there
    yet. `aside` is entered while it waits for another process to search for the same loop, or to find out
    how a kernel with the same loops is built without spills."""
    from twill.launch.build import cached

    options = options or GenerateOptions()
    options = replace(options, execute=options.check)
    module, machine = origin(inputs)
    text = module.text
    resolved = (
        inputs
        if module.file == inputs.spec
        else replace(inputs, spec=text, settings=(), tile=None, constants=tuple(module.constants.items()))
    )
    given = [Path(path).read_text() for path in options.schedules]
    key = f"{text}{replace(resolved, spec='')}{options}{machine}{given}"
    return cached(key, partial(_make, resolved, options, on_progress, aside))


def _make(
    inputs: Inputs, options: GenerateOptions, on_progress: ProgressCallback, aside: Aside, folder: Path
) -> None:
    """Fill a folder with a built kernel. What was searched for another one is not searched again."""
    solve = kept(solved, options.time_limit, aside)
    made, _ = with_library(inputs, options, on_progress, folder, solve=solve, remember=aside)
    for name, text in _texts(made).items():
        write(folder / name, text)
    forms.save(forms.others(made), folder)


def built_form(
    folder: Path,
    form: forms.Form,
    options: GenerateOptions,
    on_progress: ProgressCallback = lambda name, event: None,
) -> Path:
    """The folder of another form of the kernel in a folder that `built` gave, checked and built only if it is
    not there yet. Raises TwillError where it is wrong, or ptxas warns of it in its lean form too: other ways
    to build it, as `without_warnings` tries, may take many times as long."""
    from twill.launch.build import cached

    options = replace(options, execute=options.check)
    return cached(f"{folder.name} {form.what}", partial(_make_form, form, options, on_progress))


def _make_form(
    form: forms.Form, options: GenerateOptions, on_progress: ProgressCallback, folder: Path
) -> None:
    check = partial(check_beside_build, folder=folder, on_progress=on_progress)
    made = right((noted(form.made, form.what),), options, on_progress, check)
    if said := warnings(made, folder):
        built = leaner(Compiled(made, said))
        if built.said:
            raise TwillError(f"{form.what}: {built.said[0]}")
        made = right((built.made,), options, on_progress, check)
        library(made, folder)
    for name, text in _texts(made).items():
        write(folder / name, text)


def with_library(
    inputs: Inputs,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    folder: Path,
    home: Path | None = None,
    solve: Solve = solved,
    remember: Aside | None = None,
) -> tuple[Generated, bool]:
    """A kernel whose library, source and manifest it leaves in a folder, and whether it is another one than
    the fastest, which ptxas warns of (`without_warnings`). It is checked while nvcc builds it. `home`: see
    `launch.build.build`; `solve`: see `generation.candidates.candidates`. What keeps ptxas from spilling
    is kept on disk where there is `remember`, entered while another process finds that out for a kernel
    alike. Raises TwillError where there is no kernel that is right, or nvcc fails; the source is in the
    folder then."""
    check = partial(check_beside_build, folder=folder, on_progress=on_progress, home=home)
    made = generate(inputs, options, on_progress, check=check, solve=solve)
    said = warnings(made, folder, home)
    known = place(made, options) if said and remember else None
    with _one_of_kind(known, remember) if known and remember else nullcontext():
        other = without_warnings(inputs, options, made, said, on_progress, check, solve, known)
    made = other or (made if said else _in_more_blocks(made, options, folder))
    if options.check and made.checked is None:
        made = right((made, *made.others), options, on_progress)
    if not library(made, folder, home):
        made = _with_choice(made, options, on_progress, folder, home)
    return made, other is not None


def _with_choice(
    made: Generated, options: GenerateOptions, on_progress: ProgressCallback, folder: Path, home: Path | None
) -> Generated:
    """The kernel, its library in the folder, with a choice for each launch where that is predicted to be
    worth it."""
    choosing = with_choice(made, options, on_progress)
    try:
        if not library(choosing, folder, home):
            return choosing
    except TwillError:
        pass
    library(made, folder, home)
    return made


def _in_more_blocks(made: Generated, options: GenerateOptions, folder: Path) -> Generated:
    """The kernel that was built in a folder, in more thread blocks on an SM where that spills nothing, or
    little. What was checked of it are its instructions, which are the same unless it has fewer slots."""
    most = most_blocks(options.lowering, made.loops[0].machine, made.program.function)
    found = in_more_blocks(Compiled(made, ()), registers_used(folder), most, options.lowering)
    if found is None:
        return _loading_in_more_blocks(made, most, options.lowering) or made
    blocks, scheduled = found.made.program.launch.blocks, made.program.launch.blocks
    spilled = "little" if found.said else "nothing"
    note = f"{blocks} thread blocks on an SM, for which ptxas spills {spilled}: scheduled for {scheduled}"
    others = (made, *made.others) if found.made.checked is None else made.others
    return noted(replace(found.made, others=others), note)


def _loading_in_more_blocks(made: Generated, most: int, lowering: Lowering) -> Generated | None:
    """Its schedule with loads by the group that computes, where that is predicted to be clearly faster in
    more thread blocks on an SM than were scheduled for."""
    if made.loading is None:
        return None
    given, before = made.loading.program.launch.entry_registers, time_of_sm(made)
    least = LEAST_GIVEN if trips_if_short(made.program, made.loops) else LEAST_USED
    found = in_more_blocks(Compiled(made.loading, ()), given, most, lowering, before, least)
    if found is None:
        return None
    blocks, after = found.made.program.launch.blocks, time_of_sm(found.made)
    cycles = f"{after:.0f} cycles predicted, {before:.0f} otherwise"
    note = f"the group that computes loads too, {blocks} thread blocks on an SM: {cycles}"
    return noted(replace(found.made, checked=None, others=(made, *made.others)), note)


def _one_of_kind(known: Path, aside: Aside) -> AbstractContextManager[None]:
    """While no other process finds out what helps a kernel like this one."""
    return alone(known.with_suffix(".lock"), aside, lambda: load(known) is not None)


def _texts(made: Generated) -> Mapping[str, str]:
    """The output files, by name."""
    return {name: make() for name, make in files(made).items()}


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
    stay where anything that keeps them has no warnings. None where nothing is better. `check` and `solve` are
    those of `generation.generate.generate`; `check` may leave a kernel with warnings unchecked. `known`: the
    file of what helped a kernel like this one (`kept_remedies`)."""
    if not said:
        return None
    warning = said[0].split(":")[0]
    note = notes(made.program, "ptxas", on_progress)

    def report(what: str) -> None:
        note(f"{warning}; trying {what}")

    checked = partial(_checked, warning, options, on_progress, check, known)
    pace = pace_of_sm(made)
    others = partial(retries, inputs, options, made, pace, on_progress, solve, warning=warning)
    keeping = partial(retries, inputs, replace(options, keep_schedules=True), made, pace, on_progress, solve)
    if known and (remedy := load(known)):
        report("what helped a kernel with the same loops")
        before = _as_before(Compiled(made, tuple(said)), remedy, others(far_too_much(said)))
        if before and (other := checked(before)):
            return other
    report("fewer registers for masks and offsets, and other registers for groups that load")
    roomy = partial(_roomy, options=options, on_progress=on_progress, solve=solve)
    first = roomy(least_spilled(Compiled(made, tuple(said))))
    if not first.said and starved(first.made):
        report(f"{FEWEST_GROUPS}, so that threads which load have more registers")
        wide = _with_fewest_groups(keeping(far_too_much(said)))
        if wide and (other := checked(wide)):
            return other
    late = None if first.said else paced_by_copies(first.made)
    if late and (retry := loading_too(inputs, options, first.made, on_progress, solve, late)):
        report(f"{TOGETHER}, as copies that compute masks again take longer than an iteration")
        together = _tried(retry, late)
        if together and not together.said and (other := checked(together)):
            return other
    if keeps_little(first.made):
        report("fewer thread blocks on an SM, whose threads keep masks and offsets")
        half = in_half_as_many(options, made, on_progress, solve, inf)
        fewer = _in_fewer_blocks((*keeping(far_too_much(said)), half), pace_of_sm(first.made))
        if fewer and (other := checked(fewer)):
            return other
    if (first.worth_it or not first.said) and (other := checked(first)):
        return other
    seconds = min(options.time_limit, INSTEAD if options.schedules else LONGEST) * len(made.loops)
    if found := _best_retry(first, others(far_too_much(said)), seconds, report, checked, roomy):
        return found
    return None if first.made is made else checked(first)


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
    kept = () if made.replaced else options.schedules
    wanted = replace(options, lowering=lowering, check=False, execute=False, schedules=kept)
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
    found = _tried(retry, inf) if retry else None
    return found if found and not found.said and not found.made.program.lean else None


def _in_fewer_blocks(retries: Iterable[Retry], pace: float) -> Compiled | None:
    """The kernel in fewer thread blocks on an SM, where it is predicted to be as fast, and is neither lean
    nor spills: the first whose threads keep masks and offsets, or else the first."""
    first: Compiled | None = None
    for retry in retries:
        found = _tried(retry, CLOSELY * pace) if retry.what.endswith(ON_AN_SM) else None
        if found and not found.said and not found.made.program.lean:
            if not keeps_little(found.made):
                return found
            first = first or found
    return first


def _as_before(built: Compiled, remedy: Remedy, retries: Iterable[Retry]) -> Compiled | None:
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
    program, moving = (
        built.made.program,
        [i for i, one in enumerate(built.made.program.groups) if one.only_moves],
    )
    if len(program.groups) != len(remedy.registers):
        return None
    changes = (*built.changes, *([LEAN] if remedy.lean and not program.lean else []))
    granted = tuple(map(_granting, program.groups, remedy.registers))
    loading = max((remedy.registers[i] for i in moving), default=0)
    regranted = replace(program, groups=granted)
    other = lean(regranted) if remedy.lean and not program.lean else regranted
    built = replace(
        built, changes=changes, loading=registers_in_words(loading) if granted != program.groups else ""
    )
    found = printed(built, other) or (
        compiled(built.made, built.changes, built.what) if remedy.what else None
    )
    return found if found and not found.said else None


def _granting(group: WarpProgram, registers: int) -> WarpProgram:
    return group if group.registers == registers else replace(group, registers=registers)


def _best_retry(
    first: Compiled,
    retries: Iterable[Retry],
    seconds: float,
    report: Callable[[str], None],
    checked: Callable[[Compiled], Generated | None],
    roomy: Callable[[Compiled], Compiled] = lambda built: built,
) -> Generated | None:
    """The first kernel without warnings that takes about as many simulated cycles as `first`, which has them;
    otherwise the fastest that is found in FOUND, or else RETRIES, times so many seconds. What needs no
    search is tried in any case. If all have warnings, that which spills least of those as fast as `first`, if
    that is at most half (LESS), or of all if `first` is not built. Given schedules are not replaced where a
    kernel with them has no warnings; behind one without them the search is that for one loop. Only what may
    be taken is checked."""
    clock, before, found = own_clock(), pace_of_sm(first.made), list[tuple[float, Compiled]]()
    began, spilling, sources = clock.mark(), list[Compiled](), set[str]()
    for retry in retries:
        if retry.replaces and any(not (built.said or built.made.replaced) for _, built in found):
            break
        limit = seconds * (FOUND if found else RETRIES)
        limit = min(limit, FOUND * LONGEST) if found and retry.replaces else limit
        if retry.searches and clock.left(limit, began) <= 0:
            continue
        report(retry.what)
        clock.count(BUILT)
        built = _tried(retry, min((pace for pace, _ in found), default=inf), sources)
        if built is None:
            continue
        built = roomy(built)
        pace = retry.counted * pace_of_sm(built.made)
        if spills_little(built) and _far_less(built, first):
            found.append((COST_OF_LITTLE * pace, built))
        elif built.said:
            spilling += [built] if (pace <= before or unbuilt(first.said)) and _far_less(built, first) else []
        elif pace > retry.close * before:
            found.append((pace, built))
        elif right_one := checked(built):
            return right_one
    least = sorted(spilling, key=lambda one: severity(one.said))
    in_order = [*(one for _, one in sorted(found, key=lambda one: one[0])), *least]
    return next((right_one for one in in_order if (right_one := checked(one))), None)


def _far_less(built: Compiled, first: Compiled) -> bool:
    """Whether a kernel with warnings has so few that it comes before another one: as many as that one has are
    no reason to take it. Any kernel comes before one that ptxas does not build."""
    if unbuilt(first.said):
        return not unbuilt(built.said)
    (others, spilled), (others_of_first, spilled_by_first) = severity(built.said), severity(first.said)
    fewer = others < others_of_first or spilled < spilled_by_first
    return fewer and others <= others_of_first and LESS * spilled <= spilled_by_first


def _tried(retry: Retry, fastest: float, sources: set[str] | None = None) -> Compiled | None:
    """The kernel in the way that ptxas spills least; None where that is not possible, it is not faster, or
    without given schedules its source is one of those tried before, to which it is added."""
    before = set[str]() if sources is None else sources
    try:
        other = retry.make(min(retry.slowest, fastest))
        pace = pace_of_sm(other)
        again = retry.replaces and other.cuda in before
        if pace > retry.slowest or pace >= fastest or again:
            return None
        before.add(other.cuda)
        return least_spilled(compiled(other, (retry.why,), retry.what))
    except TwillError:
        return None


def _checked(
    warning: str,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    check: Check | None,
    known: Path | None,
    found: Compiled,
) -> Generated | None:
    """The kernel with a note, checked; None where it is wrong. How one without warnings was made is kept in
    `known`; one with warnings `check` may leave unchecked."""
    check, known = (None, None) if found.said else (check, known)
    changes = ", ".join((*found.changes, *([found.loading] if found.loading else [])))
    why = "fewer are predicted to be slower" if found.worth_it else f"otherwise {warning}"
    try:
        made = right((noted(found.made, f"{changes}: {why}"),), options, on_progress, check)
    except TwillError:
        return None
    if known is not None:
        program = found.made.program
        save(known, Remedy(found.what, program.lean, tuple(one.registers for one in program.groups)))
    return made
