"""Settings and statistics of aggregation joins: users change the settings, shards send the statistics.

Both are stored in the catalog, as those of shared aggregation are (`engine/adapt/sharing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tidemill.engine.adapt.drift import Drift
from tidemill.engine.adapt.history import PlanHistory, Subject
from tidemill.engine.adapt.sharing import read_join_constants
from tidemill.errors import PlanProblem
from tidemill.optimize.joins.decide import METHODS, HotKey, JoinSettings, cost_of, find_better_plan
from tidemill.optimize.joins.hot_keys import MOST_KEYS, find_suspects, worth_splitting
from tidemill.optimize.joins.measure import blend_statistics, event_seconds, measure_batch
from tidemill.optimize.joins.stored_statistics import JoinStatistics
from tidemill.plan import physical as p
from tidemill.plan.aggregation_joins import analyze_join
from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.node import walk
from tidemill.plan.relations import JoinAggregate, Relation
from tidemill.sql.catalog import Catalog


class JoinPlanning:
    """Settings and statistics of all aggregation joins."""

    def __init__(self, catalog: Catalog, history: PlanHistory | None = None) -> None:
        self.history = history or PlanHistory.of(catalog)
        self.stored: dict[str, Any] = catalog.settings.setdefault("joining", {})
        self.settings = JoinSettings(
            mode=self.stored.get("early_aggregation", "auto"),
            method=self.stored.get("join_method", "hash"),
            constants=read_join_constants(),
            statistics=self.stored.setdefault("statistics", {}),
            plans=self.stored.setdefault("plans", {}),
            hot_keys=self.stored.get("hot_keys", "auto"),
            hot={join: [HotKey(*key) for key in keys] for join, keys in self.stored.setdefault("hot", {}).items()},
        )
        self.suspected: dict[str, set[int]] = {}  # by join: keys that were hot in the last batch
        self.last: dict[str, JoinStatistics] = {}  # by join: statistics of the last batch alone
        self.drift = Drift()

    def set(self, name: str, value: str) -> None:
        """Change one setting; bad values are refused with what is possible."""
        found = JOIN_SETTINGS[name](name, value)
        self.stored[name] = found
        setattr(self.settings, {"early_aggregation": "mode", "join_method": "method"}.get(name, name), found)
        if name == "early_aggregation" and found == "auto":
            self.settings.plans.clear()

    def describe(self) -> dict[str, Any]:
        """What SHOW SETTINGS says: the values in force."""
        return {
            "early_aggregation": self.settings.mode,
            "join_method": self.settings.method,
            "hot_keys": self.settings.hot_keys,
        }

    def forget(self, roots: Iterable[Relation]) -> None:
        """Drop what is known of joins that no view reads any more."""
        live = {n.fingerprint for root in roots for n in walk(root) if isinstance(n, JoinAggregate)}
        known: dict[str, Any]
        for known in (self.settings.statistics, self.settings.plans, self.settings.hot, self.stored["hot"], self.last):
            for gone in [print_ for print_ in known if print_ not in live]:
                del known[gone]

    def learn(
        self, node: JoinAggregate, op: p.JoinAggregate, notes: Sequence[JoinCounts], *, look: bool, pinned: bool
    ) -> bool:
        """Take in what the shards counted in a batch; True when another plan is to be installed.

        Another plan is searched for when that is due (`look`), and when costs have drifted from the prediction.
        """
        step = self._split_sent_keys(node, op)
        if not any(i.changes for note in notes for i in note.inputs):
            return step
        drifted = self._take_in(node, op, notes)
        if node.fingerprint not in self.settings.statistics:
            return step
        self.settings.pinned = pinned
        if not pinned and self.settings.hot_keys == "auto":
            step |= self._find_hot_keys(node, op, notes)
        subject = Subject("join", node.fingerprint)
        if step:
            self.history.record_reason(subject, "hot keys")
        best = find_better_plan(node, self.settings) if look or drifted else None
        now = cost_of(node, self.settings, self.settings.statistics[node.fingerprint])
        if look or drifted:
            self.drift.expect(node.fingerprint, plan_bits(op), now)
        if best is None:
            return step
        self.history.record_reason(subject, "drift" if drifted else "statistics", now)
        self.settings.plans[node.fingerprint] = best.plan
        self.drift.expect(node.fingerprint, plan_bits(op, best.plan), best.cost)
        return True

    def _take_in(self, node: JoinAggregate, op: p.JoinAggregate, notes: Sequence[JoinCounts]) -> bool:
        """Mix the statistics of the batch with those before it. True when this batch and the last one differ from the
        prediction: then the statistics begin again with these two.
        """
        name, known = node.fingerprint, self.settings.statistics
        early = [i.early for i in op.joined]
        # Rows of static tables precede all times: a batch with no others gives no rates.
        if not event_seconds(node, notes, known.get(name))[0]:
            return False
        fresh = measure_batch(node, analyze_join(node), notes, early, known.get(name))
        cost = cost_of(node, self.settings, fresh) if name in self.settings.plans else 0.0
        self.history.record_cost(Subject("join", name), cost)
        drifted = self.drift.observe(name, plan_bits(op), cost)
        known[name] = blend_statistics(self.last.get(name) if drifted else known.get(name), fresh)
        self.last[name] = fresh
        return drifted

    def split(self, node: JoinAggregate, keys: Iterable[HotKey]) -> None:
        """Treat these keys as hot from the next plan on, for good: the rows of a split key are in all shards."""
        known = {k.hash: k for k in self.settings.hot.get(node.fingerprint, [])}
        for key in keys:
            if key.hash in known:
                known[key.hash] = replace(known[key.hash], split=known[key.hash].split or key.split)
            elif len(known) < MOST_KEYS:
                known[key.hash] = key
        if known:
            self.settings.hot[node.fingerprint] = list(known.values())
            self.stored["hot"][node.fingerprint] = [[k.hash, k.input, k.split, k.text] for k in known.values()]

    def _split_sent_keys(self, node: JoinAggregate, op: p.JoinAggregate) -> bool:
        """Split the hot keys whose rows every shard has sent in this batch. True when the plan that ran does not do so
        yet.
        """
        known, ran = self.settings.hot.get(node.fingerprint, []), op.hot
        if not known or ran is None:
            return False
        sent = {key.hash for key in ran.hot}
        self.split(node, [replace(k, split=True) for k in known if k.hash in sent])
        wanted = {k.hash: k.split for k in self.settings.hot[node.fingerprint]}
        return wanted != {h: h in ran.split for h in sent}

    def _find_hot_keys(self, node: JoinAggregate, op: p.JoinAggregate, notes: Sequence[JoinCounts]) -> bool:
        """Find keys that were worth splitting in two batches in a row; True when there are some."""
        able = op.hot
        known = {k.hash for k in self.settings.hot.get(node.fingerprint, [])}
        if able is None or len(known) >= MOST_KEYS:
            return False
        found = [s for s in find_suspects(notes) if s.hash not in known]
        worth = worth_splitting(found, notes, able.spread, self.settings.constants)
        before = self.suspected.get(node.fingerprint, set())
        again = [s for s in worth if s.hash in before][: MOST_KEYS - len(known)]
        if found or sum(n.pairs for n in notes):
            # A batch without pairs has no evidence either way.
            self.suspected[node.fingerprint] = {s.hash for s in worth}
        self.split(node, [HotKey(s.hash, s.spread(able.spread), text=s.text) for s in again])
        return bool(again)


def plan_bits(op: p.JoinAggregate, plan: str | None = None) -> str:
    """The bits of an operator's plan, or of `plan` for it; "-" for an input without aggregated columns."""
    bits = plan or "".join("01"[i.early] for i in op.joined)
    return "".join(bit if i.args else "-" for bit, i in zip(bits, op.joined, strict=True))


def _plan(name: str, value: str) -> str:
    text = value.lower()
    if text in ("auto", "late", "early") or (len(text) >= 2 and set(text) <= {"0", "1"}):
        return text
    raise PlanProblem(
        "TM217", f'{name} cannot be "{value}"', hint="auto, late, early, or a bit for each input, for example '10'"
    )


def _method(name: str, value: str) -> str:
    text = value.lower().replace("_", " ")
    if text not in METHODS:
        raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"one of {', '.join(METHODS)}")
    return text


def _hot(name: str, value: str) -> str:
    if value.lower() not in ("auto", "off"):
        raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint="auto or off; keys that are split stay so")
    return value.lower()


JOIN_SETTINGS: dict[str, Callable[[str, str], Any]] = {
    "early_aggregation": _plan,
    "join_method": _method,
    "hot_keys": _hot,
}
