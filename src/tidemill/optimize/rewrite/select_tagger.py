"""The merged select-tagger (paper 004, section 10.3.1)."""

from __future__ import annotations

from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import template


def merge_select_tagger(node: Relation) -> Relation | None:
    """Let the tagger keep only the rows that satisfy the selection.

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
    if node.predicate.columns <= set(tag.keys):
        return r.Tag(r.Filter(tag.input, node.predicate), tag.keys, tag.columns, tag.deleted)
    fails = template("coalesce(NOT ({0}), TRUE)", node.predicate)
    deleted = fails if tag.deleted is None else template("(coalesce({0}, FALSE) OR {1})", tag.deleted, fails)
    return r.Tag(tag.input, tag.keys, tag.columns, deleted)
