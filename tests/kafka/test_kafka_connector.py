"""FROM KAFKA keeps the laws of a connector: any cut, any number of readers, again and again the same rows."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from tidemill.errors import EngineProblem, SourceProblem
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.registry import open_connector
from tidemill.runtime.thresholds import changed, smallest

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))
from connector_laws import check_cuts, read, steps

COLUMNS = (Column("id", "INTEGER"), Column("at", "BIGINT"))


def source(topics, topic, directory, columns=COLUMNS, start="earliest", **more):
    options = more.pop("options", {})
    origin = {"brokers": topics.address, "topic": topic, "start": start}
    more.setdefault("format", "json")
    return open_connector(SourceSpec("k", "kafka", columns, origin, options=options, **more), str(directory))


def record(i, at=0):
    return json.dumps({"id": i, "at": at})


@pytest.mark.parametrize("timestamp", [None, "at"])
def test_small_steps_equal_one_big_step(topics, tmp_path, timestamp):
    topic = topics.create(3)
    for i in range(40):
        topics.send(topic, record(i, i) if i % 7 else b"{poison", partition=i % 3, timestamp=1_000_000 + i)
    with smallest(kafka_messages=7, kafka_slice=5, kafka_ahead_bytes=300):
        connector = source(topics, topic, tmp_path, timestamp=timestamp)
        cuts = steps(connector, 8)
        rows, bad = check_cuts(connector, cuts, parts=3)
        assert len(cuts) > 4 and steps(connector, None)[-1] == cuts[-1]
    assert sorted(rows.column("id").to_pylist()) == [i for i in range(40) if i % 7]
    assert len(bad) == 6 and {row["raw"] for row in bad} == {b"{poison"}
    assert json.loads(bad[0]["position"]) == {"partition": 0, "offset": 0}
    again, _ = read(source(topics, topic, tmp_path, timestamp=timestamp), cuts[0], cuts[-1])
    assert again.equals(rows)


def test_partitions_are_merged_by_the_times_of_records(topics, tmp_path):
    """Whatever the partitions hold, event times that follow the times of records arrive in order."""
    topic = topics.create(2)
    for i in range(60):
        topics.send(topic, record(i, i), partition=int(i % 10 > 1), timestamp=1_000_000 + 50 * i)
    with changed(kafka_slice=8):
        connector = source(topics, topic, tmp_path, timestamp="at")
        cuts = steps(connector, 20)
        rows, _ = read(connector, cuts[0], cuts[-1])
    assert rows.column("at").to_pylist() == list(range(60))
    assert len(connector.split(cuts[0], cuts[-1], 1)[0].detail["slices"]) > 6


def test_records_of_one_moment_are_cut_by_number(topics, tmp_path):
    topic = topics.create(2)
    for i in range(30):
        topics.send(topic, record(i, i), partition=i % 2, timestamp=77)
    with changed(kafka_slice=4):
        connector = source(topics, topic, tmp_path, timestamp="at")
        end = steps(connector, None)[-1]
        assert int(end["slice"]) >= 7
        rows, _ = read(connector, connector.initial(), end)
    assert sorted(rows.column("id").to_pylist()) == list(range(30))


def test_key_partition_offset_time_and_headers_are_columns(topics, tmp_path):
    topic = topics.create(2)
    topics.send(topic, record(1), partition=1, key=b"k1", timestamp=1_700_000_000_123, headers={"trace": b"x"})
    topics.send(topic, record(2), partition=1)
    columns = (
        Column("k", "VARCHAR"),
        Column("id", "INTEGER"),
        Column("p", "INTEGER"),
        Column("o", "BIGINT"),
        Column("t", "TIMESTAMP"),
        Column("h", "VARCHAR"),
    )
    names = {"key": "k", "partition": "p", "offset": "o", "time": "t", "headers": "h"}
    connector = source(
        topics, topic, tmp_path, columns, options={f"{what}_column": name for what, name in names.items()}
    )
    rows, _ = read(connector, connector.initial(), steps(connector, None)[-1])
    first, second = rows.drop(["__seq", "__arrival"]).to_pylist()
    assert str(first.pop("t")) == "2023-11-14 22:13:20.123000"
    assert first == {"k": "k1", "id": 1, "p": 1, "o": 0, "h": '{"trace": "x"}'}
    assert (second["k"], second["o"], second["h"]) == (None, 1, None)


@pytest.mark.parametrize(("start", "expected"), [("earliest", [0, 1, 2, 3]), ("latest", [3]), (3_000_000, [2, 3])])
def test_where_reading_starts(topics, tmp_path, start, expected):
    topic = topics.create()
    for i in range(3):
        topics.send(topic, record(i), timestamp=1000 * (i + 1))
    connector = source(topics, topic, tmp_path, start=start)
    connector.latest(connector.initial(), None, True, 1)
    topics.send(topic, record(3), timestamp=9000)
    rows, _ = read(connector, connector.initial(), steps(connector, None)[-1])
    assert rows.column("id").to_pylist() == expected


def test_new_partitions_are_found_and_read_from_their_beginning(topics, tmp_path):
    from confluent_kafka.admin import NewPartitions

    topic = topics.create(1)
    connector = source(topics, topic, tmp_path, start="latest")
    assert steps(connector, None) == [{"slice": 0}]
    topics.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    topics.send(topic, record(7), partition=2)
    rows, _ = read(connector, connector.initial(), steps(connector, None)[-1])
    assert rows.column("id").to_pylist() == [7]


def test_only_committed_transactions_are_read(topics, tmp_path):
    from confluent_kafka import Producer

    topic = topics.create()
    connector = source(topics, topic, tmp_path)
    writer = Producer({"bootstrap.servers": topics.address, "transactional.id": topic, "log_level": 0})
    writer.init_transactions(60)
    for i, end in enumerate((writer.commit_transaction, writer.abort_transaction, writer.commit_transaction)):
        writer.begin_transaction()
        writer.produce(topic, record(i))
        writer.flush(30)
        assert steps(connector, None)[-1] == {"slice": min(i, 2)}  # what is open is not there yet
        end(30)
        until = time.monotonic() + 60  # brokers mark the end of a transaction a moment after they have promised it
        while connector._topic.ends([0])[0] < 2 * (i + 1):
            assert time.monotonic() < until
    rows, _ = read(connector, connector.initial(), steps(connector, None)[-1])
    assert rows.column("id").to_pylist() == [0, 2]


def test_envelopes_of_debezium(topics, tmp_path):
    topic = topics.create()
    envelopes = [
        {"op": "c", "before": None, "after": {"id": 1, "at": 5}},
        {"schema": {}, "payload": {"op": "u", "before": {"id": 1, "at": 5}, "after": {"id": 1, "at": 6}}},
        {"op": "d", "before": {"id": 1, "at": 6}, "after": None},
        {"op": "t"},
        {"id": 9},
    ]
    topics.send(topic, *map(json.dumps, envelopes), b"{", b"\xff")
    topics.send(topic, None, key=b"1")
    connector = source(topics, topic, tmp_path, (*COLUMNS, Column("op", "VARCHAR")), format="debezium", operation="op")
    with smallest(kafka_slice=2):
        rows, bad = check_cuts(connector, steps(connector, 1), parts=1)
    assert rows.drop(["__seq", "__arrival"]).to_pylist() == [
        {"id": 1, "at": 5, "op": "c"},
        {"id": 1, "at": 6, "op": "u"},
        {"id": 1, "at": 6, "op": "d"},
    ]
    assert ["op" in row["reason"] for row in bad] == [True, True, True, False]


def test_csv_and_deletions_by_missing_values(topics, tmp_path):
    topic = topics.create()
    topics.send(topic, b"1,5,u", key=b"1")
    topics.send(topic, None, key=b"1")
    columns = (Column("k", "INTEGER"), *COLUMNS, Column("op", "VARCHAR"))
    connector = source(topics, topic, tmp_path, columns, format="csv", operation="op", options={"key_column": "k"})
    rows, bad = read(connector, connector.initial(), steps(connector, None)[-1])
    assert [(r["k"], r["id"], r["op"]) for r in rows.to_pylist()] == [(1, 1, "u"), (1, None, "delete")] and not bad


def test_avro_with_a_schema_and_with_a_registry(topics, tmp_path):
    import io
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    import fastavro

    text = json.dumps(
        {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": "at", "type": "long"}]}
    )

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/schemas/ids/7"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"schema": text} if found else {}).encode())

        def log_message(self, *_):
            pass

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), {"id": 3, "at": 4})
    server = HTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    plain, framed = topics.create(), topics.create()
    topics.send(plain, out.getvalue(), b"\x01")
    topics.send(framed, b"\0\0\0\0\7" + out.getvalue(), b"\0\0\0\0\x08" + out.getvalue())
    registry = f"http://127.0.0.1:{server.server_port}"
    for topic, options in ((plain, {"schema": text}), (framed, {"registry": registry})):
        connector = source(topics, topic, tmp_path / topic, format="avro", options=options)
        rows, bad = read(connector, connector.initial(), steps(connector, None)[-1])
        assert rows.select(["id", "at"]).to_pylist() == [{"id": 3, "at": 4}] and len(bad) == 1
    server.shutdown()


def test_the_log_forgets_slices_and_goes_on(topics, tmp_path):
    topic = topics.create()
    with changed(kafka_slice=1, kafka_kept_slices=4):
        connector = source(topics, topic, tmp_path)
        topics.send(topic, *(record(i) for i in range(20)))
        end = steps(connector, None)[-1]
        assert connector.why_gone() is None
        connector.trim(end)
        assert connector.why_gone() is not None
        topics.send(topic, record(20))
        later = source(topics, topic, tmp_path)
        rows, _ = read(later, {"slice": 18}, later.latest(end, None, True, 1).end)
        assert rows.column("id").to_pylist() == [18, 19, 20] and rows.column("__seq").to_pylist() == [18, 19, 20]


def test_deleted_records_are_an_error_that_says_so(topics, tmp_path):
    from confluent_kafka import TopicPartition

    topic = topics.create()
    topics.send(topic, *(record(i) for i in range(5)))
    connector = source(topics, topic, tmp_path)
    end = steps(connector, None)[-1]
    for deleted in topics.admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        deleted.result(30)
    assert "gone" in connector.why_gone()
    with pytest.raises(SourceProblem, match="TM421"):
        read(connector, connector.initial(), end)


def test_a_torn_log_is_cut_and_a_damaged_one_is_refused(topics, tmp_path):
    topic = topics.create()
    topics.send(topic, record(1))
    first = source(topics, topic, tmp_path)
    end = steps(first, None)[-1]
    log = tmp_path / "slices.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"parts": [[0, 1, 2]], "a')
    topics.send(topic, record(2))
    again = source(topics, topic, tmp_path)
    rows, _ = read(again, again.initial(), again.latest(end, None, True, 1).end)
    assert rows.column("id").to_pylist() == [1, 2]
    log.write_bytes(whole.replace(b"parts", b"ports"))
    with pytest.raises(EngineProblem):
        steps(source(topics, topic, tmp_path), None)
