"""Settings, statistics and choices of shared taggers over keyed streams; all of them are stored in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.engine.adapt.operator_totals import OperatorTotals
from tidemill.engine.adapt.sharing import read_row_costs
from tidemill.errors import PlanProblem
from tidemill.optimize.lower.placement import name_of
from tidemill.optimize.views.predict import measure_streams
from tidemill.optimize.views.shared_taggers import SharedTagger, find_taggers, take_apart, widen_tagger
from tidemill.optimize.views.streams import Lookup, StreamRate, stream_name
from tidemill.optimize.views.tagging import MODES, TaggingSettings, choose_finer, choose_taggers
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.physical import Physical, ids
from tidemill.plan.relations import Relation
from tidemill.plan.scalars import ColumnRef
from tidemill.sql.catalog import Catalog

_FINER = ids.node("finer", "")  # how the names of finer groupings begin


class Tagging:
    """What is known of keyed streams, and which queries share a tagger."""

    def __init__(self, catalog: Catalog) -> None:
        self.stored: dict[str, Any] = catalog.settings.setdefault("tagging", {})
        taggers = self.stored.setdefault("taggers", {})
        self.settings = TaggingSettings(
            mode=self.stored.get("shared_tagging", "auto"),
            costs=read_row_costs(),
            taggers={name: SharedTagger.from_json(found) for name, found in taggers.items()},
            rates={name: StreamRate(*found) for name, found in self.stored.setdefault("rates", {}).items()},
            values=self.stored.setdefault("values", {}),
            finer_rows=self.stored.setdefault("finer_rows", {}),
        )

    def set(self, name: str, value: str) -> None:
        """Change the setting: for queries that begin from now on, and for finer groupings of all."""
        if value.lower() not in MODES:
            raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"one of {', '.join(MODES)}")
        self.stored[name] = self.settings.mode = value.lower()

    def describe(self) -> dict[str, Any]:
        """What SHOW SETTINGS says: the value in force."""
        return {"shared_tagging": self.settings.mode}

    def choose(self, roots: Iterable[Relation], version: int) -> None:
        """Choose the taggers of queries that begin with this plan version; forget those of queries that are gone."""
        roots = list(roots)
        choose_taggers(roots, version, self.settings)
        live = {tag.fingerprint: tag for tag in find_taggers(roots)}
        for gone in [name for name in self.settings.taggers if name not in live]:
            del self.settings.taggers[gone]
        self.stored["taggers"] = {name: shared.to_json() for name, shared in self.settings.taggers.items()}
        found = ((take_apart(live[name]), shared) for name, shared in self.settings.taggers.items())
        shared = {widen_tagger(parts, shared).fingerprint for parts, shared in found if parts is not None}
        for gone in [name for name in self.settings.finer_rows if name not in shared]:
            del self.settings.finer_rows[gone]

    def is_outdated(self, plan: Physical, roots: Iterable[Relation]) -> bool:
        """Whether other finer groupings pay than those of the plan, by what was counted since it was made."""
        if not self.settings.taggers:
            return False
        running = {op.id for op in plan.stage if op.id.startswith(_FINER)}
        return running != {_FINER + name for name in choose_finer(roots, self.settings)}

    def learn(self, plan: Physical, totals: OperatorTotals, roots: Iterable[Relation]) -> None:
        """Take in what was counted for these roots: the records and keys of streams, how many values their columns
        have, and what finer groupings added up.
        """
        rates = measure_streams(plan, totals.count_of)
        self.settings.rates |= rates
        self.stored["rates"] |= {name: list(rate) for name, rate in rates.items()}
        for stream, values in measure_values(roots, totals.count_of).items():
            self.settings.values.setdefault(stream, {}).update(values)
        for op, count in list(totals.counts.items()):
            if op.startswith(_FINER) and count.rows_in:
                self.settings.finer_rows[op.removeprefix(_FINER)] = count.rows_out / count.rows_in


def measure_values(roots: Iterable[Relation], counted: Lookup) -> dict[str, dict[str, float]]:
    """How many values a column has, by stream and column: the groups of a grouping by that column alone, over all rows
    of the stream.
    """
    found: dict[str, dict[str, float]] = {}
    for root in roots:
        for node in walk(root):
            named = _grouped_column(node) if isinstance(node, r.GroupBy) else None
            known = counted(name_of(node)) if isinstance(node, r.GroupBy) else None
            if named is not None and known is not None and known.size > 0:
                found.setdefault(named[0], {})[named[1]] = known.size
    return found


def _grouped_column(node: r.GroupBy) -> tuple[str, str] | None:
    """The stream and the column whose values are the groups."""
    below = node.input
    if len(node.keys) != 1 or not isinstance(below, r.Project) or not isinstance(below.input, r.Tag):
        return None
    parts = take_apart(below.input)
    value = {item.name: item.value for item in below.items}[node.keys[0]]
    if parts is None or parts.predicate is not None or not isinstance(value, ColumnRef):
        return None
    return stream_name(parts), value.name
