"""A spool whose bytes are not those that were received is refused; what a crash leaves is not."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import pytest

from tidemill.errors import TidemillError
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.paths import write_json
from tidemill.runtime.sources.port.connector import Port
from tidemill.runtime.sources.port.spool import Spooler

SPEC = SourceSpec(
    name="Wire",
    kind="port",
    columns=(Column("n", "INTEGER"),),
    origin={"port": 0},
    format="json",
    timestamp=None,
    lateness_us=0,
    idle_us=None,
    batch_rows=None,
    on_error="dead_letter",
    operation=None,
    options={},
    static=False,
)


def receive(folder: Path, numbers: range) -> None:
    spooler = Spooler(SPEC, str(folder), segment_bytes=400)
    spooler.start()
    try:
        for part in (numbers[:5], numbers[5:]):
            before = spooler._byte
            sent = b"".join(b'{"n": %d}\n' % n for n in part)
            with socket.create_connection(spooler.address, timeout=5) as sender:
                sender.sendall(sent)
            while spooler._byte < before + len(sent):
                time.sleep(0.01)
    finally:
        spooler.stop()


def read(folder: Path, start: int = 0) -> list[int]:
    port = Port(SPEC, str(folder))
    end = port.latest({"byte": start}, None, False, 0).end
    pieces = port.split({"byte": start}, end, 2)
    return [n for piece in pieces for chunk in port.read(piece) for n in chunk.rows.column("n").to_pylist()]


def spool_of(root: Path, database: str, numbers: range, source: str = "Wire") -> Path:
    """The folder of a source in a database, with two full segments."""
    folder = root / "sources" / source
    folder.mkdir(parents=True)
    write_json(str(root / "format.json"), {"database": database})
    receive(folder, numbers[:40])
    receive(folder, numbers[40:])
    return folder


pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("what", ["*.sums", "spool-*"])
def test_segments_of_another_database_are_refused(tmp_path, what):
    """Segment and checksums of another database together: its records were read."""
    mine, other = spool_of(tmp_path / "a", "a", range(100, 180)), spool_of(tmp_path / "b", "b", range(200, 280))
    for path in other.glob(what):
        shutil.copy(path, mine / path.name)
    for use in (lambda: read(mine), lambda: receive(mine, range(3))):
        with pytest.raises(TidemillError) as caught:
            use()
        assert caught.value.code == "TM608" and "spool-" in caught.value.message and ".sums" in caught.value.message


@pytest.mark.parametrize("back", [False, True])
def test_segments_of_another_place_are_refused(tmp_path, back):
    """A segment and its checksums in the place of another one of the same source."""
    mine = spool_of(tmp_path / "a", "a", range(100, 180))
    first, second = sorted(path.stem for path in mine.glob("spool-*.log"))[:2]
    origin, place = (first, second) if back else (second, first)
    for kind in ("log", "sums"):
        shutil.copy(mine / f"{origin}.{kind}", mine / f"{place}.{kind}")
    with pytest.raises(TidemillError) as caught:
        read(mine)
    assert caught.value.code == "TM609" and place in caught.value.message


@pytest.mark.parametrize("at", range(0, 60, 7))
def test_a_damaged_mark_is_named(tmp_path, at):
    mine = spool_of(tmp_path / "a", "a", range(100, 180))
    path = min(mine.glob("*.sums"))
    data = path.read_bytes()
    path.write_bytes(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
    try:
        assert read(mine) == list(range(100, 180))
    except TidemillError as error:
        assert error.code in ("TM607", "TM608", "TM609") and path.stem in error.message


@pytest.fixture
def spool(tmp_path) -> Path:
    receive(tmp_path, range(40))
    assert read(tmp_path) == list(range(40)) and list(tmp_path.glob("*.sums"))
    return tmp_path


def test_any_bit_of_a_segment_is_missed(spool):
    for path in sorted(spool.glob("spool-*.log")):
        data = path.read_bytes()
        for at in range(0, len(data), 7):
            path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            with pytest.raises(TidemillError) as caught:
                read(spool)
            assert caught.value.code in ("TM406", "TM607") and "spool" in str(caught.value)
        path.write_bytes(data)
    assert read(spool) == list(range(40))


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_checksums_that_a_crash_has_cut_are_made_anew(spool, cut):
    path = max(spool.glob("*.sums"))
    path.write_bytes(path.read_bytes()[:-cut])
    receive(spool, range(40, 50))
    assert read(spool) == list(range(50))


def test_a_spool_that_ends_before_what_was_read_is_refused(spool):
    end = Port(SPEC, str(spool)).latest({"byte": 0}, None, False, 0).end["byte"]
    for path in spool.iterdir():
        path.unlink()
    receive(spool, range(3))
    with pytest.raises(TidemillError) as caught:
        read(spool, end)  # type: ignore[arg-type]
    assert caught.value.code == "TM607"


@pytest.mark.parametrize("name", ["head", "committed"])
def test_a_note_that_is_cut_is_named(spool, name):
    Port(SPEC, str(spool)).trim({"byte": 30})
    path = spool / name
    path.write_bytes(path.read_bytes()[:7])
    with pytest.raises(TidemillError) as caught:
        receive(spool, range(1))
    assert caught.value.code == "TM607" and name in caught.value.message
