"""Kernels that nvcc has built: another one where ptxas spills registers or serializes MMAs.

`built` takes `Inputs` and returns the folder of the kernel in the user's cache, `built_form` that of one of
its other forms; `with_library` leaves a kernel in a folder, or the one to build instead (`without_warnings`).
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.generation.attempt import time_of_sm, trips_if_short
from twill.generation.builds import forms
from twill.generation.builds.checked_build import check_beside_build, library, warnings
from twill.generation.builds.for_grids import with_choice
from twill.generation.builds.more_blocks import LEAST_GIVEN, LEAST_USED, in_more_blocks
from twill.generation.builds.spills import (
    Compiled,
    leaner,
)
from twill.generation.builds.without_warnings import without_warnings
from twill.generation.generate import files, generate, right
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback, noted
from twill.generation.known.given import first_made
from twill.generation.known.kept_remedies import load, place
from twill.generation.known.kept_searches import kept
from twill.generation.searches import Solve, solved
from twill.inputs import Inputs, origin
from twill.launch.build import registers_used
from twill.launch.one_at_a_time import Aside, alone
from twill.warp.plan import Options as Lowering
from twill.warp.plan import most_blocks


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
    make = partial(_with_library, inputs, on_progress, folder, home, solve, remember)
    return first_made(options, inputs, make)


def _with_library(
    inputs: Inputs,
    on_progress: ProgressCallback,
    folder: Path,
    home: Path | None,
    solve: Solve,
    remember: Aside | None,
    options: GenerateOptions,
) -> tuple[Generated, bool]:
    check = partial(check_beside_build, folder=folder, on_progress=on_progress, home=home)
    made = generate(inputs, options, on_progress, check=check, solve=solve)
    said = warnings(made, folder, home)
    known = place(made, options) if said and remember else None
    with _one_of_kind(known, remember) if known and remember else nullcontext():
        other = without_warnings(inputs, options, made, said, on_progress, check, solve, known)
    if other is not None:  # as one scheduled so: ptxas may do with less, and another form has no warnings
        said = library(other, folder, home)
    made = other or made
    made = made if said else _in_more_blocks(made, options, folder)
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
    form = ", ".join((*found.changes, f"{blocks} thread blocks on an SM"))
    note = f"{form}, for which ptxas spills {spilled}: scheduled for {scheduled}"
    others = (made, *made.others) if found.made.checked is None else made.others
    return noted(replace(found.made, others=others), note)


def _loading_in_more_blocks(made: Generated, most: int, lowering: Lowering) -> Generated | None:
    """Its schedule with loads by the group that computes, where that is predicted to be clearly faster in
    more thread blocks on an SM than were scheduled for."""
    if made.loading is None:
        return None
    given, before = made.loading.program.launch.entry_registers, time_of_sm(made)
    least = LEAST_GIVEN if trips_if_short(made.program, made.loops) else LEAST_USED
    found = in_more_blocks(Compiled(made.loading, ()), given, most, lowering, before, least, made)
    if found is None:
        return None
    blocks, after = found.made.program.launch.blocks, time_of_sm(found.made)
    cycles = f"{after:.0f} cycles predicted, {before:.0f} otherwise"
    form = ("the group that computes loads too", *found.changes, f"{blocks} thread blocks on an SM")
    note = f"{', '.join(form)}: {cycles}"
    return noted(replace(found.made, checked=None, others=(made, *made.others)), note)


def _one_of_kind(known: Path, aside: Aside) -> AbstractContextManager[None]:
    """While no other process finds out what helps a kernel like this one."""
    return alone(known.with_suffix(".lock"), aside, lambda: load(known) is not None)


def _texts(made: Generated) -> Mapping[str, str]:
    """The output files, by name."""
    return {name: make() for name, make in files(made).items()}
