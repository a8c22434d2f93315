"""Does a row that satisfies these conditions satisfy that one too? Sound; what is not understood is not implied.

Understood are comparisons of any expression with a number or a text, IN, IS NOT NULL, and OR over them. Conditions are
compared where they hold: a condition that is unknown (NULL) does not hold.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, product
from math import prod
from struct import pack, unpack

from tidemill.optimize.views.canonical import MIRROR, bare, canonical, conjuncts
from tidemill.plan.scalars import Chain, In, IsNull, Literal, Negative, Not, Operation, Scalar, Template

Constant = Fraction | str
MOST_WAYS = 64  # combinations of the ways to satisfy several ORs
_COMPARISON = "_comparison"  # where a condition keeps its comparison
_LONGEST = 18  # characters of a number: longer ones may become floating-point numbers


@dataclass(frozen=True)
class Comparison:
    """`term sign constant`; the term is a canonical text."""

    term: str
    sign: str
    constant: Constant


@dataclass(frozen=True)
class Implication:
    """Decides implications between conditions over the same columns; `texts` are the columns of type VARCHAR, by their
    canonical text. Only these are ordered by the text of a literal: dates are not.
    """

    texts: Collection[str] = ()

    def holds(self, given: Sequence[Scalar], wanted: Scalar) -> bool:
        """True when every row that satisfies all of `given` satisfies `wanted`.

        >>> from tidemill.plan.scalars import ColumnRef
        >>> hot = [Operation(">", ColumnRef("t"), Literal("100"))]
        >>> [Implication().holds(hot, Operation(">", ColumnRef("t"), Literal(t))) for t in ("80", "100", "101")]
        [True, True, False]
        """
        return self._holds(given, wanted, MOST_WAYS)

    def _holds(self, given: Sequence[Scalar], wanted: Scalar, most: int) -> bool:
        """The same; `most` bounds the combinations of ways to satisfy several ORs that are looked at."""
        text = canonical(wanted)
        if any(canonical(g) == text for g in given):
            return True
        wanted = bare(wanted)
        if isinstance(wanted, Chain):
            found = (all(self._holds(given, p, most) for p in conjuncts(c)) for c in wanted.conditions)
            if wanted.word == "AND":
                return all(found)
            if any(found):
                return True
        return self._is_tested(given, wanted) or self._holds_each_way(given, wanted, most)

    def _is_tested(self, given: Sequence[Scalar], wanted: Scalar) -> bool:
        """Whether one of the conditions implies the wanted one by itself."""
        term = _tested_for_value(wanted)
        if term is not None:
            return any(term in _terms_with_value(g) for g in given)
        return self._compares(given, wanted)

    def _holds_each_way(self, given: Sequence[Scalar], wanted: Scalar, most: int) -> bool:
        """Whether each way to satisfy the ORs implies the condition; where these are too many together, one of them."""
        columns = wanted.columns
        either = [g for g in map(bare, given) if isinstance(g, Chain) and g.word == "OR" and g.columns & columns]
        rest = [g for g in given if bare(g) not in either]
        ways = prod(len(each.conditions) for each in either)
        groups = [either] if ways <= most else [[each] for each in either]
        most = most // ways if ways <= most else 1
        return bool(either) and any(
            all(
                self._holds([*rest, *chain.from_iterable(map(conjuncts, way))], wanted, most) for way in product(*group)
            )
            for group in ([each.conditions for each in group] for group in groups)
        )

    def _compares(self, given: Sequence[Scalar], wanted: Scalar) -> bool:
        options, comparison = self._options(wanted), self._comparison(wanted)
        for condition in given:
            known = self._options(condition)
            if known is not None:
                if options is not None and known[0] == options[0] and known[1] <= options[1]:
                    return True
                if (
                    comparison is not None
                    and known[0] == comparison.term
                    and all(_holds(c, comparison.sign, comparison.constant) for c in known[1])
                ):
                    return True
            elif comparison is not None and _comparison_implies(self._comparison(condition), comparison):
                return True
        return False

    def _comparison(self, condition: Scalar) -> Comparison | None:
        """A condition as a comparison with a constant that is ordered as its term is."""
        found = compare(condition)
        return None if found is None or (isinstance(found.constant, str) and found.term not in self.texts) else found

    def _options(self, condition: Scalar) -> tuple[str, frozenset[Constant]] | None:
        """The term and the constants that it may be equal to."""
        condition = bare(condition)
        if isinstance(condition, In):
            term, constants = canonical(condition.value), [constant_of(o) for o in condition.options]
            known = frozenset(c for c in constants if c is not None)
            ordered = term in self.texts or not any(isinstance(c, str) for c in known)
            alike = len(set(map(type, known))) == 1 and None not in constants
            return (term, known) if alike and ordered else None
        comparison = self._comparison(condition)
        if comparison is not None and comparison.sign == "=":
            return comparison.term, frozenset([comparison.constant])
        return None


def compare(condition: Scalar) -> Comparison | None:
    """A condition as a comparison with a constant, either way round; found once for each condition."""
    if _COMPARISON not in vars(condition):
        object.__setattr__(condition, _COMPARISON, _compare(bare(condition)))
    found: Comparison | None = vars(condition)[_COMPARISON]
    return found


def _compare(condition: Scalar) -> Comparison | None:
    if not isinstance(condition, Operation) or condition.sign not in MIRROR:
        return None
    for term, value, sign in (
        (condition.left, condition.right, condition.sign),
        (condition.right, condition.left, MIRROR[condition.sign]),
    ):
        constant = constant_of(value)
        if constant is not None and constant_of(term) is None:
            return Comparison(canonical(term), sign, constant)
    return None


def constant_of(value: Scalar) -> Constant | None:
    """The number or the text of a literal; None for anything else.

    >>> constant_of(Negative(Literal("1.5"))), constant_of(Template(("'it''s'",), ()))
    (Fraction(-3, 2), "it's")
    """
    value = bare(value)
    if isinstance(value, Negative):
        inner = constant_of(value.value)
        return -inner if isinstance(inner, Fraction) else None
    if isinstance(value, Literal):
        plain = len(value.text) <= _LONGEST and value.text.replace(".", "", 1).isdigit()
        return Fraction(value.text) if plain else None
    if isinstance(value, Template) and not value.holes:
        text = value.texts[0]
        if len(text) >= 2 and text[0] == text[-1] == "'" and "'" not in text[1:-1].replace("''", ""):
            return text[1:-1].replace("''", "'")
    return None


def _comparison_implies(given: Comparison | None, wanted: Comparison) -> bool:
    """x > 5 implies x > 3, x >= 5, x <> 5 and x <> 4."""
    if given is None or given.term != wanted.term or type(given.constant) is not type(wanted.constant):
        return False
    sign, limit = given.sign, given.constant
    if sign == "=":
        return _holds(limit, wanted.sign, wanted.constant)
    if wanted.sign == "<>":
        if sign == "<>":
            return limit == wanted.constant
        return _holds(wanted.constant, _complement(sign), limit)
    if sign[0] != wanted.sign[0] or sign == "<>" or wanted.sign == "=":
        return False
    if limit == wanted.constant:
        return sign == wanted.sign or len(wanted.sign) == 2
    return _holds(limit, sign[0], wanted.constant)


def _complement(sign: str) -> str:
    return {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[sign]


@lru_cache(maxsize=65_536)
def _holds(a: Constant, sign: str, b: Constant) -> bool:
    """Whether a comparison of constants holds as exact numbers and as the floating-point numbers that they may be
    rounded to beside a column of type DOUBLE or FLOAT.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, str) or isinstance(b, str):
        assert isinstance(a, str) and isinstance(b, str)
        return _satisfies(a < b, a == b, sign)
    try:
        pairs: list[tuple[Fraction | float, Fraction | float]] = [
            (a, b),
            (float(a), float(b)),
            (_single(a), _single(b)),
        ]
    except OverflowError:
        return False
    return all(_satisfies(left < right, left == right, sign) for left, right in pairs)


def _single(number: Fraction) -> float:
    found: float = unpack("f", pack("f", float(number)))[0]
    return found


def _satisfies(less: bool, equal: bool, sign: str) -> bool:
    """Whether a comparison holds of two values of which the first is less, or equal, or neither."""
    return {"=": equal, "<>": not equal, "<": less, "<=": less or equal, ">": not less and not equal, ">=": not less}[
        sign
    ]


def _tested_for_value(condition: Scalar) -> str | None:
    """The term of `term IS NOT NULL`."""
    condition = bare(condition)
    if isinstance(condition, Not):
        condition = bare(condition.value)
        if isinstance(condition, IsNull):
            return canonical(condition.value)
    return None


def _terms_with_value(condition: Scalar) -> set[str]:
    """The terms that are not NULL where a condition holds."""
    condition = bare(condition)
    if isinstance(condition, Operation) and condition.sign in MIRROR:
        return {canonical(condition.left), canonical(condition.right)}
    if isinstance(condition, In):
        return {canonical(condition.value)}
    if isinstance(condition, Chain):
        found = [set().union(*(_terms_with_value(p) for p in conjuncts(c))) for c in condition.conditions]
        return set.intersection(*found) if condition.word == "OR" else set().union(*found)
    term = _tested_for_value(condition)
    return set() if term is None else {term}
