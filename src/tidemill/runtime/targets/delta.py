"""Sinks to Delta tables: a commit holds the rows of a batch, and its number as the transaction of the sink.

Of a large batch the files are written by workers, and the commit names them. Where rows are replaced, workers also
write the files anew that have some of their keys, without those.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pyarrow as pa

from tidemill.plan.relations import quoted
from tidemill.runtime.extras import load
from tidemill.runtime.targets.lake_files import LakeFile, LakeWriter
from tidemill.runtime.targets.lake_types import lake_table
from tidemill.runtime.targets.target import TAG, UPSERT, SinkSpec, fold

_GONE = "__tidemill_gone"


class DeltaTarget:
    """A Delta table in a folder, made by the first batch."""

    def __init__(self, spec: SinkSpec, writer: LakeWriter | None = None) -> None:
        self._library = load("deltalake", "delta", "a sink to Delta")
        self.spec, self._writer = spec, writer
        self._path = spec.place["path"]

    def check(self) -> None:
        """Nothing can be wrong with a path."""

    def write(self, log: pa.Table, batch: int) -> None:
        table = self._find()
        if table is not None and batch <= self._last(table):
            return
        number = self._library.CommitProperties(
            app_transactions=[self._library.Transaction(app_id=self.spec.id, version=batch)],
            custom_metadata={"tidemill.sink": self.spec.name, "tidemill.batch": str(batch)},
            max_commit_retries=0,  # what a commit removes is known of the version that was looked at
        )
        if self.spec.mode != UPSERT:
            self._append(table, log.set_column(0, TAG, log.column(TAG).cast(pa.string())), number)
        elif table is None:
            self._append(table, fold(log, self.spec).rows, number)
        else:
            self._merge(table, log, number)

    def _append(self, table: Any, rows: pa.Table, number: Any) -> None:
        schema = self._library.Schema.from_arrow(lake_table(rows.slice(0, 0)).schema)
        if self._writer is None or not self._writer.is_for(rows, self._path) or not _takes_files(table, schema):
            self._library.write_deltalake(self._path, lake_table(rows), mode="append", commit_properties=number)
            return
        if table is None:  # a commit of its own: it says which features of Delta the types need
            table = self._library.DeltaTable.create(self._path, schema)
        self._commit(table, self._writer.write(rows, self._path), [], number)

    def _commit(self, table: Any, made: list[LakeFile], removed: list[str], number: Any) -> None:
        library, now = load("deltalake.transaction", "delta", "a sink to Delta"), int(time.time() * 1000)
        added = [library.AddAction(os.path.basename(f.path), f.size, {}, now, True, f.statistics) for f in made]
        gone = [library.RemoveAction(path, True, now) for path in removed]
        table.create_write_transaction([*gone, *added], "append", table.schema(), commit_properties=number)

    def _find(self) -> Any:
        return self._library.DeltaTable(self._path) if self._library.DeltaTable.is_deltatable(self._path) else None

    def _last(self, table: Any) -> int:
        found = table.transaction_version(self.spec.id)
        return -1 if found is None else int(found)

    def _merge(self, table: Any, log: pa.Table, number: Any) -> None:
        """Delete keys that are gone, replace and insert the others: one commit."""
        changes, keys = fold(log, self.spec), list(self.spec.keys or ())
        schema = self._library.Schema.from_arrow(lake_table(changes.rows.slice(0, 0)).schema)
        is_large = self._writer is not None and self._writer.is_for(changes.touched, self._path)
        if self._writer is not None and is_large and _takes_files(table, schema):
            made = self._writer.write(changes.rows, self._path)
            files = pa.table(table.get_add_actions()).column("path").to_pylist()
            kept = self._writer.leave_out(changes.touched, self._path, files)
            self._commit(table, [*made, *(file for file in kept.values() if file is not None)], list(kept), number)
            return
        gone = changes.gone.append_column(_GONE, pa.array([True] * changes.gone.num_rows))
        rows = changes.rows.append_column(_GONE, pa.array([False] * changes.rows.num_rows))
        both = lake_table(pa.concat_tables([rows, gone], promote_options="default"))
        same = " AND ".join(_same(key, bool(both.column(key).null_count)) for key in keys)
        values = {quoted(name): f"source.{quoted(name)}" for name in self.spec.columns}
        merger = table.merge(
            both, predicate=same, source_alias="source", target_alias="target", commit_properties=number
        )
        merger = merger.when_matched_delete(predicate=f"source.{_GONE}")
        merger = merger.when_matched_update(updates=values, predicate=f"NOT source.{_GONE}")
        merger.when_not_matched_insert(updates=values, predicate=f"NOT source.{_GONE}").execute()

    def close(self) -> None:
        """Nothing is kept open."""


def _takes_files(table: Any, schema: Any) -> bool:
    """Whether files of this schema fit as they are. The user may have made the table: the library puts rows into
    partitions, and gives them the types that the table has.
    """
    if table is None:
        return True
    types = {field.name: field.type for field in table.schema().fields}
    return not table.metadata().partition_columns and types == {field.name: field.type for field in schema.fields}


def _same(key: str, nullable: bool) -> str:
    ours, theirs = f"source.{quoted(key)}", f"target.{quoted(key)}"
    equal = f"{theirs} = {ours}"
    return f"({equal} OR ({theirs} IS NULL AND {ours} IS NULL))" if nullable else equal
