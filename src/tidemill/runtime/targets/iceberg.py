"""Sinks to Iceberg tables: one commit holds the rows of a batch, and its number as a property of the table."""

from __future__ import annotations

from functools import reduce
from typing import Any
from warnings import catch_warnings, simplefilter

import pyarrow as pa

from tidemill.errors import PlanProblem
from tidemill.plan.python_values import python_rows
from tidemill.runtime.extras import load
from tidemill.runtime.secrets import check_secret, read_secret
from tidemill.runtime.targets.lake_files import LakeWriter
from tidemill.runtime.targets.lake_types import lake_table
from tidemill.runtime.targets.target import TAG, UPSERT, SinkSpec, fold


class IcebergTarget:
    """A table of a catalog, made by the first batch."""

    def __init__(self, spec: SinkSpec, writer: LakeWriter | None = None) -> None:
        load("pyiceberg", "iceberg", "a sink to Iceberg")
        self.spec, self._writer = spec, writer
        self._name = spec.place["table"]
        self._property = f"tidemill.batch.{spec.id}"
        self._table: Any = None

    def check(self) -> None:
        options = self.spec.options
        if "catalog" not in options:
            raise PlanProblem(
                "TM211",
                "a sink to Iceberg needs a catalog",
                hint="catalog = 'sqlite:////lake/catalog.db', warehouse = '/lake', or the address of a REST catalog",
            )
        if "." not in self._name:
            raise PlanProblem("TM211", f'"{self._name}" is no table of a namespace', hint="write ICEBERG 'shop.totals'")
        if "password" in options:
            check_secret("password", options["password"])

    def write(self, log: pa.Table, batch: int) -> None:
        rows = log.set_column(0, TAG, log.column(TAG).cast(pa.string()))
        table = self._open(lake_table(rows.select(self.spec.columns) if self.spec.mode == UPSERT else rows).schema)
        if batch <= int(table.properties.get(self._property, -1)):
            return
        with table.transaction() as change:
            if self.spec.mode == UPSERT:
                changes = fold(log, self.spec)
                with catch_warnings():
                    simplefilter("ignore")  # of keys that are new: nothing is deleted
                    change.delete(self._match_keys(lake_table(changes.touched)))
                rows = changes.rows
            if rows.num_rows:
                self._append(table, change, rows)
            change.set_properties({self._property: str(batch)})

    def _append(self, table: Any, change: Any, rows: pa.Table) -> None:
        """Add rows; the files of a large batch are written by workers, and the transaction names them."""
        place = f"{table.location().rstrip('/')}/data"
        # The library puts rows into the partitions of a table that the user has made.
        if self._writer is None or not self._writer.is_for(rows, place) or not table.spec().is_unpartitioned():
            change.append(lake_table(rows))
            return
        files = [file.path for file in self._writer.write(rows, place)]
        change.add_files(files, check_duplicate_files=False)  # their names are new

    def _open(self, schema: pa.Schema) -> Any:
        if self._table is None:
            options, library = self.spec.options, load("pyiceberg.catalog", "iceberg", "a sink to Iceberg")
            settings = {"uri": str(options["catalog"])}
            if "warehouse" in options:
                settings["warehouse"] = str(options["warehouse"])
            if "password" in options:
                settings["credential"] = read_secret("password", str(options["password"]))
            catalog = library.load_catalog("default", **settings)
            catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
            self._table = catalog.create_table_if_not_exists(self._name, schema=schema)
        self._table.refresh()
        return self._table

    def _match_keys(self, keys: pa.Table) -> Any:
        """The rows with one of these keys."""
        library = load("pyiceberg.expressions", "iceberg", "a sink to Iceberg")
        if keys.num_columns == 1:
            name, column = keys.column_names[0], keys.column(0)
            found = library.In(name, column.drop_null().to_pylist())
            return library.Or(found, library.IsNull(name)) if column.null_count else found
        each = [
            reduce(library.And, [library.IsNull(n) if v is None else library.EqualTo(n, v) for n, v in row.items()])
            for row in python_rows(keys)
        ]
        return _join_balanced(library.Or, each)

    def close(self) -> None:
        self._table = None


def _join_balanced(join: Any, parts: list[Any]) -> Any:
    """All parts joined, in a tree that is as low as it can be: deep ones exceed the recursion of the library."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return join(_join_balanced(join, parts[:half]), _join_balanced(join, parts[half:]))
