"""What some of several queries select: the predicate of the tagger that they share (paper 004, figure 12, a′).

    p, q, …   →   p OR q OR …

A record that no query selects deletes its key in the shared tagger, as a record that fails its own predicate does in a
query's own tagger. So the state holds the rows that some query shows, and what no query shows causes no change. Each
query keeps its own predicate above: where that holds, so does the disjunction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.optimize.views.canonical import bare, canonical, conjuncts
from tidemill.optimize.views.implication import Implication
from tidemill.plan.scalars import Chain, ColumnRef, Paren, Scalar, Template, flatten

MOST_SELECTIONS = 16  # of a disjunction; with more of them all rows are kept


def unite_selections(selections: Sequence[Scalar | None], types: Mapping[str, str]) -> Scalar | None:
    """The disjunction, without selections that imply another one; None where everything is selected.

    `types` has the types of the columns.

    >>> from tidemill.plan.scalars import Literal, Operation
    >>> tests = ((">", "80"), (">", "90"), ("<", "5"))
    >>> hot, hotter, cold = (Operation(sign, ColumnRef("t"), Literal(number)) for sign, number in tests)
    >>> unite_selections([hotter, hot, cold], {"t": "INTEGER"}).sql
    '("t" < 5) OR ("t" > 80)'
    >>> unite_selections([hot, None], {"t": "INTEGER"})
    """
    given = [selection for selection in selections if selection is not None]
    if len(given) < len(selections):
        return None
    different = {canonical(selection): bare(selection) for selection in given}
    implication = Implication([canonical(ColumnRef(name)) for name, kind in types.items() if kind == "VARCHAR"])
    kept = dict(sorted(different.items()))
    for name, selection in different.items():
        others = [other for other in kept if other != name]
        if any(implication.holds(list(conjuncts(selection)), kept[other]) for other in others):
            del kept[name]
    if not kept or len(kept) > MOST_SELECTIONS:
        return None
    found = list(kept.values())
    return flatten(found[0] if len(found) == 1 else Chain("OR", tuple(map(Paren, found))))


def selection_to_json(selection: Scalar | None) -> dict[str, Any] | None:
    """The text of a predicate around its columns.

    >>> from tidemill.plan.scalars import Literal, Operation
    >>> hot = Operation(">", ColumnRef("t"), Literal("80"))
    >>> selection_to_json(hot)
    {'texts': ['', ' > 80'], 'columns': ['t']}
    >>> selection_from_json(selection_to_json(hot)) == hot
    True
    """
    if selection is None:
        return None
    flat = flatten(selection)
    return {"texts": list(flat.texts), "columns": [next(iter(hole.columns)) for hole in flat.holes]}


def selection_from_json(found: Mapping[str, Any] | None) -> Scalar | None:
    """The predicate of a text that was kept."""
    return None if found is None else Template(tuple(found["texts"]), tuple(map(ColumnRef, found["columns"])))
