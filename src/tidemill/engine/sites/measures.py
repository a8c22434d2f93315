"""What is known of the streams of this site, for joins between sites: rates, sizes of rows, and samples of join values.

A stream is measured from the first request on: the readers then sample the values of the columns that were asked
for. The samples are kept in a file beside the catalog, which is written from time to time: what a crash loses is
statistics, and no answer depends on them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from tidemill.errors import TidemillError
from tidemill.plan.physical.codec import decoder
from tidemill.plan.sources import SITE, SourceSpec
from tidemill.runtime.paths import read_json, write_json
from tidemill.runtime.sites.join_values import MEASURED, KeyBytes, Measure, name_of
from tidemill.runtime.sites.protocol import Statistics
from tidemill.runtime.views.batch_summary import BatchReport
from tidemill.runtime.views.outlet import Outlet
from tidemill.runtime.views.source_totals import rows_of
from tidemill.sql.catalog import Catalog

_WRITE_S = 10.0  # at least, between two writes, as of `operator_totals`
_LONGEST_S = 10.0  # between two batches; a longer pause says that there was nothing to do
_MOST_SAMPLES = 8  # of a source
USUAL_INTERVAL_S = 1.0
_AGE_S = 120.0  # samples show what has come in the last one or two of these spans
_LEAST_SPAN_US = 10_000_000  # of event time: over less than this, a rate would be chance


class Measures:
    """The measures of all sources, by the name of the source."""

    def __init__(self, path: str, database: str, catalog: Catalog, outlet: Callable[[], Outlet]) -> None:
        self._path, self._database, self._catalog, self._outlet = path, database, catalog, outlet
        self._found: dict[str, Measure] = self._read()
        self._older: dict[str, Measure] = {}  # what was found before the last `_AGE_S`, and not before those before
        self._rates: dict[str, tuple[int, int]] = {}  # source → rows and greatest stamp when samples aged last
        self._aged = time.monotonic()
        self._asked: set[tuple[str, tuple[str, ...]]] = set()  # by other sites, and not measured yet
        self._lock = threading.Lock()
        self._written, self._last = time.monotonic(), 0.0
        self.interval = USUAL_INTERVAL_S  # seconds between two batches

    # ---- what is measured ------------------------------------------------------------------------

    def ask(self, name: str, columns: Sequence[str]) -> None:
        """Another site wants to know the values of columns of a stream; `take_up` begins to measure them."""
        if self._could_measure(name, columns) is not None:
            with self._lock:
                self._asked.add((name, tuple(columns)))

    def take_up(self) -> bool:
        """Measure what was asked for; whether the plan has changed. The caller holds the lock of the database."""
        with self._lock:
            asked, self._asked = self._asked, set()
        return any([self.measure(name, columns) for name, columns in sorted(asked)])

    def measure(self, name: str, columns: Sequence[str]) -> bool:
        """Sample the values of columns of a stream from the next plan on; whether that is new."""
        spec = self._could_measure(name, columns)
        if spec is None:
            return False
        entry = next(e for e in self._catalog.of("source") if e.spec is spec)
        listed = [*spec.options.get(MEASURED, ()), list(columns)]
        entry.spec = replace(spec, options={**spec.options, MEASURED: listed})
        return True

    def _could_measure(self, name: str, columns: Sequence[str]) -> SourceSpec | None:
        """The source of a stream whose columns are not measured and can be."""
        spec = self._source(name)
        if spec is None or spec.kind == SITE or not {c.name for c in spec.columns}.issuperset(columns):
            return None
        known = spec.options.get(MEASURED, ())
        return None if list(columns) in known or len(known) >= _MOST_SAMPLES else spec

    def _source(self, name: str) -> SourceSpec | None:
        entry = self._catalog.entries.get(name.lower())
        return self._catalog.find(entry.needs[0], "source").spec if entry and entry.kind == "stream" else None

    # ---- what is known ---------------------------------------------------------------------------

    def add(self, report: BatchReport) -> None:
        """Take in what the readers of a batch found."""
        now = time.monotonic()
        if self._last and now - self._last < _LONGEST_S:
            self.interval += 0.1 * (now - self._last - self.interval)
        self._last = now
        if now - self._aged > _AGE_S:
            self.age()
        for source, measure in report["measures"].items():
            self._found[source] = self._found.get(source, Measure()).add(measure)
        if report["measures"] and now - self._written > _WRITE_S:
            self.save()

    def age(self) -> None:
        """Begin new samples: those before the last ones are forgotten, so that what streams are like now shows."""
        self._older |= self._found
        self._found, self._aged = {}, time.monotonic()
        outlet = self._outlet()
        times = outlet.progress.get("sources", {})
        rows = {name: int(found.get("rows", 0)) for name, found in outlet.source_totals.items()}
        self._rates = {name: (rows[name], times[name]["top"]) for name in rows if name in times}

    def rate_of(self, name: str) -> float:
        """Rows a second of event time that a stream has, since samples aged where rows came since; 0 where that is not
        known.
        """
        spec, outlet = self._source(name), self._outlet()
        times = outlet.progress.get("sources", {}).get(spec.name, {}) if spec is not None else {}
        rows = rows_of(outlet.source_totals, spec.name) if spec is not None else 0
        first = times.get("first")
        before, since = self._rates.get(spec.name, (0, first)) if spec is not None else (0, None)
        if since is None or times.get("top", 0) - since < _LEAST_SPAN_US:
            before, since = 0, first
        span = times.get("top", 0) - (since or 0)
        return float(rows - before) * 1e6 / span if span > 0 and first is not None else 0.0

    def statistics(self, name: str, columns: Sequence[str]) -> Statistics:
        """What is known of a stream and the values of some of its columns."""
        spec = self._source(name)
        found = self._sum_of(spec.name) if spec is not None else None
        rate = self.rate_of(name)
        if found is None or not found.rows:
            return Statistics(rate)
        widths = {column: size / found.rows for column, size in found.bytes.items()}
        values, keys = found.values.get(name_of(columns), ""), found.keys.get(name_of(columns), KeyBytes())
        return Statistics(rate, found.rows, widths, values, keys.bytes / max(keys.different, 1))

    def _sum_of(self, source: str) -> Measure | None:
        """What was found of a source lately."""
        older, found = self._older.get(source), self._found.get(source)
        return older.add(found) if older is not None and found is not None else found or older

    # ---- the file --------------------------------------------------------------------------------

    def save(self) -> None:
        """Write what is known, if there is anything."""
        self._written = time.monotonic()
        sums = {source: self._sum_of(source) for source in (*self._older, *self._found)}
        found = {source: asdict(measure) for source, measure in sums.items() if measure is not None}
        if found:
            write_json(self._path, {"database": self._database, "sources": found})

    def _read(self) -> dict[str, Measure]:
        """What was written last; nothing where the file is not of this database or cannot be read."""
        try:
            found = read_json(self._path)
            if not isinstance(found, dict) or found.get("database") != self._database:
                return {}
            measures: dict[str, Measure] = decoder(dict[str, Measure])(found["sources"])
            return measures
        except (OSError, LookupError, TypeError, ValueError, AttributeError, TidemillError):
            return {}
