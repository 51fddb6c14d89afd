"""Machine files: TOML -> `Machine`.

Takes a name (`h200`) or the path of a TOML file; gives the machine. Guarantees: a file with mistakes raises
one TwillError that lists all of them, each with its line and column; unknown keys are mistakes; a `base` is
read first and overridden table by table.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from twill.diagnostics import Location, TwillError
from twill.ir.machine import (
    Contention,
    Control,
    Copies,
    Cost,
    HandOff,
    Issue,
    Loads,
    Machine,
    Residency,
    Shared,
    Stream,
)
from twill.ir.problem import Limits, Unit

SCHEMA = "twill.machine/1"

DEFAULTS: Mapping[str, str] = {"sm90": "h200", "sm100": "b200"}
"""The machine that stands for an architecture."""

Toml: TypeAlias = Any
"""What a TOML document holds; `_Converter` checks it."""
Path_ = tuple[str, ...]
"""Keys from the top of the file to a value."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """`[units.NAME]`."""

    source: str
    capacity: int = 1
    aggregate: bool = False


@dataclass(frozen=True, slots=True)
class _Limits:
    """`[limits]`."""

    groups: int
    warps: int
    registers_per_thread: int
    registers_total: int
    register_step: int
    register_base: int
    narrow_registers: int
    shared: int
    tensor: int
    source: str


@dataclass(frozen=True, slots=True)
class File:
    """The whole file, a base merged in."""

    schema: str
    name: str
    arch: str
    description: str
    units: Mapping[str, _Unit]
    limits: _Limits
    costs: Mapping[str, Cost]
    handover: HandOff
    stream: Stream
    loads: Loads
    shared: Shared | None = None
    issue: Issue | None = None
    contention: Contention | None = None
    control: Control | None = None
    residency: Residency | None = None
    copies: Copies = field(default_factory=Copies)
    clock_mhz: int | None = None
    multiprocessors: int | None = None


def folder() -> Path:
    """Where the machine files are: beside the package in a checkout, inside it when installed."""
    inside = Path(__file__).parents[1] / "machines"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "machines"


def available() -> tuple[str, ...]:
    """The names of the machines that come with Twill."""
    return tuple(sorted(path.stem for path in folder().glob("*.toml")))


def default_machine(arch: str) -> Machine:
    """The machine that stands for `sm90` or `sm100` (also `sm_90`, `sm_90a`, `cuda:90`)."""
    digits = re.sub(r"\D", "", arch)
    name = DEFAULTS.get(f"sm{digits}")
    if name is None:
        raise TwillError(
            f"no default machine for architecture {arch!r}",
            help=f"known: {', '.join(sorted(DEFAULTS))}; or name a machine file",
        )
    return load(name)


def load(name_or_path: str | Path) -> Machine:
    """The machine of that name, or of that file. Raises TwillError if there is none, or with every mistake in
    the file."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = folder() / f"{name_or_path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        known = ", ".join(available())
        raise TwillError(
            f"no machine {str(name_or_path)!r}",
            help=f"known machines: {known}; or give the path of a .toml file",
        ) from None
    return parse(text, str(path))


def parse(text: str, file: str) -> Machine:
    """The machine that the text of a file describes; `file` names it in errors and is where a `base` is
    looked for first."""
    texts = [_Text(text, file)]
    data = texts[0].data()
    if isinstance(base := data.pop("base", None), str):
        texts.append(_base(base, texts[0]))
        inherited = texts[1].data()
        if "base" in inherited:
            raise TwillError("a base cannot have a base itself", texts[1].place(("base",)))
        data = _overlay(inherited, data)
    reader = _Reader()
    made = reader.structure(File, data, ())
    mistakes = reader.mistakes or list(_contradictions(made))
    if mistakes:
        _raise(mistakes, texts)
    return _machine(made, file)


def _base(name: str, text: "_Text") -> "_Text":
    for path in (Path(text.file).parent / f"{name}.toml", folder() / f"{name}.toml"):
        if path.is_file():
            return _Text(path.read_text(encoding="utf-8"), str(path))
    raise TwillError(
        f"no machine {name!r} to base this one on",
        text.place(("base",)),
        help=f"known machines: {', '.join(available())}",
    )


def _overlay(below: Mapping[str, Toml], above: Mapping[str, Toml]) -> dict[str, Toml]:
    """`above` over `below`, tables merged key by key; an empty rate or list replaces as it is."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _overlay(old, value) if isinstance(old, dict) and isinstance(value, dict) else value  # pyright: ignore[reportUnknownArgumentType]
    return merged


def _machine(made: File, file: str) -> Machine:
    limits = {f.name: getattr(made.limits, f.name) for f in fields(Limits)}
    return Machine(
        name=made.name,
        arch=made.arch,
        description=made.description,
        units={name: Unit(name, unit.capacity, unit.aggregate) for name, unit in made.units.items()},
        limits=Limits(**limits),
        costs=made.costs,
        handover=made.handover,
        stream=made.stream,
        loads=made.loads,
        shared=made.shared,
        issue=made.issue,
        contention=made.contention,
        control=made.control,
        residency=made.residency,
        copies=made.copies,
        sources={
            "limits": made.limits.source,
            **{f"units.{name}": unit.source for name, unit in made.units.items()},
        },
        file=file,
        clock_mhz=made.clock_mhz,
        multiprocessors=made.multiprocessors,
    )


# --- mistakes ---------------------------------------------------------------------------------------------

Mistake = tuple[Path_, str]


def _contradictions(made: File) -> Iterator[Mistake]:
    """What is wrong though every value has the right type."""
    if made.schema != SCHEMA:
        yield ("schema",), f'schema must be "{SCHEMA}", not "{made.schema}"'
    for table, used in (("shared", made.shared), ("issue", made.issue), ("control", made.control)):
        if used and used.unit not in made.units:
            yield (table, "unit"), f"no unit {used.unit!r}; units: {', '.join(made.units)}"
    for name, unit in made.units.items():
        if unit.capacity < 1:
            yield ("units", name, "capacity"), "capacity must be at least 1"
    yield from _contention_mistakes(made)
    yield from _control_mistakes(made)
    yield from _residency_mistakes(made)
    yield from (
        (("limits", f.name), "must not be negative")
        for f in fields(_Limits)
        if isinstance(value := getattr(made.limits, f.name), int) and value < 0
    )
    seen: dict[str, str] = {}
    for name, cost in made.costs.items():
        yield from _cost_mistakes(name, cost, made.units)
        for op in cost.ops:
            if op in seen:
                yield ("costs", name, "ops"), f"{op} has a cost already, in [costs.{seen[op]}]"
            seen.setdefault(op, name)


def _contention_mistakes(made: File) -> Iterator[Mistake]:
    if (found := made.contention) is None:
        return
    names = {("contention", "unit"): found.unit} | {
        ("contention", "slower", unit): unit for unit in found.slower
    }
    for path, unit in names.items():
        if unit not in made.units:
            yield path, f"no unit {unit!r}; units: {', '.join(made.units)}"
    factors = {("contention", "reductions"): found.reductions} | {
        ("contention", "slower", unit): f for unit, f in found.slower.items()
    }
    yield from (
        (path, "must be a finite number, 1 or more")
        for path, factor in factors.items()
        if not 1 <= factor < inf
    )


def _control_mistakes(made: File) -> Iterator[Mistake]:
    if (found := made.control) is None:
        return
    if found.lanes < 1:
        yield ("control", "lanes"), "must be 1 or more"
    for key in ("loop", "wait", "slot", "update"):
        if getattr(found, key) < 0:
            yield ("control", key), "must not be negative"


def _residency_mistakes(made: File) -> Iterator[Mistake]:
    if (found := made.residency) is None:
        return
    for one in fields(Residency):
        if isinstance(value := getattr(found, one.name), int | float) and not 0 <= value < inf:
            yield ("residency", one.name), "must not be negative"
    if found.used > 1:
        yield ("residency", "used"), "must be 1 or less"


def _cost_mistakes(name: str, cost: Cost, units: Mapping[str, _Unit]) -> Iterator[Mistake]:
    for unit, rate in cost.rate.items():
        if unit not in units:
            yield ("costs", name, "rate", unit), f"no unit {unit!r}; units: {', '.join(units)}"
        rates = rate.values() if isinstance(rate, Mapping) else (rate,)
        if not all(0 < value < inf for value in rates):
            yield ("costs", name, "rate", unit), "a rate must be a finite number above 0"
    for key in ("latency", "issue", "step", "instructions", "staging", "a_columns", "b_rows"):
        if not 0 <= getattr(cost, key) < inf:
            yield ("costs", name, key), "must not be negative"
    for key in ("latency_rate", "issue_rate", "queue", "rows"):
        value = getattr(cost, key)
        if value is not None and not 0 < value < inf:
            yield ("costs", name, key), "must be above 0"
    if cost.warps not in (None, 1, 4, 8):
        yield ("costs", name, "warps"), "must be 1, 4 or 8; leave it out for the width of the module"


def _raise(mistakes: list[Mistake], texts: "list[_Text]") -> None:
    """One error for all mistakes, in the order of the file."""
    placed = sorted(((_where(path, texts), message) for path, message in mistakes), key=lambda m: m[0])
    (first, message), *others = placed
    lines = [message, *(f"{place}: error: {text}" for place, text in others)]
    raise TwillError("\n".join(lines), first, help="docs/costs.md describes machine files")


def _where(path: Path_, texts: "list[_Text]") -> Location:
    """The place of a key: in the file itself if it has it, otherwise in its base, otherwise the nearest table
    around it."""
    for length in range(len(path), 0, -1):
        for text in texts:
            if found := text.find(path[:length]):
                return found
    return Location(texts[0].file, 1)


# --- the text ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Text:
    """A file, and where its keys stand: `tomllib` tells values, not places."""

    text: str
    file: str

    def data(self) -> dict[str, Toml]:
        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"(.*) \(at line (\d+), column (\d+)\)", str(error))
            message, line, column = (
                (found[1], int(found[2]), int(found[3]))
                if found
                else (str(error), self.text.count("\n") + 1, 1)
            )
            lines = self.text.splitlines()
            raise TwillError(
                message,
                Location(self.file, line, column),
                text=lines[line - 1] if line <= len(lines) else None,
            ) from None

    def place(self, path: Path_) -> Location:
        return self.find(path) or Location(self.file, 1)

    def find(self, path: Path_) -> Location | None:
        """Where a table begins, or a key stands inside its table; a key of an inline table is found in its
        line."""
        table: Path_ = ()
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := re.match(r"\s*\[+([^\]]+)\]", line):
                table = tuple(part.strip().strip("\"'") for part in header[1].split("."))
                if table == path:
                    return Location(self.file, number, 1)
            elif path[: len(table)] == table and (column := _key_column(line, path[len(table) :])):
                return Location(self.file, number, column)
        return None


def _key_column(line: str, keys: Path_) -> int | None:
    """The column of the last of nested `keys` in a line `first = { second = ... }`."""
    position = 0
    for depth, key in enumerate(keys):
        opening = r"\s*" if depth == 0 else r".*?[{,]\s*"
        found = re.compile(rf"{opening}(?P<key>[\"']?{re.escape(key)}[\"']?)\s*=").match(line, position)
        if found is None:
            return None
        position = found.start("key") if depth == len(keys) - 1 else found.end()
    return position + 1 if keys else None


# --- structure --------------------------------------------------------------------------------------------

_WORDS = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}


@dataclass(slots=True)
class _Reader:
    """Fits plain data to dataclasses, noting every mistake on the way."""

    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def structure(self, type: Any, data: Toml, path: Path_) -> Any:
        """`data` as a value of `type`; what cannot be fitted is noted and left out."""
        arguments = get_args(type)
        match get_origin(type) or type:
            case origin if origin in (Union, UnionType):
                return self._either(arguments, data, path)
            case origin if origin is tuple:
                return tuple(
                    self.structure(arguments[0], item, path)
                    for item in self._expect(list, data, path, "a list")
                )
            case origin if origin is Mapping:
                items = self._expect(dict, data, path, "a table").items()
                return {key: self.structure(arguments[1], item, (*path, key)) for key, item in items}
            case origin if hasattr(origin, "__dataclass_fields__"):
                return self._record(origin, self._expect(dict, data, path, "a table"), path)
            case origin:
                return self._plain(origin, data, path)

    def _either(self, options: tuple[Any, ...], data: Toml, path: Path_) -> Any:
        """A table where one fits, otherwise the first plain type."""
        options = tuple(option for option in options if option is not NoneType)
        tables = [
            option
            for option in options
            if isinstance(data, dict) and (get_origin(option) or hasattr(option, "__dataclass_fields__"))
        ]
        return self.structure((tables or options)[0], data, path)

    def _record(self, type: Any, data: Mapping[str, Toml], path: Path_) -> Any:
        hints = get_type_hints(type)
        known = {f.name: f for f in fields(type) if f.init}
        self.mistakes += [
            ((*path, key), f"unknown key {key!r}; known: {', '.join(known)}")
            for key in data
            if key not in known
        ]
        missing = [
            name
            for name, f in known.items()
            if name not in data and f.default is MISSING and f.default_factory is MISSING
        ]
        self.mistakes += [((*path, name), f"{name!r} is missing in {_table(path)}") for name in missing]
        values = {
            key: self.structure(hints[key], value, (*path, key))
            for key, value in data.items()
            if key in known
        }
        return None if missing else type(**values)

    def _plain(self, type: Any, data: Toml, path: Path_) -> Any:
        fits = isinstance(data, (int, float) if type is float else type) and (
            type is bool or not isinstance(data, bool)
        )
        if not fits:
            self.mistakes.append((path, f"{path[-1]!r} must be {_WORDS[type]}, not {data!r}"))
        return data

    def _expect(self, type: Any, data: Toml, path: Path_, word: str) -> Any:
        if isinstance(data, type):
            return data
        self.mistakes.append((path, f"{path[-1]!r} must be {word}, not {data!r}"))
        return type()


def _table(path: Path_) -> str:
    return f"[{'.'.join(path)}]" if path else "the file"
