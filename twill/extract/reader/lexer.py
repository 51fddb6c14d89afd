"""TTGIR text to tokens.

Takes the text of a file; gives its tokens in order, in one linear pass, and the line and column of any of
them. Raises TwillError at the first character that begins no token.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from twill.diagnostics import Location, TwillError


class Token(NamedTuple):
    """`kind` is a key of `PATTERNS`, or `end` behind the last one; `start` is the offset of `text`."""

    kind: str
    text: str
    start: int
    first: bool
    """Whether it is the first token of its line."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


PATTERNS = {
    "space": r"[ \t\r\n]+|//[^\n]*",
    "value": r"%[\w$.-]+(?:#\d+)?",
    "alias": r"#[A-Za-z_][\w$.]*",
    "type": r"![A-Za-z_][\w$.]*",
    "symbol": r'@(?:[A-Za-z_$.-][\w$.-]*|"(?:[^"\\\n]|\\.)*")',
    "block": r"\^[\w$.-]+",
    "string": r'"(?:[^"\\\n]|\\.)*"',
    "hex": r"-?0x[0-9A-Fa-f]+",
    "dims": r"(?:(?:\d+|\?)x)+",
    "float": r"-?\d+\.\d*(?:[eE][+-]?\d+)?",
    "int": r"-?\d+",
    "word": r"[A-Za-z_][\w$.]*",
    "arrow": r"->",
    "mark": r"[()\[\]{}<>,:=*|+?;/-]",
}
"""Kinds in the order they are tried. `dims` is `64x128x` of `64x128xf32`, and wins over `int`."""

NUMBERS = frozenset({"hex", "dims", "float", "int"})

TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS.items()))

LONGEST_NUMBER = 100
"""Digits of a number, and characters of a shape; longer ones mean nothing."""

RESOURCES = "{-#"
"""Opens the blobs that may follow a module, up to the end of the file."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of `text`, closed by one of kind `end`."""

    text: str
    file: str
    items: tuple[Token, ...]
    lines: tuple[int, ...]
    """Offset of the first character of each line."""

    def location(self, offset: int) -> Location:
        """Line and column of a character."""
        line = bisect_right(self.lines, offset)
        return Location(self.file, line, offset - self.lines[line - 1] + 1)

    def error(self, message: str, offset: int, *, span: int = 1, help: str | None = None) -> TwillError:
        """An error that shows the line of `offset`, `span` characters of it marked."""
        place = self.location(offset)
        line = self.text[self.lines[place.line - 1] :].partition("\n")[0] if offset <= len(self.text) else ""
        return TwillError(message, place, text=line, span=span, help=help)


def tokenize(text: str, file: str) -> Tokens:
    """The tokens of `text`; `file` names it in errors."""
    lines = (0, *(match.end() for match in re.finditer("\n", text)))
    tokens = Tokens(text, file, tuple(scan(text)), lines)
    last = tokens.items[-1]
    if last.start < len(text):
        raise tokens.error(*unreadable(text, last.start))
    return tokens


def scan(text: str) -> list[Token]:
    """Tokens up to the first character that begins none, then the `end` token there."""
    items: list[Token] = []
    at, first = 0, True
    while match := TOKEN.match(text, at):
        if text.startswith(RESOURCES, at):
            break
        kind = match.lastgroup or ""
        if kind in NUMBERS and match.end() - at > LONGEST_NUMBER:
            break
        if kind == "space":
            first = first or "\n" in match.group()
        else:
            items.append(Token(kind, match.group(), at, first))
            first = False
        at = match.end()
    at = len(text) if text.startswith(RESOURCES, at) and text.rstrip().endswith("#-}") else at
    return [*items, Token("end", "", at, True)]


def unreadable(text: str, at: int) -> tuple[str, int]:
    """What is wrong at `at`, where no token begins, and where."""
    if text[at] == '"':
        return "a string begins here that does not end on its line", at
    if text[at].isdecimal() or text[at] == "-":
        return "this number is too long", at
    return f"unexpected character {text[at]!r}", at
