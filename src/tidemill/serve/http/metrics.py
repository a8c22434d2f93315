"""/metrics: what a database does, in the text format of Prometheus. A reader's metrics have the granted views only."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tidemill.engine.show.lateness import LONG_AGO
from tidemill.engine.users.session import Session
from tidemill.serve.http.visible import visible_status
from tidemill.version import __version__

if TYPE_CHECKING:
    from tidemill.engine import Database

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SOURCE_COUNTS = (
    ("rows", "tidemill_source_rows", "rows that were read"),
    ("late", "tidemill_source_late_rows", "rows that came too late"),
    ("bad", "tidemill_source_bad_records", "records that could not be read"),
    ("shed", "tidemill_source_shed_rows", "updates that were shed"),
)
Connections = Callable[[], dict[str, int]]


def metrics_text(db: Database, session: Session, connections: Connections) -> bytes:
    """All metrics that a user may see."""
    registry = CollectorRegistry()
    registry.register(_Metrics(db, session, connections))
    return generate_latest(registry)


class _Metrics(Collector):
    def __init__(self, db: Database, session: Session, connections: Connections) -> None:
        self._db, self._session, self._connections = db, session, connections

    def collect(self) -> Iterator[Metric]:
        status = visible_status(self._db, self._session)
        yield _gauge("tidemill_info", "version", [((__version__,), 1)], "version")
        yield _gauge("tidemill_running", "1 while the job runs", [((), int(status["running"]))])
        yield _gauge("tidemill_batch", "the last micro-batch in the views", [((), status["batch"])])
        yield from _view_metrics(status["views"])
        if self._session.access.reads_everything:
            yield from self._of_engine(status)

    def _of_engine(self, status: dict[str, Any]) -> Iterator[Metric]:
        yield from _source_metrics(status["sources"])
        yield from _sink_metrics(status["sinks"], status["batch"])
        yield _gauge("tidemill_plan_version", "the plan in force", [((), status["plan"])])
        yield _gauge("tidemill_state_rows", "rows of state in all shards", [((), status["state"]["rows"])])
        yield _gauge("tidemill_state_bytes", "bytes of state in all shards", [((), status["state"]["bytes"])])
        yield _gauge("tidemill_dead_letters", "dead letters that are kept", [((), status["dead_letters"])])
        yield self._batch_seconds()
        rates = self._db.runner.history.operator_rates()
        values = [((op,), rate.share) for op, rate in sorted(rates.items())]
        yield _gauge("tidemill_operator_time_share", "share of the operators' time, lately", values, "operator")
        counts = [((door,), number) for door, number in self._connections().items()]
        yield _gauge("tidemill_connections", "open connections", counts, "protocol")

    def _batch_seconds(self) -> Metric:
        found = HistogramMetricFamily("tidemill_batch_seconds", "length of micro-batches by part", labels=["part"])
        for part, durations in self._db.runner.history.durations.items():
            found.add_metric([part], list(durations.cumulative()), durations.sum)
        return found


def _source_metrics(sources: Iterable[dict[str, Any]]) -> Iterator[Metric]:
    sources = list(sources)
    for key, name, text in _SOURCE_COUNTS:
        metric = CounterMetricFamily(name, text, labels=["source"])
        for source in sources:
            metric.add_metric([source["name"]], source[key])
        yield metric
    lags = [((s["name"],), s["lag_seconds"]) for s in sources if s["lag_seconds"] is not None]
    yield _gauge("tidemill_source_lag_seconds", "age of the newest row that was read", lags, "source")
    slots = [((s["name"],), s["slot_lag_bytes"]) for s in sources if s.get("slot_lag_bytes") is not None]
    yield _gauge("tidemill_source_slot_lag_bytes", "log that PostgreSQL keeps for a source", slots, "source")
    speeds = [((s["name"],), s["rows_per_second"]) for s in sources]
    yield _gauge("tidemill_source_rows_per_second", "in the last micro-batch", speeds, "source")


def _view_metrics(views: Iterable[dict[str, Any]]) -> Iterator[Metric]:
    views = list(views)
    yield _gauge("tidemill_view_rows", "rows of a view", [((v["name"],), v["rows"] or 0) for v in views], "view")
    ages = [((v["name"],), age) for v in views if (age := frontier_age(v["frontier"])) is not None]
    yield _gauge("tidemill_view_frontier_age_seconds", "time since the frontier of a view", ages, "view")
    stopped = [((v["name"],), int(bool(v["stopped"]))) for v in views]
    yield _gauge("tidemill_view_stopped", "1 where a view has stopped", stopped, "view")


def _sink_metrics(sinks: Iterable[dict[str, Any]], batch: int) -> Iterator[Metric]:
    sinks = list(sinks)
    waiting = [((s["name"],), s["undelivered"]) for s in sinks]
    yield _gauge("tidemill_sink_undelivered_batches", "batches that wait for a sink", waiting, "sink")
    # Batches are delivered in their order; those that wait are the newest.
    reached = [((s["name"],), s.get("batch", batch - s["undelivered"])) for s in sinks]
    yield _gauge("tidemill_sink_batch", "the last batch that a sink has", reached, "sink")


def frontier_age(frontier: str | None) -> float | None:
    """Seconds since a frontier; None where its times are not those of the clock on the wall.

    >>> frontier_age(None), frontier_age("1970-01-01 00:00:05.000000"), frontier_age("end")
    (None, None, None)
    """
    if frontier is None or frontier == "end":
        return None
    at = dt.datetime.fromisoformat(frontier).replace(tzinfo=dt.UTC).timestamp()
    return time.time() - at if at * 1e6 > LONG_AGO else None


def _gauge(name: str, text: str, values: Iterable[tuple[tuple[str, ...], float]], *labels: str) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(name, text, labels=labels)
    for found, value in values:
        metric.add_metric(found, value)
    return metric
