"""Topics full of what cannot be read: every record is a row or a dead letter, and what comes after is read."""

from __future__ import annotations

import json
import random

import pytest

from tests.harness import LocalDatabase

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "a", "type": ["null", "long"]}, {"name": "s", "type": ["null", "string"]}],
}
POISON = (
    *(b"", b"\x00", b"\xff\xfe", b"null", b"[]", b"1", b"{}", b"[" * 5000, b'{"a":' + b"[" * 5000, b'{"a": NaN}'),
    *(b'{"a": 1e999}', b'{"a": 1, "a": 2}', b'{"a": {"b": 1}, "s": [1]}', b'{"a": 99999999999999999999999}'),
    *(b'{"a": 1}{"a": 2}', b'{"s": "\\ud800"}', b'{"s": "\\u0000"}', b"1,x\n2,y", b'1,"x', b",", b"1,2,3"),
    *(b"\x00\x00\x00\x00\x01\x02", b'{"op": "c"}', b'{"op": "c", "after": 3}', b'{"op": "z", "after": {"a": 1}}'),
    *(b'{"op": "d", "before": null}', b'{"op": {"x": 1}, "after": {"a": 1}}', b'{"schema": {}, "payload": null}'),
    *(b'{"op": "u", "before": {"a": 1}, "after": {"a": 1, "s": "q"}}', b"x" * 900_000, b'{"s": "' + b"y" * 700_000),
)
GOOD = {"json": b'{"a": 77, "s": "good"}', "csv": b"77,good", "avro": b"\x02\x9a\x01\x02\x08good"}
GOOD["debezium"] = b'{"op": "c", "before": null, "after": {"a": 77, "s": "good"}}'


@pytest.mark.parametrize("form", GOOD)
def test_every_record_is_a_row_or_a_dead_letter(topics, tmp_path, form):
    rng, topic = random.Random(19), topics.create(2)
    sent = [*POISON, *(rng.randbytes(rng.randrange(1, 40)) for _ in range(40))]
    for number, value in enumerate(sent):
        topics.send(topic, value, partition=number % 2, key=rng.choice([None, b"k", b"\xff"]))
    (tmp_path / "schema.avsc").write_text(json.dumps(SCHEMA))
    options = {"avro": f", schema = '{tmp_path}/schema.avsc'", "debezium": ", operation = 'op'"}.get(form, "")
    column, key = (", op VARCHAR", " KEY a") if form == "debezium" else ("", "")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE R (a BIGINT, s VARCHAR{column}) FROM KAFKA '{topics.address}' TOPIC '{topic}'"
            f" WITH (format = '{form}'{options}); CREATE TAGGED STREAM S OVER R{key};"
            " CREATE VIEW V AS SELECT a FROM S WHERE s = 'good'"
        )
        db.run()
        [status] = db.status()["sources"]
        assert status["rows"] + status["bad"] == len(sent) and status["bad"] >= len(sent) // 2
        topics.send(topic, GOOD[form])
        db.run()
        assert db.query("SELECT a FROM V").to_pylist() == [{"a": 77}]
