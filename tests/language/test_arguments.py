"""No argument is ignored: a function has as many as DuckDB knows, in views and in ad hoc queries."""

from __future__ import annotations

import duckdb
import pytest

from tidemill.errors import TidemillError
from tidemill.sql.arguments import _MOST_OF
from tidemill.sql.bind.functions import ALLOWED
from tidemill.sql.parse.statements import parse


def known():
    """The most arguments of DuckDB's functions, by name; those that take any number are left out."""
    found, endless = {}, set()
    rows = duckdb.execute(
        "SELECT function_name, len(parameters), varargs FROM duckdb_functions()"
        " WHERE function_type IN ('scalar', 'macro')"
    ).fetchall()
    for name, count, rest in rows:
        found[name] = max(found.get(name, 0), count)
        endless |= {name} if rest else set()
    return {name: most for name, most in found.items() if name in ALLOWED and name not in endless}


def test_every_function_has_as_many_arguments_as_in_duckdb():
    assert {name: _MOST_OF.get(name) for name in known()} == known()


@pytest.mark.parametrize("name", sorted(_MOST_OF))
def test_one_argument_more_is_refused(name):
    call = f"{name}({', '.join(['x'] * (_MOST_OF[name] + 1))})"
    for text in (f"CREATE VIEW V AS SELECT {call} AS y FROM S", f"SELECT {call} AS y FROM V"):
        with pytest.raises(TidemillError) as refused:
            parse(text)
        assert refused.value.code == "TM203" and f"{name} takes at most" in refused.value.message


@pytest.mark.parametrize(
    "call, message",
    [
        ("levenshtein(x)", "levenshtein takes at least 2 arguments, here is 1"),
        ("strftime(x)", "strftime takes at least 2 arguments, here is 1"),
        ("printf()", "printf takes at least 1 argument, here are 0"),
        ("date_trunc(d, x)", "the first argument of date_trunc is a text in single quotes"),
        ("date_diff(d, x, x)", "the first argument of date_diff is a text in single quotes"),
    ],
)
def test_what_else_would_be_misread_is_refused(call, message):
    with pytest.raises(TidemillError) as refused:
        parse(f"SELECT {call} AS y FROM V")
    assert (refused.value.code, refused.value.message) == ("TM203", message)


@pytest.mark.parametrize(
    "call",
    [
        "greatest(x, x, x, x)",
        "concat(x, x, x, x)",
        "coalesce(x, x, x, x)",
        "substring(x FROM 1 FOR 2)",
        "log(x, 2)",
        "position('a' IN x)",
        "trim(BOTH 'a' FROM x)",
        "length(concat(x, ',', x))",
        "round(greatest(x, 1), 2)",
        "extract(hour FROM x)",
        "list_contains([1, 2], x)",
        "date_trunc('hour', x)",
        "count(DISTINCT x)",
    ],
)
def test_calls_with_the_right_arguments_are_read(call):
    parse(f"SELECT {call} AS y FROM V")
