"""What is stored of a sink is read as it was written, also where an older version wrote it."""

from __future__ import annotations

import json

from tidemill.runtime.views.sink import Sink

OLD = {"target": "files", "path": "/out", "options": {"format": "json"}, "name": "S"}


def test_a_sink_is_read_as_it_was_written():
    sink = Sink("S", "postgres", "", {"mode": "upsert", "snapshot": True}, "7f", {"table": "t"})
    assert Sink.from_dict(json.loads(json.dumps(sink.to_dict()))) == sink
    assert sink.is_external and sink.begins_with_snapshot


def test_a_sink_of_an_older_version_has_no_id_and_never_begins_with_a_snapshot():
    sink = Sink.from_dict(OLD)
    assert (sink.id, sink.place, sink.format, sink.path) == ("", {}, "json", "/out")
    assert not sink.is_external and not Sink.from_dict({**OLD, "options": {"snapshot": True}}).begins_with_snapshot
    assert Sink.from_dict({"target": "console", "path": None, "options": {}, "name": "C"}).path == ""
