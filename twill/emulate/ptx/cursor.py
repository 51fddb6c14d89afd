"""A position in the tokens of a PTX text, which a parser moves on.

Takes the text and the name to report errors under; every error has the line and column of a token.
"""

from twill.diagnostics import Location, TwillError
from twill.emulate.ptx.lexer import Places, Token, tokens


class Cursor:
    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.tokens, self.at = tokens(text), 0
        self.places = Places(text)

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, text: str) -> bool:
        if self.tokens[self.at].text != text:
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> Token:
        if self.token.text != text:
            raise self.error(f"{text!r} is expected")
        return self.next()

    def error(self, message: str, token: Token | None = None) -> TwillError:
        token = token or self.token
        line = self.places.line(token.at)
        shown = self.text.split("\n")[line - 1]
        return TwillError(
            message,
            Location(self.file, line, self.places.column(token.at)),
            text=shown,
            span=max(1, len(token.text)),
        )

    def word(self) -> str:
        if self.token.kind != "word":
            raise self.error("a name is expected")
        return self.next().text

    def integer(self) -> int:
        negative = self.accept("-")
        if self.token.kind != "integer":
            raise self.error("an integer is expected")
        value = int(self.next().text.rstrip("U"), 0)
        return -value if negative else value

    def skip_to(self, *ends: str) -> None:
        tokens, at = self.tokens, self.at
        while tokens[at].text not in ends and tokens[at].kind != "end":
            at += 1
        self.at = at

    def skip_line(self) -> None:
        line = self.places.line(self.token.at)
        while self.token.kind != "end" and self.places.line(self.token.at) == line:
            self.at += 1
