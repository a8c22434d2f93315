"""Where a batch of files may be cut into even pieces for several readers."""

from __future__ import annotations

import bisect

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.files import columnar, lined
from tidemill.runtime.sources.files.log import Entry, Listed
from tidemill.runtime.sources.files.names import packing

Place = tuple[int, int]


def cut_points(entries: Listed, first: Place, last: Place, parts: int, spec: SourceSpec) -> list[Place]:
    """At most parts - 1 places strictly between first and last, in order.

    With a timestamp column parquet is cut only at row-group borders, because only those have exact
    statistics, and other formats not at all; without one also at any row or line end.
    """
    spans = [(e, *e.span(first, last)) for e in entries.between(first[0], last[0] + 1)]
    spans = [(e, low, high) for e, low, high in spans if low < high]
    total = sum(high - low for _, low, high in spans)
    cuts: list[Place] = []
    for part in range(1, parts):
        cut = _cut_at(spans, total * part // parts, total / parts, spec)
        if first < cut < last and (not cuts or cut > cuts[-1]):
            cuts.append(cut)
    return cuts


def _cut_at(spans: list[tuple[Entry, int, int]], target: int, share: float, spec: SourceSpec) -> Place:
    for entry, low, high in spans:
        if target < high - low:
            at = _snap(entry, low + target, share, spec)
            return (entry.n, at) if at < entry.length else (entry.n + 1, 0)
        target -= high - low
    last = spans[-1][0].n if spans else 0
    return (last + 1, 0)


def _snap(entry: Entry, at: int, share: float, spec: SourceSpec) -> int:
    if entry.bad is not None or at <= entry.begin:
        return 0
    if entry.format in ("csv", "json"):
        # Each reader of a compressed text unpacks all that is before its part.
        return 0 if spec.timestamp or packing(entry.path) else lined.line_end(entry.path, at, entry.length)
    if entry.format == "arrow" and spec.timestamp:
        return 0
    border = _nearest(columnar.footer_of(entry).borders, at)
    if spec.timestamp or abs(border - at) <= share / 4:
        return border
    return at


def _nearest(borders: tuple[int, ...], at: int) -> int:
    i = bisect.bisect_left(borders, at)
    around = borders[max(i - 1, 0) : i + 1]
    return min(around, key=lambda border: abs(border - at))
