"""Dumps of a whole compilation (`MLIR_ENABLE_DUMP=1`), which hold the module once before every pass.

Takes the text of a file, and where several kernels are in it the name of one, or its line; gives the one
module that is to be scheduled, everything else blanked out, so that lines and columns stay those of the file.
A file that is no dump comes back as it is. Raises TwillError where no module, or more than one, stands before
a pass that schedules.
"""

import re
from collections import Counter
from dataclasses import dataclass

from twill.diagnostics import Location, TwillError

BANNER = re.compile(r"^// -----// .*IR Dump (?:Before|After:?) ([\w() :]+?)(?: \(|: |:|$).*$", re.MULTILINE)
"""Above each module; the group is the name of the pass."""

KERNEL = re.compile(r"^\s*tt\.func (?:public )?@(\w+)", re.MULTILINE)

CUTS = ("NVGPUWarpSpecialization", "TritonGPUAssignLatencies")
"""The passes before which nothing has been scheduled: of these, the first that a compilation runs counts."""


BEGIN = "ConvertTritonToTritonGPU"
"""The pass with which each compilation's TTGIR begins."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A module before the first pass that schedules it: from the line under its banner to the next banner."""

    begin: int
    end: int
    line: int
    """Of its banner."""
    kernels: tuple[str, ...]


def at_the_cut(text: str, file: str, which: str = "") -> str:
    """`text` with only the module before the first scheduling pass left: that of kernel `which`, or that
    under line `which`."""
    found = candidates(text)
    if found is None:
        if which:
            raise TwillError(
                f"{file} is no dump of a compilation, so there is no {which} to choose",
                help="--loop chooses among loops",
            )
        return text
    chosen = [one for one in found if not which or which in (str(one.line), *one.kernels)]
    if len(chosen) != 1:
        raise _unclear(file, which, found, chosen)
    (one,) = chosen
    return re.sub(r"[^\n]", "", text[: one.begin]) + text[one.begin : one.end]


def candidates(text: str) -> list[Candidate] | None:
    """The modules among which to choose; None where the text is no dump."""
    banners = list(BANNER.finditer(text))
    ends = [*(banner.start() for banner in banners[1:]), len(text)]
    cuts = [(banners[k], ends[k]) for k in first_cuts([banner.group(1) for banner in banners])]
    found = [
        Candidate(
            banner.end(),
            end,
            text.count("\n", 0, banner.start()) + 1,
            tuple(KERNEL.findall(text, banner.end(), end)),
        )
        for banner, end in cuts
    ]
    return found if banners else None


def _unclear(file: str, which: str, found: list[Candidate], chosen: list[Candidate]) -> TwillError:
    """None of the modules, or more than one, is meant."""
    message = (
        f"this dump holds {len(chosen)} modules{f' of {which}' if which else ''} before a pass that schedules"
    )
    among = chosen or found
    if not among:
        return TwillError(
            message,
            Location(file, 1),
            help="dump all of the compilation with MLIR_ENABLE_DUMP=1, or give the TTGIR itself",
        )
    there = ", ".join(f"{' and '.join(one.kernels) or 'no kernel'} (line {one.line})" for one in among)
    times = Counter(name for one in among for name in one.kernels)
    example = next((name for name in among[-1].kernels if times[name] == 1), among[-1].line)
    return TwillError(
        f"{message}; there are: {there}", Location(file, 1), help=f"choose one, such as {file}:{example}"
    )


def first_cuts(passes: list[str]) -> list[int]:
    """Positions in `passes`, which may be those of several compilations, of the first pass of each that
    schedules."""
    found: list[int] = []
    scheduled = False
    for k, name in enumerate(passes):
        scheduled = scheduled and name != BEGIN
        if name in CUTS and not scheduled:
            found.append(k)
            scheduled = True
    return found
