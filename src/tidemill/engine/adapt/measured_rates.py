"""Rows that relations bring in a second of event time, as the operators of running views have counted them.

A new query is another relation than an older one with the same text: it sees its streams from its own beginning on. Its
rates are the same, so relations are known here without their beginnings.
"""

from __future__ import annotations

from dataclasses import replace

from tidemill.engine.adapt.operator_totals import OperatorTotals
from tidemill.optimize.lower.placement import name_of
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.physical import ids
from tidemill.plan.relations import Relation


class MeasuredRates:
    """Looks up what was counted; without totals nothing was. Relations are compared when that is first needed: a
    database that has never run has nothing to look up.
    """

    def __init__(self, totals: OperatorTotals | None = None) -> None:
        self._totals = totals
        self._new: list[Relation] = []  # views that are not in `_operators` yet
        self._operators: dict[str, list[str]] = {}  # by the fingerprint of a relation without its beginning
        self._outputs: dict[str, list[str]] = {}  # the same for whole views: what lets their changes out
        self._always: dict[str, Relation] = {}  # relations without their beginnings

    def learn(self, view: Relation) -> None:
        """A view stands: its operators count."""
        self._new.append(view)

    def forget(self) -> None:
        """Forget all views."""
        for known in (self._operators, self._outputs, self._always):
            known.clear()
        self._new.clear()

    def find(self, node: Relation) -> float | None:
        """Rows of a relation in a second of event time; None where none of its kind was counted."""
        totals = self._totals
        if totals is None or not totals.counts:
            return None
        if isinstance(node, r.Scan):
            return None if node.static else totals.rate_out(ids.scan(node.source))
        self._compare_new()
        name = self._without_birth(node).fingerprint
        counted = [totals.rate_out(op) for op in self._operators.get(name, ())]
        counted += [totals.rate_in(op) for op in self._outputs.get(name, ())]
        return next((rate for rate in counted if rate is not None), None)

    def _compare_new(self) -> None:
        for view in self._new:
            outputs = self._outputs.setdefault(self._without_birth(view).fingerprint, [])
            outputs.append(ids.view_output(view.fingerprint))
            for node in walk(view):
                if isinstance(node, Relation) and not isinstance(node, (r.Scan, r.View)):
                    self._note(node, name_of(node))
        self._new.clear()

    def _note(self, node: Relation, op: str) -> None:
        """The operator counts this relation, and below projections the one that has as many rows: linear operators that
        run as one statement are counted under the name of the last.
        """
        while not isinstance(node, (r.Scan, r.View)):
            self._operators.setdefault(self._without_birth(node).fingerprint, []).append(op)
            if not isinstance(node, r.Project):
                return
            node = node.input

    def _without_birth(self, node: Relation) -> Relation:
        """The relation as if it had always been there; views by what they compute."""
        known = self._always.get(node.fingerprint)
        if known is None:
            known = self._always[node.fingerprint] = self._strip(node)
        return known

    def _strip(self, node: Relation) -> Relation:
        if isinstance(node, r.View):
            return self._without_birth(node.input)
        if isinstance(node, r.Union) and isinstance(node.inputs[0], r.View) and node.inputs[0].late:
            return self._without_birth(node.inputs[0])  # what is stored of the view comes once
        if isinstance(node, r.Scan):
            return replace(node, birth=0)
        inputs = [c for c in node.children if isinstance(c, Relation)]
        return r.with_children(node, *map(self._without_birth, inputs)) if inputs else node
