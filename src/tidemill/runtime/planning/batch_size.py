"""How many rows of a source the next micro-batch takes.

A batch takes all rows that are there, up to a limit that depends on the bytes its rows send to the shards.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidemill.plan.physical import Leaf, Partial, Physical, Values, ids
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.messages.batch_progress import SourceProgress
from tidemill.runtime.messages.control import PreviewNote
from tidemill.runtime.thresholds import sizes

GROWTH = 16  # times the batch before: the bytes of a row are known from that batch, and may be others in the next


@dataclass
class Portion:
    """How many rows of a source the next batch takes, as long as it feeds the same ports."""

    ports: tuple[str, ...]
    rows: int
    most: int = field(default_factory=lambda: sizes.sent_bytes)
    learnt: int = -1  # the last batch that this was learnt from
    last: tuple[int, int] | None = None  # the rows of that batch, and what they sent

    def learn(self, note: SourceProgress, plan: int) -> None:
        """Use what a batch read and sent; a batch of another plan is ignored."""
        if note.get("plan") == plan and note["batch"] > self.learnt and note["rows"] >= sizes.telling_rows:
            self.rows = next_rows(self.rows, note["rows"], note["sent"], self.last, self.most)
            self.learnt, self.last = note["batch"], (note["rows"], note["sent"])


def rows_to_take(
    portions: dict[str, Portion],
    plan: Physical,
    spec: SourceSpec,
    note: SourceProgress | None,
    previewed: PreviewNote | None,
) -> int:
    """How many rows of a source this batch may take; `portions` remembers what was learnt. A preview counts for the
    plan that it was made for.
    """
    if spec.batch_rows:
        return spec.batch_rows
    ports = tuple(e.port for e in plan.exchanges if e.origin == ids.source_origin(spec.name))
    if is_assumed(plan, spec.name):
        ports = (*ports, "assumed")
    portion = portions.get(spec.name)
    if portion is None or portion.ports != ports:
        most = sizes.folded_bytes if is_light(plan, spec.name) else sizes.sent_bytes
        portion = portions[spec.name] = Portion(ports, first_rows(plan, spec.name), most)
        if previewed and previewed["plan"] == plan.version:
            portion.rows = rows_after_preview(previewed["rows"], previewed["sent"])
    if note:
        portion.learn(note, plan.version)
    return portion.rows


def next_rows(before: int, rows: int, sent: int, last: tuple[int, int] | None = None, most: int | None = None) -> int:
    """How many rows the next batch may take when `rows` of the last one have sent `sent` bytes.

    The number at which `most` bytes are sent, at least `least_rows`, at most `most_rows`, not more than GROWTH times as
    many as before. A further row sends sent / rows bytes, or fewer where this batch has more rows than the `last` one
    and has shown so: a small batch already sends most partial aggregates of many queries, a large one hardly more.

    >>> next_rows(500_000, 500_000, 40_000), next_rows(64_000_000, 64_000_000, 1 << 30)
    (8000000, 8000000)
    >>> next_rows(8_000_000, 8_000_000, 64 << 20, last=(4_000_000, 60 << 20))
    64000000
    """
    most = sizes.sent_bytes if most is None else most
    fitting = most * rows // max(sent, 1)
    if last is not None and rows > last[0] and sent < most:
        fitting = max(fitting, rows + (most - sent) * (rows - last[0]) // max(sent - last[1], 1))
    return max(sizes.least_rows, min(fitting, sizes.most_rows, GROWTH * before))


def first_rows(plan: Physical, source: str) -> int:
    """How many rows of a source a batch may take before anything is known of it."""
    if not is_light(plan, source):
        return sizes.raw_rows
    return sizes.assumed_rows if is_assumed(plan, source) else sizes.aggregated_rows


def rows_after_preview(rows: int, sent: int) -> int:
    """How many rows a first batch may take when a preview of `rows` rows has sent `sent` bytes.

    >>> rows_after_preview(250_000, 1_000_000), rows_after_preview(250_000, 25_000_000)
    (32000000, 4026531)
    """
    return max(sizes.least_rows, min(sizes.folded_bytes * rows // max(sent, 1), sizes.most_first_rows))


def is_light(plan: Physical, source: str) -> bool:
    """True when readers send no raw rows of a source, only aggregates of many rows."""
    kinds = {op.id: type(op) for op in plan.reader}
    edges = [e for e in plan.exchanges if e.origin == ids.source_origin(source)]
    return all(kinds[e.source_op] in (Partial, Values, Leaf) for e in edges)


def is_assumed(plan: Physical, source: str) -> bool:
    """True when the hash tables of a source were chosen without statistics: the first batch brings them."""
    lfta = plan.lfta_of(source)
    return lfta is not None and lfta.assumed
