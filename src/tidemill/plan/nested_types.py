"""Types that hold others, and those that travel as text: STRUCT, LIST, MAP, ENUM, JSON, UUID, INTERVAL."""

from __future__ import annotations

import re

# Arrow carries these as text: they get their type again wherever SQL reads them.
_TEXTUAL = re.compile(r"JSON|UUID|ENUM\(.*\)", re.DOTALL)
_NESTED = re.compile(r"(STRUCT|MAP)\(.*\)|.*\[\d*\]", re.DOTALL)
# Inside of others, Arrow would lose what they are.
_LOST = re.compile(r"\b(HUGEINT|UHUGEINT|JSON|UUID|ENUM|BIT|UNION|VARIANT|TIME WITH TIME ZONE)\b")


def is_textual(type_name: str) -> bool:
    """True when values travel as text.

    >>> [is_textual(t) for t in ("JSON", "ENUM('a', 'b')", "VARCHAR", "JSON[]")]
    [True, True, False, False]
    """
    return _TEXTUAL.fullmatch(type_name) is not None


def is_nested(type_name: str) -> bool:
    """True for STRUCT, MAP and lists.

    >>> [is_nested(t) for t in ("STRUCT(a INTEGER)", "INTEGER[]", "MAP(VARCHAR, DATE)", "DECIMAL(3,1)")]
    [True, True, True, False]
    """
    return not is_textual(type_name) and _NESTED.fullmatch(type_name) is not None


def loses_inner_types(type_name: str) -> bool:
    """True when a nested type holds a type that Arrow has no name for.

    >>> loses_inner_types("STRUCT(a JSON)"), loses_inner_types("STRUCT(a INTEGER[])")
    (True, False)
    """
    return is_nested(type_name) and _LOST.search(type_name) is not None
