"""Disk limits of an edge: a full outbox holds back the sources that feed it, a full inbox asks for nothing more."""

from __future__ import annotations

from tests.sites.two_sites import finish, two_sites
from tidemill.engine.sites import sessions
from tidemill.plan.physical import BEGINNING

SOURCE = """
REGISTER SOURCE {0}S (k INTEGER, at INTEGER) FROM FILES '{1}/{0}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM {0} OVER {0}S;
CREATE STREAMED VIEW {0}Own AS SELECT k FROM {0};
"""


def write(folder, name, number):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{number}.csv").write_text(f"k,at\n{number},{number}\n")


def own(db, name):
    return [r["k"] for r in db.changes(f"{name}Own").to_pylist()]


def test_a_full_outbox_holds_back_its_sources_and_no_others(tmp_path):
    with two_sites(tmp_path) as (network, paris, lyon):
        for name in ("Fed", "Other"):
            (tmp_path / name).mkdir()
            paris.execute(SOURCE.format(name, tmp_path))
        paris.execute("EXPORT STREAM Fed TO SITE lyon")
        lyon.execute("CREATE STREAMED VIEW V AS SELECT k FROM paris.Fed")
        network.settle("lyon", "paris")
        paris.outlet.shipping.most_bytes = 1
        paris.start()
        for number in range(5):
            write(tmp_path, "Fed", number)
            write(tmp_path, "Other", number)
            paris.step()
        assert own(paris, "Other") == [0, 1, 2, 3] and own(paris, "Fed") == [0], "two batches until the outbox is full"
        network.settle("lyon", "paris")
        network.pump("lyon", "paris")  # acknowledges
        paris.step()
        assert own(paris, "Fed") == [0, 1, 2, 3], "there is room again"
        paris.outlet.shipping.most_bytes = 1 << 30
        lyon.start()
        finish(network, paris, lyon)
        assert [r["k"] for r in lyon.changes("V").to_pylist()] == [0, 1, 2, 3, 4], "nothing was dropped"


def test_a_full_inbox_asks_for_no_more_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("tidemill.engine.sites.sites.INBOX_BYTES", 1)
    assert sessions.INBOX_BYTES > 1
    with two_sites(tmp_path) as (network, paris, lyon):
        (tmp_path / "Fed").mkdir()
        paris.execute(SOURCE.format("Fed", tmp_path) + "EXPORT STREAM Fed TO SITE lyon")
        lyon.execute("CREATE STREAMED VIEW V AS SELECT k FROM paris.Fed")
        network.settle("lyon", "paris")
        paris.start()
        lyon.start()
        for number in range(4):
            write(tmp_path, "Fed", number)
            paris.step()
        network.settle("lyon", "paris")
        [edge] = lyon.status()["sites"][0]["reads"]
        first = edge["received"]
        assert first > 0
        write(tmp_path, "Fed", 9)
        paris.step()
        network.settle("lyon", "paris")
        assert lyon.status()["sites"][0]["reads"][0]["received"] == first, "the inbox is full"
        lyon.step()
        network.settle("lyon", "paris")
        assert lyon.status()["sites"][0]["reads"][0]["received"] > first
        assert lyon.status()["sites"][0]["reads"][0]["frontier"] > BEGINNING


def test_an_idle_peer_begins_no_batch(tmp_path):
    with two_sites(tmp_path) as (network, paris, lyon):
        (tmp_path / "Fed").mkdir()
        paris.execute(SOURCE.format("Fed", tmp_path) + "EXPORT STREAM Fed TO SITE lyon")
        lyon.execute("CREATE STREAMED VIEW V AS SELECT k FROM paris.Fed")
        network.settle("lyon", "paris")
        paris.start()
        lyon.start()
        for number in range(3):
            write(tmp_path, "Fed", number)
            paris.step()
        network.settle("lyon", "paris")
        while lyon.step():
            pass
        assert not paris.step()
        for _ in range(3):
            network.pump("lyon", "paris")
            assert not lyon.step() and not paris.step()
