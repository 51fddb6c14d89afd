"""File formats: `twill.graph/1` and `twill.schedule/1`, documented in docs/formats.md."""

from twill.files.graph import read_graph, write_graph
from twill.files.schedule import ScheduleDocument, read_schedule, write_schedule
from twill.files.text import load

__all__ = ["ScheduleDocument", "load", "read_graph", "read_schedule", "write_graph", "write_schedule"]
