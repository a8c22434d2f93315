"""A stream of another site in FROM: one small story from the statements to the answer."""

from __future__ import annotations

import pytest

from tests.sites.two_sites import finish, two_sites
from tidemill.errors import TidemillError

PACKETS = """
REGISTER SOURCE {0}Source (ip INTEGER, len INTEGER, at INTEGER) FROM FILES '{1}/{0}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM {0} OVER {0}Source;
"""


def write(folder, name, text):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "1.csv").write_text("ip,len,at\n" + text)


def test_a_join_over_two_sites_is_the_join_over_one(tmp_path):
    write(tmp_path, "Packets", "1,10,1\n2,20,2\n1,30,4\n")
    write(tmp_path, "Others", "1,100,1\n1,200,3\n2,300,9\n")
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(PACKETS.format("Others", tmp_path) + "EXPORT STREAM Others TO SITE lyon")
        lyon.execute(PACKETS.format("Packets", tmp_path))
        lyon.execute(
            "CREATE STREAMED VIEW Both AS SELECT A.ip, A.len AS here, B.len AS there"
            " FROM Packets [WINDOW 3] A JOIN paris.Others [WINDOW 3] B ON A.ip = B.ip"
        )
        network.settle("lyon", "paris")
        finish(network, paris, lyon)
        found = [(r["TAG"], r["TS"], r["ip"], r["here"], r["there"]) for r in lyon.changes("Both").to_pylist()]
    # Rows of ip 1: here at 1 and 4, there at 1 and 3; a window of 3 shows a row from its time to 3 later.
    assert ("+", 2, 1, 10, 100) in found and ("+", 5, 1, 30, 200) in found
    assert all(ip == 1 for _, _, ip, _, _ in found)


def test_what_is_not_exported_is_not_known(tmp_path):
    write(tmp_path, "Others", "1,100,1\n")
    with two_sites(tmp_path) as (_, paris, lyon):
        paris.execute(PACKETS.format("Others", tmp_path))
        for name in ("Others", "Nothing"):
            with pytest.raises(TidemillError, match=f'no stream or view "{name}" is exported to this site') as caught:
                lyon.execute(f"CREATE VIEW V AS SELECT ip FROM paris.{name}")
            assert caught.value.code == "TM703" and caught.value.line == 1 and caught.value.hint
        assert not [e for e in lyon.catalog.entries.values() if e.kind in ("source", "stream", "view")]


def test_a_revoked_export_ends_its_edge(tmp_path):
    write(tmp_path, "Others", "1,100,1\n")
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(PACKETS.format("Others", tmp_path) + "EXPORT STREAM Others TO SITE lyon")
        lyon.execute("CREATE VIEW V AS SELECT ip FROM paris.Others")
        network.settle("lyon", "paris")
        assert len(list(paris.catalog.of("edge"))) == 1
        paris.execute("REVOKE STREAM Others FROM SITE lyon")
        assert not list(paris.catalog.of("edge"))
        network.settle("lyon", "paris")
        [shown] = lyon.status()["sites"]
        assert "TM7" in shown["reads"][0]["problem"]


def test_dropping_the_last_reader_ends_the_edge(tmp_path):
    write(tmp_path, "Others", "1,100,1\n")
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(PACKETS.format("Others", tmp_path) + "EXPORT STREAM Others TO SITE lyon")
        lyon.execute("CREATE VIEW V AS SELECT ip, len FROM paris.Others; CREATE VIEW W AS SELECT len FROM paris.Others")
        network.settle("lyon", "paris")
        assert len(list(paris.catalog.of("edge"))) == 1, "two readers share one edge"
        lyon.execute("DROP VIEW V")
        network.settle("lyon", "paris")
        assert len(list(paris.catalog.of("edge"))) == 1
        lyon.execute("DROP VIEW W")
        network.settle("lyon", "paris")
        assert not list(paris.catalog.of("edge"))
        assert not list(lyon.catalog.of("stream"))


def test_sites_and_edges_are_there_after_opening(tmp_path):
    write(tmp_path, "Others", "1,100,1\n2,5,2\n")
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(PACKETS.format("Others", tmp_path) + "EXPORT STREAM Others TO SITE lyon")
        lyon.execute("CREATE STREAMED VIEW V AS SELECT ip FROM paris.Others")
        network.settle("lyon", "paris")
    from tests.harness import LocalDatabase

    with LocalDatabase(str(tmp_path / "paris")) as paris, LocalDatabase(str(tmp_path / "lyon")) as lyon:
        network.add("paris", paris)
        network.add("lyon", lyon)
        finish(network, paris, lyon)
        assert [r["ip"] for r in lyon.changes("V").to_pylist()] == [1, 2]
        shown = lyon.execute("SHOW SITES").to_pylist()
        assert [(s["name"], s["reads"]) for s in shown] == [("paris", "paris.Others")]


def test_only_columns_that_are_read_are_shipped(tmp_path):
    write(tmp_path, "Others", "1,100,1\n")
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(PACKETS.format("Others", tmp_path) + "EXPORT STREAM Others TO SITE lyon")
        lyon.execute("CREATE VIEW V AS SELECT ip FROM paris.Others; CREATE VIEW W AS SELECT * FROM paris.Others")
        network.settle("lyon", "paris")
        assert [e.text for e in paris.catalog.of("edge")] == [
            'SELECT "ip", "at" FROM "Others"',
            'SELECT "ip", "len", "at" FROM "Others"',
        ]


def test_a_view_of_another_site_is_read_as_if_it_were_here(tmp_path):
    """Its changes are delivered, with deletions; a view that is created later begins with what it holds."""
    write(tmp_path, "Others", "1,100,1\n2,50,2\n1,30,4\n")
    view = "CREATE STREAMED VIEW Sums AS SELECT ip, sum(len) AS total FROM Others GROUP BY ip;"
    reader = "CREATE STREAMED VIEW V{} AS SELECT ip, total FROM {}Sums WHERE total > 60;"
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(PACKETS.format("Others", tmp_path) + view + "EXPORT VIEW Sums TO SITE lyon")
        lyon.execute(reader.format(1, "paris."))
        network.settle("lyon", "paris")
        paris.run(final=False)
        network.settle("lyon", "paris")
        lyon.run(final=False)
        assert len(lyon.changes("V1")) == 1
        lyon.execute(reader.format(2, "paris."))
        network.settle("lyon", "paris")
        (tmp_path / "Others" / "2.csv").write_text("ip,len,at\n2,20,6\n1,-80,7\n")
        finish(network, paris, lyon)
        found = {n: [tuple(r.values())[:4] for r in lyon.changes(n).to_pylist()] for n in ("V1", "V2")}
    assert found["V1"] == [("+", 1, 1, 100), ("u", 4, 1, 130), ("+", 6, 2, 70), ("-", 7, 1, 130)]
    # The first run left the time 4 open: the later view begins with what was closed then.
    assert found["V2"] == [("+", 3, 1, 100), ("u", 4, 1, 130), ("+", 6, 2, 70), ("-", 7, 1, 130)]


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT ip FROM paris.Others WHERE len > 60 AND ip = 1", '"len" > 60 AND "ip" = 1'),
        (
            "SELECT b.ip FROM Packets [WINDOW 9] a JOIN paris.Others [WINDOW 9] b ON a.ip = b.ip WHERE b.len > 60",
            '"len" > 60',
        ),
        (
            "SELECT b.ip FROM Packets [WINDOW 9] a LEFT JOIN paris.Others [WINDOW 9] b ON a.ip = b.ip WHERE b.len < 60",
            '"len" < 60',
        ),
        ("SELECT ip FROM paris.Others WHERE len > 60 OR ip = 1", ""),
        ("SELECT ip FROM paris.Others WHERE len > ip", ""),
        ("SELECT ip FROM paris.Others [ROWS 2] WHERE len > 60", ""),
        ("SELECT ip FROM paris.Others SYNC EVERY 2 ROWS WHERE len > 60", ""),
        (
            "SELECT a.ip FROM paris.Others [WINDOW 9] a JOIN paris.Others [WINDOW 9] b ON a.ip = b.ip WHERE a.len > 60",
            "",
        ),
        ("SELECT ip FROM paris.Keyed WHERE len > 60", ""),
    ],
)
def test_plain_conditions_are_evaluated_where_the_rows_are(tmp_path, query, condition):
    """Where they decide row by row; the answer is that of one database either way."""
    write(tmp_path, "Packets", "1,10,1\n2,20,2\n1,30,4\n")
    write(tmp_path, "Others", "1,100,1\n1,50,3\n2,70,3\n1,20,5\n2,300,9\n")
    statements = {n: PACKETS.format(n, tmp_path) for n in ("Packets", "Others")}
    statements["Others"] += "CREATE TAGGED STREAM Keyed OVER OthersSource KEY ip;"
    from tests.harness import LocalDatabase

    with LocalDatabase(str(tmp_path / "one")) as one:
        one.execute(statements["Packets"] + statements["Others"])
        one.execute(f"CREATE STREAMED VIEW V AS {query.replace('paris.', '')}")
        one.run()
        expected = one.changes("V").to_pylist()
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(statements["Others"] + "EXPORT STREAM Others TO SITE lyon; EXPORT STREAM Keyed TO SITE lyon")
        lyon.execute(statements["Packets"] + f"CREATE STREAMED VIEW V AS {query}")
        network.settle("lyon", "paris")
        [edge] = paris.catalog.of("edge")
        assert edge.text.partition(" WHERE ")[2] == condition
        finish(network, paris, lyon)
        assert lyon.changes("V").to_pylist() == expected and expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ip, len FROM paris.Keyed",
        "SELECT ip, len FROM paris.Others [ROWS 2]",
        "SELECT ip, sum(len) AS total FROM paris.Others [ROWS 3 SLIDE 2] GROUP BY ip",
    ],
)
def test_records_of_one_time_keep_their_order(tmp_path, query):
    """The last of them replaces the others, and windows of rows count them as they came."""
    write(tmp_path, "Others", "1,100,1\n2,50,1\n1,70,1\n2,20,1\n1,30,2\n3,1,2\n1,31,2\n2,7,5\n")
    statements = PACKETS.format("Others", tmp_path) + "CREATE TAGGED STREAM Keyed OVER OthersSource KEY ip;"
    from tests.harness import LocalDatabase

    with LocalDatabase(str(tmp_path / "one")) as one:
        one.execute(statements + f"CREATE STREAMED VIEW V AS {query.replace('paris.', '')}")
        one.run()
        expected = one.changes("V").to_pylist()
    with two_sites(tmp_path) as (network, paris, lyon):
        paris.execute(statements + "EXPORT STREAM Others TO SITE lyon; EXPORT STREAM Keyed TO SITE lyon")
        lyon.execute(f"CREATE STREAMED VIEW V AS {query}")
        network.settle("lyon", "paris")
        finish(network, paris, lyon)
        assert lyon.changes("V").to_pylist() == expected and expected
