"""Scalar expressions as bound SQL text: every column is a double-quoted name, every string single-quoted."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^'"]+""")


def columns_of(sql: str) -> set[str]:
    """The columns an expression reads.

    >>> sorted(columns_of('"a" + length(\\'"b"\\') > "c d"'))
    ['a', 'c d']
    """
    return {t[1:-1].replace('""', '"') for t in _TOKEN.findall(sql) if t.startswith('"')}


def substitute(sql: str, replacement: dict[str, str]) -> str:
    """The expression with columns replaced by other expressions, in parentheses where needed.

    >>> substitute('"a" > 3', {"a": '"x" + 1'})
    '("x" + 1) > 3'
    """

    def swap(token: str) -> str:
        if not token.startswith('"'):
            return token
        new = replacement.get(token[1:-1].replace('""', '"'))
        if new is None:
            return token
        return new if _TOKEN.fullmatch(new) and new.startswith('"') else f"({new})"

    return "".join(swap(t) for t in _TOKEN.findall(sql))


def conjunction(*predicates: str | None) -> str | None:
    """All of the predicates at once; None stands for TRUE."""
    given = [p for p in predicates if p]
    if len(given) <= 1:
        return given[0] if given else None
    return " AND ".join(f"({p})" for p in given)
