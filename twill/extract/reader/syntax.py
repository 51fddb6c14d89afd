"""A cursor over tokens, and the attributes and bracketed text that all of MLIR shares.

Takes tokens; gives the attribute values of `twill.ir.loop`. Raises TwillError at the offending token. Nesting
is limited, so that hostile text cannot exhaust the stack, and no text is read more than once per level of
nesting.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from twill.diagnostics import TwillError
from twill.extract.reader.lexer import Token, Tokens
from twill.ir.loop import Attribute, Raw

MAX_NESTING = 60
"""Levels of regions, types, attributes and locations together; real kernels stay below 20."""

CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}

_ESCAPED = re.compile(rb'\\(["\\nt]|[0-9A-Fa-f]{2})')
_LETTERS = {b"n": b"\n", b"t": b"\t"}

T = TypeVar("T")


@dataclass(slots=True)
class Cursor:
    """A position among the tokens of a file, moved forward as they are read."""

    tokens: Tokens
    at: int = 0
    nesting: int = 0

    @property
    def token(self) -> Token:
        """The token that is read next."""
        return self.tokens.items[self.at]

    @property
    def after(self) -> Token:
        """The token behind that one."""
        return self.tokens.items[min(self.at + 1, len(self.tokens.items) - 1)]

    @property
    def previous(self) -> Token:
        return self.tokens.items[self.at - 1]

    def next(self) -> Token:
        """Reads one token; raises at the end of the file."""
        token = self.token
        if token.kind == "end":
            raise self.error("the text ends in the middle of an operation", help="is the file complete?")
        self.at += 1
        return token

    def sees(self, *texts: str) -> bool:
        return self.token.text in texts and self.token.kind != "string"

    def accept(self, text: str) -> bool:
        """Reads the next token if it is `text`."""
        if not self.sees(text):
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> Token:
        """Reads the next token, which must be `text`."""
        return self.next() if self.sees(text) else self.fail(f"expected `{text}`")

    def expect_kind(self, kind: str, what: str) -> Token:
        """Reads the next token, which must be of `kind`."""
        return self.next() if self.token.kind == kind else self.fail(f"expected {what}")

    def fail(self, message: str) -> Token:
        """Raises: `message`, and what stands here instead."""
        if self.token.kind == "end":
            self.next()
        raise self.error(f"{message}, found `{self.token.text[:40]}`")

    def error(self, message: str, token: Token | None = None, *, help: str | None = None) -> TwillError:
        """An error at `token`, by default at the next one."""
        place = token or self.token
        return self.tokens.error(message, place.start, span=max(1, len(place.text)), help=help)

    @contextmanager
    def nested(self) -> Generator[None]:
        """One more level of nesting."""
        if self.nesting >= MAX_NESTING:
            raise self.error(f"nested more than {MAX_NESTING} levels deep")
        self.nesting += 1
        try:
            yield
        finally:
            self.nesting -= 1

    def fork(self, at: int) -> Cursor:
        """Another cursor, at token number `at`, as deep as this one."""
        return Cursor(self.tokens, at, self.nesting)

    def listed(self, opening: str, item: Callable[[], T]) -> tuple[T, ...]:
        """`opening item, item, ... closing`."""
        self.expect(opening)
        closing = CLOSING[opening]
        items: list[T] = []
        with self.nested():
            while not self.accept(closing):
                if items:
                    self.expect(",")
                items.append(item())
        return tuple(items)

    def balanced(self) -> str:
        """Reads a bracketed text whole, whatever it holds; gives it as written."""
        first = self.token
        open_brackets: list[Token] = []
        while True:
            token = self.next()
            if token.kind == "mark" and token.text in CLOSING:
                open_brackets.append(token)
            elif token.kind == "mark" and token.text in CLOSING.values():
                if not open_brackets or CLOSING[open_brackets[-1].text] != token.text:
                    raise self.error(f"`{token.text}` closes nothing", token)
                open_brackets.pop()
            if not open_brackets:
                return self.tokens.text[first.start : token.end]


def attribute(cursor: Cursor) -> Attribute:
    """One attribute value, its `: type` included."""
    value = bare_attribute(cursor)
    dtype = optional_type(cursor)
    return number(value.text, dtype) if isinstance(value, Token) else value


def bare_attribute(cursor: Cursor) -> Attribute | Token:
    """One attribute value without a type; a number as its token."""
    token = cursor.token
    match token.kind, token.text:
        case "mark", "[":
            return cursor.listed("[", lambda: attribute(cursor))
        case "mark", "{":
            return dict(cursor.listed("{", lambda: entry(cursor)))
        case "word", "array":
            return array(cursor)
        case "word", "true" | "false" | "unit":
            return cursor.next().text != "false"
        case (("int" | "hex" | "float"), _):
            return cursor.next()
        case "string", _:
            return unquoted(cursor.next().text)
        case "word", _ if cursor.after.text != "<":
            return cursor.next().text
        case (("word" | "alias" | "type" | "symbol"), _):
            return raw(cursor)
        case _:
            cursor.fail("expected the value of an attribute")
            return False


def raw(cursor: Cursor) -> Raw:
    """A name with the bracketed text behind it, as written: `#ttg.foo<...>`, `dense<...> : tensor<...>`."""
    start = cursor.next().start
    if cursor.sees("<"):
        cursor.balanced()
    return Raw(cursor.tokens.text[start : cursor.previous.end])


def array(cursor: Cursor) -> Attribute:
    """`array<i32: 1, 0>`."""
    cursor.next()
    cursor.expect("<")
    cursor.expect_kind("word", "an element type")
    items: list[Attribute] = []
    with cursor.nested():
        while not cursor.accept(">"):
            cursor.expect("," if items else ":")
            items.append(attribute(cursor))
    return tuple(items)


def entry(cursor: Cursor) -> tuple[str, Attribute]:
    """`name = value`, or `name` alone, which is True."""
    token = cursor.next()
    match token.kind:
        case "word":
            name = token.text
        case "string":
            name = unquoted(token.text)
        case _:
            raise cursor.error("expected the name of an attribute", token)
    return name, attribute(cursor) if cursor.accept("=") else True


def optional_type(cursor: Cursor) -> str | None:
    """`: type` of an attribute, as written."""
    if not cursor.accept(":"):
        return None
    start = cursor.next()
    if start.text in CLOSING:
        cursor.at -= 1
        return cursor.balanced()
    if cursor.sees("<"):
        cursor.balanced()
    return cursor.tokens.text[start.start : cursor.previous.end]


FLOATS = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}
"""Formats that turn the bits of a float into its value."""


def number(text: str, dtype: str | None) -> Attribute:
    """The value of a literal; hexadecimal digits are the bits of a float where the type is one."""
    if not text.lstrip("-").startswith("0x"):
        return float(text) if "." in text or is_float(dtype) else int(text)
    bits = int(text, 16)
    if dtype == "bf16":
        dtype, bits = "f32", bits << 16
    if dtype not in FLOATS:
        return Raw(text) if is_float(dtype) else bits
    pack, unpack = FLOATS[dtype]
    size = struct.calcsize(pack)
    return struct.unpack(unpack, (bits & (256**size - 1)).to_bytes(size, "little"))[0]


def is_float(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("f", "bf", "tf"))


def unquoted(text: str) -> str:
    """The characters of a quoted string, in which MLIR escapes bytes as two hexadecimal digits."""
    return _ESCAPED.sub(_unescaped, text[1:-1].encode(errors="replace")).decode(errors="replace")


def _unescaped(found: re.Match[bytes]) -> bytes:
    escaped = found.group(1)
    return bytes.fromhex(escaped.decode()) if len(escaped) == 2 else _LETTERS.get(escaped, escaped)
