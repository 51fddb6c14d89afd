"""Words of PTX text.

Takes the text; gives its tokens with their places. An opcode with its modifiers is one token. Comments,
white space and sections of debug information are left out: of a file with many kernels, these sections are
the greater part.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*|/\*.*?\*/|\.section\s+\.debug_\w+\s*\{[^}]*\})*
    (?:(?P<word>[%A-Za-z_$][\w$]*(?:(?:\.|::)\w+)*|\.[A-Za-z_]\w*(?:(?:\.|::)\w+)*)
    |(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
    |(?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<mark><<|>>|[{}\[\](),;:|@!+\-<>=*~&^/%.])
    |(?P<end>\Z)
    |(?P<bad>.))""",
    re.VERBOSE | re.DOTALL,
)
"""A token behind what is left out."""


class Token(NamedTuple):
    kind: str
    """word, float, integer, string, mark, bad, or end."""
    text: str
    at: int
    """Offset in the text."""


def tokens(text: str) -> list[Token]:
    """All tokens, the last one of kind `end`."""
    found = list[Token]()
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "end"
        found.append(Token(kind, match[kind], match.start(kind)))
        if kind == "end":
            break
    return found


class Places:
    """Offsets of a text as lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts: Sequence[int] = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, at: int) -> int:
        return bisect_right(self._starts, at)

    def column(self, at: int) -> int:
        return at - self._starts[self.line(at) - 1] + 1
