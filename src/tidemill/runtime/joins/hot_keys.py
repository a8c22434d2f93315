"""Hot keys of an aggregation join: how a shard sends its rows of them to the others, and which keys are hot.

Every key has a home, the shard of its hash. The rows of a hot key in one input, the spread one, are divided among the
shards; its rows in all other inputs are copied to every shard. So each joined row is made in exactly one shard, and the
grouping above adds up the sums of all shards.

In the first batch that names a key as hot (the same in every shard, because it comes with the plan) its home sends all
rows of the key in the other inputs: stored rows, with the static time; rows that wait for their time; and rows that
arrive in this batch. The other shards ignore rows of the key that arrive in this batch; they receive all of them in the
next batch, and from then on also what arrives. So in every shard the rows of an input are a multiset at any time:
no row is deleted that was not inserted. A later plan begins to spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tidemill.plan import physical as p
from tidemill.plan.measured.joins import HotKeyCounts
from tidemill.plan.relations import STATIC_TIME
from tidemill.runtime.dataflow.changes import key_hashes
from tidemill.runtime.dataflow.operator import Batch
from tidemill.runtime.duckdb import duck
from tidemill.runtime.duckdb.sql_text import hash_sql
from tidemill.runtime.joins.aggregation_sets import FORMS, AggregationSets
from tidemill.runtime.state.shard_state import ShardState
from tidemill.runtime.thresholds import sizes

if TYPE_CHECKING:
    from tidemill.runtime.joins.delta_join import DeltaJoin, Matches

# What is reported is only looked at: whether a key is split is decided by costs (`optimize/joins/hot_keys.py`).
LEAST_SHARE = 1 / 16  # of a shard's pairs, for a key to be reported
REPORTED = 8  # join values with the most pairs of a shard; a hot one is copied to all shards


class HotKeys:
    """The hot keys of one aggregation join in one shard and batch; `splitting` is None where keys cannot be split."""

    def __init__(self, splitting: p.Splitting | None, shard: tuple[int, int], inputs: list[AggregationSets]) -> None:
        self.splitting = splitting or p.Splitting((None,) * len(inputs), ())
        self.index, self.count = shard
        self.inputs = inputs
        self.keys = self.splitting.keys
        self.spread = {key.hash: key.input for key in self.splitting.hot}
        self.fresh: set[int] = set()
        self.samples: list[tuple[pa.Table, float]] = []

    # What leaves and what arrives

    def begin(
        self, batches: list[Batch], state: ShardState, value: dict[str, Any]
    ) -> tuple[list[Batch], dict[str, Any]]:
        """(the batches without rows that have to wait, rows to send to other shards): before changes are applied."""
        known = set(value.get("hot", ()))
        self.fresh = set(self.spread) - known
        if not self.fresh:
            return batches, {}
        value["hot"] = sorted(known | self.fresh)
        leaving: dict[str, Any] = {}
        for i, form, pick in self.splitting.copies:
            rows = self._collect_copies(i, form, batches[i], state)
            if rows is not None:
                leaving[pick] = rows
        return [self._drop_waiting(i, b) for i, b in enumerate(batches)], leaving

    def take_copies(self, batches: list[Batch]) -> list[dict[str, pa.Table]]:
        """For each input, by form, the rows that homes of hot keys have sent, without keys whose home is this shard."""
        found: list[dict[str, pa.Table]] = [{} for _ in self.inputs]
        for (i, form, _), batch in zip(self.splitting.copies, batches, strict=True):
            if batch.rows is not None and batch.rows.num_rows:
                hashes = self._hashes(i, batch.rows)
                found[i][form] = batch.rows.filter(pa.array(~self._at_home(hashes)))
        return found

    def _collect_copies(self, i: int, form: str, batch: Batch, state: ShardState) -> pa.Table | None:
        """All rows of one form that this input has of the keys that become hot now, if they are to be copied."""
        wanted = self._copied_hashes(i, self.fresh)
        sets, names = self.inputs[i], [c.name for c in self.inputs[i].pending(state, form).layout.columns()]
        tables = [sets.pending(state, form).scan()]
        if sets.indexes:
            stored = sets.arrangement(state, form, sets.indexes[0]).scan()
            tables.append(stored.append_column("__time", pa.array(np.full(stored.num_rows, STATIC_TIME, np.int64))))
        tables += [t for f, t in sets.split_forms(batch.rows).items() if f == form]
        kept = []
        for table in tables if len(wanted) else ():
            if table.num_rows:
                hashes = self._hashes(i, table)
                kept.append(table.select(names).filter(pa.array(np.isin(hashes, wanted) & self._at_home(hashes))))
        return pa.concat_tables([t.cast(kept[0].schema) for t in kept]) if kept else None

    def _drop_waiting(self, i: int, batch: Batch) -> Batch:
        """The batch without rows that come again in the next one, from the home of their key."""
        wanted = self._copied_hashes(i, self.fresh)
        if batch.rows is None or not batch.rows.num_rows or not len(wanted):
            return batch
        hashes = self._hashes(i, batch.rows)
        stays = ~np.isin(hashes, wanted) | self._at_home(hashes)
        return Batch(batch.rows.filter(pa.array(stays)), batch.frontier)

    def _copied_hashes(self, i: int, among: set[int] | dict[int, int]) -> np.ndarray:
        """Those of some hot keys of which this input is copied."""
        none = self.keys[i] is None
        return np.array([] if none else sorted(h for h in among if self.spread[h] != i), np.uint64)

    def _hashes(self, i: int, rows: pa.Table) -> np.ndarray:
        return key_hashes(rows, self.inputs[i].keys, self.keys[i] or ())

    def _at_home(self, hashes: np.ndarray) -> np.ndarray:
        return hashes % np.uint64(self.count) == self.index

    # What is counted

    def drop_copies(self, i: int, rows: pa.Table) -> pa.Table:
        """The rows without copies, whose originals are counted at their home."""
        copied = self._copied_hashes(i, self.spread)
        if not len(copied) or not rows.num_rows:
            return rows
        hashes = self._hashes(i, rows)
        return rows.filter(pa.array(~np.isin(hashes, copied) | self._at_home(hashes)))

    def sample_pairs(self, join: DeltaJoin, matches: Matches) -> None:
        """Take a sample of the matching pairs, every n-th one: a key is in it in proportion to its pairs."""
        bound = next((i for i in matches.binding.at if self.keys[i] is not None), None)
        total = int(matches.counts.sum())
        if self.count == 1 or bound is None or not total or total < sizes.hot_pairs // 16:
            return
        ends = np.cumsum(matches.counts)
        count = sizes.hot_samples
        picked = np.searchsorted(ends, (np.arange(count) + 0.5) * (total / count), side="right")
        rows = matches.binding.at[bound][matches.probes.order[picked]]
        keys = join.rows[bound].keys.select(list(self.keys[bound] or ())).take(pa.array(rows))
        self.samples.append((keys.rename_columns([f"k{x}" for x in range(keys.num_columns)]), total / count))

    def report(self, pairs: int) -> tuple[HotKeyCounts, ...]:
        """The keys that have most of this shard's pairs."""
        if not self.samples or pairs < sizes.hot_pairs:
            return ()
        first = self.samples[0][0]
        rows = pa.concat_tables([t.cast(first.schema) for t, _ in self.samples])
        weights = np.repeat([w for _, w in self.samples], sizes.hot_samples)
        names = first.column_names
        text = ", ".join(f"CAST(any_value({n}) AS VARCHAR)" for n in names)
        found = duck.run(
            f"SELECT {hash_sql(names)} AS h, concat_ws(', ', {text}) AS key, sum(__w) AS pairs"
            f" FROM rows GROUP BY h HAVING sum(__w) >= {LEAST_SHARE * pairs} ORDER BY pairs DESC, h LIMIT {REPORTED}",
            rows=rows.append_column("__w", pa.array(weights)),
        ).to_pylist()
        changes = [self._changes(i, [f["h"] for f in found]) for i in range(len(self.inputs))] if found else []
        return tuple(
            HotKeyCounts(f["h"], f["key"], f["pairs"], tuple(c[x] for c in changes)) for x, f in enumerate(found)
        )

    def _changes(self, i: int, hashes: list[int]) -> list[float]:
        """About how many changes of an input each key has in this batch."""
        totals = np.zeros(len(hashes))
        for form in FORMS if self.keys[i] is not None else ():
            table = self.inputs[i].moves[form]
            if table.num_rows:
                step = max(1, table.num_rows // sizes.hot_samples)
                some = self._hashes(i, table.take(pa.array(np.arange(step // 2, table.num_rows, step))))
                each = table.num_rows / len(some)
                totals += [each * int((some == np.uint64(h)).sum()) for h in hashes]
        return [float(t) for t in totals]
