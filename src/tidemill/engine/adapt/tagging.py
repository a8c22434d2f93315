"""Settings, statistics and choices of shared taggers over keyed streams; all of them are stored in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.engine.adapt.operator_totals import OperatorTotals
from tidemill.engine.adapt.sharing import read_row_costs
from tidemill.errors import PlanProblem
from tidemill.optimize.views.predict import measure_streams
from tidemill.optimize.views.shared_taggers import SharedTagger, find_taggers, take_apart, widen_tagger
from tidemill.optimize.views.tagging import MODES, StreamRate, TaggingSettings, choose_finer, choose_taggers
from tidemill.plan.physical import Physical, ids
from tidemill.plan.relations import Relation
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

    def learn(self, plan: Physical, totals: OperatorTotals) -> None:
        """Take in what was counted: the records and keys of streams, and what finer groupings added up."""
        for name, (records, keys) in measure_streams(plan, totals.counted).items():
            self.settings.rates[name] = StreamRate(records, keys)
            self.stored["rates"][name] = [records, keys]
        for op, count in list(totals.counts.items()):
            if op.startswith(_FINER) and count.rows_in:
                self.settings.finer_rows[op.removeprefix(_FINER)] = count.rows_out / count.rows_in
