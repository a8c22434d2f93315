"""From text to tokens: positions, limits, and the division into statements.

Texts that are too long or nested too deep for the recursive parser are refused here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from tidemill.errors import SyntaxProblem

MAX_TEXT = 1_000_000
MAX_STATEMENT = 100_000
MAX_TOKENS = 20_000
MAX_NESTING = 40

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"--[^\r\n]*|/\*")
_HALF = re.compile("[\ud800-\udfff]")
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


class Tokenizer(DuckDB.Tokenizer):
    """DuckDB's tokens plus the paper's signs, without commands whose arguments would be one raw token."""

    SINGLE_TOKENS: ClassVar = {
        **DuckDB.Tokenizer.SINGLE_TOKENS,
        "≤": TokenType.LTE,
        "≥": TokenType.GTE,
        "≠": TokenType.NEQ,
        "−": TokenType.DASH,
        "–": TokenType.DASH,
        "—": TokenType.DASH,
    }
    COMMANDS: ClassVar = set()


# A template comment is not a comment of this language.
Tokenizer._COMMENTS.pop("{#", None)


def split(text: str) -> list[list[Token]]:
    """The tokens of each statement; line and column are those of the token's first character.

    >>> [[token.text for token in tokens] for tokens in split("SHOW VIEWS; ; SELECT ';' -- ;")]
    [['SHOW', 'VIEWS'], ['SELECT', ';']]
    """
    if len(text) > MAX_TEXT:
        raise SyntaxProblem(
            "TM103", f"the text has more than {MAX_TEXT:,} characters", line=1, column=1, hint="execute it in parts"
        )
    half = _HALF.search(text)
    if half:
        before = text[: half.start()]
        raise SyntaxProblem(
            "TM101",
            "half of a surrogate pair is no character",
            line=before.count("\n") + 1,
            column=half.start() - before.rfind("\n"),
            hint="write the text in UTF-8",
        )
    statements: list[list[Token]] = [[]]
    for token in _tokenize(text):
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    statements = [tokens for tokens in statements if tokens]
    for tokens in statements:
        _check_limits(tokens)
    return statements


def find_semicolons(text: str) -> list[int]:
    """Where statements end: the semicolons outside of strings and comments. An unterminated string extends to the end.

    >>> find_semicolons("a; ';' -- ;"), find_semicolons("a; 'b;"), find_semicolons("x$$;$$")
    ([1], [1], [3])
    """
    text = _HALF.sub("?", text)
    while True:
        tokenizer = Tokenizer(dialect=DuckDB())
        try:
            return [t.start for t in tokenizer.tokenize(text) if t.token_type == TokenType.SEMICOLON]
        except TokenError:
            text = text[: min(getattr(tokenizer._core, "_start", 0), len(text) - 1)]


def where(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of the character at `offset`.

    >>> where("ab\\ncd", 4)
    (2, 2)
    """
    breaks = list(_LINE_BREAK.finditer(text, 0, offset))
    start = breaks[-1].end() if breaks else 0
    return len(breaks) + 1, offset - start + 1


def position(node: exp.Expr) -> tuple[int, int] | None:
    """Line and column where `node` begins in the text it was parsed from, if that is known."""
    if "line" in node.meta:
        return node.meta["line"], node.meta["col"]
    places = [child.meta for child in node.walk() if "line" in child.meta]
    if not places:
        return None
    first = min(places, key=lambda meta: meta["start"])
    return first["line"], first["col"]


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word of which `word` is most likely a misspelling, as it is spelled in `known`.

    >>> did_you_mean("latenes", ["lateness", "format"])
    'lateness'
    """
    spellings = {each.upper(): each for each in known}
    swapped = [each for each in spellings if sorted(each) == sorted(word.upper())]
    close = swapped or get_close_matches(word.upper(), spellings, n=1, cutoff=0.72)
    return spellings[close[0]] if close and close[0] != word.upper() else None


def problem(code: str, message: str, token: Token, **rest: Any) -> SyntaxProblem:
    """An error that points at `token`."""
    return SyntaxProblem(code, message, line=token.line, column=token.col, **rest)


def _tokenize(text: str) -> list[Token]:
    tokenizer = Tokenizer(dialect=DuckDB())
    try:
        tokens = tokenizer.tokenize(text)
    except TokenError:
        raise _unterminated_problem(text, getattr(tokenizer._core, "_start", 0)) from None
    _check_tail(text, tokens[-1].end + 1 if tokens else 0)
    starts = [0, *(found.end() for found in _LINE_BREAK.finditer(text))]
    for token in tokens:
        token.line = bisect_right(starts, token.start)
        token.col = token.start - starts[token.line - 1] + 1
        # sqlglot reads hints from comments; this language has none.
        token.comments = []
    return tokens


def _unterminated_problem(text: str, offset: int) -> SyntaxProblem:
    line, column = where(text, offset)
    begin = text[offset : offset + 2]
    kind, end = ("comment", "*/") if begin == "/*" else ("string", "'")
    if begin[:1] == '"':
        kind, end = "quoted name", '"'
    if begin[:1] == "$":
        kind, end = "string", "the same $ sign or tag"
    return SyntaxProblem("TM102", f"{kind} without an end", line=line, column=column, hint=f"close it with {end}")


def _check_tail(text: str, offset: int) -> None:
    """Refuse an unterminated comment; it can only be after the last token."""
    while found := _COMMENT.search(text, offset):
        end = _comment_end(text, found.start()) if found[0] == "/*" else found.end()
        if end is None:
            raise _unterminated_problem(text, found.start())
        offset = end


def _comment_end(text: str, start: int) -> int | None:
    depth = 0
    for found in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return None


def _check_limits(tokens: list[Token]) -> None:
    first = tokens[0]
    if tokens[-1].end - first.start >= MAX_STATEMENT:
        raise problem(
            "TM103",
            f"the statement has more than {MAX_STATEMENT:,} characters",
            first,
            hint="put parts of it into views",
        )
    if len(tokens) > MAX_TOKENS:
        raise problem(
            "TM103",
            f"the statement has more than {MAX_TOKENS:,} words and signs",
            first,
            hint="put parts of it into views",
        )
    for token in tokens:
        if token.token_type == TokenType.IDENTIFIER and (not token.text or "\0" in token.text):
            raise problem(
                "TM623",
                "a name cannot be empty or have a zero character in it",
                token,
                hint="name it with letters, for example  AS total",
            )
    _check_nesting(tokens)


def _check_nesting(tokens: list[Token]) -> None:
    depth = run = subscripts = 0
    before: TokenType | None = None
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
        elif token.token_type in _CLOSING:
            depth = max(0, depth - 1)
        run = run + 1 if token.token_type in _PREFIX else 0
        # Time grows with the square of a[1][1][1]…
        if (before, token.token_type) == (TokenType.R_BRACKET, TokenType.L_BRACKET):
            subscripts += 1
        before = token.token_type
        if max(depth, run, subscripts) > MAX_NESTING:
            raise problem(
                "TM104", f"nested more than {MAX_NESTING} levels deep", token, hint="put inner parts into views"
            )
