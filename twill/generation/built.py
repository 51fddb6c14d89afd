"""Kernels that nvcc has built: another one where ptxas spills registers or serializes MMAs.

`built` takes `Inputs` and returns the folder of the kernel in the user's cache; `without_warnings` returns
the kernel to build instead of one that ptxas warns of.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Protocol

from twill.diagnostics import TwillError
from twill.emit.files import write
from twill.generation.candidates import MORE_WARPS, Solve, solved
from twill.generation.checked_build import check_beside_build, library, warnings, write_buildable
from twill.generation.generate import Check, files, generate, notes, right
from twill.generation.generated import Generated, GenerateOptions, ProgressCallback, noted, pace_of_sm, source
from twill.generation.kept_remedies import Remedy, load, place, save
from twill.generation.kept_searches import kept
from twill.generation.subtiles import COUNT
from twill.inputs import Inputs, origin
from twill.ir.program import Program, WarpProgram
from twill.launch.build import severity
from twill.warp.thread_block import granted, regranted

FEW_BLOCKS = 2
"""Thread blocks on an SM of which one is worth more than the registers of a thread that holds tiles."""
FEWER_BLOCKS = 2
"""How many numbers of thread blocks on an SM are tried."""
LEAST_GROUPS = 2
"""Warp groups that are tried at least: one that loads, one that computes."""
FEWER = (0, 16, 32)
"""Registers below the first number that is tried, by attempt."""
SLOWER = 1.5
"""How many times as long the loops of a kernel without spills may take, as simulated: beyond that, spilling
is taken to be better (estimate)."""
CLOSE = 1.1
"""How many times as long they may take for no other kernel to be tried."""
MOST_SPILLED = 1024
"""Bytes spilled beyond which no other grant of registers is tried for the same schedule. Grants move some 48
registers to a group, 192 bytes; of 5264 bytes 5184 remained, of 4464 bytes 1888 (Triton's attention tutorial,
backward), each after seven runs of nvcc."""
RETRIES = 5
"""Time limits for each loop after which no other kernel is searched for."""
LEAN = "masks and offsets in fewer registers"
STEPS = 3
"""How many numbers of registers for groups that load are tried, more or fewer."""


def built(
    inputs: Inputs,
    options: GenerateOptions | None = None,
    on_progress: ProgressCallback = lambda name, event: None,
) -> Path:
    """The folder of the generated and built kernel, in the user's cache; built only if it is not there
    yet."""
    from twill.launch.build import cached

    options = options or GenerateOptions()
    options = replace(options, execute=options.check)
    module, machine = origin(inputs)
    text = module.text
    resolved = (
        inputs
        if module.file == inputs.spec
        else replace(inputs, spec=text, settings=(), constants=tuple(module.constants.items()))
    )
    given = [Path(path).read_text() for path in options.schedules]
    key = f"{text}{replace(resolved, spec='')}{options}{machine}{given}"
    return cached(key, partial(_make, resolved, options, on_progress))


def _make(inputs: Inputs, options: GenerateOptions, on_progress: ProgressCallback, folder: Path) -> None:
    """Fill a folder with a built kernel. What was searched for another one is not searched again."""
    solve = kept(solved, options.time_limit)
    made, _ = with_library(inputs, options, on_progress, folder, solve=solve, remember=True)
    for name, text in _texts(made).items():
        write(folder / name, text)


def with_library(
    inputs: Inputs,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    folder: Path,
    home: Path | None = None,
    solve: Solve = solved,
    remember: bool = False,
) -> tuple[Generated, bool]:
    """A kernel whose library, source and manifest it leaves in a folder, and whether it is another one than
    the fastest, which ptxas warns of (`without_warnings`). It is checked while nvcc builds it. `home`: see
    `launch.build.build`; `solve`: see `generation.candidates.candidates`. What keeps ptxas from spilling
    is kept on disk with `remember`. Raises TwillError where there is no kernel that is right, or nvcc fails;
    the source is in the folder then."""
    check = partial(check_beside_build, folder=folder, on_progress=on_progress, home=home)
    made = generate(inputs, options, on_progress, check=check, solve=solve)
    said = warnings(made, folder, home)
    known = place(made, options) if said and remember else None
    other = without_warnings(inputs, options, made, said, on_progress, check, solve, known) if said else None
    made = other or made
    if options.check and made.checked is None:
        made = right((made, *made.others), options, on_progress)
    library(made, folder, home)
    return made, other is not None


def _texts(made: Generated) -> Mapping[str, str]:
    """The output files, by name."""
    return {name: make() for name, make in files(made).items()}


@dataclass(frozen=True, slots=True)
class _Retry:
    """Another kernel to try."""

    what: str
    """What is tried, in words."""
    why: str
    """The note of the kernel, to which the warning is added that it avoids."""
    make: Callable[[], Generated]
    slowest: float = inf
    """Simulated cycles of an SM for an iteration of each loop, above which the warning is better."""
    searches: bool = True
    """Its loops may have to be scheduled first."""


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
    the same schedule in the way that spills least. None where the user has decided, or nothing is better.
    `check` and `solve` are those of `generation.generate.generate`; `check` may leave a kernel with warnings
    unchecked. `known`: the file of what helped a kernel like this one (`kept_remedies`)."""
    if not said or options.schedules:
        return None
    warning = said[0].split(":")[0]
    note = notes(made.program, "ptxas", on_progress)

    def report(what: str) -> None:
        note(f"{warning}; trying {what}")

    checked = partial(_checked, warning, options, on_progress, check, known)
    retries = partial(_retries, inputs, options, made, pace_of_sm(made), on_progress, solve)
    if known and (remedy := load(known)):
        report("what helped a kernel with the same loops")
        before = _as_before(_Built(made, tuple(said)), remedy, retries(_far_too_much(said)))
        if before and (other := checked(before)):
            return other
    report("fewer registers for masks and offsets, and other registers for groups that load")
    first = _least_spilled(_Built(made, tuple(said)))
    if not first.said and (other := checked(first)):
        return other
    seconds = RETRIES * options.time_limit * len(made.loops)
    if found := _best_retry(made, retries(_far_too_much(said)), seconds, report, checked):
        return found
    return None if first.made is made else _checked(warning, options, on_progress, None, None, first)


def _as_before(built: "_Built", remedy: Remedy, retries: Iterable["_Retry"]) -> "_Built | None":
    """The kernel made as another one that did not spill; None where it is not built without warnings."""
    if remedy.what:
        retry = next((one for one in retries if one.what == remedy.what), None)
        try:
            other = retry and retry.make()
        except TwillError:
            return None
        if retry is None or other is None:
            return None
        built = _Built(other, ("not built",), (retry.why,), what=retry.what)
    program, moving = (
        built.made.program,
        [i for i, one in enumerate(built.made.program.groups) if one.only_moves],
    )
    if len(program.groups) != len(remedy.registers):
        return None
    changes = (*built.changes, *([LEAN] if remedy.lean and not program.lean else []))
    granted = tuple(map(_granting, program.groups, remedy.registers))
    loading = max((remedy.registers[i] for i in moving), default=0)
    other = replace(program, lean=remedy.lean, groups=granted)
    built = replace(built, changes=changes, loading=_loading(loading) if granted != program.groups else "")
    found = _printed(built, other) or (replace(built, said=tuple(_said(built.made))) if remedy.what else None)
    return found if found and not found.said else None


def _granting(group: WarpProgram, registers: int) -> WarpProgram:
    return group if group.registers == registers else replace(group, registers=registers)


def _best_retry(
    made: Generated,
    retries: Iterable["_Retry"],
    seconds: float,
    report: Callable[[str], None],
    checked: Callable[["_Built"], Generated | None],
) -> Generated | None:
    """The first kernel without warnings that takes about as many simulated cycles as `made`, which has them;
    otherwise the fastest that is found in so many seconds. What needs no search is tried later too. Only
    what may be taken is checked."""
    began, before, found = monotonic(), pace_of_sm(made), list[tuple[float, _Built]]()
    for retry in retries:
        if monotonic() - began > seconds and (found or retry.searches):
            continue
        report(retry.what)
        built = _tried(retry, min((pace for pace, _ in found), default=inf))
        if built is None:
            continue
        pace = pace_of_sm(built.made)
        if pace > CLOSE * before:
            found.append((pace, built))
        elif right_one := checked(built):
            return right_one
    in_order = sorted(found, key=lambda one: one[0])
    return next((right_one for _, one in in_order if (right_one := checked(one))), None)


def _tried(retry: "_Retry", fastest: float) -> "_Built | None":
    """The kernel built without warnings; None where that is not possible or it is not faster."""
    try:
        other = retry.make()
        pace = pace_of_sm(other)
        if pace > retry.slowest or pace >= fastest:
            return None
        built = _least_spilled(_Built(other, tuple(_said(other)), (retry.why,), what=retry.what))
    except TwillError:
        return None
    return None if built.said else built


@dataclass(frozen=True, slots=True)
class _Built:
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


def _checked(
    warning: str,
    options: GenerateOptions,
    on_progress: ProgressCallback,
    check: Check | None,
    known: Path | None,
    found: _Built,
) -> Generated | None:
    """The kernel with a note, checked; None where it is wrong. How it was made is kept in `known`."""
    changes = ", ".join((*found.changes, *([found.loading] if found.loading else [])))
    try:
        made = right((noted(found.made, f"{changes}: otherwise {warning}"),), options, on_progress, check)
    except TwillError:
        return None
    if known is not None:
        program = found.made.program
        save(known, Remedy(found.what, program.lean, tuple(one.registers for one in program.groups)))
    return made


def _least_spilled(built: _Built) -> _Built:
    """The kernel with the same schedule of which ptxas spills least: in its lean form, and with other
    registers for the groups that load. As it is where far too much is spilled for that to help."""
    return _regranted(_lean(built)) if built.said and not _far_too_much(built.said) else built


def _lean(built: _Built) -> _Built:
    """The kernel with fewer registers for more instructions, where less is spilled so."""
    changes = (*built.changes, LEAN)
    other = _printed(replace(built, changes=changes), replace(built.made.program, lean=True))
    return built if other is None or severity(other.said) >= severity(built.said) else other


def _regranted(built: _Built) -> _Built:
    """The kernel with so many registers for its groups that load, and so few for those that compute, that
    ptxas spills least: more for those that load first, then fewer; in steps that get smaller. The first
    number of each kind is tried at the same time."""
    if not built.said:
        return built
    step = built.made.loops[0].problem.limits.register_step
    ways = (2 * step, -2 * step, step, -step)
    with ThreadPoolExecutor(min(len(ways), os.cpu_count() or 1)) as threads:
        first = dict(zip(ways, threads.map(partial(_with_more, built), ways), strict=True))
    best = built
    for way in ways[:2]:
        other = first[way]
        if other is not None and _spills_less(other, built):
            best = _further(other, way, STEPS - 1)
            break
    for way in ways[2:]:
        other = first[way] if best is built else _with_more(best, way) if best.said else None
        best = other if other is not None and _spills_less(other, best) else best
    return best


def _spills_less(other: _Built, built: _Built) -> bool:
    return severity(other.said) < severity(built.said)


def _further(best: _Built, more: int, steps: int) -> _Built:
    """The kernel with `more` registers for each thread that loads, as often as that spills less."""
    for _ in range(steps):
        other = _with_more(best, more) if best.said else None
        if other is None or not _spills_less(other, best):
            break
        best = other
    return best


def _with_more(built: _Built, more: int) -> _Built | None:
    """The kernel whose threads that load have `more` registers; None where that can not be built."""
    made = built.made
    scheduled = {group.id: group.registers for group in granted(made.loops)}
    program = regranted(made.program, made.loops[0].problem.limits, scheduled, more)
    if program is None:
        return None
    loading = max(group.registers for group in program.groups if group.only_moves)
    return _printed(replace(built, loading=_loading(loading)), program)


def _loading(registers: int) -> str:
    return f"{registers} registers for each thread that loads"


def _printed(built: _Built, program: Program) -> _Built | None:
    """The kernel of another program, built; None where it is the same, or can not be built."""
    cuda = source(program, built.made.loops)
    if cuda == built.made.cuda:
        return None
    other = replace(built.made, program=program, cuda=cuda)
    try:
        return replace(built, made=other, said=tuple(_said(other)))
    except TwillError:
        return None


class _Making(Protocol):
    """Makes the kernel of changed inputs, with so many thread blocks on an SM at most."""

    def __call__(self, changed: Inputs, most_blocks: int = ...) -> Callable[[], Generated]: ...


def _retries(
    inputs: Inputs,
    options: GenerateOptions,
    made: Generated,
    before: float,
    on_progress: ProgressCallback,
    solve: Solve,
    far_too_much: bool = False,
) -> Iterator[_Retry]:
    """What is tried instead of a kernel of `before` cycles, in this order. Where it spills `far_too_much`,
    its other forms come first, which need no search. Problems that were solved already are not solved
    again."""
    unchecked = replace(options, check=False, execute=False)

    def making(changed: Inputs, most_blocks: int = options.lowering.most_blocks) -> Callable[[], Generated]:
        lowering = replace(options.lowering, most_blocks=most_blocks)

        def make() -> Generated:
            wanted = replace(unchecked, lowering=lowering)
            return generate(changed, wanted, on_progress, made.searched, None, solve)

        return make

    forms = {form: _other_form(made, form) for form in made.others}
    yield from forms.values() if far_too_much else ()
    if inputs.subtile is None and made.subtile == 1:
        divided = making(replace(made.inputs, subtile=COUNT))
        why = f"rows are divided into {COUNT} sub-tiles"
        yield _Retry(f"{COUNT} sub-tiles", why, divided, before)
    if inputs.registers is not None:
        return
    yield from _coarser(inputs, made, making, SLOWER * before)
    yield from _by_registers(made, making, {} if far_too_much else forms, SLOWER * before)
    if inputs.subtile is None and min(form.subtile for form in (made, *made.others)) > 1:
        whole = making(replace(made.inputs, subtile=1))
        yield _Retry("whole tiles", "whole tiles", whole, SLOWER * before)


def _coarser(inputs: Inputs, made: Generated, making: _Making, slowest: float) -> Iterator[_Retry]:
    """With fewer thread blocks on an SM, more warps, both (as many warps of an SM hold tiles then), or fewer
    warp groups: each thread has more registers, or less to hold."""
    blocks = [
        _Retry(what, f"{what} at most", making(made.inputs, count), slowest)
        for count in _fewer_blocks(made)
        for what in [f"{count} thread blocks on an SM"]
    ]
    few = made.program.resident_blocks <= FEW_BLOCKS
    yield from () if few else blocks
    if inputs.warps is None and made.subtile == 1 and made.program.module.num_warps < MORE_WARPS:
        what, wider = f"{MORE_WARPS} warps that hold tiles", replace(made.inputs, warps=MORE_WARPS)
        yield _Retry(what, what, making(wider), slowest)
        if count := made.program.resident_blocks // 2:
            halved = f"{what}, {count} thread block{'s' if count > 1 else ''} on an SM"
            yield _Retry(halved, f"{halved} at most", making(wider, count), slowest)
    yield from blocks if few else ()
    for groups in _fewer_groups(inputs, made):
        what = f"{groups} warp groups"
        fewer = making(replace(made.inputs, groups=groups))
        yield _Retry(what, f"scheduled for {what}", fewer, slowest)


def _by_registers(
    made: Generated, making: _Making, forms: Mapping[Generated, _Retry], slowest: float
) -> Iterator[_Retry]:
    """Scheduled for fewer registers; of the other forms, those in `forms` as they are come first."""
    first = pace_of_sm(made.others[0]) if made.others else slowest
    for form in (made, *made.others):
        limit = first if form is made else SLOWER * pace_of_sm(form)
        other_form = "" if form is made else f"not {made.form}, "
        if form in forms:
            yield forms[form]
        for registers in _fewer_registers(form):
            what = f"{registers} registers per thread"
            other = making(replace(form.inputs, registers=registers))
            yield _Retry(f"{other_form}{what}", f"{other_form}scheduled for {what}", other, limit)


def _fewer_blocks(made: Generated) -> Iterator[int]:
    """Numbers of thread blocks on an SM: each has more registers then."""
    most = made.program.resident_blocks
    yield from range(most - 1, max(0, most - 1 - FEWER_BLOCKS), -1)


def _fewer_groups(inputs: Inputs, made: Generated) -> Iterator[int]:
    """Numbers of warp groups where more than two compute: ptxas compiles all of them for the registers that
    the thread block is launched with."""
    most = max(len(one.solution.groups) for one in made.loops)
    if inputs.groups is None:
        yield from range(most - 1, LEAST_GROUPS - 1, -1)


def _fewer_registers(made: Generated) -> Iterator[int]:
    """Registers per thread to schedule for."""
    scheduled = max(group.registers for one in made.loops for group in one.solution.groups)
    yield from ((scheduled - 1) // 8 * 8 - fewer for fewer in FEWER)


def _other_form(made: Generated, form: Generated) -> _Retry:
    why = f"not {made.form}"
    return _Retry(f"it {why}", why, partial(_itself, form), searches=False)


def _itself(made: Generated) -> Generated:
    return made


def _far_too_much(said: Sequence[str]) -> bool:
    """Whether more is spilled than another grant of registers helps against."""
    return severity(said)[1] > MOST_SPILLED


def _said(made: Generated) -> tuple[str, ...]:
    """What ptxas warns of."""
    from twill.launch.build import tried

    with TemporaryDirectory() as folder:
        write_buildable(made, Path(folder))
        return tried(Path(folder))
