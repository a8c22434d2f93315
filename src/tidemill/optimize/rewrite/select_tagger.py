"""The merged select-tagger (paper 004, section 10.3.1)."""

from __future__ import annotations

from tidemill.optimize.views.canonical import canonical
from tidemill.optimize.views.total import is_total_condition
from tidemill.plan import relations as r
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef, Literal, Scalar, Template, conjunction, template

_FAILS = "coalesce(NOT ({0}), TRUE)"
_EITHER = "(coalesce({0}, FALSE) OR {1})"


def merge_select_tagger(node: Relation) -> Relation | None:
    """Let the tagger keep only the rows that satisfy the selection.

        Filter[p]                 Tag[key, deleted or not p]
          Tag[key, deleted]  →      records
            records

    A record that fails p deletes its key: the tagger then stores qualifying rows only, and p is evaluated once for each
    record instead of once for the new and once for the old row. A predicate on the key alone cannot change
    for a key, so it drops the records before they travel.

    Not where p may fail: the record would be put aside before the tagger, and the row that it replaces would stay.
    """
    if not isinstance(node, r.Filter) or not isinstance(node.input, r.Tag):
        return None
    types = {canonical(ColumnRef(c.name)): c.type for c in node.schema}
    own = is_total_condition(node.predicate, types) or node.predicate.columns <= set(node.input.keys)
    return merge_any_selection(node) if own else None


def merge_any_selection(node: Relation) -> Relation | None:
    """The same where p may fail as well: in plans of views that were created when the rule did so."""
    if not isinstance(node, r.Filter) or not isinstance(node.input, r.Tag):
        return None
    tag = node.input
    if node.predicate.columns <= set(tag.keys):
        return r.Tag(r.Filter(tag.input, node.predicate), tag.keys, tag.columns, tag.deleted)
    fails = template(_FAILS, node.predicate)
    deleted = fails if tag.deleted is None else template(_EITHER, tag.deleted, fails)
    return r.Tag(tag.input, tag.keys, tag.columns, deleted)


def split_selection(tag: r.Tag) -> tuple[Scalar | None, Scalar | None]:
    """(what deletes a key apart from the selection, the selection that is merged in): undoes the rule."""
    deleted, selections = tag.deleted, list[Scalar]()
    while (parts := _holes(_EITHER, deleted)) is not None and (inner := _holes(_FAILS, parts[1])) is not None:
        deleted = parts[0]
        selections += inner
    if (last := _holes(_FAILS, deleted)) is not None:
        deleted = None
        selections += last
    return deleted, conjunction(*reversed(selections))


def _holes(text: str, value: Scalar | None) -> tuple[Scalar, ...] | None:
    """The expressions that stand in a template, if the value is one of it."""
    wanted = template(text, Literal("0"), Literal("0"))
    return value.holes if isinstance(value, Template) and value.texts == wanted.texts else None
