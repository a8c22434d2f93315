"""The dead letters of one reader, in the order in which they were put aside."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pyarrow as pa

from tidemill.plan.sources import SourceSpec
from tidemill.runtime.messages.assignments import Work
from tidemill.runtime.messages.dead_letters import make_dead_letters, row_positions, row_texts


@dataclass
class DeadLetters:
    """Records and rows that are kept as dead letters."""

    tables: list[pa.Table] = field(default_factory=list)

    def add_records(self, spec: SourceSpec, bad: pa.Table) -> None:
        """Records that cannot be read (reason, raw, position), where the source keeps them."""
        if spec.on_error != "dead_letter":
            return
        reasons, raws, places = (bad.column(i) for i in range(3))
        sources = pa.repeat(pa.scalar(spec.name, pa.string()), bad.num_rows)
        self.tables.append(
            pa.table(
                {
                    "source": sources,
                    "reason": reasons.cast(pa.string()),
                    "raw": raws.cast(pa.binary()),
                    "position": places.cast(pa.string()),
                }
            )
        )

    def add_rows(self, spec: SourceSpec, rows: pa.Table, reason: str) -> None:
        """Rows of a source. A late row is good data: it is kept whatever on_error is set to for records that cannot be
        read.
        """
        visible = [c.name for c in spec.columns if c.name in rows.column_names]
        self.tables.append(make_dead_letters(spec.name, reason, row_texts(rows.select(visible)), row_positions(rows)))

    def add_row_error(self, source: str, rows: pa.Table, reason: str) -> None:
        """Rows on which an expression failed, with the source that they came from."""
        self.tables.append(make_dead_letters(source, reason, row_texts(rows), row_positions(rows)))

    def add_piece(self, spec: SourceSpec, work: Work, reason: str) -> None:
        """A whole piece that cannot be read."""
        nothing = pa.array([b""], pa.binary())
        place = pa.array([json.dumps([work.piece.start, work.piece.end])], pa.string())
        self.tables.append(make_dead_letters(spec.name, reason, nothing, place))
