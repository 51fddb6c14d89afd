"""`loc(...)`: where in Python an operation comes from.

Takes a cursor at `loc` and the location aliases of the file; gives the chain of calls, innermost first, and
the Python variable, through any nesting of names, call sites, fused locations and aliases. Chains beyond
`MAX_CHAIN` are cut, so that reading stays linear in the text. Raises TwillError where the text is none of
these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from twill.diagnostics import Location
from twill.extract.reader.syntax import Cursor, unquoted

MAX_CHAIN = 16
"""Calls kept of one chain."""


@dataclass(frozen=True, slots=True)
class PythonLocation:
    """Calls, innermost first, and the variable that the value was assigned to."""

    sources: tuple[Location, ...] = ()
    label: str | None = None
    first: str | None = None
    """The name that it had before: a kernel's parameter under its own name, however it is called later."""


@dataclass(slots=True)
class Places:
    """Reads locations, with the location aliases of one file."""

    aliases: Mapping[str, int]
    """The token at which the value of each alias begins."""
    known: dict[str, PythonLocation] = field(default_factory=dict[str, PythonLocation])

    def read(self, cursor: Cursor) -> PythonLocation:
        """`loc(...)`, the cursor at `loc`."""
        cursor.expect("loc")
        cursor.expect("(")
        with cursor.nested():
            place = self.inside(cursor)
        cursor.expect(")")
        return place

    def inside(self, cursor: Cursor) -> PythonLocation:
        """What stands between the parentheses."""
        token = cursor.token
        match token.kind, token.text:
            case "alias", _:
                return self.alias(cursor)
            case "string", _:
                return self.named(cursor)
            case "word", "callsite":
                return self.call(cursor)
            case "word", "fused":
                return self.fused(cursor)
            case "word", "unknown":
                cursor.next()
                return PythonLocation()
            case _:
                cursor.fail("expected a location")
                raise AssertionError

    def nested(self, cursor: Cursor) -> PythonLocation:
        """A location inside another."""
        with cursor.nested():
            return self.inside(cursor)

    def alias(self, cursor: Cursor) -> PythonLocation:
        """`#loc12`. Chains of names are walked in a loop: Triton names a loop once for each of its carried
        values."""
        token = cursor.next()
        name = token.text
        chain: dict[str, str | None] = {}
        while name not in self.known:
            if name not in self.aliases or name in chain:
                raise cursor.error(f"location `{name}` is not defined", token, help="is the file complete?")
            ahead = cursor.fork(self.aliases[name])
            chain[name] = self.opened(ahead)
            if ahead.token.kind != "alias":
                self.known[name] = labelled(self.nested(ahead), chain.pop(name))
            else:
                name = ahead.token.text
        place = self.known[name]
        for link, label in reversed(chain.items()):
            place = self.known[link] = labelled(place, label)
        return place

    def opened(self, cursor: Cursor) -> str | None:
        """Reads `loc(` or `loc("name"(`; gives the name."""
        cursor.expect("loc")
        cursor.expect("(")
        if cursor.token.kind != "string" or cursor.after.text != "(":
            return None
        name = unquoted(cursor.next().text)
        cursor.next()
        return name

    def named(self, cursor: Cursor) -> PythonLocation:
        """`"file":12:3`, `"file":12:3 to :14:5`, `"name"(location)`, or a bare name."""
        text = unquoted(cursor.next().text)
        if cursor.accept("("):
            place = self.nested(cursor)
            cursor.expect(")")
            return labelled(place, text)
        if not cursor.accept(":"):
            return PythonLocation(label=text, first=text)
        line = self.count(cursor)
        cursor.expect(":")
        column = self.count(cursor)
        if cursor.accept("to"):
            while cursor.accept(":"):
                self.count(cursor)
        return PythonLocation((Location(text, line, max(column, 1)),))

    def count(self, cursor: Cursor) -> int:
        return int(cursor.expect_kind("int", "a number").text[:10])

    def call(self, cursor: Cursor) -> PythonLocation:
        """`callsite(callee at caller)`."""
        cursor.next()
        cursor.expect("(")
        callee = self.nested(cursor)
        cursor.expect("at")
        caller = self.nested(cursor)
        cursor.expect(")")
        return PythonLocation((callee.sources + caller.sources)[:MAX_CHAIN], callee.label or caller.label)

    def fused(self, cursor: Cursor) -> PythonLocation:
        """`fused[a, b]` or `fused<metadata>[a, b]`: the first that is known."""
        cursor.next()
        if cursor.sees("<"):
            cursor.balanced()
        parts = cursor.listed("[", lambda: self.inside(cursor))
        return next((part for part in parts if part.sources), PythonLocation())


def labelled(place: PythonLocation, label: str | None) -> PythonLocation:
    """`place` under `label`, if there is one."""
    return replace(place, label=label, first=place.first or label) if label else place
