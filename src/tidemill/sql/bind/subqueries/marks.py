"""What IN, ANY and ALL are, by SQL's rules of NULL, from counts and extremes of the subquery's rows.

With n rows, of which m are not NULL, lo the least and hi the greatest of these:

    x IN          n = 0: FALSE · one of them equals x: TRUE  · x is NULL or m < n: NULL · else FALSE
    x > ANY       n = 0: FALSE · x > lo: TRUE                · x is NULL or m < n: NULL · else FALSE
    x > ALL       n = 0: TRUE  · x <= hi: FALSE              · x is NULL or m < n: NULL · else TRUE
    x <> ANY      n = 0: FALSE · x <> lo or x <> hi: TRUE    · x is NULL or m < n: NULL · else FALSE
    x = ALL       n = 0: TRUE  · x <> lo or x <> hi: FALSE   · x is NULL or m < n: NULL · else TRUE

An outer row without a partner has NULL in place of n, m, lo and hi: no rows.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.plan.scalars import Scalar, template

_UNKNOWN = "WHEN {2} IS NULL OR {3} < {1} THEN CAST(NULL AS BOOLEAN)"
_SIGNS: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def in_value(value: Scalar, matched: Scalar, rows: Scalar, known: Scalar) -> Scalar:
    """`value IN (…)`, where `matched` is TRUE for a row that equals it."""
    text = f"CASE WHEN {{0}} THEN TRUE WHEN coalesce({{1}}, 0) = 0 THEN FALSE {_UNKNOWN} ELSE FALSE END"
    return template(text, matched, rows, value, known)


def quantified_value(
    sign: type[exp.Expr], every: bool, value: Scalar, rows: Scalar, known: Scalar, low: Scalar, high: Scalar
) -> Scalar:
    """`value sign ANY (…)`, or with `every` `value sign ALL (…)`."""
    first, last = ("TRUE", "FALSE") if every else ("FALSE", "TRUE")
    text = f"CASE WHEN coalesce({{1}}, 0) = 0 THEN {first} WHEN {{0}} THEN {last} {_UNKNOWN} ELSE {first} END"
    return template(text, _deciding_test(sign, every, value, low, high), rows, value, known)


def _deciding_test(sign: type[exp.Expr], every: bool, value: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """The comparison with an extreme that decides: one row satisfies ANY, or one row fails ALL."""
    if sign not in _SIGNS:
        return template("({0} <> {1} OR {0} <> {2})", value, low, high)
    word = _SIGNS[sign]
    # A value is greater than one row where it is greater than the least, than all where it is than the greatest.
    extreme = low if word.startswith(">") != every else high
    return template(f"{{0}} {_OPPOSITE[word] if every else word} {{1}}", value, extreme)
