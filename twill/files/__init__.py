"""File formats: `twill.graph/1` and `twill.schedule/1`, documented in docs/formats.md.

Each name is imported on first use: who reads the manifest of a built kernel, at the launch of a kernel, needs
no scheduling problems.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from twill.files.graph import read_graph, write_graph
    from twill.files.schedule import ScheduleDocument, read_schedule, write_schedule
    from twill.files.text import load

__all__ = ["ScheduleDocument", "load", "read_graph", "read_schedule", "write_graph", "write_schedule"]

_HOMES = {
    "graph": ("read_graph", "write_graph"),
    "schedule": ("ScheduleDocument", "read_schedule", "write_schedule"),
    "text": ("load",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'twill.files' has no attribute {name!r}")
    return getattr(import_module(f"twill.files.{_HOME[name]}"), name)
