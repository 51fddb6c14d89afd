"""Dumps of a whole compilation (`MLIR_ENABLE_DUMP=1`), which hold the module once before every pass.

Takes the text of a file; gives the one module in it that is to be scheduled, everything else blanked out, so that lines
and columns stay those of the file. A file that is no dump comes back as it is. Raises TwillError where no module, or more
than one, stands before a pass that schedules.
"""

import re

from twill.diagnostics import Location, TwillError

BANNER = re.compile(r"^// -----// .*IR Dump (?:Before|After:?) ([\w() :]+?)(?: \(|: |:|$).*$", re.MULTILINE)
"""Above each module; the group is the name of the pass."""

CUTS = ("NVGPUWarpSpecialization", "TritonGPUAssignLatencies")
"""The passes before which nothing has been scheduled: of these, the first that a compilation runs counts."""


BEGIN = "ConvertTritonToTritonGPU"
"""The pass with which each compilation's TTGIR begins."""


def at_the_cut(text: str, file: str) -> str:
    """`text` with only the module before the first scheduling pass left."""
    banners = list(BANNER.finditer(text))
    if not banners:
        return text
    ends = [*(banner.start() for banner in banners[1:]), len(text)]
    found = [(banners[k], ends[k]) for k in first_cuts([banner.group(1) for banner in banners])]
    if len(found) != 1:
        lines = ", ".join(str(text.count("\n", 0, banner.start()) + 1) for banner, _ in found)
        raise TwillError(
            f"this dump holds {len(found)} modules before a pass that schedules" + (f" (lines {lines})" if lines else ""),
            Location(file, 1),
            help="keep the module to schedule in a file of its own",
        )
    ((banner, end),) = found
    return re.sub(r"[^\n]", "", text[: banner.end()]) + text[banner.end() : end]


def first_cuts(passes: list[str]) -> list[int]:
    """Positions in `passes`, which may be those of several compilations, of the first pass of each that schedules."""
    found: list[int] = []
    scheduled = False
    for k, name in enumerate(passes):
        scheduled = scheduled and name != BEGIN
        if name in CUTS and not scheduled:
            found.append(k)
            scheduled = True
    return found
