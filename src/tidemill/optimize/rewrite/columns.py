"""The tagger keeps only the columns that are read."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.relations import Relation


def prune_tagger(node: Relation) -> Relation | None:
    """Narrow the state of a tagger to its key and the columns of the projection above it.

    Project[e]             Project[e]
      Tag[a, b, ts]   →      Tag[a]

    A synchronizer on points may stand between them, unless its points are made of the tagger's rows.
    """
    if not isinstance(node, r.Project):
        return None
    between = node.input if isinstance(node.input, r.SynchronizeOn) else None
    tag = node.input if between is None else between.input
    if not isinstance(tag, r.Tag) or (between is not None and any(n is tag for n in walk(between.points))):
        return None
    read = {c for item in node.items for c in item.value.columns} | set(tag.keys)
    kept = tuple(c for c in tag.columns if c in read)
    if kept == tag.columns:
        return None
    narrow = r.Tag(tag.input, tag.keys, kept, tag.deleted)
    return r.Project(narrow if between is None else r.SynchronizeOn(narrow, between.points), node.items)
