"""The changes that one micro-batch makes to views: gathered from all shards, netted, tagged.

Views of one kind (same columns, key and output) share one table with a column `__view` and one statement. A view with
many changes has a table and a statement of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.plan.physical import Output
from tidemill.plan.relations import quoted
from tidemill.runtime.duckdb.sql_text import name_list, same_row
from tidemill.runtime.duckdb.temporary_tables import select
from tidemill.runtime.messages.outbox import runs
from tidemill.runtime.state.different_rows import add_up_counts
from tidemill.runtime.state.run_ends import expand
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.views.store import order
from tidemill.runtime.views.stored_view import StoredView
from tidemill.runtime.views.tables import null_old, typed_column

WHOSE = ("__view",)

Span = tuple[StoredView, int, int, int]  # (view, block, first row, rows)


@dataclass
class Changes:
    """Changes of some views of one kind: their columns, `__time`, `__diff`, and `__view` unless it is one alone."""

    views: tuple[StoredView, ...]
    rows: pa.Table
    netted: bool  # each (row, time) occurs once, or rows of a view only come

    @property
    def pattern(self) -> StoredView:
        """What holds for all of these views."""
        return self.views[0]

    @property
    def whose(self) -> tuple[str, ...]:
        """The column with the id of the view, if there are several views."""
        return WHOSE if "__view" in self.rows.column_names else ()

    def net(self, duck: duckdb.DuckDBPyConnection) -> None:
        """Add up the changes of each row and time: a deletion in one shard cancels an insertion in another."""
        if self.netted or self.pattern.append_only:
            return
        counted = None if self.whose else add_up_counts(self.rows, self.pattern.columns, "__diff", "__time")
        self.rows = self._add_up_in_sql(duck) if counted is None else counted
        self.netted = True

    def _add_up_in_sql(self, duck: duckdb.DuckDBPyConnection) -> pa.Table:
        group = ", ".join([*self.whose, name_list(self.pattern.names), "__time"])
        return select(
            duck,
            f"SELECT {group}, CAST(sum(__diff) AS BIGINT) AS __diff FROM ({_typed_sql(self)}) GROUP BY {group}"
            " HAVING sum(__diff) <> 0",
            net=self.rows,
        )

    def growth(self) -> dict[str, tuple[int, int]]:
        """View id → (how many changes, how many rows it has more than before); views without changes are left out.

        >>> view = StoredView("v1", "V", "complete", (), None, "__time", "BIGINT", False)
        >>> Changes((view,), pa.table({"__time": [1, 1, 2], "__diff": [1, 1, -1]}), True).growth()
        {'v1': (3, 1)}
        """
        diffs = self.rows.column("__diff").to_numpy()
        if not self.whose:
            return {self.views[0].id: (len(diffs), int(diffs.sum()))} if len(diffs) else {}
        number = {view.id: i for i, view in enumerate(self.views)}
        owners = self.rows.column("__view").unify_dictionaries().combine_chunks()
        owners = owners if pa.types.is_dictionary(owners.type) else owners.dictionary_encode()
        # The dictionary may still name views that `only` has left out; no row does.
        named = np.array([number.get(v, -1) for v in owners.dictionary.to_pylist()], np.int64)
        codes = named[owners.indices.to_numpy()]
        more = np.zeros(len(self.views), np.int64)
        np.add.at(more, codes, diffs)
        count = np.bincount(codes, minlength=len(self.views))
        return {v.id: (int(n), int(m)) for v, n, m in zip(self.views, count, more, strict=True) if n}

    def only(self, wanted: set[str]) -> Changes:
        """The changes of some of the views."""
        if not self.whose or len(wanted) == len(self.views):
            return self
        mask = pc.is_in(self.rows.column("__view").cast(pa.string()), pa.array(sorted(wanted), pa.string()))
        return Changes(tuple(v for v in self.views if v.id in wanted), self.rows.filter(mask), self.netted)


def gather(outputs: Iterable[Output], views: dict[str, StoredView], blocks: list[pa.Table]) -> list[Changes]:
    """The changes of every view that stands, from the change blocks of all shards."""
    readers: dict[str, list[StoredView]] = {}
    for output in outputs:
        if output.view in views:
            readers.setdefault(output.op, []).append(views[output.view])
    spans = [
        (view, place, start, count)
        for place, block in enumerate(blocks)
        for output, start, count in runs(block)
        for view in readers.get(output, ())
        if count
    ]
    counts: Counter[str] = Counter()
    for view, _, _, count in spans:
        counts[view.id] += count
    kinds: dict[str, list[Span]] = {}
    for span in spans:
        kinds.setdefault(span[0].kind, []).append(span)
    return [changes for members in kinds.values() for changes in _group_views(members, counts, blocks)]


def _group_views(spans: list[Span], counts: Counter[str], blocks: list[pa.Table]) -> Iterable[Changes]:
    """The changes of one kind of views: views with many changes alone, the others together. Several append-only views
    stay together up to a larger size: one long append costs less than half of many short ones.
    """
    alone: dict[str, list[Span]] = {}
    for span in spans:
        if counts[span[0].id] > sizes.alone_rows:
            alone.setdefault(span[0].id, []).append(span)
    if spans[0][0].appends_contents and len(alone) >= sizes.pooled_append_views:
        alone = {view: own for view, own in alone.items() if counts[view] > sizes.pooled_append_rows}
    together = [span for span in spans if span[0].id not in alone]
    for own in alone.values():
        tables = [blocks[place].slice(start, count) for _, place, start, count in own]
        yield Changes((own[0][0],), _concat(tables), len(own) == 1)
    if together:
        yield _concat_views(together, blocks)


def _concat_views(spans: list[Span], blocks: list[pa.Table]) -> Changes:
    views = list({s[0].id: s[0] for s in spans}.values())
    number = {view.id: i for i, view in enumerate(views)}
    ids = pa.array([v.id for v in views], pa.string())
    tables = []
    for place in dict.fromkeys(s[1] for s in spans):
        spans_here = [s for s in spans if s[1] == place]
        counts = np.array([s[3] for s in spans_here])
        index = expand(np.array([s[2] for s in spans_here]), counts)
        codes = np.repeat(np.array([number[s[0].id] for s in spans_here], np.int32), counts)
        owners = pa.DictionaryArray.from_arrays(pa.array(codes), ids)
        tables.append(blocks[place].take(pa.array(index)).append_column("__view", owners))
    return Changes(tuple(views), _concat(tables), len(spans) == len(views))


def tag_changes(changes: Changes, duck: duckdb.DuckDBPyConnection, ordered: bool = False) -> pa.Table:
    """Changes as tagged tuples: the minimum set, a − and a + of one key at one time become one u.

    The result has `__time`, `__tag`, the columns, `__old`, and `__view` if there are several.
    """
    view = changes.pattern
    sort = f" ORDER BY __time, {order(view)}" if ordered or changes.rows.num_rows <= sizes.sorted_rows else ""
    if view.keys is not None and not view.append_only:
        # Most often there is nothing to net, and finding that out costs less than netting.
        found = _pair_updates(changes, duck, sort)
        if found is None:
            changes.net(duck)
            return select(duck, _numbered_sql(changes) + sort, net=changes.rows)
        return found
    changes.net(duck)
    return select(duck, signed_sql(changes) + sort, net=changes.rows)


def _pair_updates(changes: Changes, duck: duckdb.DuckDBPyConnection, sort: str) -> pa.Table | None:
    """Insertions joined with deletions, if at every time each key has at most one row before and one after.

    None where that does not hold: a change was paired twice (each u stands for two changes), or with an equal row.
    """
    rows = changes.rows
    least, most = pc.min_max(rows.column("__diff")).as_py().values()
    if least is not None and (least > 0 or most < 0):  # nothing to pair
        return select(duck, signed_sql(changes) + sort, net=rows)
    if not _is_single(rows) or any(rows.column(k).null_count for k in changes.pattern.keys or ()):
        return None
    found = select(duck, _paired_sql(changes) + sort, net=rows)
    twice = found.num_rows * 2 - found.column("__old").null_count != rows.num_rows
    if twice or pc.any(found.column("__same")).as_py():
        return None
    return found.drop_columns(["__same"])


def select_log(view: StoredView, log: pa.Table) -> pa.Table:
    """The part of tagged changes that belongs to one view."""
    if "__view" not in log.column_names:
        return log
    return log.filter(pc.equal(log.column("__view").cast(pa.string()), view.id)).drop_columns(["__view"])


def collect_logs(
    found: list[Changes], logs: list[pa.Table | None], has_readers: Callable[[StoredView], bool]
) -> dict[str, pa.Table]:
    """The tagged changes of each view that has a sink or a subscriber."""
    published = {
        view.id: select_log(view, log)
        for changes, log in zip(found, logs, strict=True)
        if log is not None
        for view in changes.views
        if has_readers(view)
    }
    return {view_id: log for view_id, log in published.items() if log.num_rows}


def signed_sql(changes: Changes) -> str:
    """A SELECT over `net`: every inserted copy is a +, every deleted copy a −."""
    view = changes.pattern
    tag = "'+'" if view.append_only else "CASE WHEN __diff > 0 THEN '+' ELSE '-' END"
    columns = [*changes.whose, "__time", f"{tag} AS __tag", name_list(view.names), f"{null_old(view)} AS __old"]
    return f"SELECT {', '.join(columns)} FROM {_copies_sql(changes)}"


def _paired_sql(changes: Changes) -> str:
    pair = " AND ".join(f"came.{c} = went.{c}" for c in _pair_columns(changes))
    sides = (
        f"(SELECT * FROM ({_typed_sql(changes)}) WHERE __diff {sign} 0) AS {name}"
        for sign, name in ((">", "came"), ("<", "went"))
    )
    return _joined_sql(changes, pair, *sides, f"{same_row(changes.pattern.names, 'came', 'went')} AS __same")


def _numbered_sql(changes: Changes) -> str:
    """A key of NULLs may stand for two rows (both sides of a full join): the n-th deletion is paired with the n-th
    insertion.
    """
    view = changes.pattern
    number = (
        f"row_number() OVER (PARTITION BY {', '.join(_pair_columns(changes))} ORDER BY {name_list(view.names)}) AS __i"
    )
    pair = " AND ".join(
        [
            *(f"came.{c} = went.{c}" for c in (*changes.whose, "__time", "__i")),
            same_row(view.keys or (), "came", "went"),
        ]
    )
    sides = (
        f"(SELECT *, {number} FROM {_copies_sql(changes)} WHERE __diff {sign} 0) AS {name}"
        for sign, name in ((">", "came"), ("<", "went"))
    )
    return _joined_sql(changes, pair, *sides)


def _joined_sql(changes: Changes, pair: str, came: str, went: str, *more: str) -> str:
    view = changes.pattern
    old = "struct_pack(" + ", ".join(f"{quoted(n)} := went.{quoted(n)}" for n in view.names) + ")"
    both = [f"coalesce(came.{c}, went.{c}) AS {c}" for c in (*changes.whose, "__time")]
    values = [
        f"CASE WHEN came.__time IS NULL THEN went.{quoted(n)} ELSE came.{quoted(n)} END AS {quoted(n)}"
        for n in view.names
    ]
    tag = "CASE WHEN came.__time IS NULL THEN '-' WHEN went.__time IS NULL THEN '+' ELSE 'u' END AS __tag"
    kept = f"CASE WHEN came.__time IS NOT NULL AND went.__time IS NOT NULL THEN {old} END AS __old"
    columns = ", ".join([*both, tag, *values, kept, *more])
    return f"SELECT * FROM (SELECT {columns} FROM {came} FULL JOIN {went} ON {pair})"


def _pair_columns(changes: Changes) -> list[str]:
    """The columns on which a deletion and an insertion must agree to be one update."""
    return [*changes.whose, "__time", *(quoted(k) for k in changes.pattern.keys or ())]


def _is_single(rows: pa.Table) -> bool:
    """Whether every change is of one copy."""
    least, most = pc.min_max(rows.column("__diff")).as_py().values()
    return least is None or (least >= -1 and most <= 1)


def _copies_sql(changes: Changes) -> str:
    """A FROM item with one row for each copy that is inserted or deleted."""
    if _is_single(changes.rows):
        return f"({_typed_sql(changes)})"
    return f"({_typed_sql(changes)}) CROSS JOIN LATERAL (SELECT unnest(range(abs(__diff)))) AS copies"


def _typed_sql(changes: Changes) -> str:
    columns = [*changes.whose, "__time", "__diff", *(typed_column(c) for c in changes.pattern.columns)]
    return f"SELECT {', '.join(columns)} FROM net"


def _concat(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([tables[0], *(t.cast(tables[0].schema) for t in tables[1:])])
