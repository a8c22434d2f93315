"""Change blocks from the stages to the outlet, by message or by file: nothing is lost, nothing is left."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle
from tests.paper.notation import Feed, rows_of, tagged
from tests.properties.effort import effort
from tidemill.errors import TidemillError
from tidemill.runtime.messages import outbox
from tidemill.runtime.messages.message import select_messages
from tidemill.runtime.thresholds import sizes


@pytest.fixture
def by_file(monkeypatch):
    """Every row goes by file."""
    monkeypatch.setattr(sizes, "outbox_bytes", 0)


SCHEMAS = (pa.schema([("n", pa.int64())]), pa.schema([("n", pa.int64()), ("t", pa.string())]))
sent = st.lists(st.tuples(st.sampled_from(SCHEMAS), st.integers(1, 5)), max_size=8)


@effort(50)
@given(tables=sent, limit=st.sampled_from([0, 100, 1 << 20]), alone=st.sampled_from([0, 40, 1 << 20]))
def test_every_output_gets_its_rows_back(tables, limit, alone, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("outbox"))
    given_rows = {
        f"g{i}": pa.Table.from_pylist([{"n": 10 * i + j, "t": "x" * j} for j in range(rows)], schema=schema)
        for i, (schema, rows) in enumerate(tables)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "outbox_bytes", limit)
        patch.setattr(sizes, "alone_bytes", alone)
        messages = list(outbox.send(folder, outbox.pack_blocks(given_rows.items())))
    found = {
        gate: block.slice(start, count)
        for block in outbox.receive(folder, messages)
        for gate, start, count in outbox.runs(block)
    }
    assert {g: t.to_pylist() for g, t in found.items()} == {g: t.to_pylist() for g, t in given_rows.items()}
    del found
    outbox.discard(folder, messages)
    assert os.listdir(folder) == []


def test_any_bit_of_a_file_is_missed(by_file, tmp_path):
    messages = list(outbox.send(str(tmp_path), outbox.pack_blocks([("g", pa.table({"n": [1, 2, 3]}))])))
    [path] = tmp_path.iterdir()
    data = path.read_bytes()
    for at in range(0, len(data), 5):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with pytest.raises(TidemillError) as caught:
            list(outbox.receive(str(tmp_path), messages))
        assert caught.value.code == "TM607" and path.name in caught.value.message
    path.write_bytes(data[:-1])
    with pytest.raises(TidemillError) as caught:
        list(outbox.receive(str(tmp_path), messages))
    assert caught.value.code == "TM607" and path.name in caught.value.message


def test_outputs_with_equal_columns_share_a_block_and_a_block_is_a_message():
    alike = [(f"g{i}", pa.table({"n": [i]})) for i in range(100)]
    other = [("h", pa.table({"s": ["x"]}))]
    found = outbox.pack_blocks([*alike, *other])
    assert [len(outbox.runs(p)) for p in found] == [100, 1]
    assert [port for port, _ in outbox.send("nowhere", found)] == [outbox.VIEW] * 2


def references(messages) -> list:
    return list(select_messages(messages, outbox.VIEW_FILE))


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as database:
        database.feed = Feed(database, tmp_path, "Raw", "k VARCHAR, v INTEGER")  # type: ignore[attr-defined]
        database.execute("CREATE TAGGED STREAM K OVER Raw KEY k; CREATE TAGGED STREAM S OVER Raw")
        database.execute("CREATE STREAMED VIEW V AS SELECT k, v FROM K; CREATE VIEW N AS SELECT count(*) AS n FROM S")
        yield database


def outbox_of(db) -> list[str]:
    return sorted(os.listdir(db.paths.outbox)) if os.path.isdir(db.paths.outbox) else []


def test_rows_by_file_are_the_rows_by_message(by_file, db):
    db.start()
    for chunk in ("<a,1>1 <b,2>2", "<a,3>3 <a,4>4", "<c,5>5 <z,0>6"):
        db.feed.send(chunk)
        assert references(db.compute(db.plan())[1])
        settle(db)
    assert tagged(db, "V") == ["+<a,1>1", "+<b,2>2", "u<a,3>3", "u<a,4>4", "+<c,5>5"]
    assert rows_of(db, "SELECT n FROM N") == [(5,)]


def test_a_file_goes_when_its_batch_is_committed_and_not_before(by_file, db, monkeypatch):
    db.start()
    db.feed.send("<a,1>1 <b,2>2")
    end = db.plan()
    _, out = db.compute(end)
    files = outbox_of(db)
    assert len(files) == len(references(out)) > 0
    monkeypatch.setattr(db.outlet, "_store_dead_letters", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        db.outlet.apply(db.batch, out)
    assert outbox_of(db) == files
    monkeypatch.undo()
    db.outlet.apply(db.batch, out)
    assert outbox_of(db) == [] and tagged(db, "V") == ["+<a,1>1"]


def test_a_batch_that_runs_again_writes_new_files(by_file, db):
    db.start()
    db.feed.send("<a,1>1 <b,2>2")
    end = db.plan()
    db.compute(end)
    lost = outbox_of(db)
    db.reopen_outlet()
    assert lost and outbox_of(db) == [], "what a crash left is swept at the start"
    blobs, out = db.compute(end)
    assert not set(outbox_of(db)) & set(lost)
    db.outlet.apply(db.batch, out)
    db.reopen_outlet()
    db.finish(end)  # the answers were stored, Spark does not know: the batch is skipped and its files go all the same
    assert blobs and outbox_of(db) == [] and tagged(db, "V") == ["+<a,1>1"]


def logs(folder) -> dict[str, list[str]]:
    """Logs of views with and without updates, rows of one time out of order."""
    folder.mkdir()
    with LocalDatabase(str(folder / "db")) as db:
        feed = Feed(db, folder, "Raw", "k VARCHAR, v INTEGER")
        db.execute("CREATE TAGGED STREAM K OVER Raw KEY k; CREATE TAGGED STREAM S OVER Raw")
        db.execute("""CREATE STREAMED VIEW Grown AS SELECT k, v FROM S; CREATE STREAMED VIEW Bag AS SELECT v FROM K;
                      CREATE STREAMED VIEW Latest AS SELECT k, v FROM K""")
        db.start()
        for chunk in ("<c,2>1 <a,9>1 <b,1>1 <a,1>1 <z,0>2", "<c,7>3 <a,1>3 <b,4>3 <d,1>3 <d,1>3 <z,5>4"):
            feed.send(chunk)
            settle(db)
        return {name: tagged(db, name) for name in ("Grown", "Bag", "Latest")}


def test_a_log_is_in_order_whether_it_was_written_so_or_not(tmp_path, monkeypatch):
    wanted = logs(tmp_path / "sorted")
    monkeypatch.setattr(sizes, "sorted_rows", 0)
    assert logs(tmp_path / "unsorted") == wanted
    assert wanted["Grown"][:4] == ["+<a,1>1", "+<a,9>1", "+<b,1>1", "+<c,2>1"]
