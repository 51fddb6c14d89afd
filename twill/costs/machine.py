"""Machine files: TOML -> `Machine`.

Takes a name (`h200`) or the path of a TOML file; gives the machine. Guarantees: a file with mistakes raises
one TwillError that lists all of them, each with its line and column; unknown keys are mistakes; a `base` is
read first and overridden table by table.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path

from twill.costs.estimates import ranges, wrong_ranges
from twill.costs.machine_files import DEFAULTS, available, folder
from twill.costs.toml import Keys, Mistake, Reader, Text, Toml
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
    Ranges,
    Residency,
    Shared,
    Stream,
)
from twill.ir.problem import Limits, Unit

SCHEMA = "twill.machine/1"


@dataclass(frozen=True, slots=True)
class _Unit:
    """`[units.NAME]`."""

    source: str
    capacity: int = 1
    aggregate: bool = False
    between: Ranges = field(default_factory=dict[str, tuple[float, ...]])


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
    texts = [Text(text, file)]
    data = texts[0].data()
    if isinstance(base := data.pop("base", None), str):
        texts.append(_base(base, texts[0]))
        inherited = texts[1].data()
        if "base" in inherited:
            raise TwillError("a base cannot have a base itself", texts[1].place(("base",)))
        data = _overlay(inherited, data)
    reader = Reader()
    made = reader.structure(File, data, ())
    mistakes = reader.mistakes or list(_contradictions(made))
    if mistakes:
        _raise(mistakes, texts)
    return _machine(made, file)


def _base(name: str, text: Text) -> Text:
    for path in (Path(text.file).parent / f"{name}.toml", folder() / f"{name}.toml"):
        if path.is_file():
            return Text(path.read_text(encoding="utf-8"), str(path))
    raise TwillError(
        f"no machine {name!r} to base this one on",
        text.place(("base",)),
        help=f"known machines: {', '.join(available())}",
    )


def _overlay(below: Mapping[str, Toml], above: Mapping[str, Toml]) -> dict[str, Toml]:
    """`above` over `below`, tables merged key by key; an empty rate or list replaces as it is. A number that
    is given anew has no range but one given with it."""
    merged = dict(below)
    ranged: Mapping[str, Toml] = below.get("between", {})
    if ranged:
        merged["between"] = {
            path: ends for path, ends in ranged.items() if path.partition(".")[0] not in above
        }
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
        between=ranges(made),
        sources={
            "limits": made.limits.source,
            **{f"units.{name}": unit.source for name, unit in made.units.items()},
        },
        file=file,
        clock_mhz=made.clock_mhz,
        multiprocessors=made.multiprocessors,
    )


# --- mistakes ---------------------------------------------------------------------------------------------


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
    yield from wrong_ranges(made)
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
    for key in ("latency_rate", "issue_rate", "spare_rate", "queue", "rows"):
        value = getattr(cost, key)
        if value is not None and not 0 < value < inf:
            yield ("costs", name, key), "must be above 0"
    if cost.warps not in (None, 1, 4, 8):
        yield ("costs", name, "warps"), "must be 1, 4 or 8; leave it out for the width of the module"


def _raise(mistakes: list[Mistake], texts: list[Text]) -> None:
    """One error for all mistakes, in the order of the file."""
    placed = sorted(((_where(path, texts), message) for path, message in mistakes), key=lambda m: m[0])
    (first, message), *others = placed
    lines = [message, *(f"{place}: error: {text}" for place, text in others)]
    raise TwillError("\n".join(lines), first, help="docs/costs.md describes machine files")


def _where(path: Keys, texts: list[Text]) -> Location:
    """The place of a key: in the file itself if it has it, otherwise in its base, otherwise the nearest table
    around it."""
    for length in range(len(path), 0, -1):
        for text in texts:
            if found := text.find(path[:length]):
                return found
    return Location(texts[0].file, 1)
