"""What estimates allow: a machine with its estimated numbers at an end of their ranges.

Takes the tables of a machine file, whose `between` says which numbers are estimates and how large they may
be; gives all ranges, what is wrong with them, and machines that are as slow or as fast as they allow.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Protocol, TypeAlias

from twill.costs.toml import Keys
from twill.ir.machine import Cost, HandOff, Machine, Ranges, Stream
from twill.ir.problem import Unit

AT_LEAST = ("rate", "latency_rate", "issue_rate", "bytes_per_cycle", "capacity", "queue")
"""Numbers of which more is faster."""
Choose: TypeAlias = Callable[[Keys, tuple[float, float]], float | None]
"""What an estimate shall be; None: as it is."""


class Ranged(Protocol):
    """A table with estimates."""

    @property
    def between(self) -> Ranges: ...


class Tables(Protocol):
    """A machine file."""

    @property
    def units(self) -> Mapping[str, Ranged]: ...
    @property
    def costs(self) -> Mapping[str, Cost]: ...
    @property
    def handover(self) -> HandOff: ...
    @property
    def stream(self) -> Stream: ...


def _tables(file: Tables) -> Mapping[Keys, Ranged]:
    return {
        ("handover",): file.handover,
        ("stream",): file.stream,
        **{("units", name): unit for name, unit in file.units.items()},
        **{("costs", name): cost for name, cost in file.costs.items()},
    }


def ranges(file: Tables) -> Mapping[Keys, tuple[float, float]]:
    """Those of all tables, by the keys of the file. The ranges must be right (`wrong_ranges`)."""
    return {
        (*table, *path.split(".")): (ends[0], ends[1])
        for table, made in _tables(file).items()
        for path, ends in made.between.items()
    }


def wrong_ranges(file: Tables) -> Iterator[tuple[Keys, str]]:
    """Ranges of what is no number, and those without their number inside, with the place of each."""
    for table, made in _tables(file).items():
        for path, ends in made.between.items():
            number = _at(made, path.split("."))
            if number is None:
                yield (*table, "between", path), f"[{'.'.join(table)}] has no number {path!r}"
            elif len(ends) != 2 or not 0 <= ends[0] <= number <= ends[1] < inf:
                message = f"{path} = {number:g} must lie between two numbers, not {list(ends)}"
                yield (*table, "between", path), message
            elif not ends[0] and path.split(".")[0] in AT_LEAST:
                yield (*table, "between", path), f"{path} must be above 0"


def _at(table: object, keys: list[str]) -> float | None:
    """The number that keys lead to in a table."""
    found: Any = getattr(table, keys[0], None)
    for key in keys[1:]:
        found = found.get(key) if isinstance(found, Mapping) else None  # pyright: ignore
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def ends(machine: Machine) -> Iterator[Machine]:
    """The machine with all of its estimates where they make it slowest, and fastest; then with those of each
    table alone."""
    tables = dict.fromkeys(keys[:-1] if keys[0] != "costs" else keys[:2] for keys in machine.between)
    for wanted in ((), *tables):
        for slow in (True, False):
            yield chosen(machine, _end(wanted, slow=slow))


def _end(table: Keys, *, slow: bool) -> Choose:
    def choose(keys: Keys, between: tuple[float, float]) -> float | None:
        more_is_faster = any(key in AT_LEAST for key in keys)
        return between[slow != more_is_faster] if keys[: len(table)] == table else None

    return choose


def chosen(machine: Machine, choose: Choose) -> Machine:
    """The machine with other numbers for its estimates. What was an integer stays one."""
    for keys, between in machine.between.items():
        value = choose(keys, between)
        if value is not None:
            machine = _with(machine, keys, value)
    return machine


def _with(machine: Machine, keys: Keys, value: float) -> Machine:
    match keys:
        case ("costs", name, *path):
            return replace(machine, costs={**machine.costs, name: _put(machine.costs[name], path, value)})
        case ("units", name, *path):
            unit: Unit = _put(machine.units[name], path, value)
            return replace(machine, units={**machine.units, name: unit})
        case (name, *path):
            return replace(machine, **{name: _put(getattr(machine, name), path, value)})
        case _:
            raise AssertionError(keys)


def _put(table: Any, path: list[str], value: float) -> Any:
    """A table with another number."""
    first, *inside = path
    if isinstance(table, Mapping):
        rates: dict[str, Any] = dict(table)  # pyright: ignore
        return {**rates, first: _put(rates[first], inside, value) if inside else value}
    old = getattr(table, first)
    number = round(value) if isinstance(old, int) else value
    return replace(table, **{first: _put(old, inside, value) if inside else number})
