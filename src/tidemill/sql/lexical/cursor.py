"""A reading position in the tokens of one statement."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokens import Token, TokenType

from tidemill.errors import SyntaxProblem
from tidemill.sql.lexical.tokens import did_you_mean, problem, where

MAX_NAME = 128

_NOT_WORDS = {TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER}
_NAMES = {TokenType.VAR, *DuckDBParser.ID_VAR_TOKENS}
_PLAIN_NAME = re.compile(r"[^\W\d][\w$]*")


class Cursor:
    """Reads tokens from left to right; every error points at the current token."""

    def __init__(self, tokens: list[Token], text: str, index: int = 0) -> None:
        self.tokens = tokens
        self.text = text
        self.index = index
        self.places: dict[str, tuple[int, int]] = {}  # of the values of options, by name

    def note_place(self, name: str) -> None:
        """Remember the position of the next token, which is the value of option `name`."""
        if self.token is not None:
            self.places[name.lower()] = (self.token.line, self.token.col)

    @property
    def token(self) -> Token | None:
        """The token to be read next, None at the end of the statement."""
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The next token in upper case; empty for quoted things, numbers and the end."""
        index = self.index + ahead
        if index >= len(self.tokens) or self.tokens[index].token_type in _NOT_WORDS:
            return ""
        return self.tokens[index].text.upper()

    def is_a(self, kind: TokenType) -> bool:
        """Whether the next token is of this kind."""
        return self.token is not None and self.token.token_type == kind

    def advance(self) -> Token:
        """Read one token, whatever it is."""
        token = self.token
        if token is None:
            self.fail("the statement ends too early")
        self.index += 1
        return token

    def take(self, *words: str) -> bool:
        """Read these words if they are all next, otherwise nothing."""
        if any(self.word(ahead) != word for ahead, word in enumerate(words)):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str, hint: str | None = None) -> None:
        """Read exactly these words."""
        for word in words:
            if not self.take(word):
                self.fail_expecting(word, known=(word,), hint=hint)

    def choose(self, known: tuple[str, ...], what: str) -> str:
        """Read one of the known words."""
        word = self.word()
        if word not in known:
            self.fail_expecting(what, known=known)
        self.index += 1
        return word

    def take_name(self, what: str) -> str:
        """Read a name, quoted or plain, as it is spelled."""
        token = self.token
        if token is None or not _is_name(token):
            hint = 'put other names into double quotes: "my name"' if token is not None else None
            self.fail_expecting(what, hint=hint)
        if len(token.text) > MAX_NAME:
            self.fail(f"a name has at most {MAX_NAME} characters", code="TM107", hint="choose a shorter name")
        self.index += 1
        return token.text

    def take_string(self, what: str, hint: str) -> str:
        """Read a string that is not empty."""
        token = self.token
        if token is None or token.token_type != TokenType.STRING or not token.text:
            self.fail_expecting(what, hint=hint)
        if "\0" in token.text:
            self.fail(f"{what} cannot have a zero character", hint=hint)
        self.index += 1
        return token.text

    def take_integer(self, what: str, low: int, high: int) -> int:
        """Read a whole number between the bounds."""
        token = self.token
        if token is None or token.token_type != TokenType.NUMBER:
            self.fail_expecting(what, hint="write a whole number")
        if not re.fullmatch(r"\d{1,18}", token.text) or not low <= int(token.text) <= high:
            self.fail(
                f"{what} must be a whole number from {low:,} to {high:,}",
                code="TM111",
                hint=f"for example {max(low, min(high, 100))}",
            )
        self.index += 1
        return int(token.text)

    def close(self) -> None:
        """Refuse tokens that are left."""
        if self.token is not None:
            self.fail(f"unexpected {quote(self.token)}", hint="end the statement with ; before it")

    def fail_expecting(self, what: str, known: tuple[str, ...] = (), hint: str | None = None) -> NoReturn:
        """Refuse the next token, because `what` was expected."""
        token = self.token
        meant = did_you_mean(token.text, known) if token is not None else None
        found = quote(token) if token is not None else "the end of the statement"
        if meant:
            hint = f"did you mean {meant}?"
        elif hint is None:
            hint = "write " + " or ".join(known) if known else f"write {what}"
        self.fail(f"expected {what} but found {found}", hint=hint)

    def fail(self, message: str, *, code: str = "TM101", **rest: Any) -> NoReturn:
        """Raise an error at the next token, or after the last one."""
        if self.token is not None:
            raise problem(code, message, self.token, **rest)
        line, column = where(self.text, self.tokens[-1].end + 1) if self.tokens else (1, 1)
        raise SyntaxProblem(code, message, line=line, column=column, **rest)


def quote(token: Token) -> str:
    """A token as errors show it, short and on one line."""
    shown = " ".join(token.text.split()) or "''"
    shown = "".join(sign for sign in shown if sign.isprintable())
    return f'"{shown[:30]}…"' if len(shown) > 30 else f'"{shown}"'


def _is_name(token: Token) -> bool:
    if token.token_type == TokenType.IDENTIFIER:
        return bool(token.text)
    return token.token_type in _NAMES and _PLAIN_NAME.fullmatch(token.text) is not None
