"""`tidemill doctor --db` reads what waits for sinks and sites, and what sources keep: a flipped bit is found."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.lifecycle.sample import CHUNKS, begin, go_on
from tidemill.engine.directory.examine import examine
from tidemill.runtime.arrow_ipc import ipc_bytes
from tidemill.runtime.paths import Paths
from tidemill.runtime.sites.messages import Link, cut_parts, encode
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.sources.kafka.slices import SliceLog
from tidemill.runtime.sources.postgres import kept_rows

KINDS = {
    "undelivered/*/*.waiting": "undelivered",
    "departures/*/*.msg": "departures",
    "sources/Sent/spool-*.log": "sources",
    "sources/Topic/slices.jsonl": "sources",
    "sources/Topic/rows-*.arrow": "sources",
    "sources/Topic/*.msg": "sources",
}


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A database with files of all these kinds, closed."""
    base = tmp_path_factory.mktemp("examined") / "mine"
    go_on(base, begin(base), CHUNKS[1])
    folder = base / "db" / "sources" / "Topic"
    folder.mkdir()
    log = SliceLog(str(folder))
    log.append(lambda: [{"begin": {"0": 0}}, {"parts": [[0, 0, 3]], "at": 5}])
    rows = _rows()
    kept_rows.write(kept_rows.path_of(folder, 0), ipc_bytes(rows))
    part, closed = cut_parts(rows, 0, 9)[0]
    (folder / f"{1 << 16:018d}.msg").write_bytes(encode("Topic", 1 << 16, Link(), closed, part)[0])
    Outbox(str(base / "db" / "departures" / "v7"), "edge").write(1, rows, 0, 9)
    return base / "db"


def _rows():
    return pa.table({"__time": [1, 2], "k": ["a", "b"]})


def faults(root):
    return [one for one in examine(str(root)) if one.state == "fail"]


def test_a_whole_database_has_no_fault(sample):
    assert not faults(sample) and Paths(str(sample)).database


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found_and_the_file_named(sample, kind):
    path = next(iter(sorted(sample.glob(kind))))
    data = path.read_bytes()
    for at in (len(data) // 3, len(data) - 9):
        path.write_bytes(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        try:
            found = [one for one in faults(sample) if one.part == KINDS[kind]]
            assert found and str(path) in found[0].detail
        finally:
            path.write_bytes(data)
