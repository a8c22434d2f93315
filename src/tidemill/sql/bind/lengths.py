"""How long a value may become: functions that make long texts out of short ones are bounded where they are called.

DuckDB cannot be interrupted inside one call of a function, and its memory limit does not count what a call builds: a
text of two billion characters takes minutes and gigabytes. A constant count that is too large is refused when the query
is bound. A count from a column is tested before the call; a row with one that is too large becomes a dead letter.

    repeat(s, n)      →  repeat(s, CASE WHEN strlen(s) * n > most THEN error(…) ELSE n END)
    lpad(s, n, f)     →  lpad(s, CASE WHEN n > most THEN error(…) ELSE n END, f)          rpad likewise
    printf(f, …)      →  printf(CASE WHEN f has a wide field THEN error(…) ELSE f END, …)  format likewise
    replace(s, a, b)  →  replace(CASE WHEN the answer is longer than most THEN error(…) ELSE s END, a, b)
    regexp_replace    →  the same, where the text and what replaces it could make a long one
    levenshtein(a, b) →  levenshtein(CASE WHEN strlen(a) * strlen(b) > steps THEN error(…) ELSE a END, b)

Ad hoc queries are not guarded: they run in a separate process, which can be killed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import cast

from sqlglot import exp, parse_one

from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.nodes import children

MOST_BYTES = 1 << 20  # of a value that a function makes; as long as a record of a sender may be
MOST_STEPS = 1 << 26  # pairs of characters that are compared: a tenth of a second
MOST_NESTED = 6  # guarded calls within each other: the text of each may contain that of the next twice
_WIDE = r"[0-9]{7,}"
# A width that is given by another argument: %*d, {:{}}.
_GIVEN = {"printf": r"%[-+ #0-9.]*\*", "format": r"\{[^{}]*:[^{}]*\{"}


def guard_length(node: exp.Expression, type_of: Callable[[str], str]) -> exp.Expression:
    """The call with a test of the length of its result; the call itself where the result cannot become long.

    `node` is already translated; `type_of` returns the type of an expression over its columns.
    """
    rule = _RULES.get(_name(node))
    return node if rule is None else rule(node, type_of)


def check_nesting(node: exp.Expr, above: int = 0) -> None:
    """Refuse nested calls: a guarded call contains its argument twice, so texts double at each level."""
    above += _name(node) in _RULES
    if above > MOST_NESTED:
        raise problem(
            "functions that make long texts are nested too deeply",
            node,
            code="TM621",
            hint=f"at most {MOST_NESTED} calls of {', '.join(sorted(_RULES))} within each other",
        )
    for child in children(node):
        check_nesting(child, above)


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Pad):
        return "lpad" if node.args.get("is_left") else "rpad"
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def _guard_pad(node: exp.Expression, type_of: Callable[[str], str]) -> exp.Expression:
    count = node.args["expression"]
    known = _constant(count)
    if known is None:
        node.set("expression", guard(f"{sql_of(count)} > {MOST_BYTES}", count))
    elif known > MOST_BYTES:
        raise _too_long(node, known)
    return node


def _guard_repeat(node: exp.Expression, type_of: Callable[[str], str]) -> exp.Expression:
    text, count = node.this, node.args["times"]
    known = _constant(count)
    if known is not None and known <= 1:
        return node
    if known is not None and (isinstance(text, exp.Literal) or known > MOST_BYTES):
        asked = known * (len(text.name.encode()) if isinstance(text, exp.Literal) else 1)
        if asked > MOST_BYTES:
            raise _too_long(node, asked)
        return node
    # As DOUBLE: the product of two BIGINT may overflow, and any precision will do.
    product = f"CAST({sql_of(count)} AS DOUBLE) * {_length(text, type_of)}"
    node.set("times", guard(f"{product} > {MOST_BYTES}", count))
    return node


def _guard_format(node: exp.Expression, type_of: Callable[[str], str]) -> exp.Expression:
    text = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    pattern = f"{_WIDE}|{_GIVEN[_name(node)]}"
    if isinstance(text, exp.Literal):
        if re.search(pattern, text.name):
            raise problem(
                "a field of a format is too wide, or its width is not said in it",
                node,
                code="TM620",
                hint="widths below 1,000,000, as numbers in the text of the format",
            )
        return node
    guarded = guard(f"regexp_matches({sql_of(text)}, '{pattern}')", text)
    if isinstance(node, exp.Anonymous):
        node.set("expressions", [guarded, *node.expressions[1:]])
    else:
        node.set("this", guarded)
    return node


def _guard_replace(node: exp.Expression, type_of: Callable[[str], str]) -> exp.Expression:
    text, old, new = node.this, node.args["expression"], node.args.get("replacement")
    if new is None or (isinstance(new, exp.Literal) and len(new.name.encode()) <= 1):
        return node
    lengths = [f"CAST({_length(n, type_of)} AS DOUBLE)" for n in (text, old, new)]
    # How often it is found is only counted where a long answer is possible.
    found = f"({lengths[0]} - strlen(replace({sql_of(text)}, {sql_of(old)}, ''))) / {lengths[1]}"
    test = f"{lengths[0]} * {lengths[2]} > {MOST_BYTES} AND {found} * {lengths[2]} > {MOST_BYTES}"
    node.set("this", guard(test, text))
    return node


def _guard_regexp_replace(node: exp.Expression, type_of: Callable[[str], str]) -> exp.Expression:
    text, new = node.this, node.args.get("replacement")
    if new is None or (isinstance(new, exp.Literal) and len(new.name.encode()) <= MOST_STEPS // MOST_BYTES):
        return node
    product = f"CAST({_length(text, type_of)} AS DOUBLE) * {_length(new, type_of)}"
    node.set("this", guard(f"{product} > {MOST_STEPS}", text))
    return node


def _guard_levenshtein(node: exp.Expression, type_of: Callable[[str], str]) -> exp.Expression:
    left, right = node.this, node.args["expression"]
    product = f"CAST({_length(left, type_of)} AS DOUBLE) * {_length(right, type_of)}"
    node.set("this", guard(f"{product} > {MOST_STEPS}", left))
    return node


_RULES: dict[str, Callable[[exp.Expression, Callable[[str], str]], exp.Expression]] = {
    "lpad": _guard_pad,
    "rpad": _guard_pad,
    "repeat": _guard_repeat,
    "printf": _guard_format,
    "format": _guard_format,
    "replace": _guard_replace,
    "regexp_replace": _guard_regexp_replace,
    "levenshtein": _guard_levenshtein,
}


def guard(test: str, value: exp.Expression) -> exp.Expression:
    """The expression, or an error about the row where a test holds."""
    message = f"a value would be longer than {MOST_BYTES} bytes, or take too long to make"
    text = sql_of(value)
    return cast(
        exp.Expression, parse_one(f"CASE WHEN {test} THEN error('{message}') ELSE {text} END", dialect="duckdb")
    )


def _length(text: exp.Expression, type_of: Callable[[str], str]) -> str:
    """SQL of how many bytes a text has, or elements a list."""
    sql = sql_of(text)
    if text.find_ancestor(exp.Lambda) is not None:  # its arguments have no type here
        return f"strlen(CAST({sql} AS VARCHAR))"
    kind = type_of(sql)
    if kind.endswith("]"):
        return f"len({sql})"
    return f"octet_length({sql})" if kind == "BLOB" else f"strlen({sql})"


def _too_long(node: exp.Expression, asked: int) -> Exception:
    return problem(
        f"{_name(node)} would make a value of {asked:,} bytes",
        node,
        code="TM620",
        detail=f"a value that a view makes has at most {MOST_BYTES:,} bytes",
        hint="ask for less",
    )


def _constant(node: exp.Expression) -> int | None:
    """The value of an expression of numbers; None where it reads columns or calls functions.

    >>> _constant(parse_one("(2 + 3) * -4")), _constant(parse_one("x + 1")), _constant(parse_one("'12'"))
    (-20, None, 12)
    """
    parts = [_constant(n) for n in _operands(node)]
    if isinstance(node, exp.Literal):
        return int(node.name) if re.fullmatch(r"[0-9]{1,18}", node.name) else None
    if not parts or None in parts or not isinstance(node, (exp.Paren, exp.Neg, exp.Cast, *_ARITHMETIC)):
        return None
    numbers = cast(list[int], parts)
    if isinstance(node, exp.Neg):
        return -numbers[0]
    if isinstance(node, (exp.Paren, exp.Cast)):
        return numbers[0]
    return _ARITHMETIC[type(node)](*numbers)


_ARITHMETIC: dict[type[exp.Expression], Callable[[int, int], int]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
}


def _operands(node: exp.Expression) -> Iterator[exp.Expression]:
    for key in ("this", "expression"):
        found = node.args.get(key)
        if isinstance(found, exp.Expression):
            yield found


def sql_of(node: exp.Expr) -> str:
    """The text of a tree for DuckDB."""
    return node.sql(dialect="duckdb")
