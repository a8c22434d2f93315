"""The merged select-tagger (paper 004, section 10.3.1)."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import columns_of


def merge_select_tagger(node: Relation) -> Relation | None:
    """Let the tagger keep only what the selection lets through.

        Filter[p]                 Tag[key, deleted or not p]
          Tag[key, deleted]  →      records
            records

    A record that fails p deletes its key: the tagger then stores qualifying rows only, and p is evaluated once for each
    record instead of once for the new and once for the old row. A predicate on the key alone cannot change
    for a key, so it drops the records before they travel.
    """
    if not isinstance(node, r.Filter) or not isinstance(node.input, r.Tag):
        return None
    tag = node.input
    if columns_of(node.predicate) <= set(tag.keys):
        return r.Tag(r.Filter(tag.input, node.predicate), tag.keys, tag.columns, tag.deleted)
    fails = f"coalesce(NOT ({node.predicate}), TRUE)"
    deleted = f"(coalesce({tag.deleted}, FALSE) OR {fails})" if tag.deleted else fails
    return r.Tag(tag.input, tag.keys, tag.columns, deleted)
