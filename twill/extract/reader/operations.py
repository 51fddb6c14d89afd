"""Operations, blocks and regions: their text to the values of `twill.ir.loop`.

Takes a cursor inside a function; gives operations with resolved operands. Everything is read by the common
form, which knows no operation by name but by its row in `twill.ops`, except what `control` reads. Raises
TwillError at the offending token; a value must be defined before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from twill.diagnostics import TwillError
from twill.extract.reader import op_syntax as forms
from twill.extract.reader.lexer import Token
from twill.extract.reader.locations import Places, PythonLocation
from twill.extract.reader.syntax import Cursor, bare_attribute, entry, number, unquoted
from twill.extract.reader.types import Types
from twill.ir import loop as ir
from twill.ops.row import Role
from twill.ops.table import role_of, syntax


@dataclass(slots=True)
class Scope:
    """The values that a region can name: its own and those around it."""

    parent: Scope | None = None
    names: dict[str, tuple[ir.Value, ...]] = field(default_factory=dict[str, tuple[ir.Value, ...]])

    def find(self, name: str) -> tuple[ir.Value, ...] | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


@dataclass(slots=True)
class Draft:
    """What has been read of one operation."""

    name: str
    token: Token
    operands: list[ir.Value] = field(default_factory=list[ir.Value])
    attributes: dict[str, ir.Attribute] = field(default_factory=dict[str, ir.Attribute])
    regions: list[ir.Region] = field(default_factory=list[ir.Region])
    inputs: tuple[ir.Type, ...] = ()
    outputs: tuple[ir.Type, ...] | None = None
    slot: ir.AttributeSlot | None = None
    symbols: list[str] = field(default_factory=list[str])
    words: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Operations:
    """Reads the operations of one file, numbering them and their values."""

    cursor: Cursor
    types: Types
    places: Places
    readers: Mapping[Role, Reader]
    """Of the operations that the common form does not cover."""
    ops: int = 0
    values: int = 0

    # --- values --------------------------------------------------------------------------------------------

    def use(self, scope: Scope, token: Token) -> ir.Value:
        """The value that `token` names."""
        name, _, position = token.text.partition("#")
        values = scope.find(name)
        if values is None:
            raise self.cursor.error(f"`{name}` is used before it is defined", token)
        if len(position) > 6 or int(position or 0) >= len(values):
            raise self.cursor.error(f"`{name}` has only {len(values)} results", token)
        return values[int(position or 0)]

    def operand(self, scope: Scope) -> ir.Value:
        """Reads one value."""
        return self.use(scope, self.cursor.expect_kind("value", "a value"))

    def define(
        self, scope: Scope, token: Token, name: str, types: tuple[ir.Type, ...], op: int | None, first: int
    ) -> None:
        """Makes the values that one name stands for, `first` being the position of the first one."""
        if name in scope.names:
            raise self.cursor.error(f"`{name}` is defined twice", token)
        labels = [f"{name}#{k}" for k in range(len(types))] if len(types) > 1 else [name]
        scope.names[name] = tuple(
            ir.Value(self.fresh(), label, ty, op, first + k)
            for k, (label, ty) in enumerate(zip(labels, types, strict=True))
        )

    def fresh(self) -> int:
        """The number of a new value."""
        self.values += 1
        return self.values - 1

    def argument(self, scope: Scope, token: Token, type: ir.Type, position: int) -> ir.Value:
        """Defines one argument of a block or function."""
        self.define(scope, token, token.text, (type,), None, position)
        return scope.names[token.text][0]

    # --- one operation -------------------------------------------------------------------------------------

    def operation(self, scope: Scope) -> ir.Op:
        """One operation with its regions and location; its results become known in `scope`."""
        cursor = self.cursor
        start = cursor.token.start
        names = self.result_names()
        token = cursor.next()
        if token.kind not in ("word", "string"):
            raise cursor.error(f"expected an operation, found `{token.text[:40]}`", token)
        draft = Draft(unquoted(token.text) if token.kind == "string" else token.text, token)
        index, self.ops = self.ops, self.ops + 1
        read = self.readers.get(role_of(token.text))
        if read:
            read(self, draft, scope)
        else:
            self.common(draft, scope)
        end = cursor.previous.end
        place = self.places.read(cursor) if cursor.sees("loc") else PythonLocation()
        results = self.results(draft, index, names, scope)
        return ir.Op(
            index=index,
            name=draft.name,
            operands=self.declared(draft),
            results=results,
            attributes=draft.attributes,
            regions=tuple(draft.regions),
            location=cursor.tokens.location(token.start),
            span=ir.SourceSpan(start, end),
            slot=draft.slot or ir.AttributeSlot(end, None),
            sources=place.sources,
            label=place.label,
            symbols=tuple(draft.symbols),
        )

    def result_names(self) -> list[tuple[Token, int]]:
        """`%a, %b:2 =`; the names and how many results each stands for."""
        cursor = self.cursor
        names: list[tuple[Token, int]] = []
        while cursor.token.kind == "value":
            token = cursor.next()
            count = (
                int(cursor.expect_kind("int", "a number of results").text[:6]) if cursor.accept(":") else 1
            )
            if not 0 < count <= 10_000 or "#" in token.text:
                raise cursor.error("expected a name for one or more results", token)
            names.append((token, count))
            if not cursor.accept(","):
                cursor.expect("=")
                break
        return names

    def results(
        self, draft: Draft, index: int, names: list[tuple[Token, int]], scope: Scope
    ) -> tuple[ir.Value, ...]:
        """Defines the results of an operation that has been read."""
        if not names and role_of(draft.name) in self.readers:
            return tuple(
                ir.Value(self.fresh(), "%_", ty, index, k) for k, ty in enumerate(draft.outputs or ())
            )
        count = sum(count for _, count in names)
        types = forms.result_types(draft.name, count, draft.inputs, draft.outputs) if count else ()
        if len(types) != count:
            raise self.cursor.error(
                f"{count} results are named, but the text gives types for {len(types)}", draft.token
            )
        position = 0
        for token, width in names:
            self.define(scope, token, token.text, types[position : position + width], index, position)
            position += width
        return tuple(value for token, _ in names for value in scope.names[token.text])

    def declared(self, draft: Draft) -> tuple[ir.Value, ...]:
        """The operands in their declared order."""
        operands = tuple(draft.operands)
        odd = next(
            (
                value
                for value, ty in forms.given_types(draft.name, operands, draft.inputs, draft.outputs)
                if value.type != ty
            ),
            None,
        )
        if odd:
            raise self.cursor.error(
                f"`{odd.name}` is given another type than it was defined with", draft.token
            )
        form = syntax(draft.name)
        if len(operands) < form.operands:
            raise self.cursor.error(
                f"{draft.name} takes at least {form.operands} operands, here are {len(operands)}", draft.token
            )
        return form.order(operands) if form.order else operands

    # --- the common form -----------------------------------------------------------------------------------

    def common(self, draft: Draft, scope: Scope) -> None:
        """Reads up to the end of the operation, whatever it is."""
        cursor = self.cursor
        if syntax(draft.name).early:
            self.early(draft)
        while not self.ended():
            match cursor.token.kind, cursor.token.text:
                case "value", _:
                    draft.operands.append(self.operand(scope))
                    self.behind_operand(draft)
                case "mark", "(" | "[":
                    self.group(draft, scope)
                case "mark", "{":
                    self.braces(draft, scope)
                case "mark", "<":
                    self.properties(draft)
                case ("mark", ":") | ("arrow", _):
                    self.type_clause(draft)
                case "word", _:
                    self.word(draft, scope)
                case "symbol", text:
                    draft.symbols.append(text.removeprefix("@").strip('"'))
                    cursor.next()
                case "string", text:
                    draft.attributes[syntax(draft.name).string] = unquoted(text)
                    cursor.next()
                case ("mark", "," | "|") | ("block" | "int" | "float", _):
                    cursor.next()
                case _:
                    cursor.fail(f"{draft.name} is written in a way that is not understood")
        self.name_words(draft)

    def ended(self) -> bool:
        """Whether the operation ends before the next token: at `loc(`, `}`, or where the next one begins."""
        cursor = self.cursor
        token, after = cursor.token, cursor.after
        if cursor.sees("loc", "}") or token.kind == "end":
            return True
        if token.kind == "value" and after.text == "=":
            return True
        if not token.first or cursor.previous.text in CONTINUED:
            return False
        match token.kind:
            case "value":
                return after.text == "," or (
                    after.text == ":" and cursor.fork(cursor.at + 1).after.kind == "int"
                )
            case "word":
                return "." in token.text
            case kind:
                return kind in ("string", "block")

    def early(self, draft: Draft) -> None:
        """The attribute dictionary directly behind the name, or the place for one."""
        if self.cursor.sees("{"):
            self.dictionary(draft)
        else:
            draft.slot = ir.AttributeSlot(draft.token.end, None)

    def group(self, draft: Draft, scope: Scope) -> None:
        """`(...)` or `[...]`: operands in any punctuation, or the regions of a generic operation."""
        cursor = self.cursor
        if cursor.after.text == "{":
            draft.regions.extend(cursor.listed("(", lambda: self.region(Scope(scope))))
            return
        first = cursor.at
        cursor.balanced()
        inside = cursor.tokens.items[first : cursor.at]
        draft.operands.extend(self.use(scope, token) for token in inside if token.kind == "value")
        integers = tuple(int(token.text[:18]) for token in inside if token.kind == "int")
        if integers and inside[0].text == "[":
            draft.attributes[syntax(draft.name).integers] = integers

    def braces(self, draft: Draft, scope: Scope) -> None:
        """`{`: attributes, or a region."""
        first, second = self.cursor.after, self.cursor.fork(self.cursor.at + 1).after
        named = first.kind in ("word", "string") and second.text in ("=", ",", "}")
        if first.text == "}" or (named and not (first.first and "." in first.text and second.text == "}")):
            self.dictionary(draft)
        else:
            draft.regions.append(self.region(Scope(scope)))
            draft.slot = ir.AttributeSlot(self.cursor.previous.end, None)

    def dictionary(self, draft: Draft) -> None:
        """`{a = 1, b}`."""
        offset = self.cursor.token.end
        entries = self.cursor.listed("{", lambda: entry(self.cursor))
        draft.attributes.update(entries)
        draft.slot = ir.AttributeSlot(offset, len(entries))

    def properties(self, draft: Draft) -> None:
        """`<{a = 1}>` of a generic operation."""
        cursor = self.cursor
        cursor.expect("<")
        if not cursor.sees("{"):
            cursor.fail("expected the properties of an operation")
        draft.attributes.update(cursor.listed("{", lambda: entry(cursor)))
        cursor.expect(">")

    def type_clause(self, draft: Draft) -> None:
        """`: A, B -> C`, `: A * B -> C`, `: A to B`, `: (A) -> (B, C)`."""
        cursor = self.cursor
        draft.slot = draft.slot or ir.AttributeSlot(cursor.previous.end, None)
        if cursor.accept(":"):
            if cursor.token.kind == "value":
                return
            draft.inputs = self.type_list()
        if cursor.accept("->") or cursor.accept("to"):
            draft.outputs = self.type_list()

    def type_list(self) -> tuple[ir.Type, ...]:
        """`(A, B)` or `A, B`."""
        cursor = self.cursor
        if cursor.sees("("):
            return cursor.listed("(", lambda: self.types.type(cursor))
        types = [self.types.type(cursor)]
        while not self.names_next() and (cursor.accept(",") or cursor.accept("*")):
            types.append(self.types.type(cursor))
        return tuple(types)

    def behind_operand(self, draft: Draft) -> None:
        """The place for attributes where words may follow it."""
        if syntax(draft.name).behind_operands and not self.cursor.sees("{"):
            draft.slot = draft.slot or ir.AttributeSlot(self.cursor.previous.end, None)

    def names_next(self) -> bool:
        """`, name =`: the list of types ends here."""
        cursor = self.cursor
        return (
            cursor.sees(",") and cursor.after.kind == "word" and cursor.fork(cursor.at + 1).after.text == "="
        )

    def word(self, draft: Draft, scope: Scope) -> None:
        """`name = value`, `name = %operand`, `name<value>`, or a bare word."""
        cursor = self.cursor
        token = cursor.next()
        if cursor.sees("=") and cursor.after.kind == "value":
            cursor.next()
            draft.operands.append(self.operand(scope))
        elif cursor.accept("="):
            value = bare_attribute(cursor)
            draft.attributes[token.text] = number(value.text, None) if isinstance(value, Token) else value
        elif cursor.sees("<"):
            draft.attributes[token.text] = ir.Raw(cursor.balanced())
        elif token.text != "attributes":
            draft.words.append(token.text)

    def name_words(self, draft: Draft) -> None:
        """Files the bare words under the names that the operation's row gives them."""
        names = syntax(draft.name).words
        draft.attributes.update(zip(names, draft.words, strict=False))
        if len(draft.words) > len(names):
            draft.attributes["words"] = tuple(draft.words[len(names) :])

    # --- regions -------------------------------------------------------------------------------------------

    def region(self, scope: Scope, args: tuple[ir.Value, ...] = ()) -> ir.Region:
        """`{ ... }`; `args` are arguments of the entry block that the operation has defined in `scope`."""
        cursor = self.cursor
        opening = cursor.expect("{")
        blocks: list[ir.Block] = []
        with cursor.nested():
            if cursor.token.kind != "block":
                blocks.append(ir.Block(args, self.block(scope)))
            while cursor.token.kind == "block":
                blocks.append(ir.Block(self.block_arguments(scope), self.block(scope)))
        if not cursor.accept("}"):
            raise self.unclosed(opening)
        return ir.Region(tuple(blocks))

    def unclosed(self, opening: Token) -> TwillError:
        """The file ends inside a region."""
        line = self.cursor.tokens.location(opening.start).line
        return self.cursor.error(
            f"the file ends inside the region that begins on line {line}", help="is the file complete?"
        )

    def block(self, scope: Scope) -> tuple[ir.Op, ...]:
        """Operations up to the end of a block."""
        ops: list[ir.Op] = []
        while not self.cursor.sees("}") and self.cursor.token.kind not in ("block", "end"):
            ops.append(self.operation(scope))
        return tuple(ops)

    def block_arguments(self, scope: Scope) -> tuple[ir.Value, ...]:
        """`^bb0(%a: f32 loc(..), %b: f32):`."""
        cursor = self.cursor
        cursor.next()
        args = self.arguments(scope) if cursor.sees("(") else ()
        cursor.expect(":")
        return args

    def arguments(self, scope: Scope) -> tuple[ir.Value, ...]:
        """`(%a: f32 loc(..), %b: f32)`, defined in `scope`."""
        tokens = self.cursor.listed("(", self.typed_name)
        return tuple(self.argument(scope, token, ty, k) for k, (token, ty) in enumerate(tokens))

    def typed_name(self) -> tuple[Token, ir.Type]:
        cursor = self.cursor
        token = cursor.expect_kind("value", "an argument")
        cursor.expect(":")
        ty = self.types.type(cursor)
        if cursor.sees("loc"):
            self.places.read(cursor)
        return token, ty


CONTINUED = frozenset({",", ":", "->", "=", "(", "[", "<", "*", "to", "|"})
"""What cannot end an operation, so that the next line belongs to it."""

Reader: TypeAlias = Callable[[Operations, Draft, Scope], None]
"""Reads an operation behind its name, up to its location."""
