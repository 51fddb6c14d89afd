"""PTX text to a module.

Takes the text and the name to report errors under; gives a `Module`. Raises TwillError with line and column
for what is not PTX. Grammar: PTX ISA 9.0, chapters 4 (syntax), 5 (variables), 11 (directives).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from twill.diagnostics import Location
from twill.emulate.ptx.lexer import Token
from twill.emulate.ptx.operands import OperandParser
from twill.emulate.ptx.scope import Scope
from twill.emulate.ptx.syntax import (
    Function,
    Instruction,
    Integer,
    Module,
    Operand,
    Real,
    Register,
    Variable,
)

_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".const", ".shared", ".local", ".param", ".shared::cta", ".shared::cluster")
_SKIPPED = (".pragma", ".calltargets", ".callprototype", ".alias")


@dataclass(frozen=True, slots=True)
class _Statement:
    """An instruction whose operands are yet to be read: labels may follow later."""

    start: int
    scope: Scope
    source: Location | None


@dataclass(slots=True)
class _Body:
    """What is found while the statements of a function are read."""

    counts: dict[int, int] = field(default_factory=dict[int, int])
    variables: list[Variable] = field(default_factory=list[Variable])
    statements: list[_Statement] = field(default_factory=list[_Statement])
    source: tuple[int, int, int] | None = None

    def reserve(self, bits: int, count: int = 1) -> int:
        first = self.counts.get(bits, 0)
        self.counts[bits] = first + count
        return first


def parse(text: str, file: str) -> Module:
    """Read PTX. Raises TwillError."""
    return _Parser(text, file).module()


class _Parser(OperandParser):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.files: Mapping[int, str] = {
            int(number): name
            for number, name in re.findall(
                r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"', text, re.MULTILINE
            )
        }

    # --- the module ----------------------------------------------------------------------------------------

    def module(self) -> Module:
        version = target = ""
        functions, variables = dict[str, Function](), dict[str, Variable]()
        while self.token.kind != "end":
            start, name = self.token, self.token.text
            if name in (".version", ".target"):
                value = (
                    self.text[self.token.at : self.text.find("\n", self.token.at)].split("//")[0].split()[1]
                )
                version, target = (value, target) if name == ".version" else (version, value.rstrip(","))
                self.skip_line()
            elif name in (".address_size", ".file"):
                self.skip_line()
            elif name == ".section":
                self._section()
            elif name in _SKIPPED:
                self.skip_to(";")
                self.expect(";")
            else:
                self._declaration(start, functions, variables)
        return Module(self.file, tuple(self.text.split("\n")), version, target, functions, variables)

    def _section(self) -> None:
        """Debug information, which nothing here uses."""
        self.skip_to("{")
        self.skip_to("}")
        self.expect("}")

    def _declaration(
        self, start: Token, functions: dict[str, Function], variables: dict[str, Variable]
    ) -> None:
        external = False
        while self.token.text in _LINKING:
            external |= self.next().text == ".extern"
        if self.token.text in (".entry", ".func"):
            function = self._function(start)
            if function.instructions or function.name not in functions:
                functions[function.name] = function
        elif self.token.text in _SPACES:
            for one in self._variables(external):
                variables[one.name] = one
        else:
            raise self.error(f"{self.token.text!r} is no PTX directive", start)

    # --- variables -----------------------------------------------------------------------------------------

    def _variables(self, external: bool = False) -> list[Variable]:
        """`.shared .align 16 .b8 name[8] = {...};`"""
        found = [self._variable(self.next().text, external)]
        while self.accept(","):
            found.append(Variable(self.word(), found[0].space, found[0].bits, 1, found[0].align))
        self.expect(";")
        return found

    def _variable(self, space: str, external: bool = False) -> Variable:
        align, bits, lanes = 0, 0, 1
        while self.token.text.startswith("."):
            name = self.next().text
            if name == ".align":
                align = self.integer()
            elif name in (".v2", ".v4", ".v8"):
                lanes = int(name[2:])
            elif (size := _size(name)) is not None:
                bits = size
        name = self.word()
        count: int | None = lanes
        while self.accept("["):
            count = None if self.token.text == "]" else (count or 1) * self.integer()
            self.expect("]")
        initial = self._initial() if self.accept("=") else ()
        return Variable(
            name,
            space[1:].partition("::")[0],
            bits,
            count,
            align or max(1, bits * lanes // 8),
            initial,
            external,
        )

    def _initial(self) -> tuple[int | float | str, ...]:
        if self.accept("{"):
            found = list[int | float | str]()
            while not self.accept("}"):
                found += self._initial()
                self.accept(",")
            return tuple(found)
        if self.token.kind == "word":
            name = self.word()
            if name == "generic":
                self.expect("(")
                name = self.word()
                self.expect(")")
            return (name,)
        value = self.operand(Scope(None))
        match value:
            case Integer(number):
                return (number,)
            case Real(number):
                return (number,)
            case _:
                raise self.error("a number is expected")

    # --- functions -----------------------------------------------------------------------------------------

    def _function(self, start: Token) -> Function:
        entry = self.next().text == ".entry"
        results = self._parameters() if self.token.text == "(" else ()
        name = self.word()
        parameters = self._parameters() if self.token.text == "(" else ()
        attributes = self._attributes()
        scope, body = Scope(None), _Body()
        for one in (*results, *parameters):
            scope.names[one.name] = one
        if not self.accept(";"):
            self._block(scope, body)
        end = self.at
        instructions = tuple(self._instruction(one) for one in body.statements)
        self.at = end
        line = self.places.line(start.at)
        return Function(
            name,
            entry,
            results,
            parameters,
            tuple(body.variables),
            body.counts,
            instructions,
            attributes,
            line,
        )

    def _parameters(self) -> tuple[Variable, ...]:
        self.expect("(")
        found = list[Variable]()
        while not self.accept(")"):
            if self.token.text == ".reg":
                raise self.error("register parameters of functions are not supported")
            found.append(self._parameter())
            self.accept(",")
        return tuple(found)

    def _parameter(self) -> Variable:
        """`.param .u64 .ptr .global .align 1 name`: the alignment behind .ptr is that of what it points
        to."""
        self.expect(".param")
        start, pointer, align, bits = self.at, False, 0, 0
        while self.token.text.startswith("."):
            name = self.next().text
            pointer |= name == ".ptr"
            if name == ".align":
                value = self.integer()
                align = align if pointer else value
            elif not pointer:
                bits = _size(name) or bits
        if self.at == start:
            raise self.error("a parameter has no type")
        name, count = self.word(), 1
        if self.accept("["):
            count = self.integer()
            self.expect("]")
        return Variable(name, "param", bits, count, align or max(1, bits // 8))

    def _attributes(self) -> dict[str, tuple[int, ...]]:
        found = dict[str, tuple[int, ...]]()
        while self.token.text.startswith("."):
            name, values = self.next().text[1:], list[int]()
            if name == "pragma":
                self.skip_to(";")
                self.expect(";")
                continue
            while self.token.kind == "integer":
                values.append(self.integer())
                self.accept(",")
            found[name] = tuple(values)
        return found

    def _block(self, scope: Scope, body: _Body) -> None:
        self.expect("{")
        while not self.accept("}"):
            self._statement(scope, body)

    def _statement(self, scope: Scope, body: _Body) -> None:
        token = self.token
        if token.kind == "end":
            raise self.error("the text ends inside a function")
        if token.text == "{":
            self._block(Scope(scope), body)
        elif token.text == ".reg":
            self._registers(scope, body)
        elif token.text == ".loc":
            self._loc(body)
        elif token.text in _SPACES:
            for one in self._variables():
                scope.names[one.name] = one
                body.variables.append(one)
        elif token.text in _SKIPPED:
            self.skip_to(";")
            self.expect(";")
        elif token.kind == "word" and self.tokens[self.at + 1].text == ":":
            scope.labels[token.text] = len(body.statements)
            self.at += 2
            if self.accept(".branchtargets"):
                scope.tables[token.text] = self._names()
        elif token.kind == "word" or token.text == "@":
            body.statements.append(_Statement(self.at, scope, self._location(body)))
            self.skip_to(";")
            self.expect(";")
        elif not self.accept(";"):
            raise self.error("a statement is expected")

    def _names(self) -> tuple[str, ...]:
        found = [self.word()]
        while self.accept(","):
            found.append(self.word())
        self.expect(";")
        return tuple(found)

    def _location(self, body: _Body) -> Location | None:
        if body.source is None or body.source[1] == 0:
            return None
        number, line, column = body.source
        return Location(self.files.get(number, f"file {number}"), line, max(1, column))

    def _loc(self, body: _Body) -> None:
        """`.loc 1 17 5, function_name ..., inlined_at 1 29 9`: the place that the inlined code was called
        from is what is kept."""
        line = self.places.line(self.next().at)
        body.source = (self.integer(), self.integer(), self.integer() if self.token.kind == "integer" else 1)
        while self.token.kind != "end" and self.places.line(self.token.at) == line:
            if self.next().text == "inlined_at":
                body.source = (self.integer(), self.integer(), self.integer())

    def _registers(self, scope: Scope, body: _Body) -> None:
        self.expect(".reg")
        bits, lanes = 0, 1
        while self.token.text.startswith("."):
            token = self.next()
            size = 1 if token.text == ".pred" else _size(token.text)
            if token.text in (".v2", ".v4"):
                lanes = int(token.text[2:])
            elif size is None:
                raise self.error(f"{token.text!r} is no type of a register", token)
            else:
                bits = max(size, 16) if size > 1 else 1
        while not self.accept(";"):
            name = self.word()
            if lanes > 1:
                raise self.error("vector registers are not supported")
            if self.accept("<"):
                count = self.integer()
                scope.ranges[name] = (bits, body.reserve(bits, count), count)
                self.expect(">")
            else:
                scope.names[name] = Register(name, bits, body.reserve(bits))
            self.accept(",")

    # --- instructions --------------------------------------------------------------------------------------

    def _instruction(self, statement: _Statement) -> Instruction:
        self.at = statement.start
        first, guard, negated = self.token, None, False
        if self.accept("@"):
            negated = self.accept("!")
            found = self.operand(statement.scope)
            if not isinstance(found, Register):
                raise self.error("a predicate is expected", first)
            guard = found
        line, opcode, operands = self.places.line(self.token.at), self.word(), list[Operand]()
        while not self.accept(";"):
            operands.append(self.operand(statement.scope))
            if not self.accept(",") and self.token.text != ";":
                raise self.error("',' or ';' is expected")
        return Instruction(opcode, tuple(operands), guard, negated, line, statement.source)


def _size(type: str) -> int | None:
    """Bits of a type's name, such as .b32 or .f16x2."""
    if found := re.fullmatch(r"\.[bsuf](8|16|32|64|128)", type):
        return int(found[1])
    return {".f16x2": 32, ".bf16": 16, ".bf16x2": 32, ".tf32": 32, ".pred": 1, ".e4m3": 8, ".e5m2": 8}.get(
        type
    )
