"""Forms of a kernel that keep tiles in shared memory in place of registers, for where ptxas spills.

`shared_forms` takes a kernel and how many bytes are spilled of it; gives such programs, with one more tile of
each group in each, and the time that they are predicted to take.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from twill.diagnostics import TwillError
from twill.generation.generated import Generated
from twill.ir.program import Program
from twill.simulate.predict import intervals
from twill.targets import target
from twill.targets.cuda.shared.own_words import WORD, words
from twill.warp.lean import lean
from twill.warp.lower import lower
from twill.warp.plan import Options as Lowering
from twill.warp.residency import shared_bytes
from twill.warp.slot_tensors import ALIGNMENT
from twill.warp.tiles_in_shared import KeptTile, aligned, in_shared_memory, kept_tiles

LEAST = 8
"""Words of a thread for which it is worth it (estimate)."""
MOST = 3
"""How many tiles of a group are tried at most."""
SLOWER = 0.1
"""The part of an iteration that accesses to the tiles may take at most ..."""
AS_SPILLED = 2
"""... or how many times as many bytes as are spilled, which are stored and loaded (estimates)."""
SLOTS = ("channel ", "buffer ")
"""What notes begin with that say where tiles lie."""


def shared_forms(
    made: Generated, spilled: int, lowering: Lowering | None = None
) -> Iterator[tuple[Program, Mapping[str, float]]]:
    """Programs with the cycles of an iteration of each loop, by its path. None that accesses the tiles for
    longer than is worth it, or has no room for them; with `lowering`, where slots leave no room, with fewer
    slots."""
    machine, chosen = made.loops[0].machine, dict[KeptTile, int]()
    rate = machine.shared.bytes_per_cycle if machine.shared else 1.0
    for tiles in _ranked(made.program):
        wanted = chosen | {one: _bytes(made.program, one) for one in tiles}
        program = _with_room(made, sum(map(aligned, wanted.values())), lowering)
        if program is None:
            continue
        alone = made.intervals if program is made.program else None
        alone = alone or intervals(program, made.loops)
        threads = 32 * sum(group.warps for group in program.groups if not group.only_moves)
        longer, as_spilled = _accessed(wanted), 2 * AS_SPILLED * spilled * threads
        parts = {path: SLOWER * rate * alone[path] / program.resident_blocks for path in longer}
        if any(moved > max(as_spilled, parts[path]) for path, moved in longer.items()):
            continue
        chosen = wanted
        paces = {path: cycles + longer.get(path, 0) / rate for path, cycles in alone.items()}
        yield with_in_shared(program, [(one.group, one.variable.id) for one in chosen]), paces


def with_room_for(made: Generated, names: Sequence[tuple[int, str]], lowering: Lowering) -> Program | None:
    """The program with these tiles in shared memory, by group and variable; None where it has no room."""
    tiles = [one for one in kept_tiles(made.program) if (one.group, one.variable.id) in names]
    size = sum(aligned(_bytes(made.program, one)) for one in tiles)
    program = _with_room(made, size, lowering) if tiles else made.program
    return with_in_shared(program, names) if program else None


def _with_room(made: Generated, size: int, lowering: Lowering | None) -> Program | None:
    """The program if it leaves so many bytes of shared memory free, or with fewer slots; None where there is
    none with the same groups and thread blocks."""
    program, machine = made.program, made.loops[0].machine
    module = made.cases[0].module if made.cases else None
    room = min(shared_bytes(machine, program.resident_blocks, machine.limits.shared), program.shared.limit)
    if program.shared.bytes + size + ALIGNMENT <= room:
        return program
    if lowering is None or module is None or lowering.depths:
        return None
    several = program.tiles_in_flight if program.tiles_in_flight > 1 else lowering.tiles
    wanted = replace(
        lowering,
        free=size,
        tiles=several,
        multistage=any(group.multistage for group in program.groups),
        most_blocks=program.resident_blocks,
        by_tma=program.by_tma is not None,
    )
    try:
        found = lower(module, made.loops, target(machine.arch), wanted)
    except TwillError:
        return None
    return _as_granted(program, found) if _alike(program, found) else None


def _alike(one: Program, other: Program) -> bool:
    """Whether two programs have the same groups with the same variables, and as many thread blocks."""
    (first, blocks), (second, others) = (
        (
            [(group.id, group.warps, group.independent, group.variables) for group in each.groups],
            (each.launch.threads, each.launch.blocks, each.launch.even, each.resident_blocks),
        )
        for each in (one, other)
    )
    return first == second and blocks == others


def _as_granted(program: Program, other: Program) -> Program:
    """The `other` program with the registers and the form of a program."""
    registers = {group.id: group.registers for group in program.groups}
    groups = tuple(replace(group, registers=registers[group.id]) for group in other.groups)
    kept = (note for note in program.notes if not note.startswith(SLOTS))
    notes = (*(note for note in other.notes if note.startswith(SLOTS)), *kept)
    form = {"exchanges": program.exchanges, "sparing": program.sparing, "warnings": program.warnings}
    found = replace(other, groups=groups, launch=program.launch, notes=notes, **form)
    return lean(found) if program.lean else found


def tiles_in_shared(program: Program) -> tuple[tuple[int, str], ...]:
    """The tiles of a program that lie in shared memory, by group and variable."""
    return tuple((group.id, one.id) for group in program.groups for one in group.variables if one.buffer)


def with_in_shared(program: Program, names: Sequence[tuple[int, str]]) -> Program:
    """The program with these tiles in shared memory, of those that may lie there."""
    found = [one for one in kept_tiles(program) if (one.group, one.variable.id) in names]
    return in_shared_memory(program, {one: _bytes(program, one) for one in found}) if found else program


def _ranked(program: Program) -> Iterator[Sequence[KeptTile]]:
    """For each group the best tile, then the second one and so on."""
    tiles = [one for one in kept_tiles(program) if words(one.stored) >= LEAST]
    tiles.sort(key=lambda one: (one.group, one.each_iteration, -words(one.stored)))
    groups = [list(own) for _, own in groupby(tiles, lambda one: one.group)]
    for number in range(MOST):
        if found := [own[number] for own in groups if number < len(own)]:
            yield found


def _bytes(program: Program, one: KeptTile) -> int:
    warps = next(group.warps for group in program.groups if group.id == one.group)
    return words(one.stored) * WORD * 32 * warps


def _accessed(sizes: Mapping[KeptTile, int]) -> Mapping[str, int]:
    """Bytes that an iteration of each loop moves, by its path."""
    found = Counter[str]()
    for one, size in sizes.items():
        for path, count in one.accesses:
            found[path] += count * size
    return found
