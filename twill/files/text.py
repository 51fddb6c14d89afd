"""JSON text to values that know where they stand, and back.

Takes the text of a file; gives a tree of `Node`s, or one `TwillError` at the line and column of the mistake.
Strict: no duplicate keys, no NaN, no trailing text; nesting, size and digits are bounded, so that no text can
hang or crash the reader.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from twill.diagnostics import Location, TwillError

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

MAX_CHARACTERS = 8 * 2**20
MAX_DEPTH = 24
MAX_DIGITS = 24

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_STRINGS = json.JSONDecoder()
_WORDS: tuple[tuple[str, bool | None], ...] = (("null", None), ("true", True), ("false", False))


@dataclass(frozen=True, slots=True)
class Text:
    """A whole file."""

    file: str
    text: str

    def fail(self, offset: int, message: str, *, span: int = 1, help: str | None = None) -> NoReturn:
        """Raises the error with the location of `offset` and its line."""
        line = self.text.count("\n", 0, offset) + 1
        begin = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        content = self.text[begin : end if end >= 0 else len(self.text)]
        raise TwillError(
            message, Location(self.file, line, offset - begin + 1), text=content, span=span, help=help
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A JSON value: `path` such as `nodes[3].latency`, [start, end) where it stands in the text."""

    value: "bool | int | float | str | tuple[Node, ...] | dict[str, Node] | None"
    path: str
    start: int
    end: int
    source: Text

    def fail(self, message: str, *, help: str | None = None) -> NoReturn:
        """Raises `message` at this value, the path before it."""
        where = f"{self.path}: " if self.path else ""
        span = self.end - self.start if isinstance(self.value, str | int | float) else 1
        self.source.fail(self.start, where + message, span=span, help=help)

    def plain(self) -> Json:
        """The value without its locations."""
        match self.value:
            case dict() as members:
                return {key: node.plain() for key, node in members.items()}
            case tuple() as items:
                return [node.plain() for node in items]
            case scalar:
                return scalar

    def __iter__(self) -> "Iterator[Node]":
        return iter(self.items())

    def items(self) -> "tuple[Node, ...]":
        """The elements of an array."""
        return (
            self.value
            if isinstance(self.value, tuple)
            else self.fail(f"must be an array, not {_kind(self.value)}")
        )

    def members(self) -> "dict[str, Node]":
        """The members of an object."""
        return (
            self.value
            if isinstance(self.value, dict)
            else self.fail(f"must be an object, not {_kind(self.value)}")
        )

    def optional(self, name: str) -> "tuple[Node, ...]":
        """The elements of an array among the members, none where it is left out."""
        return self.members()[name].items() if name in self.members() else ()

    def string(self, *, empty: bool = False) -> str:
        """A text of printable characters, not absurdly long."""
        if not isinstance(self.value, str):
            self.fail(f"must be a string, not {_kind(self.value)}")
        if not (self.value or empty) or len(self.value) > 2000 or not self.value.isprintable():
            self.fail("must be 1 to 2000 printable characters")
        return self.value

    def flag(self) -> bool:
        return (
            self.value
            if isinstance(self.value, bool)
            else self.fail(f"must be true or false, not {_kind(self.value)}")
        )

    def whole(self, low: float, high: float) -> int:
        """An integer in [low, high]."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail(f"must be a whole number, not {_kind(self.value)}")
        if not low <= self.value <= high:
            self.fail(f"must be from {low} to {high}, not {self.value}")
        return self.value

    def number(self, low: float, high: float) -> float:
        """A number in [low, high]."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.fail(f"must be a number, not {_kind(self.value)}")
        if not low <= self.value <= high:
            self.fail(f"must be from {low:g} to {high:g}, not {self.value}")
        return float(self.value)

    def choice(self, allowed: Sequence[str]) -> str:
        """One of the `allowed` strings."""
        word = self.string()
        return word if word in allowed else self.fail(f"must be one of {', '.join(allowed)}, not {word!r}")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return "a string"
        case int() | float():
            return str(value)
        case tuple():
            return "an array"
        case _:
            return "an object"


def load(path: str | Path) -> str:
    """The text of a file; `TwillError` where it cannot be read as UTF-8."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise TwillError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TwillError(
            f"not UTF-8 text: byte 0x{data[error.start]:02x}", Location(str(path), line)
        ) from None


def parse(text: str, file: str) -> Node:
    """The one value that the text holds; `TwillError` where it is not JSON or too large."""
    source = Text(file, text)
    if len(text) > MAX_CHARACTERS:
        source.fail(0, f"the file is larger than {MAX_CHARACTERS} characters")
    node = _value(source, _skip(source, 0), "", 0)
    rest = _skip(source, node.end)
    if rest != len(text):
        source.fail(rest, "text after the end of the document")
    return node


def schema(root: Node, name: str) -> None:
    """Fails unless the document says that it is of this schema and version."""
    stated = root.members().get("schema")
    if stated is None:
        root.fail("'schema' is missing", help=f'the first member must be "schema": "{name}"')
    if stated.value != name:
        stated.fail(f"must be {name!r}", help="another kind or version of document")


def _skip(source: Text, offset: int) -> int:
    match = _SPACE.match(source.text, offset)
    return match.end() if match else offset


def _value(source: Text, at: int, path: str, depth: int) -> Node:
    head = source.text[at : at + 1]
    if head in ("{", "[") and depth >= MAX_DEPTH:
        source.fail(at, f"nested more than {MAX_DEPTH} deep")
    match head:
        case "{":
            return _object(source, at, path, depth)
        case "[":
            return _array(source, at, path, depth)
        case '"':
            value, end = _string(source, at)
            return Node(value, path, at, end, source)
        case _:
            return _scalar(source, at, path)


def _scalar(source: Text, at: int, path: str) -> Node:
    for word, value in _WORDS:
        if source.text.startswith(word, at):
            return Node(value, path, at, at + len(word), source)
    match = _NUMBER.match(source.text, at)
    if at == len(source.text):
        source.fail(at, "the file ends in the middle of the document")
    if not match:
        source.fail(
            at,
            "expected a JSON value",
            help="strings and names stand in double quotes; NaN and Infinity are not JSON",
        )
    if len(match[0]) > MAX_DIGITS:
        source.fail(at, f"a number of more than {MAX_DIGITS} characters", span=len(match[0]))
    whole = match[2] is None and match[3] is None
    return Node(int(match[0]) if whole else float(match[0]), path, at, match.end(), source)


def _string(source: Text, at: int) -> tuple[str, int]:
    try:
        return _STRINGS.raw_decode(source.text, at)
    except json.JSONDecodeError as error:
        source.fail(
            min(error.pos, len(source.text)), error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        )


def _array(source: Text, start: int, path: str, depth: int) -> Node:
    items: list[Node] = []
    at = _skip(source, start + 1)
    if source.text[at : at + 1] == "]":
        return Node((), path, start, at + 1, source)
    while True:
        items.append(_value(source, at, f"{path}[{len(items)}]", depth + 1))
        at, more = _next(source, items[-1].end, "]")
        if not more:
            return Node(tuple(items), path, start, at, source)


def _object(source: Text, start: int, path: str, depth: int) -> Node:
    members: dict[str, Node] = {}
    at = _skip(source, start + 1)
    if source.text[at : at + 1] == "}":
        return Node(members, path, start, at + 1, source)
    while True:
        if source.text[at : at + 1] != '"':
            source.fail(at, "expected a name in double quotes")
        key, end = _string(source, at)
        if key in members:
            source.fail(at, f"{key!r} stands here twice", span=end - at)
        colon = _skip(source, end)
        if source.text[colon : colon + 1] != ":":
            source.fail(colon, "expected ':'")
        members[key] = _value(source, _skip(source, colon + 1), f"{path}.{key}" if path else key, depth + 1)
        at, more = _next(source, members[key].end, "}")
        if not more:
            return Node(members, path, start, at, source)


def _next(source: Text, end: int, closing: str) -> tuple[int, bool]:
    """Behind the comma and whether there is one; else behind the closing bracket."""
    at = _skip(source, end)
    mark = source.text[at : at + 1]
    if mark not in (",", closing):
        source.fail(at, f"expected ',' or '{closing}'")
    return (_skip(source, at + 1), True) if mark == "," else (at + 1, False)


def render(document: Mapping[str, Json]) -> str:
    """JSON with a line for every member, and for every element of the arrays of objects among them."""
    lines = [f"  {_inline(key)}: {_block(value)}" for key, value in document.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _block(value: Json) -> str:
    if (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and any(isinstance(item, Mapping) for item in value)
    ):
        return "[\n" + ",\n".join(f"    {_inline(item)}" for item in cast("Sequence[Json]", value)) + "\n  ]"
    return _inline(value)


def _inline(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
