"""The answer files that belong to the stored views, and which view has which rows of them.

Two tables say so: `__sealed_files` (what is in a file) and `__sealed` (view, file, label of its rows there). They
change in the transaction of a micro-batch, so rows in files come and go with those in tables; a reader asks for the
files in the same transaction as for the tables. A file without rows of a view is removed while no reader is open.

Files of one look are merged when there are several of about the same size: a row is written again a few times at most,
and a view's rows lie in few places.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from tidemill.plan.physical import Output
from tidemill.runtime.answer_files import write
from tidemill.runtime.answer_files.write import WHOSE, AnswerFile, OwnedRows
from tidemill.runtime.duckdb.temporary_tables import change
from tidemill.runtime.integrity import arrow_file, missing, verify
from tidemill.runtime.messages.file_refs import remove_file
from tidemill.runtime.thresholds import sizes

_SYNCED = 8  # files that are brought to the disk side by side
TABLES = (
    "CREATE TABLE IF NOT EXISTS __sealed_files (file VARCHAR, look VARCHAR, once BOOLEAN, number BIGINT)",
    "ALTER TABLE __sealed_files ADD COLUMN IF NOT EXISTS size BIGINT",  # NULL: from before they were noted
    "ALTER TABLE __sealed_files ADD COLUMN IF NOT EXISTS sum BIGINT",
    "CREATE TABLE IF NOT EXISTS __sealed (view VARCHAR, file VARCHAR, label VARCHAR, start BIGINT, number BIGINT)",
)


@dataclass(frozen=True)
class BatchFiles:
    """The files of one micro-batch: outputs whose rows stay there, with the views that have them, and others."""

    files: list[AnswerFile]
    owners: dict[str, list[str]]  # output → views
    others: set[str]

    @staticmethod
    def partition(files: list[AnswerFile], outputs: Iterable[Output], takes: Callable[[str], bool]) -> BatchFiles:
        """The rows of an output stay if all views that read it take them so."""
        found = {output for file in files for output, _, _ in file.runs}
        owners: dict[str, list[str]] = {}
        for output in outputs:
            if output.op in found:
                owners.setdefault(output.op, []).append(output.view)
        others = {output for output, views in owners.items() if not all(map(takes, views))}
        return BatchFiles(files, {output: views for output, views in owners.items() if output not in others}, others)

    def read_others(self, folder: str) -> list[OwnedRows]:
        """The rows of the others."""
        return [
            output
            for file in self.files
            if any(owner in self.others for owner, _, _ in file.runs)
            for output in write.read(folder, file, self.others)
        ]

    def growth(self) -> dict[str, int]:
        """View → copies of rows that it has more than before."""
        more: Counter[str] = Counter()
        for file in self.files:
            for output, _, copies in file.runs:
                for view in self.owners.get(output, ()):
                    more[view] += copies
        return more


@dataclass
class AnswerFiles:
    """The files in one folder. Writes happen inside the caller's transaction and under the store's lock."""

    folder: str
    readers: int = 0
    leaving: set[str] = field(default_factory=set)  # perhaps without rows of a view: `tidy` looks
    verified: set[str] = field(default_factory=set)  # files that this process has looked through

    def adopt(self, added: list[AnswerFile], owners: dict[str, list[str]], duck: duckdb.DuckDBPyConnection) -> None:
        """From now on each file's rows belong to the views that read their output. `owners` maps output to views."""
        files, parts = [], []
        for file in added:
            start, mine = 0, []
            for label, rows, _ in file.runs:
                mine += [(view, file.file, label, start, rows) for view in owners.get(label, ())]
                start += rows
            if mine:
                files.append((file.file, file.look, file.once, start, file.size, file.sum))
                parts += mine
        self._keep([name for name, *_ in files])
        _insert("__sealed_files", files, duck)
        _insert("__sealed", parts, duck)

    def rows_sql(self, view: str, columns: str, duck: duckdb.DuckDBPyConnection) -> list[tuple[bool, str]]:
        """SELECTs that together give a view's rows in files: `columns`, `__time`, `__n`; and whether `__n` is 1."""
        found = duck.execute(
            "SELECT f.look, f.once, s.label, list(DISTINCT s.file) FROM __sealed s JOIN __sealed_files f USING (file)"
            " WHERE s.view = ? GROUP BY ALL ORDER BY ALL",
            [view],
        ).fetchall()
        self._verify({name for *_, files in found for name in files}, duck)
        return [
            (
                once,
                f"SELECT {columns}, __time, {'CAST(1 AS BIGINT)' if once else '__diff'} AS __n"
                f" FROM {self._from(files)} WHERE {WHOSE} = {_text(label)}",
            )
            for _, once, label, files in found
        ]

    def drop(self, view: str, duck: duckdb.DuckDBPyConnection) -> None:
        """Forget the rows of a view."""
        duck.execute("DELETE FROM __sealed WHERE view = ?", [view])
        self._forget(duck)

    def sweep(self, views: Iterable[str], duck: duckdb.DuckDBPyConnection) -> None:
        """Forget the rows of all other views."""
        duck.execute("DELETE FROM __sealed WHERE NOT list_contains(CAST(? AS VARCHAR[]), view)", [list(views)])
        self._forget(duck)

    def tidy(self, files: Iterable[str], duck: duckdb.DuckDBPyConnection) -> None:
        """Remove these files and those that have left, unless they are in the store; not within a transaction."""
        self.leaving.update(files)
        if self.leaving and not self.readers:
            kept = {name for (name,) in duck.execute("SELECT file FROM __sealed_files").fetchall()}
            for name in self.leaving - kept:
                remove_file(os.path.join(self.folder, name))
                self.verified.discard(name)
            self.leaving.clear()

    def list_files(self, duck: duckdb.DuckDBPyConnection) -> list[tuple[str, int | None, int | None]]:
        """Every file with rows of a view, with its size and its checksum."""
        return duck.execute("SELECT file, size, sum FROM __sealed_files ORDER BY file").fetchall()

    def all(self) -> list[str]:
        """Every file in the folder."""
        return os.listdir(self.folder) if os.path.isdir(self.folder) else []

    def merge(self, duck: duckdb.DuckDBPyConnection) -> None:
        """Make one file of several small ones of one look, if there are enough."""
        found = duck.execute(
            "SELECT list(file) FROM __sealed_files WHERE number < ? GROUP BY look, once,"
            " floor(log(greatest(number, 1)) / log(?)) HAVING count(*) >= ?",
            [sizes.merged_rows, sizes.merged_files, sizes.merged_files],
        ).fetchall()
        for (files,) in found:
            self._merge(files, duck)

    def _merge(self, files: list[str], duck: duckdb.DuckDBPyConnection) -> None:
        parts: dict[tuple[str, ...], list[pa.Table]] = {}
        for name in files:
            for views, rows in self._owned_runs(name, duck):
                parts.setdefault(views, []).append(rows)
        # A label stands for the views that have the rows: those that share some rows may not share others.
        label = {views: "+".join(views) for views in parts}
        owned: list[OwnedRows] = [(label[views], pa.concat_tables(rows)) for views, rows in parts.items()]
        duck.execute("DELETE FROM __sealed WHERE list_contains(CAST(? AS VARCHAR[]), file)", [files])
        self._forget(duck)
        if owned:
            merged = write.write_file(self.folder, owned)
            assert merged is not None, "what was written once can be written again"
            self.adopt([merged], {label[views]: list(views) for views in parts}, duck)

    def _verify(self, names: set[str], duck: duckdb.DuckDBPyConnection) -> None:
        """Check that each file has the bytes that were written; once, when its rows are first read."""
        unknown = names - self.verified
        if unknown:
            noted = duck.execute(
                "SELECT file, size, sum FROM __sealed_files WHERE list_contains(CAST(? AS VARCHAR[]), file)",
                [list(unknown)],
            ).fetchall()
            for name, size, wanted in noted:
                path = os.path.join(self.folder, name)
                if size is None and not os.path.exists(path):
                    raise missing(path, "rows of a view are in it")
                if size is not None:
                    verify(path, size, wanted)
            self.verified |= unknown

    def _owned_runs(self, name: str, duck: duckdb.DuckDBPyConnection) -> list[tuple[tuple[str, ...], pa.Table]]:
        """The runs of a file that belong to views: (views, rows)."""
        [(once,)] = duck.execute("SELECT once FROM __sealed_files WHERE file = ?", [name]).fetchall()
        runs = duck.execute(
            "SELECT label, start, any_value(number), list(view ORDER BY view) FROM __sealed WHERE file = ?"
            " GROUP BY label, start ORDER BY start",
            [name],
        ).fetchall()
        self._verify({name}, duck)
        whole = write.read_whole(self.folder, name, once)
        return [(tuple(views), whole.slice(start, rows)) for _, start, rows, views in runs]

    def _forget(self, duck: duckdb.DuckDBPyConnection) -> None:
        """Files without rows of a view leave."""
        gone = duck.execute(
            "DELETE FROM __sealed_files WHERE file NOT IN (SELECT file FROM __sealed) RETURNING file"
        ).fetchall()
        self.leaving.update(name for (name,) in gone)

    def _from(self, files: list[str]) -> str:
        # Nothing in the folder's own name may be taken for a pattern or for a column.
        paths = ", ".join(_text(glob.escape(os.path.join(self.folder, name))) for name in sorted(files))
        return f"read_parquet([{paths}], hive_partitioning = false)"

    def _keep(self, names: list[str]) -> None:
        """On disk before the commit names them: side by side, since a disk takes several at once."""
        if len(names) <= 1:
            list(map(self._sync, names))
            return
        with ThreadPoolExecutor(_SYNCED) as several:
            list(several.map(self._sync, names))

    def _sync(self, name: str) -> None:
        path = os.path.join(self.folder, name)
        with arrow_file(path):
            handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _insert(table: str, rows: list[tuple[Any, ...]], duck: duckdb.DuckDBPyConnection) -> None:
    if not rows:
        return
    names = [f"c{i}" for i in range(len(rows[0]))]
    noted = pa.table(dict(zip(names, map(pa.array, zip(*rows, strict=True)), strict=True)))
    change(duck, f"INSERT INTO {table} SELECT * FROM noted", noted=noted)


def _text(value: str) -> str:
    """
    >>> _text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"
