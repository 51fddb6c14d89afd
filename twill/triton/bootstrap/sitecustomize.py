"""Imported by Python at start where `twill run` or `twill capture` put this folder into PYTHONPATH: imports
Twill, which acts on the environment, after the `sitecustomize` that this one hides, if there is one.
"""

import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

here = Path(__file__).parent
hidden = PathFinder.find_spec(
    "sitecustomize", [place for place in sys.path if Path(place or ".").resolve() != here.resolve()]
)
if hidden is not None and hidden.loader is not None:
    hidden.loader.exec_module(module_from_spec(hidden))
with suppress(ImportError):  # a Python in which Twill is not installed runs as it would without
    import_module("twill")
