"""Scalar functions of the user in Python: in every clause of standing queries, and what happens where they fail."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase
from tidemill.errors import TidemillError

ROWS = [(1, "a", 1.5), (2, "b", None), (3, None, -2.0), (4, "a", 4.0), (2, "c", 8.0), (5, "b", 0.0)]
SETUP = """
REGISTER SOURCE R (id INTEGER, g VARCHAR, v DOUBLE, tm BIGINT)
FROM FILES '{0}/*.json' WITH (timestamp = 'tm', batch_rows = 2);
CREATE TAGGED STREAM S OVER R;
CREATE TAGGED STREAM K OVER R KEY id;
"""


def inverse(x):
    return 1 / x


def label(group, value):
    return {"text": f"{group}:{value:g}", "parts": [group, str(value)]}


@pytest.fixture
def db(tmp_path):
    (tmp_path / "r.json").write_text(
        "".join(json.dumps({"id": i, "g": g, "v": v, "tm": tm}) + "\n" for tm, (i, g, v) in enumerate(ROWS))
    )
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP.format(tmp_path))
        db.create_function("plus", lambda a, b: a + b, ["DOUBLE", "DOUBLE"])
        db.create_function("label", label, ["VARCHAR", "DOUBLE"], "STRUCT(text VARCHAR, parts VARCHAR[])")
        db.create_function("inverse", inverse)
        yield db


def rows(db, name):
    return sorted((tuple(row.values()) for row in db.query(f"SELECT * FROM {name}").to_pylist()), key=repr)


def test_in_every_clause_with_nulls_and_updates(db):
    db.execute("""
        CREATE VIEW Selected AS SELECT id, plus(v, id) AS p, label(g, v).text AS t FROM K;
        CREATE VIEW Filtered AS SELECT id FROM S WHERE plus(v, 1) > 2;
        CREATE VIEW Grouped AS SELECT Plus(id, 0) % 2 AS odd, sum(plus(v, 1)) AS s FROM K GROUP BY odd;
        CREATE VIEW Windowed AS SELECT g, count(*) AS n, sum(plus(v, 1)) AS s FROM S [RANGE 3] GROUP BY g;
        CREATE VIEW Joined AS SELECT a.id, b.id AS other FROM K a JOIN K b ON plus(a.id, 1) = b.id;
        CREATE VIEW Above AS SELECT id FROM K WHERE v >= (SELECT max(plus(v, -4)) FROM K);
    """)
    db.run()
    ids = {i: (g, v) for i, g, v in ROWS}
    known = {i: v for i, (_, v) in ids.items() if v is not None}
    texts = {i: f"{g}:{v:g}" if g is not None and v is not None else None for i, (g, v) in ids.items()}
    assert rows(db, "Selected") == sorted(((i, known[i] + i if i in known else None, texts[i]) for i in ids), key=repr)
    assert rows(db, "Filtered") == [(i,) for i, _, v in sorted(ROWS) if v is not None and v > 1]
    expected = [(float(odd), float(sum(v + 1 for i, v in known.items() if i % 2 == odd))) for odd in (0, 1)]
    assert rows(db, "Grouped") == expected
    assert rows(db, "Windowed") == sorted([("a", 1, 2.5), ("b", 1, None), (None, 1, -1.0)], key=repr)
    assert rows(db, "Joined") == [(i, i + 1) for i in range(1, 5)]
    assert rows(db, "Above") == [(2,), (4,)]


def test_rows_on_which_it_fails_are_dead_letters_and_the_rest_goes_on(db):
    db.create_function("wrong", lambda x: "no number", "DOUBLE", "INTEGER")
    db.execute("CREATE VIEW I AS SELECT id, inverse(v) AS i FROM S; CREATE VIEW W AS SELECT wrong(v) AS w FROM S")
    db.run()
    assert rows(db, "I") == [(1, 1 / 1.5), (2, 0.125), (2, None), (3, -0.5), (4, 0.25)]
    assert rows(db, "W") == [(None,)]
    reasons = [r["reason"] for r in db.query("SELECT reason FROM dead_letters").to_pylist()]
    assert sum("ZeroDivisionError" in r for r in reasons) == 1
    assert len(reasons) == 6


def test_it_is_there_when_the_database_is_opened_again(db, tmp_path):
    factor = 3
    db.create_function("times", lambda x: x * factor, "INTEGER", "INTEGER")
    db.execute("CREATE VIEW T AS SELECT id, times(id) AS t FROM K WHERE id < 3")
    db.run()
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        again.blobs, again.offset, again.batch = db.blobs, db.offset, db.batch
        again.execute("CREATE VIEW U WITH (begin = 'history') AS SELECT times(t) AS u FROM T")
        again.run()
        assert rows(again, "T") == [(1, 3), (2, 6)] and rows(again, "U") == [(18,), (9,)]
        listed = again.execute("SHOW FUNCTIONS").to_pylist()
        assert [f["name"] for f in listed] == ["plus", "label", "inverse", "times"]


def test_what_is_refused(db):
    def refused(code, act):
        with pytest.raises(TidemillError) as error:
            act()
        assert error.value.code == code and error.value.hint

    refused("TM302", lambda: db.create_function("abs", inverse))
    refused("TM302", lambda: db.create_function("inverse", inverse))
    refused("TM302", lambda: db.create_function("sum", inverse))
    refused("TM221", lambda: db.create_function("two words", inverse))
    refused("TM221", lambda: db.create_function("f", inverse, ["DOUBLE", "DOUBLE"]))
    refused("TM221", lambda: db.create_function("f", inverse, "NOTHING"))
    refused("TM221", lambda: db.create_function("f", "inverse"))
    refused("TM203", lambda: db.execute("CREATE VIEW V AS SELECT plus(v) AS p FROM S"))
    refused("TM203", lambda: db.execute("CREATE VIEW V AS SELECT inverse([1]) AS p FROM S"))
    db.execute("CREATE VIEW V AS SELECT inverse(v) AS p FROM S WHERE v <> 0")
    refused("TM306", lambda: db.drop_function("inverse"))
    refused("TM306", lambda: db.create_function("inverse", abs, or_replace=True))
    db.execute("DROP VIEW V")
    db.create_function("inverse", lambda x: -x, or_replace=True)
    db.execute("CREATE VIEW V AS SELECT inverse(v) AS p FROM S WHERE id = 1")
    db.run()
    assert rows(db, "V") == [(-1.5,)]
    db.execute("DROP VIEW V; DROP FUNCTION inverse")
    refused("TM207", lambda: db.execute("CREATE VIEW V AS SELECT inverse(v) AS p FROM S"))
