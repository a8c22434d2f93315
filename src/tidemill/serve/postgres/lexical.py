"""Text to tokens, as far as a server needs them: where statements end, where parameters are, which words begin them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_SPACE = re.compile(r"\s+|--[^\n]*")
_WORD = re.compile(r"[^\W\d][\w$]*")
_NUMBER = re.compile(r"\d[\w.]*")
_PARAMETER = re.compile(r"\$(\d{1,5})")
_DOLLAR = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_STRING = re.compile(r"'(?:[^']|'')*(?:'|$)", re.DOTALL)
_ESCAPED = re.compile(r"[eE]'(?:[^'\\]|\\.|'')*(?:'|$)", re.DOTALL)
_NAME = re.compile(r'"(?:[^"]|"")*(?:"|$)', re.DOTALL)


@dataclass(frozen=True)
class Token:
    """A piece of text. `kind`: word, name (in double quotes), string, number, parameter or sign."""

    kind: str
    start: int
    end: int
    text: str

    @property
    def word(self) -> str:
        """In upper case; empty for what is not a word or sign."""
        return self.text.upper() if self.kind in ("word", "sign") else ""

    @property
    def name(self) -> str:
        """A name as Postgres reads it: in lower case unless it is quoted."""
        return self.text[1:-1].replace('""', '"') if self.kind == "name" else self.text.lower()

    @property
    def value(self) -> str:
        """What a string says; other tokens as they are."""
        return self.text[1:-1].replace("''", "'") if self.kind == "string" and self.text[0] == "'" else self.text


@dataclass(frozen=True)
class Piece:
    """One statement: its tokens, and where it is in the text. The last piece of a text may have no tokens."""

    text: str
    start: int
    tokens: Sequence[Token] = field(default=(), repr=False)

    def words(self, count: int) -> tuple[str, ...]:
        """The first words, in upper case."""
        return tuple(token.word for token in self.tokens[:count])


def scan(text: str) -> list[Token]:
    """All tokens; comments and spaces are left out.

    >>> [token.text for token in scan("SELECT 'a;''b', $1 -- x; y")]
    ['SELECT', "'a;''b'", ',', '$1']
    """
    tokens, at = [], 0
    while at < len(text):
        found = _SPACE.match(text, at)
        if found:
            at = found.end()
        elif text.startswith("/*", at):
            at = _comment_end(text, at)
        else:
            kind, end = _next_token(text, at)
            tokens.append(Token(kind, at, end, text[at:end]))
            at = end
    return tokens


def split_statements(text: str) -> list[Piece]:
    """The statements of a text, without their semicolons; those without a token are left out.

    >>> [(piece.text, piece.start) for piece in split_statements("BEGIN; ; SELECT ';' ")]
    [('BEGIN', 0), ("SELECT ';'", 9)]
    """
    pieces: list[list[Token]] = [[]]
    for token in scan(text):
        if token.text == ";":
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [Piece(text[p[0].start : p[-1].end], p[0].start, p) for p in pieces if p]


def find_parameters(tokens: Sequence[Token]) -> int:
    """The greatest number of a parameter; 0 where there is none."""
    return max((int(token.text[1:]) for token in tokens if token.kind == "parameter"), default=0)


def _next_token(text: str, at: int) -> tuple[str, int]:
    for kind, pattern in (
        ("string", _STRING),
        ("string", _ESCAPED),
        ("name", _NAME),
        ("word", _WORD),
        ("number", _NUMBER),
        ("parameter", _PARAMETER),
    ):
        found = pattern.match(text, at)
        if found:
            return kind, found.end()
    quoted = _DOLLAR.match(text, at)
    if quoted:
        end = text.find(quoted[0], quoted.end())
        return "string", len(text) if end < 0 else end + len(quoted[0])
    return "sign", at + 1


def _comment_end(text: str, start: int) -> int:
    """Comments nest."""
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)
