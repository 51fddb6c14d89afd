"""Runs of `twill schedule` on record, so that reports/speed.md can be renewed row by row.

Takes what `benchmarks/speed.py` measures; gives it back later, from the JSON file beside the report. A record
says on which machine and when it was made, since rows of one report may be of several days.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command says of a loop."""

    interval: int | None
    proved: int
    status: str
    ops: int

    @staticmethod
    def of(schedule: Mapping[str, Any]) -> "Outcome":
        """Of a schedule.json."""
        proved = schedule["bounds"]["proved"]
        return Outcome(schedule["interval"], proved, schedule["status"], len(schedule["ops"]))

    @staticmethod
    def all_in(folder: Path) -> tuple["Outcome", ...]:
        """Of every loop whose schedule.json a command wrote there; none where it failed."""
        files = sorted(folder.rglob("schedule.json"))
        return tuple(Outcome.of(json.loads(file.read_text(encoding="utf-8"))) for file in files)


@dataclass(frozen=True, slots=True)
class Run:
    """One command: how long it took, when the last of its loops had the interval that it ends with, and what
    it wrote of each loop."""

    wall: float
    answered: float | None
    loops: tuple[Outcome, ...]
    failed: str = ""
    """Its last words, where it did not end well."""

    @property
    def outcome(self) -> tuple[tuple[object, ...], ...]:
        """What must not depend on how busy the machine is: interval, proven bound and status of each loop."""
        return tuple((one.interval, one.proved, one.status) for one in self.loops)


@dataclass(frozen=True, slots=True)
class Measured:
    """A loop's runs alone and beside a load; none where there was no time."""

    name: str
    made: str = ""
    """Machine, versions and day of the runs."""
    alone: tuple[Run, ...] = ()
    busy: tuple[Run, ...] = ()


def saved(measured: Iterable[Measured]) -> str:
    """As JSON, a loop a line."""
    lines = ",\n".join(json.dumps(asdict(one)) for one in measured if one.alone or one.busy)
    return f"[\n{lines}\n]\n"


def known(path: Path) -> dict[str, Measured]:
    """The loops on record by name; none where there is no file."""
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return {one["name"]: _measured(one) for one in found}


def _measured(one: Mapping[str, Any]) -> Measured:
    alone, busy = (tuple(map(_run, one[kind])) for kind in ("alone", "busy"))
    return Measured(one["name"], one["made"], alone, busy)


def _run(one: Mapping[str, Any]) -> Run:
    return Run(one["wall"], one["answered"], tuple(Outcome(**loop) for loop in one["loops"]), one["failed"])
