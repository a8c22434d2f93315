"""What one read of one file gives, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.columns import arrow_schema
from tidemill.runtime.sources.files.log import Entry
from tidemill.runtime.sources.records import Bad, position_text


@dataclass
class Slab:
    """Typed rows, the place of each in its file, the bad records, and how often fields came that are not declared."""

    rows: pa.Table
    places: np.ndarray | range
    bad: list[Bad]
    undeclared: dict[str, int] = field(default_factory=dict)


def lost_slab(entry: Entry, at: int, reason: str, raw: bytes, spec: SourceSpec) -> Slab:
    """No rows, one bad record."""
    place = position_text(file=entry.n, at=at, path=entry.path)
    return Slab(arrow_schema(spec.columns).empty_table(), np.empty(0, np.int64), [(reason, raw, place)])
