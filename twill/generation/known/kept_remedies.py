"""What kept ptxas from spilling a kernel, on disk for kernels that differ in what no search sees.

Specializations of a kernel have the same loops, and ptxas spills all of them alike. `place` names the file
for a kernel, `load` and `save` take one. A file that cannot be read counts as missing; what it says is tried
first, and taken if it helps.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from twill.emit.files import write
from twill.generation.generated import Generated, GenerateOptions
from twill.generation.known.alike import shape
from twill.launch.build import own_cache
from twill.launch.folders import cache_folder, sources


@dataclass(frozen=True, slots=True)
class Remedy:
    """How a kernel that did not spill was made."""

    what: str
    """What was changed before it was scheduled, in words; empty for nothing."""
    lean: bool
    """As `Program.lean`."""
    registers: tuple[int, ...]
    """Per thread of each group."""
    sparing: bool = False
    """As `Program.sparing`."""
    in_shared: tuple[tuple[int, str], ...] = ()
    """The tiles that lie in shared memory, by group and variable."""
    entry: int = 0
    """As `Launch.entry_registers`; 0 as it is."""


def place(made: Generated, options: GenerateOptions) -> Path:
    """The file for all kernels whose loops, form and options are those of one that spills."""
    loops = [shape(one.problem) for one in made.loops]
    form = replace(made.inputs, spec="", settings=(), constants=())
    blocks, groups = made.program.resident_blocks, [one.registers for one in made.program.groups]
    named = "\n".join(map(str, (sources(), loops, form, blocks, groups, options)))
    return cache_folder() / "searches" / f"{hashlib.sha256(named.encode()).hexdigest()[:32]}.remedy.json"


def load(path: Path) -> Remedy | None:
    try:
        own_cache()
        found = json.loads(path.read_text())
        granted = tuple(map(int, found["registers"]))
        tiles = tuple((int(group), str(name)) for group, name in found["in_shared"])
        form = bool(found["lean"]), granted, bool(found["sparing"]), tiles, int(found["entry"])
        return Remedy(str(found["what"]), *form)
    except Exception:  # a damaged file raises whatever its parts lead to
        return None


def save(path: Path, found: Remedy) -> None:
    with suppress(OSError):
        write(path, json.dumps(asdict(found)))
