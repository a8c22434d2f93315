"""Reading text files that grow: again and again, from where the last reading ended."""

from __future__ import annotations

from pathlib import Path

from connector_laws import read

from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.files.directory import KEPT_BATCHES
from tidemill.runtime.sources.registry import open_connector

COLUMNS = (Column("id", "BIGINT"), Column("b", "VARCHAR"))


def files(folder, pattern="*", columns=COLUMNS, **settings):
    spec = SourceSpec("f", "files", columns, origin={"glob": f"{folder}/in/{pattern}"}, **settings)
    return open_connector(spec, str(folder / "db"))


def text(form: str, first: int, count: int) -> bytes:
    ids = range(first, first + count)
    if form == "csv":
        return b"".join([b"id,b\n", *(b"%d,%s\n" % (i, b"x" * (i % 5)) for i in ids)])
    return b"".join(b'{"id": %d, "b": "%s"}\n' % (i, b"x" * (i % 5)) for i in ids)


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


class Follower:
    """Reads what is there, again and again; checks that numbers and arrivals rise and that ranges can be read again."""

    def __init__(self, folder: Path, **settings) -> None:
        self.folder, self.settings, self.now = folder, settings, 0
        self.restart()
        self.position = self.connector.initial()
        self.rows, self.bad, self.ranges = [], [], []

    def restart(self) -> None:
        self.connector = files(self.folder, **self.settings)

    def read(self, most: int | None = None, live: bool = False, parts: int = 1) -> bool:
        """One batch; True when there was no more."""
        self.now += 1
        progress = self.connector.latest(self.position, most, live, self.now)
        rows, bad = read(self.connector, self.position, progress.end, parts)
        if progress.end != self.position:
            self.ranges.append((self.position, progress.end, rows, bad))
        self.rows += rows.to_pylist()
        self.bad += bad
        self.position = progress.end
        return progress.exhausted

    def trim(self) -> None:
        for _ in range(KEPT_BATCHES):
            self.connector.trim(self.position)
        self.ranges.clear()

    def check(self) -> None:
        numbers, arrivals = [[r[name] for r in self.rows] for name in ("__seq", "__arrival")]
        assert numbers == sorted(set(numbers)) and arrivals == sorted(arrivals)
        self.restart()
        for start, end, rows, bad in self.ranges:
            again, bad_again = read(self.connector, start, end)
            assert again.equals(rows) and bad_again == bad

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows]
