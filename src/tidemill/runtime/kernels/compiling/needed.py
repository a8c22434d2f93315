"""Which groups of kernels a plan uses, so that only those are compiled before it runs.

A group that is missing here costs time, not answers: calling a kernel that is not compiled compiles it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.plan import physical as p
from tidemill.plan.physical import Physical
from tidemill.plan.sources import SourceSpec

# Seconds that compiling a group takes one processor of today.
SECONDS = {
    "lines": 5,
    "spool": 1,
    "edges": 1,
    "tables": 14,
    "pages": 5,
    "sketches": 1,
    "tagging": 1,
    "versions": 1,
    "extremes": 1,
    "ranks": 4,
    "sliding": 8,
    "running": 13,
    "delta_join": 8,
}
_OF_FORMATS = {"parquet": ("pages",), "csv": ("lines",), "json": ("lines",)}
_OF_OPERATORS: dict[type[p.Op], tuple[str, ...]] = {
    p.Tagger: ("tagging",),
    p.Lfta: ("edges", "tables", "sketches", "sliding", "running"),
    p.Leaf: ("sliding",),
    p.Weave: ("sliding",),
    p.Weaved: ("sliding",),
    p.WeaveNumbered: ("sliding",),
    p.JoinAggregate: ("delta_join", "extremes"),
    p.Group: ("extremes", "delta_join"),
    p.NumberedRows: ("delta_join",),
    p.JointGroup: ("versions", "extremes", "delta_join"),
    p.Rstream: ("delta_join",),
    p.Ranked: ("ranks", "delta_join"),
    p.WindowFunctions: ("ranks", "delta_join"),
}


def groups_of(plan: Physical) -> tuple[str, ...]:
    """The groups of a plan, those that take longest first."""
    found = {"edges"} if plan.sources else set()
    for spec in plan.sources:
        found.update(_of_source(spec))
    for op in (*plan.reader, *plan.stage):
        found.update(_OF_OPERATORS.get(type(op), ()))
    return tuple(sorted(found, key=lambda group: -SECONDS[group]))


def _of_source(spec: SourceSpec) -> Iterator[str]:
    if spec.kind == "port":
        yield "spool"
    if spec.kind != "generate":
        yield from _OF_FORMATS.get(spec.format or "", ())
