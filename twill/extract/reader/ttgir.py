"""TTGIR text to `Module`, without Triton.

Takes the text of a file as Triton 3.5 to 3.9 writes it (printed by a compiler pass, from Triton's cache or by
hand); gives its functions with every operation, value, type and location. Guarantees: the time is linear in
the text, and text that is truncated, malformed or hostile raises exactly one TwillError that points at its
place.

    module = read(Path("fa_fwd.sm90.ttgir").read_text(), "fa_fwd.sm90.ttgir")
    for loop in twill.extract.dependence.loops.loops(module):
        print(loop.path, loop.location, loop.refusal)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twill.extract.reader.control import READERS, carried_types
from twill.extract.reader.lexer import Token, Tokens, tokenize
from twill.extract.reader.locations import Places, PythonLocation
from twill.extract.reader.operations import Operations, Scope
from twill.extract.reader.syntax import Cursor, attribute, entry
from twill.extract.reader.types import Types
from twill.ir import loop as ir


def read(text: str, file: str) -> ir.Module:
    """The module that `text` describes; `file` names it in locations."""
    tokens = tokenize(text, file)
    encodings, places, named = aliases(tokens)
    cursor, types = Cursor(tokens), Types(encodings, named)
    reader = Reader(cursor, Operations(cursor, types, Places(places), READERS))
    attributes, functions = reader.file()
    return ir.Module(text, file, attributes, functions, named_encodings(cursor, types))


def aliases(tokens: Tokens) -> tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int]]:
    """Where the value of each alias begins, as token numbers: encodings, locations, and types."""
    encodings: dict[str, int] = {}
    places: dict[str, int] = {}
    types: dict[str, int] = {}
    for at, (token, equals) in enumerate(zip(tokens.items, tokens.items[1:], strict=False)):
        if token.kind in ("alias", "type") and token.first and equals.text == "=":
            table = (
                types if token.kind == "type" else places if tokens.items[at + 2].text == "loc" else encodings
            )
            if token.text in table:
                raise tokens.error(
                    f"`{token.text}` is defined twice",
                    token.start,
                    span=len(token.text),
                    help="a file holds one module",
                )
            table[token.text] = at + 2
    return encodings, places, types


def named_encodings(cursor: Cursor, types: Types) -> Mapping[str, ir.Encoding]:
    """The aliases that name encodings."""
    items = cursor.tokens.items
    named = [(name, at) for name, at in types.aliases.items() if items[at].kind == "alias"]
    read = {name: types.encoding(cursor.fork(at)) for name, at in named}
    return {name: encoding for name, encoding in read.items() if not isinstance(encoding, ir.UnknownEncoding)}


def _with_clusters(function: ir.Function, module: Mapping[str, ir.Attribute]) -> ir.Function:
    """The function with its own module's number of thread blocks, which that of another module would hide."""
    blocks = {name: value for name, value in module.items() if name == "ttg.num-ctas"}
    return replace(function, attributes={**blocks, **function.attributes}) if blocks else function


@dataclass(slots=True)
class Reader:
    """Reads what stands outside functions, and the headers of functions."""

    cursor: Cursor
    ops: Operations

    def file(self) -> tuple[Mapping[str, ir.Attribute], tuple[ir.Function, ...]]:
        """Aliases, then one module or bare functions; the attributes of the module and the functions."""
        cursor = self.cursor
        attributes: Mapping[str, ir.Attribute] = {}
        functions: tuple[ir.Function, ...] | None = None
        loose: list[ir.Function] = []
        while cursor.token.kind != "end":
            if cursor.token.kind in ("alias", "type"):
                self.alias()
            elif cursor.sees("module", "builtin.module") and functions is None:
                attributes, functions = self.module()
            elif cursor.sees("tt.func"):
                loose.append(self.function())
            elif cursor.sees("module", "builtin.module"):
                raise cursor.error(
                    "a second module begins here", help="a file holds one module: keep the one to schedule"
                )
            else:
                cursor.fail("expected a module, a function or an alias")
        if functions is None and not loose:
            raise cursor.error("the file holds no module", help="expected the text of TTGIR")
        return attributes, (*(functions or ()), *loose)

    def alias(self) -> None:
        """`#name = value`, `!name = type`; aliases have been collected before, so this only checks the
        value."""
        kind = self.cursor.next().kind
        self.cursor.expect("=")
        if kind == "type":
            self.ops.types.type(self.cursor)
        elif self.cursor.sees("loc"):
            self.ops.places.read(self.cursor)
        else:
            attribute(self.cursor)

    def module(self) -> tuple[Mapping[str, ir.Attribute], tuple[ir.Function, ...]]:
        """`module attributes {..} { functions }`; attributes of a module inside it count for both."""
        cursor = self.cursor
        cursor.next()
        if cursor.token.kind == "symbol":
            cursor.next()
        attributes = self.dictionary() if cursor.accept("attributes") else {}
        opening = cursor.expect("{")
        functions: list[ir.Function] = []
        with cursor.nested():
            while cursor.sees("tt.func", "module", "builtin.module"):
                if cursor.sees("tt.func"):
                    functions.append(self.function())
                else:
                    inner, own = self.module()
                    attributes = {**attributes, **inner}
                    functions.extend(_with_clusters(function, inner) for function in own)
        if cursor.token.kind == "end":
            raise self.ops.unclosed(opening)
        cursor.expect("}")
        self.place()
        return attributes, tuple(functions)

    def function(self) -> ir.Function:
        """`tt.func public @name(%a: T {..} loc(..)) -> T attributes {..} { ... } loc(..)`."""
        cursor = self.cursor
        start = cursor.expect("tt.func")
        public = not any([cursor.accept("private"), cursor.accept("nested")])
        cursor.accept("public")
        name = cursor.expect_kind("symbol", "the name of the function").text.removeprefix("@").strip('"')
        scope = Scope()
        parameters = cursor.listed("(", self.parameter)
        args = tuple(
            self.ops.argument(scope, token, ty, k) for k, (token, ty, *_) in enumerate(parameters) if token
        )
        results = carried_types(self.ops) if cursor.accept("->") else ()
        attributes = self.dictionary() if cursor.accept("attributes") else {}
        body = self.ops.region(scope, args) if cursor.sees("{") else None
        return ir.Function(
            name=name,
            args=args,
            arg_attributes=tuple(attributes for _, _, attributes, _ in parameters),
            results=results,
            body=body,
            attributes=attributes,
            public=public,
            location=cursor.tokens.location(start.start),
            sources=self.place().sources,
            parameters=tuple(name for *_, name in parameters),
        )

    def parameter(self) -> tuple[Token | None, ir.Type, Mapping[str, ir.Attribute], str | None]:
        """`%a: T {attributes} loc(..)`; a declaration leaves the name out."""
        cursor = self.cursor
        token = cursor.next() if cursor.token.kind == "value" else None
        if token:
            cursor.expect(":")
        ty = self.ops.types.type(cursor)
        attributes = self.dictionary() if cursor.sees("{") else {}
        return token, ty, attributes, self.place().first

    def dictionary(self) -> dict[str, ir.Attribute]:
        return dict(self.cursor.listed("{", lambda: entry(self.cursor)))

    def place(self) -> PythonLocation:
        """`loc(..)`, if it stands here."""
        return self.ops.places.read(self.cursor) if self.cursor.sees("loc") else PythonLocation()
