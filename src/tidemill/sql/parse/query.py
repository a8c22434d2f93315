"""Queries: the output word, the options at the end, and the tree between them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple, NoReturn, cast

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parser import Parser
from sqlglot.tokens import Token, TokenType

from tidemill.errors import SyntaxProblem
from tidemill.plan.statements import AsOf
from tidemill.sql.dialect.dialect import Tidemill
from tidemill.sql.dialect.nodes import children
from tidemill.sql.lexical.cursor import Cursor, quote
from tidemill.sql.lexical.tokens import did_you_mean, problem
from tidemill.sql.parse.as_of import take_as_of
from tidemill.sql.parse.options import parse_options

MAX_TREE_DEPTH = 200
# Some texts make the parser backtrack exponentially.
NODES_PER_TOKEN = 40
# Frames that MAX_NESTING levels of parentheses need, with room to spare.
PARSER_FRAMES = 3_000

FLAGS = ("STREAMED", "RSTREAM", "ISTREAM", "DSTREAM")  # behind SELECT: the query stands
KEYWORDS = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "JOIN",
    "LEFT",
    "RIGHT",
    "FULL",
    "INNER",
    "OUTER",
    "CROSS",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "DISTINCT",
    "STREAMED",
    "RSTREAM",
    "ISTREAM",
    "DSTREAM",
    "SYNC",
    "EVERY",
    "AND",
    "BETWEEN",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "USING",
    "WITH",
)
QUERY_WORDS = ("SELECT", "WITH", "(", "FROM", "VALUES", "TABLE")  # with which a query begins
_NOT_A_FLAG_BEFORE = {
    TokenType.COMMA,
    TokenType.DOT,
    TokenType.FROM,
    TokenType.ALIAS,
    TokenType.R_PAREN,
    TokenType.EQ,
    TokenType.NEQ,
    TokenType.LT,
    TokenType.GT,
    TokenType.LTE,
    TokenType.GTE,
    TokenType.PLUS,
}
_LATER_CLAUSES = {
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.ON,
    TokenType.USING,
    TokenType.LIMIT,
    TokenType.JOIN,
    TokenType.UNION,
    TokenType.INTERSECT,
}
_NEED_MORE = {TokenType.FROM, TokenType.EXCEPT, *_LATER_CLAUSES}
_NEVER_FIRST = {TokenType.R_PAREN, TokenType.COMMA, *_LATER_CLAUSES}
_BEFORE_TABLES = {TokenType.FROM, TokenType.JOIN}
_ONLY_WRAPPED = {TokenType.FROM, TokenType.SELECT, TokenType.WITH}
_recursion = RLock()


class ParsedQuery(NamedTuple):
    """A query: its tree, the output word behind its first SELECT, AS OF at its end."""

    tree: exp.Expression
    flag: Token | None
    as_of: AsOf | None


def parse_query(cursor: Cursor, options: dict[str, Any], kind: str) -> ParsedQuery:
    """Read the rest of the statement."""
    tokens = cursor.tokens[cursor.index :]
    begin = _find_options(tokens)
    if begin is not None:
        tail = Cursor(tokens, cursor.text, begin)
        parse_options(tail, kind, options)
        tail.close()
        tokens = tokens[:begin]
    if not tokens or tokens[0].text.upper() not in QUERY_WORDS:
        cursor.fail_expecting("a query", known=("SELECT", "WITH"), hint="begin it with SELECT or WITH")
    flag, tokens = _take_flag(_write_table_in_full(tokens))
    as_of, tokens = take_as_of(tokens)
    if as_of is not None and (flag is not None or kind != "select"):
        raise SyntaxProblem(
            "TM112",
            "AS OF belongs to ad hoc queries: a standing query has an answer for every time",
            line=as_of.place[0],
            column=as_of.place[1],
            hint="create the view, then SELECT … FROM view AS OF time",
        )
    if as_of is not None and as_of.batch is not None:
        raise SyntaxProblem(
            "TM112",
            "AS OF BATCH belongs to SUBSCRIBE: a query is as of a time",
            line=as_of.place[0],
            column=as_of.place[1],
            hint="write SELECT … FROM view AS OF time",
        )
    _check_complete(tokens, cursor.text)
    cursor.index = len(cursor.tokens)
    return ParsedQuery(_parse_tree(tokens, cursor.text), flag, as_of)


def _write_table_in_full(tokens: list[Token]) -> list[Token]:
    """TABLE t is SELECT * FROM t."""
    first = tokens[0]
    if first.token_type != TokenType.TABLE:
        return tokens
    written = ((TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM"))
    made = [Token(kind, word, first.line, first.col, first.start, first.end) for kind, word in written]
    return [*made, *tokens[1:]]


def _find_options(tokens: list[Token]) -> int | None:
    """The index of WITH (…) at the end of the statement; a common table expression has a name after WITH."""
    depth = 0
    for index in range(len(tokens) - 1, 0, -1):
        kind = tokens[index].token_type
        depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
        if depth <= 0:
            opens = kind == TokenType.L_PAREN and tokens[index - 1].token_type == TokenType.WITH
            return index - 1 if opens and depth == 0 else None
    return None


def _take_flag(tokens: list[Token]) -> tuple[Token | None, list[Token]]:
    """Remove STREAMED, RSTREAM, ISTREAM or DSTREAM; it is allowed in the first SELECT of the query only."""
    first = _find_first_select(tokens)
    flag: Token | None = None
    for index in range(len(tokens) - 1):
        if tokens[index].token_type != TokenType.SELECT or not _is_flag(tokens, index + 1):
            continue
        word = tokens[index + 1]
        if index != first:
            raise problem(
                "TM112",
                f"{word.text.upper()} belongs into the first SELECT of a query",
                word,
                hint="write it behind the first SELECT, or create a view of that kind",
            )
        flag = word
    if flag is None or first is None:
        return None, tokens
    return flag, [*tokens[: first + 1], *tokens[first + 2 :]]


def _find_first_select(tokens: list[Token]) -> int | None:
    """The first SELECT outside of common table expressions."""
    depth, in_tables = 0, tokens[0].token_type == TokenType.WITH
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.SELECT and (depth == 0 or not in_tables):
            return index
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
    return None


def _is_flag(tokens: list[Token], index: int) -> bool:
    token = tokens[index]
    if token.token_type != TokenType.VAR or token.text.upper() not in FLAGS:
        return False
    return index + 1 == len(tokens) or tokens[index + 1].token_type not in _NOT_A_FLAG_BEFORE


def _check_complete(tokens: list[Token], text: str) -> None:
    """Refuse GROUP BY, ON and others with nothing after them; the inherited parser accepts them."""
    for index, token in enumerate(tokens):
        named = index and tokens[index - 1].token_type in (TokenType.DOT, TokenType.ALIAS)
        if token.token_type not in _NEED_MORE or named:
            continue
        wrong = _NEVER_FIRST | _ONLY_WRAPPED if token.token_type in _BEFORE_TABLES else _NEVER_FIRST
        if index + 1 == len(tokens) or tokens[index + 1].token_type in wrong:
            _refuse_token(tokens, text, index + 1)


def _parse_tree(tokens: list[Token], text: str) -> exp.Expression:
    limit = NODES_PER_TOKEN * len(tokens) + 1_000
    parser = Tidemill().parser(error_level=ErrorLevel.IMMEDIATE, max_nodes=limit)
    try:
        with _room_to_recurse():
            [tree] = parser.parse(tokens, text)
    except SyntaxProblem:
        raise
    except ParseError as error:
        _refuse(error, parser, tokens, text)
    except RecursionError:
        raise _too_deep(tokens[0]) from None
    except Exception:
        # The inherited parser raises other exceptions for some malformed texts.
        _refuse_token(tokens, text, parser._index)
    while isinstance(tree, exp.Subquery) and tree.is_wrapper:
        tree = tree.this
    if not isinstance(tree, exp.Query):
        raise problem("TM101", "not a query", tokens[0], hint="write SELECT … FROM …")
    if _depth(tree) > MAX_TREE_DEPTH:
        raise _too_deep(tokens[0])
    return cast(exp.Expression, tree)


def _refuse(error: ParseError, parser: Parser, tokens: list[Token], text: str) -> NoReturn:
    known = error.errors[0]
    if "Maximum number of AST nodes" in str(known.get("description")):
        raise problem(
            "TM104",
            "the query is too complicated",
            tokens[0],
            hint="give every JOIN its ON, and put inner parts into views",
        ) from None
    place = (known.get("line"), known.get("col"))
    at_end = not parser._curr and place == (tokens[-1].line, tokens[-1].col)
    if at_end or str(known.get("description")).startswith("Expect"):
        _refuse_token(tokens, text, parser._index)
    index = next((i for i, token in enumerate(tokens) if (token.line, token.col) == place), len(tokens))
    _refuse_token(tokens, text, index)


def _refuse_token(tokens: list[Token], text: str, index: int) -> NoReturn:
    """Refuse the token at `index`, or the end."""
    cursor = Cursor(tokens, text, min(max(index, 0), len(tokens)))
    token = cursor.token
    before = tokens[cursor.index - 1] if cursor.index else None
    shown = quote(token) if token else "end of the query"
    try:
        cursor.fail(f"unexpected {shown}", hint=_advice(token, before))
    except SyntaxProblem as refusal:
        raise refusal from None


def _advice(token: Token | None, before: Token | None) -> str:
    for suspect in (token, before):
        if suspect is not None and suspect.token_type == TokenType.VAR:
            meant = did_you_mean(suspect.text, KEYWORDS)
            if meant:
                return f"did you mean {meant} instead of {quote(suspect)}?"
    if token is not None and token.text == "." and before is not None:
        return f"is a comma missing before {quote(before)}?"
    if before is not None:
        return f"look at what stands behind {quote(before)}"
    return "begin with SELECT"


def _too_deep(token: Token) -> SyntaxProblem:
    return problem(
        "TM104",
        "the query is nested too deep",
        token,
        hint="put inner parts into views, and write a long chain of OR as IN (…)",
    )


def _depth(tree: exp.Expr) -> int:
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in children(node)]
    return depth


@contextmanager
def _room_to_recurse() -> Iterator[None]:
    # The limit belongs to the whole process, so one parse at a time changes and restores it.
    with _recursion:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + PARSER_FRAMES)
        try:
            yield
        finally:
            sys.setrecursionlimit(before)
