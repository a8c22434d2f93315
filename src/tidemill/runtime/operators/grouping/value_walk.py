"""The least and the greatest value of each key after each time, for keys and values of any type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.aggregates import INTEGERS
from tidemill.plan.physical import BEGINNING
from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.dataflow.value_codes import number_rows
from tidemill.runtime.duckdb import duck

_NUMBERED = INTEGERS | {"BOOLEAN", "DATE", "TIMESTAMP", "VARCHAR"}
_RANKED = _NUMBERED - {"HUGEINT", "UBIGINT"}  # which Arrow orders as SQL does


def walk_values(keys: tuple[Column, ...], value: Column, stored: pa.Table, fresh: pa.Table) -> pa.Table:
    """Rows (keys, __time, __least, __most): one for each key and time, stored values at BEGINNING."""
    if value.type in _RANKED and all(c.type in _NUMBERED for c in keys) and not fresh.column("__v").null_count:
        return _walk_moves(moves_in_arrays(keys, stored, fresh))
    return walk_values_in_sql(keys, value, stored, fresh)


def moves_in_arrays(keys: tuple[Column, ...], stored: pa.Table, fresh: pa.Table) -> pa.Table:
    """The moves with the number of their key and the rank of their value among those of the key, as SQL would give
    them but for moves of one key, value and time, which are not added up: only the state after a time counts.
    """
    names = [*(c.name for c in keys), "__v"]
    tables = [
        stored.select([*names, "__n"]).append_column("__time", pa.array(np.full(stored.num_rows, BEGINNING))),
        fresh.select([*names, "__n", "__time"]),
    ]
    moves = pa.concat_tables([t.cast(tables[1].schema) for t in tables])
    key, _ = number_rows([moves.column(c.name) for c in keys], moves.num_rows)
    values = pc.rank(moves.column("__v"), tiebreaker="dense").to_numpy().astype(np.int64)
    by_value = np.lexsort((values, key))
    new = np.append(True, (np.diff(key[by_value]) != 0) | (np.diff(values[by_value]) != 0))[: len(key)]
    slot = np.empty(len(key), np.int64)
    slot[by_value] = np.cumsum(new) - 1
    order = np.lexsort((moves.column("__time").to_numpy(), key))
    moves = moves.append_column("__key", pa.array(key)).append_column("__slot", pa.array(slot))
    return moves.take(pa.array(order))


def walk_values_in_sql(keys: tuple[Column, ...], value: Column, stored: pa.Table, fresh: pa.Table) -> pa.Table:
    """The same for values and keys of any type."""
    names = "".join(f"{quoted(c.name)}, " for c in keys)
    columns = (*keys, value, Column("__n", "BIGINT"))
    by_key = f"ORDER BY {names.rstrip(', ')}" if keys else ""
    ranked_by = f"ORDER BY {names}__v"
    moves = duck.run(
        f"""WITH moves AS (
              SELECT {names}__v, {BEGINNING} AS __time, __n FROM {duck.source("stored", columns)}
              UNION ALL SELECT {names}__v, __time, __n FROM {duck.source("fresh", columns, "__time")}),
            added AS (SELECT {names}__v, __time, CAST(sum(__n) AS BIGINT) AS __n FROM moves GROUP BY ALL)
            SELECT {names}__v, __time, __n, dense_rank() OVER ({by_key}) - 1 AS __key,
              dense_rank() OVER ({ranked_by}) - 1 AS __slot
            FROM added ORDER BY __key, __time, __slot""",
        stored=stored,
        fresh=fresh,
    )
    return _walk_moves(moves)


def _walk_moves(moves: pa.Table) -> pa.Table:
    if moves.num_rows == 0:
        return duck.run("SELECT *, __v AS __least, __v AS __most FROM moves", moves=moves)
    key = moves.column("__key").to_numpy().astype(np.int64)
    slot = moves.column("__slot").to_numpy().astype(np.int64)
    time = moves.column("__time").to_numpy()
    change = moves.column("__n").to_numpy().astype(np.int64)
    slots = int(slot.max()) + 1
    first = np.full(int(key.max()) + 1, slots, np.int64)
    last = np.full(int(key.max()) + 1, -1, np.int64)
    np.minimum.at(first, key, slot)
    np.maximum.at(last, key, slot)
    least, most = (np.empty(len(key), np.int64) for _ in range(2))
    # Imported on first use: most plans never need numba, and loading it costs a second.
    from tidemill.runtime.kernels.grouping.extremes import slide_extremes

    slide_extremes(key, slot, change, first, last, np.zeros(slots, np.int64), least, most)
    # The state after the last move of a (key, time) is the answer at that time.
    ends = np.append((key[1:] != key[:-1]) | (time[1:] != time[:-1]), True)
    value_row = np.zeros(slots, np.int64)
    value_row[slot] = np.arange(len(slot))
    values = moves.column("__v")

    def pick(which: np.ndarray) -> pa.ChunkedArray:
        rows = np.where(which < 0, 0, value_row[which])
        return values.take(pa.array(rows, mask=which < 0))

    kept = moves.filter(pa.array(ends)).drop_columns(["__v", "__n", "__key", "__slot"])
    return kept.append_column("__least", pick(least[ends])).append_column("__most", pick(most[ends]))
