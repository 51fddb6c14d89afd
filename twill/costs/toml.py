"""TOML files with the place of every key, and their data as dataclasses.

`Text` is a file: `tomllib` tells values, `Text.find` where they stand. `Reader` fits plain data to
dataclasses and notes all mistakes, so that one error can list them.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from twill.diagnostics import Location, TwillError

Toml: TypeAlias = Any
"""What a TOML document holds; `Reader` checks it."""
Keys = tuple[str, ...]
"""From the top of a file to a value."""
Mistake = tuple[Keys, str]
"""Where, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file, and where its keys stand."""

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

    def place(self, path: Keys) -> Location:
        return self.find(path) or Location(self.file, 1)

    def find(self, path: Keys) -> Location | None:
        """Where a table begins, or a key stands inside its table; a key of an inline table is found in its
        line."""
        table: Keys = ()
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := re.match(r"\s*\[+([^\]]+)\]", line):
                table = tuple(part.strip().strip("\"'") for part in header[1].split("."))
                if table == path:
                    return Location(self.file, number, 1)
            elif path[: len(table)] == table and (column := _key_column(line, path[len(table) :])):
                return Location(self.file, number, column)
        return None


def _key_column(line: str, keys: Keys) -> int | None:
    """The column of the last of nested `keys` in a line `first = { second = ... }`."""
    position = 0
    for depth, key in enumerate(keys):
        opening = r"\s*" if depth == 0 else r".*?[{,]\s*"
        found = re.compile(rf"{opening}(?P<key>[\"']?{re.escape(key)}[\"']?)\s*=").match(line, position)
        if found is None:
            return None
        position = found.start("key") if depth == len(keys) - 1 else found.end()
    return position + 1 if keys else None


_WORDS = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}


@dataclass(slots=True)
class Reader:
    """Fits plain data to dataclasses, noting every mistake on the way."""

    mistakes: list[Mistake] = field(default_factory=list[Mistake])

    def structure(self, type: Any, data: Toml, path: Keys) -> Any:
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

    def _either(self, options: tuple[Any, ...], data: Toml, path: Keys) -> Any:
        """A table where one fits, otherwise the first plain type."""
        options = tuple(option for option in options if option is not NoneType)
        tables = [
            option
            for option in options
            if isinstance(data, dict) and (get_origin(option) or hasattr(option, "__dataclass_fields__"))
        ]
        return self.structure((tables or options)[0], data, path)

    def _record(self, type: Any, data: Mapping[str, Toml], path: Keys) -> Any:
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

    def _plain(self, type: Any, data: Toml, path: Keys) -> Any:
        fits = isinstance(data, (int, float) if type is float else type) and (
            type is bool or not isinstance(data, bool)
        )
        if not fits:
            self.mistakes.append((path, f"{path[-1]!r} must be {_WORDS[type]}, not {data!r}"))
        return data

    def _expect(self, type: Any, data: Toml, path: Keys, word: str) -> Any:
        if isinstance(data, type):
            return data
        self.mistakes.append((path, f"{path[-1]!r} must be {word}, not {data!r}"))
        return type()


def _table(path: Keys) -> str:
    return f"[{'.'.join(path)}]" if path else "the file"
