"""Columns that are NULL in every row: each alone was fine, two views of one kind together ended the whole job."""

from __future__ import annotations

import json

import pytest

from tests.harness import LocalDatabase

VIEWS = [
    "CREATE VIEW {} AS SELECT v, NULL AS x FROM S",
    "CREATE VIEW {} AS SELECT v, v::BIGINT AS x FROM S",
    "CREATE VIEW {} AS SELECT v, NULL AS x FROM K",
    "CREATE VIEW {} AS SELECT v, v::BIGINT AS x FROM K",
    "CREATE RSTREAM VIEW {} AS SELECT v, NULL AS x FROM S",
    "CREATE RSTREAM VIEW {} AS SELECT v, v::BIGINT AS x FROM S",
    "CREATE VIEW {} AS SELECT NULL AS x, count(*) AS n FROM S GROUP BY NULL",
    "CREATE VIEW {} AS SELECT v::BIGINT AS x, count(*) AS n FROM S GROUP BY v::BIGINT",
    "CREATE VIEW {} AS SELECT v, NULL AS x, count(*) AS n FROM S GROUP BY v",
    "CREATE VIEW {} AS SELECT max(NULL) AS x, count(NULL) AS c FROM S",
    "CREATE VIEW {} AS SELECT DISTINCT NULL AS x FROM S",
    "CREATE VIEW {} AS SELECT NULL AS x FROM S UNION ALL SELECT v FROM K",
    "CREATE VIEW {} AS SELECT coalesce(NULL, NULL) AS x FROM S",
    "CREATE VIEW {} AS SELECT v::BIGINT AS x FROM S",
]


@pytest.fixture
def db(tmp_path):
    rows = [json.dumps({"k": i % 3, "v": i, "at": i}) for i in range(5)]
    (tmp_path / "in.json").write_text("\n".join(rows) + "\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""REGISTER SOURCE R (k INTEGER, v INTEGER, at BIGINT) FROM FILES '{tmp_path}/*.json'
                       WITH (timestamp = 'at'); CREATE TAGGED STREAM S OVER R; CREATE TAGGED STREAM K OVER R KEY k""")
        yield db


@pytest.mark.parametrize("order", [1, -1])
def test_views_with_and_without_nulls_stand_together(db, order):
    for number in range(len(VIEWS))[::order]:
        db.execute(VIEWS[number].format(f"V{number}"))
    db.run()
    assert not [v for v in db.status()["views"] if v["stopped"]]
    found = [
        [tuple(r.values()) for r in db.query(f"SELECT * FROM V{n} ORDER BY ALL").to_pylist()] for n in range(len(VIEWS))
    ]
    assert found[0] == [(i, None) for i in range(5)] and found[1] == [(i, i) for i in range(5)]
    assert found[2] == [(i, None) for i in (2, 3, 4)] and found[3] == [(i, i) for i in (2, 3, 4)]
    assert {x for *_, x in found[4]} == {None} and len(found[4]) == len(found[5])
    assert found[6] == [(None, 5)] and found[7] == [(i, 1) for i in range(5)]
    assert found[8] == [(i, None, 1) for i in range(5)] and found[9] == [(None, 0)] and found[10] == [(None,)]
    assert sorted(found[11], key=str) == [(2,), (3,), (4,), *[(None,)] * 5] and found[12] == [(None,)] * 5
    assert found[13] == [(i,) for i in range(5)]
