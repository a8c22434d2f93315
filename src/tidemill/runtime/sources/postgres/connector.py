"""The PostgreSQL connector: changes go to disk, then are acknowledged, then have a position.

`latest` asks the slot for what is new, writes it to a file and a line to the log of slices, and only then lets
PostgreSQL forget it. After a crash between the two the slot gives the same transactions again; the log has the place of
the last one, and they are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.arrow_ipc import from_ipc, ipc_bytes
from tidemill.runtime.sources.columns import arrow_schema, convert, type_name
from tidemill.runtime.sources.connector import Chunk, Position, Progress, Range
from tidemill.runtime.sources.kafka.metadata import TIME
from tidemill.runtime.sources.kafka.slices import Slice, SliceLog
from tidemill.runtime.sources.postgres import kept_rows
from tidemill.runtime.sources.postgres.keys import OPERATION, KeyFiles, alive
from tidemill.runtime.sources.postgres.pgoutput import TRUNCATION, UNCHANGED, Transaction, Visible
from tidemill.runtime.sources.postgres.slot import Slot
from tidemill.runtime.sources.records import gather, good_numbers, make_chunk, position_text, refuse
from tidemill.runtime.thresholds import sizes

MOMENT = "\0time"  # no column of a table is named so
Row = dict[str, Any]


class Postgres:
    """Positions are {"slice": n}: everything in the files before number n."""

    def __init__(self, spec: SourceSpec, directory: str) -> None:
        arrow_schema(spec.columns)
        self.spec = spec
        self._directory = Path(directory)
        self._log = SliceLog(directory)
        self._slot = Slot(spec)
        self._keys = KeyFiles(self._directory)
        self._promised = 0
        own = {str(spec.operation).lower(), str(spec.options.get(TIME, "")).lower()}
        self._names = [column.name for column in spec.columns if column.name.lower() not in own]

    def initial(self) -> Position:
        return {"slice": 0}

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress:
        self._promised = max(self._promised, now_us)
        first = int(start["slice"])
        self._log.load()
        self._log.check(first)
        more = kept = False
        if max_rows is None or self._log.rows - self._log.base(first) < max_rows:
            try:
                more = True
                while more and not kept:  # what the snapshot has seen already keeps nothing
                    more, kept = self._take_changes(max_rows)
            except SourceProblem as problem:
                if not live or problem.code != "TM420":
                    raise
                more = False
        end = self._log.end_within(first, max_rows)
        exhausted = end == len(self._log) and not more
        clock = self._promised if exhausted else self._log.arrival_from(end)
        return Progress({"slice": end}, exhausted, None if self.spec.timestamp else clock)

    def _take_changes(self, max_rows: int | None) -> tuple[bool, bool]:
        """Bring what is new to disk; whether there may be more, and whether there were rows."""
        if not self._log.notes.get("copied"):
            self._copy_table()
        seen = Visible.parse(str(self._log.notes["snapshot"]))
        last, most = int(self._log.notes.get("lsn", 0)), min(max_rows or sizes.cdc_changes, sizes.cdc_changes)
        rows: list[Row] = []
        reached, found = self._slot.current_place(), list(self._slot.peek(most))
        for transaction in found:
            if transaction.end <= last:
                continue
            last = transaction.end
            if not seen.has(transaction.xid):
                self._add_rows(transaction, rows)
        if last > int(self._log.notes.get("lsn", 0)):
            self._keep(rows, {"lsn": last})
        if found:
            self._slot.acknowledge(last)
        else:  # others write: what they wrote need not be kept for this table
            self._slot.acknowledge(reached, sizes.cdc_idle_bytes)
        return bool(found), bool(rows)

    def _copy_table(self) -> None:
        """The slot first, then a snapshot: what both have is known by the numbers of transactions.

        A copy that was interrupted begins anew, with a new snapshot; its rows replace those of the first. What the
        first snapshot has not seen is then applied once more: the last change of each row counts.
        """
        self._slot.create()
        for snapshot, found in self._slot.copy(self._names, sizes.cdc_changes):
            rows = [{**dict(zip(self._names, values, strict=True)), OPERATION: "r", MOMENT: None} for values in found]
            first = {"snapshot": self._log.notes.get("snapshot", snapshot)}
            self._keep(rows, first if found else {**first, "copied": True})

    def _add_rows(self, transaction: Transaction, rows: list[Row]) -> None:
        """Add the changes of a transaction to those before it."""
        key = self.spec.origin["key"]
        for change in transaction.changes:
            if change.operation == TRUNCATION:
                rows += [self._row("d", values, transaction.time) for values in self._find_keys(rows)]
                continue
            if change.old is not None and any(change.old[k] != change.new[k] for k in key):
                rows.append(self._row("d", change.old, transaction.time))
            rows.append(self._row(change.operation, change.new, transaction.time))

    def _find_keys(self, rows: list[Row]) -> list[Row]:
        """The keys of the rows that a truncation deletes: of those on disk, and of changes that are not there yet."""
        times = str(self.spec.options.get(TIME, "")).lower()
        is_timed = self.spec.timestamp in (None, *self.spec.origin["key"]) or str(self.spec.timestamp).lower() == times
        pieces = self._keys.tables()
        kept = [self._read_keys(one) for one in self._log.between(self._keys.next_slice(), len(self._log))]
        why = "a truncation does not say which rows were there" + ("" if is_timed else ", nor their times")
        if not is_timed or any(piece is None for piece in kept):
            raise SourceProblem(
                "TM422",
                f'the table of source "{self.spec.name}" was truncated',
                detail=why,
                hint="RESTART SOURCE reads the table again",
            )
        names = [*self.spec.origin["key"], OPERATION]
        new = pa.table({name: pa.array([_text(row[name]) for row in rows], pa.string()) for name in names})
        return alive([*pieces, *kept, new]).to_pylist()

    def _read_keys(self, one: Slice) -> pa.Table | None:
        """The keys in the file of a slice and what was done with them; None where the file is gone."""
        if not self._file(one.base).exists():
            return None
        kept = from_ipc(kept_rows.read(self._file(one.base)))
        columns = {name: kept.column(self._names.index(name)) for name in self.spec.origin["key"]}
        return pa.table({**columns, OPERATION: kept.column(len(self._names))})

    def _row(self, operation: str, values: dict[str, object], moment: int) -> Row:
        kept = {name: values.get(name) for name in self._names}
        return {**kept, OPERATION: operation, MOMENT: moment}

    def _keep(self, rows: list[Row], note: dict[str, Any]) -> None:
        """Write rows to a file and their line to the log: durable when this returns."""

        def find() -> list[dict[str, Any]]:
            line: dict[str, Any] = {"note": note}
            if rows:
                base = self._log.rows
                self._write(base, rows)
                at = max(self._log.arrival, self._promised)
                line |= {"parts": [[0, base, base + len(rows)]], "at": at}
            return [line] if self._log.is_begun else [{"begin": {"0": 0}}, line]

        self._log.append(find)

    def _write(self, base: int, rows: list[Row]) -> None:
        columns = {n: pa.array([_text(row[n]) for row in rows], pa.string()) for n in [*self._names, OPERATION]}
        lost = [next((n for n in self._names if row[n] is UNCHANGED), None) for row in rows]
        columns["lost"] = pa.array(lost, pa.string())
        columns[MOMENT] = pa.array([row[MOMENT] for row in rows], pa.int64())
        table = pa.Table.from_arrays(list(columns.values()), names=[f"c{i}" for i in range(len(columns))])
        kept_rows.write(self._file(base), ipc_bytes(table))

    def _file(self, base: int) -> Path:
        return kept_rows.path_of(self._directory, base)

    def split(self, start: Position, end: Position, parts: int) -> list[Range]:
        slices = self._log.between(int(start["slice"]), int(end["slice"]))
        return [Range(start, end, None, {"slices": [one.to_list() for one in slices]})] if slices else []

    def read(self, piece: Range) -> Iterator[Chunk]:
        return gather(self._chunk(Slice.from_list(data)) for data in piece.detail["slices"])

    def _chunk(self, one: Slice) -> Chunk:
        kept = from_ipc(kept_rows.read(self._file(one.base)))
        table, reasons = convert([self._raw(kept, column) for column in self.spec.columns], self.spec.columns)
        lost = kept.column(len(self._names) + 1).to_pylist()
        reasons |= {i: f'column "{name}" is long and was not sent' for i, name in enumerate(lost) if name is not None}
        if reasons and self.spec.on_error == "fail":
            raise refuse(self.spec, reasons[min(reasons)], f"row {one.base + min(reasons)} of the changes")
        rows = kept.slice(0).to_pylist() if reasons else []
        bad = [(reasons[i], repr(rows[i]).encode(), position_text(row=one.base + i)) for i in sorted(reasons)]
        good = good_numbers(kept.num_rows, reasons)
        arrived = partial(np.full, len(good), one.arrival, np.int64)
        return make_chunk(table.take(pa.array(good)) if reasons else table, lambda: one.base + good, arrived, bad)

    def _raw(self, kept: pa.Table, column: Any) -> pa.ChunkedArray:
        if column.name == self.spec.operation:
            return kept.column(len(self._names))
        if column.name.lower() == str(self.spec.options.get(TIME, "")).lower():
            return kept.column(len(self._names) + 2).cast(pa.timestamp("us"))
        found = kept.column(self._names.index(column.name))
        if type_name(column.type) == "BLOB":
            octets = [None if text is None else _octets(text) for text in found.to_pylist()]
            return pa.chunked_array([pa.array(octets, pa.binary())])
        return found

    def trim(self, committed: Position) -> None:
        """Delete the files of changes that were read for good; the last lines of the log stay."""
        n, known = int(committed["slice"]), self._keys.next_slice()
        if n > known:
            pieces = [self._read_keys(one) for one in self._log.between(known, n)]
            if not any(piece is None for piece in pieces):
                self._keys.add(n, pieces)
        for one in self._log.between(self._log.first, n):
            with suppress(FileNotFoundError):
                self._file(one.base).unlink()
        if n - self._log.first > sizes.kafka_kept_slices:
            self._log.forget(n)

    def lag_bytes(self) -> int | None:
        """How much of its log PostgreSQL keeps for this source."""
        return self._slot.lag_bytes()


def _text(value: object) -> str | None:
    return None if value is None or value is UNCHANGED else str(value)


def _octets(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
