"""The SQL text of fragments, bound by the real binder and answered by the oracle, site after site."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.harness import LocalDatabase
from tests.properties.trial import plan_of
from tests.reference.oracle import Oracle
from tests.sites.cases import Case
from tests.sites.histories import TS
from tests.sites.simulation import Input
from tidemill.plan.sites import Fragment, SitePlan
from tidemill.plan.sources import Column
from tidemill.runtime.sources.columns import arrow_schema

UNIT = 1_000_000
NEVER = 100_000
History = dict[int, "Counter[tuple[Any, ...]]"]


class Texts:
    """One catalog for all sites: the streams, and for each edge a source that holds what was shipped on it."""

    def __init__(self, db: LocalDatabase, case: Case, folder: Path) -> None:
        self.db, self.case, self.folder = db, case, folder
        self.tables: dict[str, pa.Table] = {}
        self.moments = tuple(UNIT * t for t in range(-1, self._last() + 12))
        for item in case.inputs:
            self._register_stream(item)

    def _last(self) -> int:
        return max((row[TS] for i in self.case.inputs for row, _ in i.rows), default=0)

    def _register(self, name: str, columns: tuple[Column, ...], options: str, key: str = "") -> None:
        (self.folder / name).mkdir()
        listed = ", ".join(f"{c.name} {c.type}" for c in columns)
        self.db.execute(
            f"REGISTER SOURCE {name}Source ({listed}) FROM FILES '{self.folder / name}/*.json' WITH ({options});"
            f"CREATE TAGGED STREAM {name} OVER {name}Source{key};"
        )

    def _register_stream(self, item: Input) -> None:
        columns = tuple(Column(n, "INTEGER") for n in ("k", "v", "tm"))
        rows = [dict(zip(("k", "v", "tm"), row, strict=True)) for row, _ in item.rows]
        if item.keyed:
            columns = (*columns, Column("op", "VARCHAR"))
            rows = [r | {"op": "delete" if gone else "insert"} for r, (_, gone) in zip(rows, item.rows, strict=True)]
        operation = ", operation = 'op'" if item.keyed else ""
        name = f"S{item.alias}"
        self._register(name, columns, f"timestamp = 'tm'{operation}", " KEY (k)" if item.keyed else "")
        self._fill(name, columns, rows, [r["tm"] for r in rows])

    def _fill(self, name: str, columns: tuple[Column, ...], rows: list[dict[str, Any]], times: list[int]) -> None:
        schema = arrow_schema(columns)
        data = {c.name: pa.array([r[c.name] for r in rows], schema.field(c.name).type) for c in columns}
        data["__ts"] = pa.array([t * UNIT for t in times], pa.int64())
        data["__seq"] = pa.array(range(len(rows)), pa.int64())
        self.tables[f"{name}Source"] = pa.table(data)

    def history(self, name: str, sql: str) -> History:
        """The answer of a text at every moment."""
        self.db.execute(f"CREATE STREAMED VIEW {name} WITH (unbounded_state = true) AS {sql}")
        oracle = Oracle(lambda source, birth: self.tables[source], self.moments, begin=0)
        try:
            found = oracle.history(plan_of(self.db, name))
        finally:
            oracle.close()
        return {moment: Counter(rows) for moment, rows in found.items()}

    def ship(self, fragment: Fragment) -> None:
        """Evaluate a fragment, and let the other side read its edge."""
        history = self.history(f"f_{fragment.edge}", fragment.sql)
        names = [c.name for c in fragment.columns]
        if fragment.append_only and fragment.role == "rows":
            # A row of an append-only edge is one of its stream: it counts from its stamp on (the superset law).
            came: Counter[tuple[Any, ...]] = Counter()
            for rows in history.values():
                came |= rows
            listed = [dict(zip(names, row, strict=True)) for row in came.elements()]
            listed.sort(key=lambda r: r["tm"])
            self._register(fragment.edge, fragment.columns, "timestamp = 'tm'")
            self._fill(fragment.edge, fragment.columns, listed, [r["tm"] for r in listed])
            return
        self._ship_changes(fragment, history, names)

    def _ship_changes(self, fragment: Fragment, history: History, names: list[str]) -> None:
        """Each copy of a row with the times at which it comes and goes."""
        columns = (*fragment.columns, Column("came", "INTEGER"), Column("went", "INTEGER"))
        there: list[dict[str, Any]] = []
        before: Counter[tuple[Any, ...]] = Counter()
        for moment, rows in sorted(history.items()):
            for row in (rows - before).elements():
                there.append(dict(zip(names, row, strict=True)) | {"came": moment // UNIT, "went": NEVER})
            for row in (before - rows).elements():
                gone = next(r for r in there if r["went"] == NEVER and tuple(r[n] for n in names) == row)
                gone["went"] = moment // UNIT
            before = rows
        raw = f"{fragment.edge}_raw"
        self._register(raw, columns, "timestamp = 'came'")
        self._fill(raw, columns, there, [r["came"] for r in there])
        listed = ", ".join(names)
        self.db.execute(f"CREATE VIRTUAL VIEW {fragment.edge} AS SELECT {listed} FROM {raw} WHERE NOW < went")


@contextmanager
def texts(case: Case) -> Iterator[Texts]:
    with tempfile.TemporaryDirectory() as name, LocalDatabase(str(Path(name) / "db")) as db:
        yield Texts(db, case, Path(name))


def query_text(case: Case) -> str:
    """SELECT … with a hole for each item of FROM."""
    names = [i.alias for i in case.inputs]
    listed = ", ".join(f"{a}.{c} AS {a}{c}" for a in names for c in ("k", "v", "tm"))
    found = f"SELECT {listed} FROM ⟨{names[0]}⟩"
    for number in range(1, len(names)):
        a, b = names[number], names[next(min(e) for e in case.join.edges if max(e) == number)]
        kind = "" if case.join.kind == "inner" else f" {case.join.kind.upper()}"
        band = case.join.band
        test = f" AND {b}.tm - {a}.tm BETWEEN {-band} AND {band}" if band is not None else ""
        found += f"{kind} JOIN ⟨{a}⟩ ON {b}.k = {a}.k{test}"
    return found


def one_site(case: Case) -> str:
    """The query where all streams are at one site."""
    found = query_text(case)
    for item in case.inputs:
        name = " ".join(x for x in (f"S{item.alias}", item.window.text, "AS", item.alias) if x)
        found = found.replace(f"⟨{item.alias}⟩", name)
    return found


def stamped_changes(plan: SitePlan, case: Case) -> bool:
    """Some edge has rows that leave, below a window: only the inbox can give such rows their stamps."""
    for item in case.inputs:
        fragment = plan.rows_edge(item.alias)
        if fragment is not None and not fragment.append_only and item.window.row_local and item.window.kind:
            return True
    return False
