"""STRUCT, LIST, MAP, JSON, UUID, ENUM and INTERVAL columns: from JSON lines and Parquet, in expressions and as keys."""

from __future__ import annotations

import json

import duckdb
import pyarrow.parquet as pq
import pytest

from benchmarks.corpus.oracle import plain_rows, same
from tests.harness import LocalDatabase
from tidemill.errors import TidemillError

COLUMNS = {
    "payload": "STRUCT(usr STRUCT(id INTEGER, tags VARCHAR[]), ok BOOLEAN)",
    "points": "INTEGER[]",
    "counts": "MAP(VARCHAR, INTEGER)",
    "doc": "JSON",
    "ref": "UUID",
    "color": "ENUM('red', 'green')",
    "took": "INTERVAL",
    "seq": "BIGINT",
}
RECORDS = [
    {
        "payload": {"usr": {"id": i % 2, "tags": ["a"] * i}, "ok": i > 1},
        "points": [i, None, 3],
        "counts": {"x": i},
        "doc": {"deep": {"n": i}},
        "ref": f"00000000-0000-0000-0000-00000000000{i % 2}",
        "color": ["red", "green"][i % 2],
        "took": f"{i} minutes",
        "seq": i,
    }
    for i in range(4)
]
BAD = [
    ({**RECORDS[0], "payload": {"usr": {"id": "many"}}}, "payload"),
    ({**RECORDS[0], "points": {"no": "list"}}, "points"),
    ({**RECORDS[0], "ref": "nobody"}, "ref"),
    ({**RECORDS[0], "color": "blue"}, "color"),
]
QUERIES = (
    "SELECT payload.usr.id AS id, sum(len(payload.usr.tags)) AS n FROM S GROUP BY payload.usr.id",
    "SELECT S.payload.ok AS ok, points[1] AS p, counts['x'] AS x, doc ->> '$.deep.n' AS n FROM S",
    "SELECT payload, count(*) AS n FROM S GROUP BY payload",
    "SELECT points, payload FROM S WHERE list_contains(points, 2)",
    "SELECT ref, color, count(*) AS n, max(took) AS t FROM S GROUP BY ref, color",
    "SELECT DISTINCT color FROM S WHERE color > 'red'",
    "SELECT a.ref, b.points FROM S a JOIN S b ON a.ref = b.ref WHERE a.payload.usr.id < 1",
    "SELECT json_extract(doc, '$.deep') AS d, typeof(doc) AS t, typeof(ref) AS u, typeof(color) AS c FROM S",
    "SELECT map_keys(counts) AS k, list_sum(points) AS s, list_transform(points, lambda x: x + 1) AS p FROM S",
    "SELECT color, list(points ORDER BY seq) AS l, arg_max(payload, seq) AS p FROM S GROUP BY color",
    "SELECT max(payload) AS m, min(points) AS p FROM S",
    "SELECT count(DISTINCT payload) AS a, count(DISTINCT points) AS b, count(DISTINCT counts) AS c FROM S",
    "SELECT color, count(DISTINCT payload) AS n FROM S GROUP BY color",
    "SELECT a.color, count(*) AS n, sum(b.seq) AS s FROM S a JOIN S b ON a.payload = b.payload GROUP BY a.color",
    "SELECT a.seq % 2 AS o, max(b.points) AS p, max(b.color) AS c FROM S a JOIN S b ON a.counts = b.counts GROUP BY o",
    "SELECT a.seq AS a, b.seq AS b FROM S a JOIN S b ON a.points = b.points AND a.counts = b.counts",
)


def declared() -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())


@pytest.fixture(scope="module", params=["json", "parquet"])
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nested")
    duck = duckdb.connect()
    (folder / "truth.json").write_text("\n".join(json.dumps(r) for r in RECORDS))
    casts = ", ".join(f"CAST({n} AS {t}) AS {n}" for n, t in COLUMNS.items())
    raw = ", ".join(f"{n}: 'JSON'" for n in ("payload", "points", "counts", "doc"))
    plain = "ref: 'VARCHAR', color: 'VARCHAR', took: 'VARCHAR', seq: 'BIGINT'"
    source = f"read_json('{folder}/truth.json', columns = {{{raw}, {plain}}})"
    duck.execute(f"CREATE TABLE S AS SELECT {casts} FROM {source}")
    if request.param == "json":
        records = [*RECORDS, *(bad for bad, _ in BAD)]
        (folder / "in.json").write_text("".join(json.dumps(r) + "\n" for r in records))
    else:
        kept = ", ".join(f"CAST({n} AS VARCHAR) AS {n}" if n == "color" else n for n in COLUMNS)
        pq.write_table(
            duck.sql(f"SELECT * EXCLUDE (took) FROM (SELECT {kept} FROM S)").to_arrow_table(), folder / "in.parquet"
        )
    with LocalDatabase(str(folder / "db")) as db:
        columns = declared() if request.param == "json" else declared().replace("took INTERVAL, ", "")
        db.execute(f"""
            REGISTER SOURCE R ({columns}) FROM FILES '{folder}/in.*' WITH (timestamp = 'seq', batch_rows = 2);
            CREATE TAGGED STREAM S OVER R;
        """)
        chosen = [q for q in QUERIES if request.param == "json" or "took" not in q]
        for i, query in enumerate(chosen):
            db.execute(f"CREATE VIEW v{i} AS {query} WITH (unbounded_state = true)")
        db.run()
        yield db, duck, chosen, request.param
    duck.close()


def test_views_equal_duckdb(both):
    db, duck, chosen, _ = both
    for i, query in enumerate(chosen):
        expected = duck.sql(query)
        mine, theirs = plain_rows(db.query(f"SELECT * FROM v{i}")), plain_rows(expected.to_arrow_table())
        assert same(mine, theirs), (query, mine, theirs)
        assert [c.type for c in db.workload.views[f"v{i}"].stored.columns] == [str(t) for t in expected.types], query


def test_values_that_do_not_fit_are_dead_letters(both):
    db, _, _, kind = both
    letters = db.query("SELECT reason FROM dead_letters").to_pylist()
    assert len(letters) == (len(BAD) if kind == "json" else 0)
    wrong = {letter["reason"].split('"')[1] for letter in letters}
    assert wrong == ({column for _, column in BAD} if kind == "json" else set())


@pytest.mark.parametrize("type_", ["STRUCT(a)", "MAP(VARCHAR)", "ENUM()", "NOTHING[]", "STRUCT(a INTEGER"])
def test_types_that_are_none_are_refused(tmp_path, type_):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError) as refused:
        db.execute(f"REGISTER SOURCE R (a {type_}) FROM FILES '{tmp_path}/*.json'")
    assert refused.value.code in ("TM108", "TM101")


def test_what_arrow_cannot_nest_is_refused(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError) as refused:
        db.execute(f"REGISTER SOURCE R (a STRUCT(b JSON)) FROM FILES '{tmp_path}/*.json'")
    assert refused.value.code == "TM404"


def test_json_that_does_not_parse_is_a_dead_letter(tmp_path):
    (tmp_path / "in.csv").write_text('id,doc\n1,"{""a"": 1}"\n2,"{""a"": "\n')
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE R (id INTEGER, doc JSON) FROM FILES '{tmp_path}/in.csv'")
        db.execute("CREATE TAGGED STREAM S OVER R; CREATE VIEW V AS SELECT id, doc -> 'a' AS a FROM S")
        db.run()
        assert db.query("SELECT * FROM V").to_pylist() == [{"id": 1, "a": "1"}]
        (letter,) = db.query("SELECT reason FROM dead_letters").to_pylist()
        assert letter["reason"].startswith('column "doc": cannot read')


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_list_of_decimals_is_no_decimal(tmp_path, form):
    """Its type begins with DECIMAL( too: no batch with such a column could be read."""
    lines = '{"d": [1.25, null]}\n' if form == "json" else 'd\n"[1.25, null]"\n'
    (tmp_path / f"in.{form}").write_text(lines)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"REGISTER SOURCE R (d DECIMAL(5,2)[]) FROM FILES '{tmp_path}/in.{form}'")
        db.execute("CREATE TAGGED STREAM S OVER R; CREATE VIEW V AS SELECT d[1] AS first, len(d) AS n FROM S")
        db.run()
        assert db.query("SELECT CAST(first AS DOUBLE) AS first, n FROM V").to_pylist() == [{"first": 1.25, "n": 2}]
