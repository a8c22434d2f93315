"""CREATE VIRTUAL VIEW: a name for a query, unfolded into what reads it."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.language.tables import fill
from tests.paper.notation import tagged
from tidemill.errors import TidemillError
from tidemill.plan import relations as r
from tidemill.plan.node import walk

HOT = "SELECT grp, v, w FROM K WHERE v > 2"


@pytest.fixture
def db(tmp_path):
    database = LocalDatabase(str(tmp_path / "db"))
    fill(database, tmp_path)
    database.execute(f"CREATE VIRTUAL VIEW Hot AS {HOT}")
    yield database
    database.close()


def refused(db: LocalDatabase, text: str) -> TidemillError:
    with pytest.raises(TidemillError) as caught:
        db.execute(text)
    return caught.value


def node_of(db: LocalDatabase, query: str, output: str = "STREAMED"):
    """The plan of a view over the query, which is dropped again."""
    db.execute(f"CREATE {output} VIEW Probe AS {query}")
    node = db.workload.views["probe"].node
    db.execute("DROP VIEW Probe")
    return node


@pytest.mark.parametrize(
    "query",
    [
        "SELECT grp, count(*) AS n FROM {} GROUP BY grp",
        "SELECT V.grp, V.v FROM {} SYNC EVERY 3 AS V WHERE V.w > 10",
        "SELECT grp, count(*) AS n FROM {} V GROUP BY grp",
        "SELECT A.grp, B.v FROM {} A JOIN {} B ON A.grp = B.grp",
        "SELECT V.v, V.TS AS since FROM {} V",
        "SELECT v FROM {} V EXCEPT SELECT n FROM T",
    ],
)
def test_a_reader_has_the_plan_of_the_text(db, query):
    assert node_of(db, query.format("Hot", "Hot")) is node_of(db, query.format(f"({HOT})", f"({HOT})"))


def test_rules_pass_through_a_virtual_view_and_stop_at_a_created_one(db):
    """Section 10.5 of paper 004: presynchronization reaches the stream below BuildHotRooms only where it is virtual."""
    counted = "SELECT grp, count(*) AS n FROM K WHERE v > 2 GROUP BY grp"
    db.execute(f"CREATE VIRTUAL VIEW Counted AS {counted}; CREATE STREAMED VIEW Kept AS {counted}")
    text = str(db.explain("CREATE VIEW x AS SELECT grp, n FROM Counted SYNC EVERY 4"))
    assert "presynchronize" in text and "merge_select_tagger" in text
    assert "presynchronize" not in str(db.explain("CREATE VIEW x AS SELECT grp, n FROM Kept SYNC EVERY 4"))


def test_window_aggregates_over_a_virtual_view_share(db):
    recent = "SELECT grp, v FROM S [RANGE 4 SLIDE 2] WHERE v > 1"
    db.execute(f"CREATE VIRTUAL VIEW Recent AS {recent}; CREATE STREAMED VIEW Kept AS {recent}")
    counted = "SELECT grp, count(*) AS n FROM {} GROUP BY grp"
    node = node_of(db, counted.format("Recent"))
    assert node is node_of(db, counted.format(f"({recent})"))
    assert not any(isinstance(below, r.WindowAggregate) for below in walk(node_of(db, counted.format("Kept"))))
    assert any(isinstance(below, r.WindowAggregate) for below in walk(node))


def test_names_of_with_do_not_reach_into_a_virtual_view(db):
    """The name K in the definition is the stream, whatever WITH calls K around its reader."""
    text = "WITH K AS (SELECT key FROM T) SELECT Hot.grp FROM Hot JOIN K ON Hot.grp = K.key"
    plain = "WITH Z AS (SELECT key FROM T) SELECT Hot.grp FROM Hot JOIN Z AS K ON Hot.grp = K.key"
    assert node_of(db, text) is node_of(db, plain)


def test_virtual_views_on_virtual_views(db):
    db.execute("CREATE VIRTUAL VIEW Hotter AS SELECT grp, v FROM Hot WHERE v > 4")
    nested = f"SELECT grp, v FROM ({HOT}) Hot WHERE v > 4"
    assert node_of(db, "SELECT max(v) AS most FROM Hotter") is node_of(db, f"SELECT max(v) AS most FROM ({nested}) X")


def test_unfolding_that_doubles_at_every_level_is_refused(db):
    db.execute("CREATE VIRTUAL VIEW V0 AS SELECT grp, v FROM K")
    for i in range(5):
        db.execute(f"CREATE VIRTUAL VIEW V{i + 1} AS SELECT A.grp, A.v FROM V{i} A JOIN V{i} B ON A.grp = B.grp")
    error = refused(db, "CREATE VIRTUAL VIEW V6 AS SELECT A.grp FROM V5 A JOIN V5 B ON A.grp = B.grp")
    assert error.code == "TM104" and "64 virtual views" in error.message and "STREAMED" in error.hint


def test_sync_on_a_virtual_view_means_what_it_means_on_a_created_one(db):
    db.execute(
        "CREATE VIRTUAL VIEW Even AS SELECT TimePoint FROM clockStr WHERE TimePoint mod 2 = 0;"
        "CREATE VIRTUAL VIEW Big AS SELECT TS FROM S WHERE v > 3;"
        "CREATE STREAMED VIEW BigToo AS SELECT TS FROM S WHERE v > 3;"
        "CREATE STREAMED VIEW A AS SELECT grp, v FROM K SYNC ON Big;"
        "CREATE STREAMED VIEW B AS SELECT grp, v FROM R(K, BigToo)"
    )
    assert node_of(db, "SELECT grp, v FROM R(K, Even)") is node_of(db, "SELECT grp, v FROM K SYNC EVERY 2")
    db.run()
    assert tagged(db, "A") and tagged(db, "A") == tagged(db, "B")
    assert refused(db, "CREATE VIEW x AS SELECT grp FROM K SYNC ON Hot").code == "TM210"


def test_the_catalog_says_that_it_is_virtual(db):
    shown = db.execute("SHOW VIEWS").to_pylist()
    assert [(r["name"], r["detail"], r["reads"]) for r in shown] == [("Hot", "virtual", "K")]
    described = [tuple(r.values()) for r in db.execute("DESCRIBE Hot").to_pylist()]
    assert [row[:3] for row in described] == [("grp", "VARCHAR", True), ("v", "INTEGER", False), ("w", "BIGINT", False)]
    assert {row[3] for row in described} == {"virtual: every change"}
    assert "Hot is virtual: it does not run by itself but as a part of its readers; there is none" in str(
        db.explain("EXPLAIN Hot")
    )
    db.execute("CREATE VIEW Reader AS SELECT grp FROM Hot")
    assert "as a part of its readers: Reader\n" in str(db.execute("EXPLAIN VIEW Hot"))
    assert db.execute("SHOW VIEWS").to_pylist()[1]["reads"] == "Hot, K"
    assert str(db.execute("EXPLAIN Reader")).startswith("Reader unfolds virtual view Hot\n")
    assert "Scan" in str(db.execute("EXPLAIN CREATE VIRTUAL VIEW Other AS SELECT grp FROM Hot"))


def test_it_has_neither_tables_nor_operators(db):
    assert db.workload.views == {} and [v["name"] for v in db.status()["views"]] == []
    assert db.run().rows == 0, "a virtual view alone makes no job"
    db.execute("CREATE VIEW Reader AS SELECT grp, v FROM Hot")
    db.run()
    assert [v["name"] for v in db.status()["views"]] == ["Reader"]


def test_drop_is_refused_while_readers_need_it(db):
    db.execute("CREATE VIRTUAL VIEW Hotter AS SELECT grp FROM Hot WHERE v > 4")
    db.execute("CREATE VIEW Reader AS SELECT * FROM Hotter")
    error = refused(db, "DROP VIEW Hot")
    assert error.code == "TM306" and error.detail == "by view Hotter, view Reader"
    assert refused(db, "DROP STREAM K").code == "TM306"
    db.execute("DROP VIEW Reader; DROP VIEW Hotter; DROP VIEW Hot")
    assert db.execute("SHOW VIEWS").num_rows == 0
    db.execute(f"CREATE VIRTUAL VIEW Hot AS {HOT}; CREATE VIEW Reader AS SELECT * FROM Hot; DROP VIEW Hot CASCADE")
    assert db.execute("SHOW VIEWS").num_rows == 0


def test_or_replace_and_if_not_exists(db):
    db.execute("CREATE OR REPLACE VIRTUAL VIEW Hot AS SELECT grp FROM K WHERE v > 8")
    assert db.execute("DESCRIBE Hot").num_rows == 1
    assert "exists already" in db.execute(f"CREATE VIRTUAL VIEW IF NOT EXISTS Hot AS {HOT}").message
    assert node_of(db, "SELECT grp FROM Hot") is node_of(db, "SELECT grp FROM (SELECT grp FROM K WHERE v > 8)")
    db.execute("CREATE VIEW Reader AS SELECT grp FROM Hot")
    assert refused(db, "CREATE OR REPLACE VIRTUAL VIEW Hot AS SELECT v FROM K").code == "TM306"
    db.execute("DROP VIEW Reader; CREATE OR REPLACE VIEW Hot AS SELECT grp FROM K")
    assert db.execute("SHOW VIEWS").to_pylist()[0]["detail"] == "complete"
    db.execute(f"CREATE OR REPLACE VIRTUAL VIEW Hot AS {HOT}")
    assert db.execute("SHOW VIEWS").to_pylist()[0]["detail"] == "virtual"


@pytest.mark.parametrize("output", ["VIRTUAL", "STREAMED"])
def test_a_view_cannot_be_replaced_by_one_that_reads_it(db, output):
    db.execute(f"CREATE {output} VIEW Own AS SELECT grp, v FROM K")
    error = refused(db, f"CREATE OR REPLACE {output} VIEW Own AS SELECT grp FROM Own")
    assert error.code == "TM306" and db.execute("DESCRIBE Own").num_rows == 2


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("CREATE SINK Out FROM Hot TO CONSOLE", "a sink"),
        ("SUBSCRIBE Hot", "a subscription"),
        ("EXPLAIN WHY Hot", "EXPLAIN WHY"),
        ("RESTART VIEW Hot", "RESTART"),
    ],
)
def test_what_needs_stored_answers_is_refused_with_a_hint(db, statement, what):
    error = refused(db, statement)
    assert error.code == "TM230" and what in error.message and "CREATE STREAMED VIEW" in error.hint
    with pytest.raises(TidemillError) as caught:
        db.changes("Hot")
    assert caught.value.code == "TM230"


def test_its_definition_is_checked_and_options_belong_to_readers(db):
    assert refused(db, "CREATE VIRTUAL VIEW x AS SELECT nothing FROM K").code == "TM201"
    assert refused(db, "CREATE VIRTUAL VIEW x AS SELECT grp FROM Nowhere").code == "TM301"
    assert refused(db, "CREATE VIRTUAL VIEW Hot AS SELECT grp FROM K").code == "TM302"
    error = refused(db, "CREATE VIRTUAL VIEW x WITH (retain = '1 day') AS SELECT grp FROM K")
    assert error.code == "TM110" and "has no options" in error.message and error.column == 29
    assert refused(db, "CREATE VIRTUAL VIEW x AS SELECT STREAMED grp FROM K").code == "TM112"
    db.execute("CREATE VIRTUAL VIEW Pairs AS SELECT A.grp FROM S A JOIN S B ON A.grp = B.grp")
    assert refused(db, "CREATE VIEW x AS SELECT grp FROM Pairs").code == "TM204"
    db.execute("CREATE VIEW x WITH (unbounded_state = true) AS SELECT grp FROM Pairs")


def test_an_error_that_appears_in_a_reader_names_the_virtual_view(db, tmp_path):
    """A column that the source gets later may make a name of the definition ambiguous."""
    (tmp_path / "one").mkdir()
    db.execute(
        f"REGISTER SOURCE One (a INTEGER, at BIGINT) FROM FILES '{tmp_path}/one/*.json' WITH (timestamp = 'at');"
        f"REGISTER SOURCE Two (b INTEGER, at2 BIGINT) FROM FILES '{tmp_path}/one/*.json' WITH (timestamp = 'at2');"
        "CREATE TAGGED STREAM OneStr OVER One KEY a; CREATE TAGGED STREAM TwoStr OVER Two KEY b;"
        "CREATE VIRTUAL VIEW Both AS SELECT a, b FROM OneStr JOIN TwoStr ON a = b;"
        "CREATE VIEW Early AS SELECT b FROM Both; ALTER SOURCE One ADD COLUMN b INTEGER"
    )
    error = refused(db, "CREATE VIEW Late AS SELECT b FROM Both")
    assert error.code == "TM201" and error.detail.startswith('in virtual view "Both"') and error.column == 35


def test_it_survives_reopening_and_its_readers_go_on(db, tmp_path):
    db.execute("CREATE STREAMED VIEW Reader AS SELECT grp, v FROM Hot")
    db.run()
    before, node = tagged(db, "Reader"), db.workload.views["reader"].node
    db.close()
    with LocalDatabase(str(tmp_path / "db")) as again:
        assert again.workload.views["reader"].node is node and tagged(again, "Reader") == before
        assert again.execute("SHOW VIEWS").to_pylist()[0]["detail"] == "virtual"
        again.execute("CREATE VIEW More AS SELECT grp FROM Hot")


def test_a_later_reader_begins_with_its_own_creation(db):
    db.execute("CREATE STREAMED VIEW First AS SELECT grp, v FROM Hot")
    db.run()
    made = db.execute("CREATE STREAMED VIEW Late AS SELECT grp, v FROM Hot")
    assert "does not see" in made.message and "rows of K" in made.message and "begins with what" not in made.message
    db.run()
    assert tagged(db, "First") and not tagged(db, "Late")


def test_an_ad_hoc_query_is_that_over_the_text(db):
    db.execute(
        "CREATE VIEW Kept AS SELECT grp, v FROM K;"
        "CREATE VIRTUAL VIEW Top AS SELECT grp, max(v) FROM Kept GROUP BY grp;"
        "CREATE VIRTUAL VIEW Labels AS SELECT X.grp, T.label FROM Top X JOIN T ON X.grp = T.key"
    )
    db.run()
    plain = db.query("SELECT grp, max(v) AS m FROM Kept GROUP BY grp ORDER BY grp").to_pylist()
    assert db.query('SELECT grp, "max" AS m FROM Top ORDER BY grp').to_pylist() == plain and plain
    assert db.query("SELECT x AS grp, y AS m FROM Top AS X(x, y) ORDER BY x").to_pylist() == plain
    # A name of WITH around the reader does not reach into the definition.
    captured = db.query("WITH Kept AS (SELECT 1 AS one) SELECT count(*) AS n FROM Top, Kept").to_pylist()
    assert captured == [{"n": len(plain)}]
    assert db.query("SELECT count(*) AS n FROM Labels WHERE label IS NOT NULL").num_rows == 1
    nested = db.query("SELECT grp FROM Kept WHERE v = (SELECT max(m) FROM (SELECT max AS m FROM Top)) ORDER BY grp")
    assert nested.num_rows >= 1


def test_an_ad_hoc_query_that_cannot_be_answered_names_the_virtual_view(db):
    db.run()
    error = refused(db, "SELECT * FROM Hot")
    assert error.code == "TM215" and error.detail.startswith('in virtual view "Hot"') and error.column == 15
    db.execute("CREATE VIRTUAL VIEW Sliding AS SELECT v FROM S [WINDOW 3]")
    error = refused(db, "SELECT * FROM Sliding")
    assert error.code == "TM214" and 'virtual view "Sliding"' in error.detail


def test_a_restarted_source_takes_virtual_views_and_their_readers_along(db):
    db.execute("CREATE STREAMED VIEW Reader AS SELECT grp, v FROM Hot")
    db.run()
    before = tagged(db, "Reader")
    said = db.execute("RESTART SOURCE Raw").message
    assert "Hot" in said and "Reader" in said
    db.run()
    assert before and tagged(db, "Reader") == before
    assert [r["detail"] for r in db.execute("SHOW VIEWS").to_pylist()] == ["virtual", "streamed"]


def test_aggregates_of_users_are_called_through_a_virtual_view(db):
    db.create_aggregate(
        "total", zero=lambda: 0, add=lambda s, x: s + x, combine=lambda s, t: s + t, accepts="BIGINT", returns="BIGINT"
    )
    db.execute("CREATE VIRTUAL VIEW Summed AS SELECT grp, total(w) AS t FROM S [RANGE 100] GROUP BY grp")
    with pytest.raises(TidemillError) as caught:
        db.drop_aggregate("total")
    assert caught.value.code == "TM306"
    plain = "(SELECT grp, total(w) AS t FROM S [RANGE 100] GROUP BY grp)"
    assert node_of(db, "SELECT grp, t FROM Summed") is node_of(db, f"SELECT grp, t FROM {plain}")
