"""No clause or argument that the parser reads is ignored: every field of its nodes is read by the binder or refused.

The fields are those of the parser's own classes, so a new one of a new version of it fails here until it is one or the
other.
"""

from __future__ import annotations

import inspect
import logging
from contextlib import suppress

import duckdb
import pytest
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from tests.harness import LocalDatabase
from tests.language.tables import fill
from tests.language.test_batch_answers import QUERIES as BATCH
from tests.language.test_subqueries import QUERIES as NESTED
from tidemill.errors import TidemillError
from tidemill.plan.statements import CreateView
from tidemill.sql.bind.functions import is_allowed
from tidemill.sql.bind.read_fields import DROPPED, READ, STAMPED, is_read, refuse_unread
from tidemill.sql.dialect.nodes import all_nodes, copy_tree
from tidemill.sql.parse.statements import parse_one

DUCKDB = DuckDB()
CLASSES = sorted(
    {c for c in vars(exp).values() if inspect.isclass(c) and issubclass(c, exp.Expression)}, key=lambda c: c.__name__
)
VALUES = (
    exp.column("extra"),
    [exp.column("extra")],
    exp.Literal.string("extra"),
    exp.var("EXTRA"),
    "extra",
    True,
    exp.Unnest(expressions=[exp.column("extra")]),
)
UNREAD = [(kind, field) for kind in READ for field in sorted(kind.arg_types) if not is_read(kind, field)]


def text(node):
    """DuckDB text of a node; None where there is none."""
    try:
        return DUCKDB.generate(node).lower()
    except Exception:
        return None


def smallest(kind):
    """A node of a class with what it needs and nothing else."""
    given = {name: exp.column(name) for name, needed in kind.arg_types.items() if needed}
    return kind(**{name: [value] if name == "expressions" else value for name, value in given.items()})


def dropped_fields(kind):
    """The optional fields of a value which DuckDB's text does not show, whatever is in them."""
    node = smallest(kind)
    if kind in READ or issubclass(kind, exp.JSONPathPart) or text(node) is None or not is_allowed(node):
        return
    for name, needed in kind.arg_types.items():
        if needed:
            continue
        shown = set()
        for value in VALUES:
            filled = node.copy()
            filled.set(name, value)
            shown.add(text(filled))
        if shown - {None, text(node)} == set():
            yield f"{kind.__name__}.{name}"


def test_what_the_text_of_a_value_does_not_show_is_known(caplog):
    caplog.set_level(logging.CRITICAL)
    found = {name for kind in CLASSES for name in dropped_fields(kind)}
    assert sorted(found) == sorted(DROPPED | STAMPED)


@pytest.mark.parametrize(("kind", "field"), UNREAD, ids=[f"{k.__name__}.{f}" for k, f in UNREAD])
def test_every_other_field_of_a_clause_is_refused(kind, field):
    node = kind()
    node.set(field, exp.Literal.number(1))
    with pytest.raises(TidemillError) as caught:
        refuse_unread(exp.select("a").where(node))
    assert caught.value.code == "TM202" and caught.value.hint


@pytest.mark.parametrize("pair", sorted(DROPPED))
def test_every_dropped_argument_is_refused(pair):
    owner, field = pair.split(".")
    node = smallest(getattr(exp, owner))
    node.set(field, exp.column("extra"))
    with pytest.raises(TidemillError, match="TM202"):
        refuse_unread(exp.select(node))


@pytest.mark.parametrize(
    "value",
    [
        "regexp_replace(s, 'x', 'y', 'gi')",
        "regexp_extract(s, 'x(y)', 1, 'i')",
        "regexp_extract_all(s, 'x(y)', 1, 'i')",
        "trim(BOTH 'x' FROM s)",
        "trim(LEADING FROM s)",
        "CAST(s AS VARINT)",
    ],
)
def test_an_argument_that_is_written_beside_others_is_none_of_them(value):
    refuse_unread(exp.select(DUCKDB.parse(value)[0]))


def test_no_example_of_duckdbs_functions_is_refused():
    """regexp_replace with 'g' and list_sort were, because the parser fills fields that the text shows otherwise."""
    found = duckdb.sql(
        "SELECT DISTINCT unnest(examples) FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate')"
    ).fetchall()
    tried = 0
    for (example,) in found:
        with suppress(SqlglotError):
            call = DUCKDB.parse(example)[0]
            tried += 1
            refuse_unread(exp.select(call))
    assert tried > 400


# ---- what is read changes the answer ------------------------------------------------------------------------

MORE = [
    "SELECT id, grp FROM (SELECT id, grp FROM S) ORDER BY id DESC LIMIT 2 OFFSET 1",
    "WITH a AS (SELECT id FROM S) (SELECT id FROM a) ORDER BY id LIMIT 3 OFFSET 2",
    "(SELECT id FROM S) ORDER BY id LIMIT 3 OFFSET 1",
    "SELECT id FROM S UNION SELECT n FROM T ORDER BY id LIMIT 3 OFFSET 1",
    "SELECT id FROM S EXCEPT SELECT n FROM T ORDER BY id LIMIT 3 OFFSET 1",
    "SELECT id FROM S INTERSECT SELECT n FROM T ORDER BY id LIMIT 3 OFFSET 1",
    "WITH S AS (SELECT 1 AS id) SELECT id FROM S UNION ALL SELECT n FROM T",
    "WITH S AS (SELECT 1 AS id) SELECT id FROM S EXCEPT ALL SELECT n FROM T",
    "WITH S AS (SELECT 1 AS id) SELECT id FROM S INTERSECT ALL SELECT n FROM T",
    "SELECT grp FROM S UNION ALL BY NAME SELECT id, grp FROM S",
    "SELECT id FROM S ORDER BY grp DESC NULLS FIRST FETCH FIRST 2 ROWS WITH TIES",
    "SELECT DISTINCT ON (grp) id, grp FROM S ORDER BY grp, id LIMIT ALL",
    "SELECT id FROM (SELECT id FROM S) SYNC EVERY 2",
    "SELECT count(*) AS n FROM (SELECT id FROM S SYNC EVERY 1) [WINDOW 3]",
    "SELECT count(*) AS n FROM S [RANGE 10 SLIDE 5] SYNC EVERY 2",
    "SELECT S.id FROM S JOIN K FOR SYSTEM_TIME AS OF S.TS ON S.grp = K.grp",
    "SELECT S.id FROM S ASOF LEFT JOIN S AS B ON S.grp = B.grp AND S.TS >= B.TS",
    "SELECT S.id, x FROM S CROSS JOIN UNNEST([S.id]) WITH ORDINALITY AS t(x, o)",
    "SELECT a.*, n FROM (VALUES (1, 2)) AS a(x, y) JOIN T ON a.x = T.n",
    "SELECT * EXCLUDE (id) REPLACE (v + 1 AS v) RENAME (w AS ww) FROM S",
    "SELECT * ILIKE 'i%' FROM S",
    "SELECT grp, grouping(grp) AS g FROM S GROUP BY GROUPING SETS ((grp), ())",
    "SELECT grp, b, count(*) AS n FROM S GROUP BY CUBE (grp, b)",
    "SELECT * FROM generate_series(2, 8, 2) AS g(x), range(2, 4) AS h(y)",
    "SELECT id, lag(v IGNORE NULLS) OVER w AS x FROM K WINDOW w AS (PARTITION BY b ORDER BY id)",
    "SELECT id, sum(v) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS x FROM K",
    "SELECT grp, string_agg(id, ';') AS x FROM S GROUP BY ALL HAVING count(DISTINCT v) > 1",
    "SELECT id FROM K QUALIFY row_number() OVER (PARTITION BY b ORDER BY id) = 1",
    "SELECT id FROM S NATURAL JOIN (SELECT grp, count(*) AS n FROM S GROUP BY grp) AS x",
    "SELECT unnest([id]) AS x FROM K",
    "SELECT quantile_cont(v, 0.5) AS a, percentile_cont(0.5) WITHIN GROUP (ORDER BY v DESC) AS b FROM S",
    "SELECT K.id FROM K - K",
    "SELECT id FROM S EXCEPT BY NAME SELECT id FROM S",
    "SELECT id FROM S INTERSECT BY NAME SELECT id FROM S",
    "SELECT id FROM S LIMIT 50 PERCENT",
    "SELECT S.id FROM S JOIN K FOR VERSION AS OF S.TS ON S.grp = K.grp",
    "SELECT count(id, v) AS n, list(v ORDER BY id) AS l, last_value(v RESPECT NULLS) OVER () AS r FROM S",
    "SELECT list(v ORDER BY id) AS l FROM S",
    "SELECT last_value(v RESPECT NULLS) OVER (PARTITION BY grp) AS r FROM K",
]
# What has no meaning of its own: spellings, places, and what the answer does not depend on.
SPELLINGS = {
    "CTE.materialized",
    "Count.big_int",
    "Fetch.direction",
    "LimitOptions.rows",
    "LimitOptions.percent",  # refused elsewhere, with a hint of its own
    "Limit.expressions",
    "Limit.offset",  # as LIMIT 1, 2 of other dialects
    "Ordered.with_fill",
    "Order.this",
    "With.recursive",  # without it a table of WITH that reads itself is an unknown name
    "Version.kind",
    "Window.over",
    "Table.catalog",  # refused elsewhere
    "Table.db",
    "Table.joins",
    "TableAlias.sync",  # brought to the item by the parser
    "TableAlias.window",
    "Explode.expressions",
    "Distinct.expressions",
    "Difference.joins",
}


@pytest.fixture(scope="module")
def bound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fields")
    db = LocalDatabase(str(folder / "db"))
    fill(db, folder)

    def bind(query):
        try:
            found = db.workload.bind(copy_tree(query))
            return (found.node, found.rhythm, found.keys)
        except Exception as error:
            return type(error), str(error)

    yield bind, db
    db.close()


def test_every_field_that_is_read_changes_the_plan(bound):
    bind, _ = bound
    wanted = {(kind, f) for kind, fields in READ.items() for f in fields if f"{kind.__name__}.{f}" not in SPELLINGS}
    for line in [*MORE, *NESTED, *BATCH]:
        statement = parse_one(f"CREATE VIEW V AS {line}")
        assert isinstance(statement, CreateView)
        count, before = len(all_nodes(statement.query)), None
        for index in range(count):
            kind = type(all_nodes(statement.query)[index])
            for field in [f for k, f in wanted if k is kind and all_nodes(statement.query)[index].args.get(f)]:
                before = before or bind(statement.query)
                changed = copy_tree(statement.query)
                node = all_nodes(changed)[index]
                node.set(field, False if node.args[field] is True else None)
                if bind(changed) != before:
                    wanted.discard((kind, field))
    assert sorted(f"{kind.__name__}.{field}" for kind, field in wanted) == []


def test_the_bounds_of_between_symmetric_may_stand_in_any_order(bound):
    _, db = bound
    for word in ("", "Not"):
        db.execute(f"CREATE VIEW {word}Any AS SELECT id FROM S WHERE v {word} BETWEEN SYMMETRIC 7 AND 1")
        db.execute(f"CREATE VIEW {word}Ordered AS SELECT id FROM S WHERE v {word} BETWEEN 1 AND 7")
    db.run()
    for word in ("", "Not"):
        views = [db.query(f"SELECT id FROM {word}{view} ORDER BY id").to_pylist() for view in ("Any", "Ordered")]
        assert views[0] == views[1] != []
