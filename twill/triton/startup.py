"""Twill switched on by the environment: TWILL=1, TWILL=background,verify and so on, or
TWILL_CAPTURE=FILE.

`arm` runs when `twill` is imported with one of these variables set. It waits until the program imports
Triton, if it ever does, so that nothing is imported for it. `environment` makes a child process, and its
children, import `twill` at start.
"""

import atexit
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

SWITCH, REPORT, CAPTURE = "TWILL", "TWILL_REPORT", "TWILL_CAPTURE"

AFTER = "triton.compiler.compiler"
"""The module whose import means that the program uses Triton; it defines what is hooked."""

BOOTSTRAP = Path(__file__).parent / "bootstrap"
"""Holds a `sitecustomize.py`, which Python imports when it starts with this folder in PYTHONPATH."""


def arm() -> None:
    """Acts on the environment, now or as soon as Triton is imported."""
    if AFTER in sys.modules:
        act()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def act() -> None:
    """What the environment wants."""
    from twill.triton.settings import from_environment

    if os.environ.get(CAPTURE):
        _record(Path(os.environ[CAPTURE]))
        return
    settings = from_environment(os.environ.get(SWITCH, ""))
    if settings is not None:
        from twill import triton

        triton.install_with(settings)
        if os.environ.get(REPORT):
            atexit.register(lambda: print(triton.report(), file=sys.stderr) if triton.report().rows else None)


def _record(path: Path) -> None:
    from twill.triton.capture import Recorder, part

    atexit.register(Recorder(part(path)).stop)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process in which Twill is switched on by `variables`."""
    before = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        **variables,
        "PYTHONPATH": os.pathsep.join([str(BOOTSTRAP), *([before] if before else [])]),
    }


class _Finder(MetaPathFinder):
    """Waits for one module, and then is gone."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != AFTER:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            _then(spec.loader, act)
        return spec


def _then(loader: Loader, action: Callable[[], None]) -> None:
    """Runs `action` after the module has been executed."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        action()

    own: Any = loader
    own.exec_module = exec_module
