"""The tagger keeps only the columns that are read."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation


def prune_tagger(node: Relation) -> Relation | None:
    """Narrow the state of a tagger to its key and the columns of the projection above it.

    Project[e]             Project[e]
      Tag[a, b, ts]   →      Tag[a]
    """
    if not isinstance(node, r.Project) or not isinstance(node.input, r.Tag):
        return None
    tag = node.input
    read = {c for item in node.items for c in item.value.columns} | set(tag.keys)
    kept = tuple(c for c in tag.columns if c in read)
    if kept == tag.columns:
        return None
    return r.Project(r.Tag(tag.input, tag.keys, kept, tag.deleted), node.items)
