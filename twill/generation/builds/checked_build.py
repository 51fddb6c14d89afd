"""A kernel that nvcc builds while its warp programs are checked.

`check_beside_build` takes a generated kernel and a folder; leaves the library there and returns what was run
to check it. The PTX that is executed is the one that the library was built from.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from twill.emit.files import write
from twill.generation.generate import buildable, executed, notes
from twill.generation.generated import Generated, ProgressCallback
from twill.ir.checked import Checked
from twill.launch.build import TooFewRegistersError, build
from twill.launch.folders import LIBRARY, SOURCE
from twill.launch.tries import keep, known


class _WarnedError(Exception):
    """ptxas warns of the kernel, so that another may be taken: it need not be checked."""


def check_beside_build(
    made: Generated, folder: Path, on_progress: ProgressCallback, home: Path | None = None
) -> Checked | None:
    """What was run to check the kernel; None where ptxas warns of it, or has too few registers. `home`: see
    `launch.build.build`. Raises TwillError where the kernel is wrong or cannot be built."""
    from twill.simulate.check import check

    write_buildable(made, folder)
    with TemporaryDirectory() as kept, ThreadPoolExecutor(1) as thread:
        building = thread.submit(build, folder, kept=Path(kept), home=home)
        try:
            found = check(
                made.program, _until_warned(building, notes(made.program, "simulator", on_progress))
            )
            _raise_warnings(building)
            return executed(found, made, on_progress, Path(kept))
        except _WarnedError:
            keep(folder, Path(kept))
            return None
        except TooFewRegistersError:
            return None


def _until_warned(building: Future[tuple[str, ...]], report: Callable[[str], None]) -> Callable[[str], None]:
    """A report of progress that ends the check as soon as ptxas has warned."""

    def reported(what: str) -> None:
        if building.done():
            _raise_warnings(building)
        report(what)

    return reported


def _raise_warnings(building: Future[tuple[str, ...]]) -> None:
    if building.result():
        raise _WarnedError


def write_buildable(made: Generated, folder: Path) -> None:
    """Write what nvcc is run on. No library of another kernel stays."""
    (folder / LIBRARY).unlink(missing_ok=True)
    for name, text in buildable(made).items():
        write(folder / name, text())


def library(made: Generated, folder: Path, home: Path | None = None) -> tuple[str, ...]:
    """Leave the library of this kernel in a folder, built only if it is not there; what ptxas warns of.
    Raises TwillError where it cannot be built."""
    from twill.launch.build import complaints

    source = folder / SOURCE
    if (folder / LIBRARY).exists() and source.read_text(encoding="utf-8") == made.cuda:
        return complaints(folder)
    write_buildable(made, folder)
    with TemporaryDirectory() as kept:
        said = build(folder, kept=Path(kept), home=home)
        if said:
            keep(folder, Path(kept))
    return said


def known_to_warn(made: Generated, folder: Path) -> bool:
    """Whether ptxas has warned of this kernel before, whatever its notes say; leaves its source in a
    folder."""
    write_buildable(made, folder)
    return bool(known(folder))


def warnings(made: Generated, folder: Path, home: Path | None = None) -> tuple[str, ...]:
    """The same; too few registers for an instruction are a warning, too."""
    try:
        return library(made, folder, home)
    except TooFewRegistersError as few:
        return (few.message,)
