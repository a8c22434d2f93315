"""Sinks to Delta tables: a commit holds the rows of a batch, and its number as the transaction of the sink."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidemill.runtime.extras import load
from tidemill.runtime.targets.lake_types import lake_table
from tidemill.runtime.targets.target import TAG, UPSERT, SinkSpec, fold

_GONE = "__tidemill_gone"


class DeltaTarget:
    """A Delta table in a folder, made by the first batch."""

    def __init__(self, spec: SinkSpec) -> None:
        self._library = load("deltalake", "delta", "a sink to Delta")
        self.spec = spec
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
        )
        if self.spec.mode == UPSERT and table is not None:
            self._merge(table, log, number)
            return
        rows = (
            fold(log, self.spec).rows
            if self.spec.mode == UPSERT
            else log.set_column(0, TAG, log.column(TAG).cast(pa.string()))
        )
        self._library.write_deltalake(self._path, lake_table(rows), mode="append", commit_properties=number)

    def _find(self) -> Any:
        return self._library.DeltaTable(self._path) if self._library.DeltaTable.is_deltatable(self._path) else None

    def _last(self, table: Any) -> int:
        found = table.transaction_version(self.spec.id)
        return -1 if found is None else int(found)

    def _merge(self, table: Any, log: pa.Table, number: Any) -> None:
        """Delete keys that are gone, replace and insert the others: one commit."""
        changes, keys = fold(log, self.spec), list(self.spec.keys or ())
        gone = changes.gone.append_column(_GONE, pa.array([True] * changes.gone.num_rows))
        rows = changes.rows.append_column(_GONE, pa.array([False] * changes.rows.num_rows))
        both = lake_table(pa.concat_tables([rows, gone], promote_options="default"))
        same = " AND ".join(_same(key, bool(both.column(key).null_count)) for key in keys)
        values = {f'"{name}"': f'source."{name}"' for name in self.spec.columns}
        merger = table.merge(
            both, predicate=same, source_alias="source", target_alias="target", commit_properties=number
        )
        merger = merger.when_matched_delete(predicate=f"source.{_GONE}")
        merger = merger.when_matched_update(updates=values, predicate=f"NOT source.{_GONE}")
        merger.when_not_matched_insert(updates=values, predicate=f"NOT source.{_GONE}").execute()

    def close(self) -> None:
        """Nothing is kept open."""


def _same(key: str, nullable: bool) -> str:
    equal = f'target."{key}" = source."{key}"'
    return f'({equal} OR (target."{key}" IS NULL AND source."{key}" IS NULL))' if nullable else equal
