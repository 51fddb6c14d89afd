"""Words of PTX text.

Takes the text; gives its tokens with their places. An opcode with its modifiers is one token. Comments and
white space are left out.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<word>[%A-Za-z_$][\w$]*(?:(?:\.|::)\w+)*|\.[A-Za-z_]\w*(?:(?:\.|::)\w+)*)
    |(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
    |(?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<mark><<|>>|[{}\[\](),;:|@!+\-<>=*~&^/%.])
    |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    """word, float, integer, string, mark, bad, or end."""
    text: str
    at: int
    """Offset in the text."""


def tokens(text: str) -> list[Token]:
    """All tokens and one of kind `end`."""
    found = [
        Token(match.lastgroup or "bad", match.group(), match.start())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]
    return [*found, Token("end", "", len(text))]


class Places:
    """Offsets of a text as lines and columns."""

    def __init__(self, text: str) -> None:
        self._starts: Sequence[int] = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, at: int) -> int:
        return bisect_right(self._starts, at)

    def column(self, at: int) -> int:
        return at - self._starts[self.line(at) - 1] + 1
