"""Columns of rendered SQL: every column is a double-quoted name, every string single-quoted."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^'"]+""")


def columns_of(sql: str) -> set[str]:
    """The columns an expression reads.

    >>> sorted(columns_of('"a" + length(\\'"b"\\') > "c d"'))
    ['a', 'c d']
    """
    return {t[1:-1].replace('""', '"') for t in _TOKEN.findall(sql) if t.startswith('"')}
