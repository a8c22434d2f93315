"""Groups that empty, values that fail, types that come out."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.language.tables import declared, parquet
from tests.paper.notation import Feed, answers, rows_of, tagged


@pytest.fixture
def keyed(db, tmp_path):
    """Rows of a keyed stream come, change and go."""
    feed = Feed(db, tmp_path, "Raw", "k INTEGER, g VARCHAR, v INTEGER, op VARCHAR", options="operation = 'op'").send(
        "<1,a,5,+>1 <2,a,7,+>2 <3,b,1,+>3 <1,a,9,+>4 <2,a,7,delete>5 <1,b,9,+>6 <1,b,9,D>7 <3,b,1,->8 <4,a,2,+>9"
    )
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k")
    return feed


def test_an_emptied_group_leaves_the_answer(db, keyed):
    db.execute(
        "CREATE STREAMED VIEW G AS SELECT g, count(*) AS n, sum(v) AS s, min(v) AS lo, max(v) AS hi FROM K GROUP BY g"
    )
    db.run()
    assert tagged(db, "G") == [
        "+<a,1,5,5,5>1",
        "u<a,2,12,5,7>2",
        "+<b,1,1,1,1>3",
        "u<a,2,16,7,9>4",
        "u<a,1,9,9,9>5",
        "u<b,2,10,1,9>6",
        "-<a,1,9,9,9>6",
        "u<b,1,1,1,1>7",
        "-<b,1,1,1,1>8",
        "+<a,1,2,2,2>9",
    ]


def test_a_global_aggregate_has_one_row_from_the_first_row_on(db, keyed):
    db.execute("CREATE STREAMED VIEW N AS SELECT count(*) AS n, sum(v) AS s, max(v) AS m, avg(v) AS a FROM K")
    db.execute("CREATE STREAMED VIEW H AS SELECT count(*) AS n FROM K HAVING count(*) > 1")
    db.run()
    assert tagged(db, "N")[:2] == ["+<1,5,5,5.0>1", "u<2,12,7,6.0>2"]
    history = answers(db, "N")
    assert history[8] == [(0, None, None, None)] and history[9] == [(1, 2, 2, 2.0)]
    assert answers(db, "H") == {2: [(2,)], 3: [(3,)], 5: [(2,)], 7: []}


def test_distinct_counts_and_deviations_under_deletion(db, keyed):
    db.execute(
        "CREATE STREAMED VIEW D AS SELECT count(DISTINCT g) AS g, count(DISTINCT v) AS v, stddev_pop(v) AS d FROM K"
    )
    db.run()
    history = answers(db, "D")
    assert [history[t][0][:2] for t in (1, 2, 3, 4, 5)] == [(1, 1), (1, 2), (2, 3), (2, 3), (2, 2)]
    assert history[8] == [(0, 0, None)]
    assert history[3][0][2] == pytest.approx(math.sqrt(56 / 9))


def test_set_operations_under_deletion(db, keyed):
    db.execute("CREATE STREAMED VIEW U AS SELECT g FROM K UNION SELECT 'b' AS g FROM K")
    db.execute("CREATE STREAMED VIEW E AS SELECT v FROM K EXCEPT SELECT k FROM K")
    db.execute("CREATE STREAMED VIEW D AS SELECT DISTINCT g FROM K")
    db.run()
    assert tagged(db, "D") == ["+<a>1", "+<b>3", "-<a>6", "-<b>8", "+<a>9"]
    assert answers(db, "U") == {1: [("a",), ("b",)], 6: [("b",)], 8: [], 9: [("a",), ("b",)]}
    assert answers(db, "E")[2] == [(5,), (7,)] and answers(db, "E")[4] == [(7,), (9,)]


def test_outer_joins_under_deletion(db, keyed, tmp_path):
    Feed(db, tmp_path, "RawL", "g VARCHAR, label VARCHAR").send("<a,Alpha>1 <b,Beta>5 <z,Omega>9")
    db.execute("CREATE TAGGED STREAM L OVER RawL KEY g")
    db.execute("CREATE STREAMED VIEW J AS SELECT K.k, L.label FROM K LEFT JOIN L ON K.g = L.g")
    db.execute("CREATE STREAMED VIEW F AS SELECT K.k, L.label FROM K FULL JOIN L ON K.g = L.g")
    db.run()
    assert tagged(db, "J") == [
        "+<1,Alpha>1",
        "+<2,Alpha>2",
        "+<3,>3",
        "-<2,Alpha>5",
        "-<3,>5",
        "+<3,Beta>5",
        "-<1,Alpha>6",
        "+<1,Beta>6",
        "-<1,Beta>7",
        "-<3,Beta>8",
        "+<4,Alpha>9",
    ]
    assert answers(db, "F")[8] == [(None, "Alpha"), (None, "Beta")]
    assert answers(db, "F")[9] == [(4, "Alpha"), (None, "Beta"), (None, "Omega")]


def test_a_keyed_self_join(db, keyed):
    db.execute("CREATE STREAMED VIEW P AS SELECT A.k, B.k AS other FROM K A JOIN K B ON A.g = B.g AND A.k < B.k")
    db.run()
    assert tagged(db, "P") == ["+<1,2>2", "-<1,2>5", "+<1,3>6", "-<1,3>7"]


def test_an_aggregate_over_an_aggregate(db, keyed):
    db.execute("CREATE STREAMED VIEW G AS SELECT g, count(*) AS n FROM K GROUP BY g")
    db.execute("CREATE STREAMED VIEW H AS SELECT n, count(*) AS groups FROM G GROUP BY n")
    db.execute("CREATE STREAMED VIEW M AS SELECT max(n) AS m FROM G")
    db.run()
    assert answers(db, "H") == {
        1: [(1, 1)],
        2: [(2, 1)],
        3: [(1, 1), (2, 1)],
        5: [(1, 2)],
        6: [(2, 1)],
        7: [(1, 1)],
        8: [],
        9: [(1, 1)],
    }
    assert [history[0][0] for history in answers(db, "M").values()] == [1, 2, 1, 2, 1, None, 1]


def test_views_seven_deep(db, keyed):
    db.execute("CREATE STREAMED VIEW V0 AS SELECT k, v FROM K")
    for i in range(1, 8):
        db.execute(f"CREATE STREAMED VIEW V{i} AS SELECT k, v + 1 AS v FROM V{i - 1}")
    db.run()
    moved = [(t, int(t.split(",")[1].split(">")[0])) for t in tagged(db, "V0")]
    assert tagged(db, "V7") == [t.replace(f",{v}>", f",{v + 7}>") for t, v in moved]


# ---- values that fail --------------------------------------------------------------------------


def test_overflow_puts_exactly_the_bad_rows_aside(db, tmp_path):
    big = 2**31 - 1
    Feed(db, tmp_path, "Raw", "id INTEGER, v INTEGER").send(
        [(1, 1, 1), (2, big, 2), (3, 3, 3), (4, big, 4), (5, None, 5)]
    )
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE STREAMED VIEW V AS SELECT id, v + 1 AS w FROM S")
    db.execute("CREATE STREAMED VIEW Fine AS SELECT id, sum(v) AS s FROM S GROUP BY id")
    db.execute("CREATE STREAMED VIEW Over AS SELECT max(w) AS m FROM V")
    db.run()
    assert tagged(db, "V") == ["+<1,2>1", "+<3,4>3", "+<5,>5"]
    assert tagged(db, "Over") == ["+<2>1", "u<4>3"]
    assert len(tagged(db, "Fine")) == 5
    reasons = rows_of(db, "SELECT reason, raw FROM dead_letters")
    assert {("Overflow" in reason, '"id": 2' in raw or '"id": 4' in raw) for reason, raw in reasons} == {(True, True)}


@pytest.mark.parametrize("expression", ["CAST(t AS INTEGER)", "CAST(t AS DATE)", "strptime(t, '%Y')"])
def test_a_failing_cast_puts_the_row_aside(db, tmp_path, expression):
    good = {"CAST(t AS INTEGER)": "7", "CAST(t AS DATE)": "2024-01-01", "strptime(t, '%Y')": "2024"}[expression]
    Feed(db, tmp_path, "Raw", "t VARCHAR").send([(good, 1), ("nonsense", 2), (None, 3), (good, 4)])
    db.execute(f"CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT {expression} AS x FROM S")
    db.run()
    assert db.query("SELECT * FROM V").num_rows == 3
    assert db.query("SELECT * FROM dead_letters").num_rows == 1


def test_overflow_in_a_keyed_stream_and_in_a_filter(db, tmp_path):
    big = 2**31 - 1
    Feed(db, tmp_path, "Raw", "k INTEGER, v INTEGER").send([(1, 5, 1), (2, 6, 1), (1, big, 2), (2, 8, 3), (1, 7, 4)])
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k")
    db.execute("CREATE STREAMED VIEW V AS SELECT k, v FROM K WHERE v + k > 0")
    db.run()
    assert answers(db, "V")[4] == [(1, 7), (2, 8)]
    assert db.query("SELECT * FROM dead_letters").num_rows >= 1


def test_a_sum_may_pass_the_range_of_its_values(db, tmp_path):
    Feed(db, tmp_path, "Raw", "v BIGINT").send([(2**63 - 1, 1), (2**63 - 1, 2), (1, 3)])
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT sum(v) AS s, avg(v) AS a FROM S")
    db.run()
    table = db.query("SELECT * FROM V")
    assert table.schema.field("s").type == pa.decimal128(38, 0)
    assert table.to_pylist() == [{"s": 2**64 - 1, "a": pytest.approx((2**64 - 1) / 3)}]


def test_division_by_zero_is_what_duckdb_says(db, tmp_path):
    Feed(db, tmp_path, "Raw", "v INTEGER, w INTEGER").send("<1,0>1 <-1,0>2 <0,0>3 <4,2>4")
    db.execute("CREATE TAGGED STREAM S OVER Raw")
    db.execute("CREATE VIEW V AS SELECT v, v / w AS q FROM S")
    db.execute("CREATE VIEW W AS SELECT v, v // w AS i, v % w AS m FROM S")
    db.run()
    assert rows_of(db, "SELECT * FROM V WHERE v <> 0 ORDER BY v") == [(-1, -math.inf), (1, math.inf), (4, 2.0)]
    assert rows_of(db, "SELECT * FROM W") == [(4, 2, 0)]
    assert db.query("SELECT * FROM dead_letters WHERE reason LIKE '%Division by zero%'").num_rows == 3


# ---- zeros, NaN, decimals ----------------------------------------------------------------------


@pytest.fixture
def floats(db, tmp_path):
    columns = {"k": "INTEGER", "f": "DOUBLE", "d": "DECIMAL(18,4)", "op": "VARCHAR", "at": "BIGINT"}
    rows = [
        (1, -0.0, "0.1", "+"),
        (2, 0.0, "0.2", "+"),
        (3, math.nan, "-0.3", "+"),
        (4, math.nan, None, "+"),
        (5, 1e308, "0.0001", "+"),
        (6, 1e30, "99999999999999.9999", "+"),
        (7, -math.inf, "0", "+"),
        (7, -math.inf, "0", "-"),
        (3, math.nan, None, "-"),
        (4, math.nan, None, "-"),
        (6, 1e30, None, "-"),
        (5, 0.1, "0.0001", "+"),
    ]
    parquet(
        tmp_path / "f.parquet", columns, [(k, f, d and Decimal(d), op, i) for i, (k, f, d, op) in enumerate(rows, 1)]
    )
    db.execute(
        f"REGISTER SOURCE Raw ({declared(columns)}) FROM FILES '{tmp_path}/f.parquet'"
        " WITH (timestamp = 'at', operation = 'op')"
    )
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k")


def test_minus_zero_and_zero_are_one_value(db, floats):
    db.execute("CREATE STREAMED VIEW D AS SELECT DISTINCT f FROM K WHERE f = 0")
    db.execute("CREATE STREAMED VIEW G AS SELECT f, count(*) AS n FROM K WHERE f = 0 GROUP BY f")
    db.run()
    assert [t[0] for t in tagged(db, "D")] == ["+"]
    assert [c["n"] for c in db.changes("G").to_pylist()] == [1, 2]


def test_nan_is_one_value_and_the_greatest(db, floats):
    db.execute("CREATE STREAMED VIEW G AS SELECT f, count(*) AS n FROM K WHERE isnan(f) GROUP BY f")
    db.execute("CREATE STREAMED VIEW M AS SELECT max(f) AS hi, min(f) AS lo, count(DISTINCT f) AS n FROM K")
    db.run()
    assert [(c["TAG"], c["n"]) for c in db.changes("G").to_pylist()] == [("+", 1), ("u", 2), ("u", 1), ("-", 1)]
    history = {c["TS"]: c for c in db.changes("M").to_pylist() if c["TAG"] != "-"}
    assert math.isnan(history[7]["hi"]) and history[7]["lo"] == -math.inf and history[7]["n"] == 5
    assert (history[12]["hi"], history[12]["lo"], history[12]["n"]) == (0.1, 0.0, 2)


def test_sums_recover_when_nan_infinity_and_large_values_leave(db, floats):
    db.execute("CREATE STREAMED VIEW N AS SELECT sum(f) AS s, avg(f) AS a FROM K")
    db.run()
    history = {c["TS"]: c["s"] for c in db.changes("N").to_pylist() if c["TAG"] != "-"}
    assert history[1] == 0.0 and math.isnan(history[3])
    assert history[12] == pytest.approx(0.1, abs=1e-12)


def test_decimals_of_all_38_digits(db, tmp_path):
    columns = {"a": "DECIMAL(38,10)", "b": "DECIMAL(38,0)", "c": "DECIMAL(38,37)", "at": "BIGINT"}
    rows = [("9" * 27 + ".0000000001", "9" * 36, "1." + "3" * 37, 1), ("-0.0000000002", "1", "-0." + "4" * 37, 2)]
    parquet(tmp_path / "d.parquet", columns, [(Decimal(a), Decimal(b), Decimal(c), t) for a, b, c, t in rows])
    db.execute(f"REGISTER SOURCE Raw ({declared(columns)}) FROM FILES '{tmp_path}/d.parquet' WITH (timestamp = 'at')")
    db.execute("CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT sum(a) AS a, sum(b) AS b, sum(c) AS c FROM S")
    db.run()
    assert rows_of(db, "SELECT * FROM V") == [
        (Decimal("9" * 26 + "8.9999999999"), Decimal("1" + "0" * 36), Decimal("0." + "8" * 36 + "9"))
    ]


def test_decimals_are_exact(db, floats):
    db.execute("CREATE STREAMED VIEW N AS SELECT sum(d) AS s, min(d) AS lo, max(d) AS hi, count(d) AS n FROM K")
    db.execute("CREATE VIEW X AS SELECT d * 2 AS twice, d + 1 AS more FROM K WHERE k = 1")
    db.run()
    history = {c["TS"]: c for c in db.changes("N").to_pylist() if c["TAG"] != "-"}
    assert history[6]["s"] == Decimal("100000000000000.0000")
    assert history[11]["s"] == Decimal("0.3001")
    assert db.changes("N").schema.field("s").type == pa.decimal128(38, 4)
    assert rows_of(db, "SELECT * FROM X") == [(Decimal("0.2"), Decimal("1.1"))]


# ---- types -------------------------------------------------------------------------------------


def test_every_type_comes_out_as_itself(db, tmp_path):
    columns = {
        "a": "TINYINT",
        "b": "SMALLINT",
        "c": "INTEGER",
        "d": "BIGINT",
        "e": "UBIGINT",
        "f": "FLOAT",
        "g": "DOUBLE",
        "h": "DECIMAL(12,3)",
        "i": "VARCHAR",
        "j": "BOOLEAN",
        "k": "DATE",
        "l": "TIMESTAMP",
        "m": "TIME",
        "n": "BLOB",
        "at": "BIGINT",
    }
    row = (
        1,
        2,
        3,
        4,
        5,
        1.5,
        2.5,
        Decimal("3.125"),
        "ü",
        True,
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        dt.time(1, 2, 3),
        b"\x00\xff",
        1,
    )
    nothing = (*(None for _ in row[1:]), 2)
    parquet(tmp_path / "t.parquet", columns, [row, nothing])
    db.execute(f"REGISTER SOURCE Raw ({declared(columns)}) FROM FILES '{tmp_path}/t.parquet' WITH (timestamp = 'at')")
    db.execute(
        "CREATE TAGGED STREAM S OVER Raw; CREATE VIEW V AS SELECT * FROM S;CREATE STREAMED VIEW W AS SELECT * FROM S"
    )
    db.execute("CREATE VIEW M AS SELECT " + ", ".join(f"max({c}) AS {c}" for c in "abcdefghijklmn") + " FROM S")
    db.run()
    types = [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint64(),
        pa.float32(),
        pa.float64(),
        pa.decimal128(12, 3),
        pa.string(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("us"),
        pa.time64("us"),
        pa.binary(),
        pa.int64(),
    ]
    for table in (db.query("SELECT * FROM V"), db.changes("W").select(list(columns))):
        assert table.schema.types == types
        assert sorted((tuple(r.values()) for r in table.to_pylist()), key=lambda r: r[-1]) == [row, nothing]
    assert rows_of(db, "SELECT * FROM M") == [row[:-1]]
    assert db.changes("W").schema.field("OLD").type.num_fields == len(columns)
    assert db.changes("W").schema.field("TAG").type == pa.string()
