"""Learns from batches: their statistics go into the workload, and tell when another plan is worth the change."""

from __future__ import annotations

from collections.abc import Iterator

from tidemill.engine.adapt.history import Subject
from tidemill.engine.adapt.operator_totals import OperatorTotals
from tidemill.engine.adapt.sharing import Pace
from tidemill.engine.workload import Workload
from tidemill.plan import physical
from tidemill.plan.measured.joins import JoinCounts
from tidemill.plan.node import walk
from tidemill.plan.physical import Physical, ids
from tidemill.plan.relations import JoinAggregate
from tidemill.runtime.views.batch_summary import BatchReport

Joined = tuple[JoinAggregate, physical.JoinAggregate, list[JoinCounts]]  # a node, its operator, what its shards counted


class Learner:
    """Takes the statistics of every batch in, and searches for a better plan as often as `Pace` allows."""

    def __init__(self, workload: Workload, totals: OperatorTotals) -> None:
        self._workload, self._totals = workload, totals
        self._pace = Pace()
        self.has_unsaved = False  # statistics that are not in the catalog file yet

    def learn(self, plan: Physical, report: BatchReport) -> bool:
        """Take in the statistics of a batch that ran with `plan`; True when another plan is cheaper by a margin."""
        search = self._pace.begin_batch()
        self.has_unsaved |= bool(report["joins"])
        searched, better = self._learn_windows(plan, report, search)
        for node, op, notes in self._joins(plan, report):
            pinned = self._workload.sharing.settings.pinned
            better |= self._workload.join_planning.learn(node, op, notes, look=search, pinned=pinned)
        better |= search and self._learn_taggers(plan)
        if search or searched:
            self._pace.record_search()
        return better

    @property
    def counts_matter(self) -> bool:
        """Whether there are finer groupings to decide on, by the counts of operators."""
        return self._workload.tagging.settings.mode == "auto" and bool(self._workload.tagging.settings.taggers)

    def _learn_taggers(self, plan: Physical) -> bool:
        """Counts of keyed streams: whether other finer groupings pay than those that run."""
        tagging = self._workload.tagging
        if not self.counts_matter or self._workload.sharing.settings.pinned:
            return False
        roots = [v.node for v in self._workload.running_views()]
        tagging.learn(plan, self._totals, roots)
        self.has_unsaved = True
        outdated = tagging.is_outdated(plan, roots)
        if outdated:
            self._workload.history.record_cause("rows of a keyed stream were counted")
        return outdated

    def _learn_windows(self, plan: Physical, report: BatchReport, search: bool) -> tuple[bool, bool]:
        """Statistics of shared windows: whether a search was made, and whether it found a better plan."""
        counted = [(op, n) for s, n in report["lfta"].items() if (op := plan.lfta_of(s)) is not None and n.rows]
        self.has_unsaved |= bool(counted)
        searched = better = False
        sharing, history = self._workload.sharing, self._workload.history
        goes_on = not report["final"]  # a plan found after the last batch of a run would change nothing
        for op, counts in counted:
            subject, rested = Subject("windows", op.source), self._pace.has_rested and goes_on
            learnt = sharing.learn(op, counts, search and goes_on, rested)
            searched |= learnt.searched
            if learnt.measured is not None:
                history.record_cost(subject, learnt.measured)
            if learnt.reason is not None:
                history.record_reason(subject, learnt.reason, sharing.predict_cost(op.source))
                better = True
        return searched, better

    def _joins(self, plan: Physical, report: BatchReport) -> Iterator[Joined]:
        """The aggregation joins that ran in a batch, with what every shard counted."""
        known = {op.id: op for op in plan.stage if isinstance(op, physical.JoinAggregate)}
        if not known:
            return
        nodes = {
            ids.node("meet", n.fingerprint): n
            for v in self._workload.views.values()
            for n in walk(v.node)
            if isinstance(n, JoinAggregate)
        }
        for name, notes in report["joins"].items():
            if name in nodes and name in known:
                yield nodes[name], known[name], notes
