"""Operands of PTX instructions: registers, addresses, vectors, numbers (PTX ISA 9.0, chapters 4.5 and 6.4).

An operand is read at the cursor, in the scope of its statement. Raises TwillError for what is no operand.
"""

import struct
from collections.abc import Callable, Mapping

from twill.emulate.ptx.cursor import Cursor
from twill.emulate.ptx.lexer import Token
from twill.emulate.ptx.scope import Scope
from twill.emulate.ptx.syntax import (
    Address,
    Integer,
    Label,
    Negated,
    Operand,
    Pair,
    Real,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)


class OperandParser(Cursor):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self._by_bracket = self._brackets()

    def operand(self, scope: Scope) -> Operand:
        first = self._simple(scope)
        return Pair(first, self._simple(scope)) if self.accept("|") else first

    def _simple(self, scope: Scope) -> Operand:
        token = self.token
        if reader := self._by_bracket.get(token.text):
            return reader(scope)
        if token.kind == "word":
            return self._named(self.next(), scope)
        if token.kind in ("integer", "float"):
            return self._number()
        raise self.error(f"{token.text!r} is no operand")

    def _negated(self, scope: Scope) -> Operand:
        self.expect("!")
        found = self._simple(scope)
        if not isinstance(found, Register):
            raise self.error("a predicate is expected")
        return Negated(found)

    def _minus(self, _: Scope) -> Operand:
        self.expect("-")
        match self._number():
            case Integer(value):
                return Integer(-value)
            case Real(value, _, size):
                return Real(-value, None, size)
            case _:
                raise self.error("a number is expected")

    def _vector(self, scope: Scope) -> Operand:
        close, items = {"{": "}", "(": ")"}[self.next().text], list[Operand]()
        while not self.accept(close):
            items.append(self.operand(scope))
            self.accept(",")
        return Vector(tuple(items))

    def _address(self, scope: Scope) -> Operand:
        self.expect("[")
        base, offset, coordinates = self._simple(scope), 0, tuple[Operand, ...]()
        while not self.accept("]"):
            if self.accept(","):
                found = self._simple(scope)
                coordinates = (*coordinates, *(found.items if isinstance(found, Vector) else (found,)))
            elif self.token.text in "+-":
                self.accept("+")
                offset += self.integer()
            else:
                raise self.error("']' is expected")
        if isinstance(base, Integer):
            return Address(Integer(base.value + offset), 0, coordinates)
        return Address(base, offset, coordinates)

    def _named(self, token: Token, scope: Scope) -> Operand:
        name = token.text
        if name == "_":
            return Sink()
        found = scope.find(name)
        if isinstance(found, Register):
            return found
        if table := scope.table(name):
            return Vector(tuple(Label(one, scope.label(one) or 0) for one in table))
        if found is None and name.startswith("%"):
            return Special(name)
        if found is None and (target := scope.label(name)) is not None:
            return Label(name, target)
        return Symbol(name)

    def _number(self) -> Operand:
        token = self.next()
        text = token.text
        if token.kind == "integer":
            return Integer(int(text.rstrip("U"), 0))
        if text[:2] in ("0f", "0F"):
            bits = int(text[2:], 16)
            return Real(struct.unpack("<f", struct.pack("<I", bits))[0], bits, 32)
        if text[:2] in ("0d", "0D"):
            bits = int(text[2:], 16)
            return Real(struct.unpack("<d", struct.pack("<Q", bits))[0], bits)
        if token.kind == "float":
            return Real(float(text))
        raise self.error("a number is expected", token)

    def _brackets(self) -> Mapping[str, Callable[[Scope], Operand]]:
        return {
            "!": self._negated,
            "-": self._minus,
            "{": self._vector,
            "(": self._vector,
            "[": self._address,
        }
