"""One small set of rows with every awkward value, as files behind streams and as tables in a plain DuckDB."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.harness import LocalDatabase

COLUMNS = {
    "id": "INTEGER",
    "grp": "VARCHAR",
    "v": "INTEGER",
    "w": "BIGINT",
    "d": "DECIMAL(10,2)",
    "f": "DOUBLE",
    "b": "BOOLEAN",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "at": "BIGINT",
}
DAY = dt.date(2024, 2, 28)
NOON = dt.datetime(2024, 2, 28, 12, 30, 15, 250000)


def _row(i: int, grp: Any, v: Any, d: Any, f: Any, b: Any) -> tuple[Any, ...]:
    known = v is not None
    return (
        i,
        grp,
        v,
        v * 10**12 if known else None,
        Decimal(d) if d else None,
        f,
        b,
        DAY + dt.timedelta(days=i) if known else None,
        NOON + dt.timedelta(hours=7 * i) if known else None,
        i,
    )


ROWS = [
    _row(1, "a", 5, "1.10", 0.5, True),
    _row(2, "b", 7, "2.25", -0.0, False),
    _row(3, "a", None, None, None, None),
    _row(4, "a", 5, "-3.30", 0.0, True),
    _row(5, None, 9, "10.00", math.inf, False),
    _row(6, "c", -4, "0.01", math.nan, True),
    _row(7, "b", 7, "2.25", 1e300, None),
    _row(8, "Ünïcödé", 0, "99999999.99", -1e-300, False),
    _row(9, "", 12, "0.00", 2.5, True),
    _row(10, "c", -4, "0.02", -2.5, True),
    _row(11, None, 1, "7.77", 3.25, False),
]
OTHER = [("a", "Alpha", 1), ("b", "Beta", 2), ("b", "Bis", 3), ("z", "Omega", 4), (None, "Nobody", 5)]


def arrow(columns: dict[str, str], rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows with exactly the declared types."""
    with duckdb.connect() as duck:
        shape = ", ".join(f'"{n}" {t}' for n, t in columns.items())
        duck.execute(f"CREATE TABLE t ({shape})")
        if rows:
            duck.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
        return duck.sql("FROM t").to_arrow_table()


def parquet(path: Path, columns: dict[str, str], rows: list[tuple[Any, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow(columns, rows), path)


def declared(columns: dict[str, str]) -> str:
    return ", ".join(f"{n} {t}" for n, t in columns.items())


def fill(db: LocalDatabase, folder: Path) -> None:
    """Streams S (append-only) and K (keyed by grp), table T and stream L (keyed by key) in the database."""
    parquet(folder / "s.parquet", COLUMNS, ROWS)
    other = {"key": "VARCHAR", "label": "VARCHAR", "n": "INTEGER"}
    parquet(folder / "t.parquet", other, OTHER)
    parquet(folder / "l.parquet", {**other, "at": "BIGINT"}, [(*row, 2 * i) for i, row in enumerate(OTHER, 1)])
    db.execute(f"""
        REGISTER SOURCE Raw ({declared(COLUMNS)}) FROM FILES '{folder}/s.parquet' WITH (timestamp = 'at');
        REGISTER SOURCE RawL ({declared(other)}, at BIGINT) FROM FILES '{folder}/l.parquet' WITH (timestamp = 'at');
        REGISTER TABLE T ({declared(other)}) FROM FILES '{folder}/t.parquet';
        CREATE TAGGED STREAM S OVER Raw;
        CREATE TAGGED STREAM K OVER Raw KEY grp;
        CREATE TAGGED STREAM L OVER RawL KEY key;
    """)


def batch(folder: Path) -> duckdb.DuckDBPyConnection:
    """The same relations in DuckDB, as they are when all rows have come."""
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute(f"CREATE TABLE S AS FROM '{folder}/s.parquet'; CREATE TABLE T AS FROM '{folder}/t.parquet';")
    duck.execute('CREATE TABLE K AS FROM S QUALIFY row_number() OVER (PARTITION BY grp ORDER BY "at" DESC) = 1')
    last = 'row_number() OVER (PARTITION BY key ORDER BY "at" DESC) = 1'
    duck.execute(f"CREATE TABLE L AS FROM '{folder}/l.parquet' QUALIFY {last}")
    return duck


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in a fixed order; NaN equals NaN, and -0.0 is 0.0 as it is in SQL."""
    columns = [[_plain(v) for v in column.to_pylist()] for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value + 0.0 if value == 0 else float(f"{value:.9e}")
    return value
