"""Imports OR-Tools without pandas, which takes longer than many searches.

`cp_model` names pandas' types in annotations, and looks at them where variables come in series, which Twill
has none of. They are placeholders during the import; the module then has what loads pandas at its first use.
"""

import importlib
import sys
from types import ModuleType


class _Later(ModuleType):
    """A module that is imported once something of it is used."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)


def load() -> None:
    """Import `ortools.sat.python.cp_model`, as it is where pandas is there already and takes no time. Nothing
    is imported where that does not work."""
    if "pandas" in sys.modules or "ortools.sat.python.cp_model" in sys.modules:
        return
    placeholders = ModuleType("pandas")
    placeholders.__dict__.update({name: type(name, (), {}) for name in ("Index", "Series")})
    sys.modules["pandas"] = placeholders
    try:
        cp_model = importlib.import_module("ortools.sat.python.cp_model")
    except AttributeError:  # a version that needs more of pandas gets all of it
        return
    finally:
        del sys.modules["pandas"]
    cp_model.__dict__["pd"] = _Later("pandas")
