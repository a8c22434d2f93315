"""Which columns of a source a plan needs: only those are decoded."""

from __future__ import annotations

from dataclasses import replace

from tidemill.plan.physical import HashTables, Linear, Physical
from tidemill.plan.sources import SourceSpec


def needed_columns(plan: Physical, scan: str) -> set[str]:
    """Columns of a source that some operator reads; all of them when raw rows travel."""
    every = {c.name for c in next(op for op in plan.reader if op.id == scan).schema}
    wanted: set[str] = set()
    whole = {scan}
    for op in plan.reader:
        if set(op.inputs) & whole:
            reads = op.reads if isinstance(op, (Linear, HashTables)) else ()
            wanted.update(every if reads is None else reads)
            if isinstance(op, Linear) and op.passes:
                whole.add(op.id)
    if any(e.source_op in whole for e in plan.exchanges):
        wanted |= every
    return wanted


def narrow_spec(spec: SourceSpec, needed: set[str]) -> SourceSpec:
    """Decode only what is read; text needs all its columns to find the fields and to judge the record."""
    if spec.kind in ("port", "kafka", "postgres") or spec.format in ("csv", "json") or spec.format is None:
        return spec
    judged = (spec.timestamp, spec.operation)
    kept = tuple(c for c in spec.columns if c.name in needed or c.name in judged) or spec.columns[:1]
    return replace(spec, columns=kept, unread=tuple(c for c in spec.columns if c not in kept))
