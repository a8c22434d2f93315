"""The logs of Kafka and PostgreSQL sources: a file that is not what this source wrote is refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.errors import EngineProblem
from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.paths import Paths, write_json
from tidemill.runtime.sources.kafka.slices import SliceLog
from tidemill.runtime.sources.postgres import kept_rows

ROWS = pa.table({"k": ["a", None], "v": [1, 2]})


def folder(tmp_path, database, source="S"):
    root = Paths(str(tmp_path / database))
    write_json(root.format, {"database": database})
    found = tmp_path / database / "sources" / source
    found.mkdir(parents=True)
    return found


def log_in(place):
    log = SliceLog(str(place))
    log.append(lambda: [{"begin": {"0": 0}}, {"parts": [[0, 0, 3]], "at": 5}])
    log.append(lambda: [{"parts": [[0, 3, 4]], "at": 6}])
    return place / "slices.jsonl"


def rows_in(place):
    path = kept_rows.path_of(place, 7)
    kept_rows.write(path, ipc_bytes(ROWS))
    return path


def read(path):
    return SliceLog(str(path.parent)).check(2) if path.suffix == ".jsonl" else from_ipc(kept_rows.read(path))


@pytest.mark.parametrize("write", [log_in, rows_in])
def test_what_is_damaged_or_of_another_place_is_named(tmp_path, write):
    path = write(folder(tmp_path, "mine"))
    data = path.read_bytes()
    read(path)
    foreign, other = write(folder(tmp_path, "other")), write(folder(tmp_path, "third"))
    renamed = path.parent.parent / "T" / path.name
    renamed.parent.mkdir()
    renamed.write_bytes(data)
    foreign.write_bytes(data)
    other.unlink()
    for place, code in ((renamed, r"TM60[79]"), (foreign, "TM608"), (other, "TM606")):
        with pytest.raises(EngineProblem, match=code) as caught:
            read(place)
        assert str(place) in str(caught.value)
    for at in range(0, len(data), 5):
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with pytest.raises(EngineProblem, match=r"TM60[789]") as caught:
            read(path)
        assert str(path) in str(caught.value)


def test_a_log_that_was_written_anew_keeps_whose_it_is(tmp_path):
    path = log_in(folder(tmp_path, "mine"))
    SliceLog(str(path.parent)).forget(1)
    assert path.read_bytes().startswith(b'{"database": "mine", "folder": "S"}')
    assert [s.n for s in SliceLog(str(path.parent)).between(1, 2)] == [1]


def test_files_of_older_versions_are_read(tmp_path):
    path = rows_in(folder(tmp_path, "mine"))
    path.write_bytes(ipc_bytes(ROWS))
    assert read(path) == ROWS
