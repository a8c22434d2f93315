"""A site that says or sends what cannot be is refused, and the database that asked goes on as before."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from tests.sites.two_sites import finish, two_sites
from tidemill.errors import EngineProblem, TidemillError
from tidemill.plan.sources import Column
from tidemill.runtime.sites import flight_client
from tidemill.runtime.sites.messages import DIFF, SEQ, TIME, Link, decode_header, encode, read_rows
from tidemill.runtime.sites.protocol import Note

STREAM = """
REGISTER SOURCE {0}Source (k INTEGER, at INTEGER) FROM FILES '{1}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM {0} OVER {0}Source;
"""
K, AT = Column("k", "INTEGER"), Column("at", "INTEGER")
LIES = {
    "a type that is SQL": {"columns": (Column("k", "INTEGER), (SELECT 1) -- "), AT)},
    "a type that ends its cast": {"columns": (Column("k", "INTEGER) , (getenv('HOME')) , ([1]"), AT)},
    "no type": {"columns": (Column("k", "NOTHING"), AT)},
    "a type that no source has": {"columns": (Column("k", "BIT"), AT)},
    "a name twice": {"columns": (K, Column("K", "INTEGER"), AT)},
    "a reserved name": {"columns": (K, Column("__seq", "BIGINT"), AT)},
    "no columns": {"columns": ()},
    "another event column": {"event": "nothing"},
    "another key": {"key": ("nothing",)},
    "another operation": {"operation": "nothing"},
    "another stamp": {"is_view": True, "stamp": "nothing"},
    "another name": {"name": 'T" WHERE 1'},
    "the name of a stream here": {"edge": "Own"},
    "a path": {"edge": "../../../x"},
    "a domain": {"is_view": True, "domain": "years"},
    "a period of nothing": {"is_view": True, "period": (0, 0)},
    "a period of texts": {"is_view": True, "period": ("a", "b")},
    "no rate": {"rate": float("nan")},
    "a unit of text": {"unit_us": "x"},
}


class Liar:
    """The other site, with another description or other messages."""

    def __init__(self, peer, lie):
        self.peer, self.lie = peer, lie

    def describe(self, name):
        found = self.peer.describe(name)
        return replace(found, **self.lie) if isinstance(self.lie, dict) else found

    def fetch(self, wants, patience):
        found = self.peer.fetch(wants, patience)
        return found if isinstance(self.lie, dict) else replace(found, messages=tuple(map(self.lie, found.messages)))

    def __getattr__(self, name):
        return getattr(self.peer, name)


def lying_sites(folder, paris, lyon, lie):
    (folder / "rows").mkdir()
    (folder / "rows" / "1.csv").write_text("k,at\n1,1\n2,2\n3,3\n")
    paris.execute(STREAM.format("T", folder / "rows") + "EXPORT STREAM T TO SITE lyon")
    lyon.execute(STREAM.format("Own", folder / "rows"))
    true = lyon.state.sites.transport.connect
    lyon.state.sites.transport.connect = lambda *given: Liar(true(*given), lie)
    return true


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_description_that_cannot_be_is_refused(tmp_path, lie):
    with two_sites(tmp_path) as (_, paris, lyon):
        lying_sites(tmp_path, paris, lyon, lie)
        before = set(lyon.catalog.entries)
        for query in (
            "SELECT k FROM paris.T",
            "SELECT A.k FROM Own [WINDOW 3] A JOIN paris.T [WINDOW 3] B ON A.k = B.k",
        ):
            with pytest.raises(TidemillError) as caught:
                lyon.execute(f"CREATE STREAMED VIEW V AS {query}")
            assert caught.value.code in ("TM710", "TM707") and caught.value.hint
        assert set(lyon.catalog.entries) == before


def sent_otherwise(change):
    """Messages with the rows changed, and checksums that fit."""

    def send(data):
        header = decode_header(data, "a test")
        rows = change(read_rows(data, header, "a test"))
        return encode(header.edge, header.seq, Link(header.after, 0), header.frontier, rows)[0]

    return send


def column_of(name, make):
    return lambda rows: rows.set_column(rows.column_names.index(name), name, make(rows.column(name)))


ROWS = {
    "without a column": lambda rows: rows.drop_columns(["k"]),
    "with a column twice": lambda rows: rows.append_column("k", rows.column("k")),
    "with texts": column_of("k", lambda c: pa.array(["x"] * len(c))),
    "without numbers": lambda rows: rows.drop_columns([SEQ]),
    "with a number that is missing": column_of(SEQ, lambda c: pa.array([None] * len(c), pa.int64())),
    "with a time that is missing": column_of(TIME, lambda c: pa.array([None] * len(c), pa.int64())),
    "with times in texts": column_of(TIME, lambda c: c.cast(pa.string())),
    "beyond all times": column_of(TIME, lambda c: pa.array([(1 << 63) - 1] * len(c), pa.int64())),
    "with differences only": lambda rows: rows.rename_columns({SEQ: DIFF}),
}


@pytest.mark.parametrize("change", ROWS.values(), ids=ROWS)
def test_rows_that_cannot_be_read_are_not_taken_and_local_views_go_on(tmp_path, change):
    with two_sites(tmp_path) as (network, paris, lyon):
        true = lying_sites(tmp_path, paris, lyon, sent_otherwise(change))
        lyon.execute("CREATE STREAMED VIEW V AS SELECT k FROM paris.T; CREATE STREAMED VIEW Here AS SELECT k FROM Own")
        network.settle("lyon", "paris")
        paris.run()
        assert network.pump("lyon", "paris"), "it is refused, and asked for again"
        [shown] = lyon.status()["sites"]
        assert "damaged" in shown["problem"] and shown["inbox_bytes"] == 0
        lyon.start()
        lyon.step()
        assert lyon.changes("Here").num_rows
        lyon.state.sites.transport.connect = true
        finish(network, paris, lyon)
        assert [r["k"] for r in lyon.changes("V").to_pylist()] == [1, 2, 3]


@pytest.mark.parametrize("lie", [{"frontier": 1 << 80}, {"frontier": "x"}, {"after": None}, {"ended": 3}, {"edge": 1}])
def test_a_note_that_cannot_be_is_no_note(lie):
    true = {"edge": "e", "after": -1, "frontier": 5, "ended": False}
    assert Note.from_json(true).frontier == 5
    with pytest.raises((TypeError, ValueError)):
        Note.from_json({**true, **lie})
    found = flight_client.FlightPeer.__new__(flight_client.FlightPeer)
    found.site = "paris"
    with pytest.raises(EngineProblem) as caught:
        found._unpack([b'{"messages": 0, "refused": {}, "notes": [{"edge": "e", "after": -1, "frontier": 1e99}]}'])
    assert caught.value.code == "TM710"
