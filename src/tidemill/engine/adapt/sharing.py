"""Settings and statistics of shared aggregation: users change the settings, readers send the statistics.

Both are stored in the catalog, so a restarted database plans as before. Costs that `tidemill calibrate` measured on
this machine are stored for the user, and apply to databases without a setting of their own.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tidemill.engine.adapt.drift import Patience, differs
from tidemill.errors import PlanProblem, TidemillError
from tidemill.optimize.joins.cost import Constants as JoinConstants
from tidemill.optimize.share.costs import measured_cost, plan_costs
from tidemill.optimize.share.measure import reason_to_change, update_statistics
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.method import Method
from tidemill.optimize.share.reader_plan import ReaderPlan, Settings, plan_to_json
from tidemill.optimize.share.stored_statistics import WindowStatistics
from tidemill.optimize.views.cost import RowCosts
from tidemill.plan.measured.windows import SourceCounts
from tidemill.plan.physical import Lfta
from tidemill.runtime.paths import read_json, write_json
from tidemill.runtime.thresholds import sizes
from tidemill.sql.catalog import Catalog

WEAVING = ("gtweave", "weave_share", "shared", "unshared")
CHOOSERS = ("gc", "gp", "epes")
ALLOCATIONS = ("refined", "sl", "sr", "pl", "pr", "es")
# Units of 4 bytes: caches of less than 1 MB or more than 64 MB for a core are shared by many, or are told wrongly.
_SMALLEST, _LARGEST = 1 << 16, 4 << 20


class LearnResult(NamedTuple):
    """What a batch taught: the cost of the tables for each row (None if its plan is not the one in force), whether a
    search for another plan was made, and why the plan should change.
    """

    measured: float | None = None
    searched: bool = False
    reason: str | None = None


class Sharing:
    """Settings and statistics of all sources."""

    def __init__(self, catalog: Catalog) -> None:
        self.patience = Patience()
        self.expected_costs: dict[str, tuple[ReaderPlan, float]] = {}  # by source: the plan, its tables' expected cost
        self.stored: dict[str, Any] = catalog.settings.setdefault("sharing", {})
        measured = self.stored.setdefault("statistics", {})
        constants = self.stored.get("constants")
        self.settings = Settings(
            memory=int(self.stored.get("lfta_memory", 0)) or default_memory(),
            budget=4 * int(self.stored.get("lfta_memory", 0)) or None,
            phantoms=self.stored.get("phantoms", True),
            weaving=self.stored.get("weaving", "gtweave"),
            pinned=self.stored.get("pin_plan", False),
            cells=self.stored.get("cells", True),
            constants=Constants(**constants) if constants else read_constants(),
            statistics=measured,
            method=Method(
                self.stored.get("phantom_choice", "gc"),
                self.stored.get("space_allocation", "refined"),
                self.stored.get("peak_load"),
            ),
            stored_plans=self.stored.setdefault("pinned", {}),
        )

    def set(self, name: str, value: str) -> None:
        """Change one setting; bad values are refused with what is possible."""
        found = SHARING[name](name, value)
        if name == "eviction_cost":
            self.stored["constants"] = {"c1": 1.0, "c2": found}
            self.settings.constants = Constants(1.0, found)
            return
        self.stored[name] = found
        if name in _METHOD:
            self.settings.method = replace(self.settings.method, **{_METHOD[name]: found})
            return
        field = {"lfta_memory": "memory", "pin_plan": "pinned"}.get(name, name)
        setattr(self.settings, field, found)
        if name == "lfta_memory":
            self.settings.budget = 4 * found
        if name == "pin_plan":  # pinned plans stay pinned when the database is opened again
            self.settings.stored_plans.clear()
            self.settings.stored_plans.update(
                {s: plan_to_json(plan) for s, plan in self.settings.reader_plans.items()} if found else {}
            )

    def describe(self) -> dict[str, Any]:
        """What SHOW SETTINGS says: the values in force."""
        s = self.settings
        return {
            "lfta_memory": s.memory,
            "phantoms": "on" if s.phantoms else "off",
            "weaving": s.weaving,
            "cells": "on" if s.cells else "off",
            "pin_plan": "on" if s.pinned else "off",
            "eviction_cost": s.constants.c2 / s.constants.c1,
            "phantom_choice": s.method.chooser,
            "space_allocation": s.method.allocation,
            "peak_load": "none" if s.method.peak is None else s.method.peak,
        }

    def learn(self, op: Lfta, counts: SourceCounts, look: bool = True, rested: bool = True) -> LearnResult:
        """Take in what a batch counted. Another plan is searched for when that is due (`look`), and, if there is time
        (`rested`), when costs have drifted or the peak load is exceeded.
        """
        source = op.source
        plan, before = self.settings.reader_plans.get(source), self.settings.statistics.get(source, {})
        self.settings.statistics[source] = now = update_statistics(op, counts, before)
        if plan is None:
            return LearnResult()
        measured = measured_cost(plan, now, self.settings.constants)
        self._expect(source, plan, before)
        off = measured is not None and differs(self.expected_costs[source][1], measured)
        drifted = self.patience.observe(source, off or self._is_overloaded(plan, now))
        if not (look or (drifted and rested)):
            return LearnResult(measured)
        why = reason_to_change(source, plan, self.settings)
        self.patience.record_search(source, why is not None)
        if why is None:
            self.expected_costs[source] = plan, plan_costs(plan, now, self.settings).tables
        elif why == "statistics" and off and measured is not None:
            why = f"statistics: cost {measured:.3g}, predicted {self.expected_costs[source][1]:.3g}"
        return LearnResult(measured, searched=True, reason=why)

    def learn_preview(self, op: Lfta, counts: SourceCounts) -> bool:
        """Take in what a preview of some rows counted; True when another plan is better. Its rates are those of the
        batches to come; its shares are scaled up to a full batch.
        """
        source = op.source
        self.settings.statistics[source] = found = update_statistics(op, counts, {})
        rows, seconds = found["share"]
        factor = max(1.0, sizes.running_rows / rows)
        found["share"] = [factor * rows, factor * seconds]
        plan = self.settings.reader_plans.get(source)
        return plan is not None and reason_to_change(source, plan, self.settings) is not None

    def _expect(self, source: str, plan: ReaderPlan, before: WindowStatistics) -> None:
        """A new plan is compared with the cost that was predicted when it was chosen."""
        known = self.expected_costs.get(source)
        if known is None or known[0] is not plan:
            self.patience.forget(source)
            self.expected_costs[source] = plan, plan_costs(plan, before, self.settings).tables

    def _is_overloaded(self, plan: ReaderPlan, measured: WindowStatistics) -> bool:
        limit = self.settings.method.peak
        return limit is not None and plan_costs(plan, measured, self.settings).peak > limit

    def forget(self, live: Collection[str]) -> None:
        """Drop what is known of sources that are not registered any more."""
        known: dict[str, Any]
        s = self.settings
        for known in (s.statistics, s.reader_plans, s.stored_plans, s.searches):
            for gone in [source for source in known if source not in live]:
                del known[gone]

    def predict_cost(self, source: str) -> float | None:
        """What the tables of the plan in force cost for each row, by the newest statistics."""
        plan = self.settings.reader_plans.get(source)
        return plan_costs(plan, self.settings.statistics.get(source, {}), self.settings).tables if plan else None


class Pace:
    """When to search for a better plan: after the first batches, then ever less often, and never for more than a
    twentieth of the time.
    """

    def __init__(self) -> None:
        self.batches, self.next, self.began, self.rest = 0, 1, 0.0, 0.0

    def begin_batch(self) -> bool:
        """Called for every batch; True when a search is due."""
        self.batches += 1
        self.began = time.monotonic()
        return self.batches >= self.next and self.has_rested

    @property
    def has_rested(self) -> bool:
        """Whether enough time has passed since the last search, for the time that it took."""
        return self.began >= self.rest

    def record_search(self) -> None:
        """The search is over: the longer it took, the longer until the next one."""
        now = time.monotonic()
        self.next = min(2 * self.batches, self.batches + 32)
        self.rest = now + 20 * (now - self.began)


def costs_path() -> str:
    """Where a user's measured costs are kept: they belong to the machine and can be measured again."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "tidemill", "costs.json")


def keep_costs(
    eviction: float,
    seconds: dict[str, float],
    joins: dict[str, float] | None = None,
    pipelines: dict[str, float] | None = None,
) -> str:
    """Store the cost of an eviction in probes, what it was computed from, and the constants of joins and of pipelines
    over keyed streams in nanoseconds.

    Values that were not measured this time stay. Returns the path of the file.
    """
    found: dict[str, Any] = {"eviction_cost": eviction, "seconds": seconds, "joins": joins, "pipelines": pipelines}
    write_json(costs_path(), _read_costs() | {name: value for name, value in found.items() if value is not None})
    return costs_path()


def _read_costs() -> dict[str, Any]:
    """All costs that were measured on this machine; none where the file cannot be read."""
    try:
        found = read_json(costs_path())
    except (OSError, ValueError, TidemillError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def read_constants() -> Constants:
    """The constants that were measured on this machine, or those of the paper where the file cannot be read."""
    try:
        found = float((read_json(costs_path()) or {})["eviction_cost"])
        return Constants(1.0, found) if 0 < found < math.inf else Constants()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TidemillError):
        return Constants()


def read_join_constants() -> JoinConstants:
    """The constants of joins that were measured on this machine, or rough defaults."""
    try:
        found = {k: float(v) for k, v in _read_costs().get("joins", {}).items()}
        return JoinConstants(**found) if all(0 < v < math.inf for v in found.values()) else JoinConstants()
    except (ValueError, TypeError, AttributeError):
        return JoinConstants()


def read_row_costs() -> RowCosts:
    """What rows cost in pipelines over keyed streams, as measured on this machine, or rough defaults."""
    try:
        return RowCosts(**{k: float(v) for k, v in _read_costs().get("pipelines", {}).items()})
    except (ValueError, TypeError, AttributeError):
        return RowCosts()


def default_memory() -> int:
    """A quarter of the last-level cache in units of 4 bytes: an eviction costs far more than a probe that leaves the
    inner caches.
    """
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [_bytes(p.read_text()) for p in folder.glob("index*/size")] if folder.is_dir() else []
    share = max(sizes, default=32 << 20) // 4 // max(1, (os.cpu_count() or 1) // 2)
    return min(_LARGEST, max(_SMALLEST, share // 4))


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]] if found else 0


def _switch(name: str, value: str) -> bool:
    words = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
    if value.lower() not in words:
        raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"SET {name} = on or SET {name} = off")
    return words[value.lower()]


def _units(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()) or not 1 <= int(value) < 1 << 31:
        raise PlanProblem(
            "TM217", f'{name} cannot be "{value}"', hint=f"a number of 4-byte units, for example SET {name} = 100000"
        )
    return int(value)


def _probes(name: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise PlanProblem(
            "TM217",
            f'{name} cannot be "{value}"',
            hint=f"what an eviction costs in probes, for example SET {name} = 15",
        )
    return found


def _one_of(*words: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value.lower() not in words:
            raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"one of {', '.join(words)}")
        return value.lower()

    return check


def _limit(name: str, value: str) -> float | None:
    return None if value.lower() in ("", "none") else _probes(name, value)


_METHOD = {"phantom_choice": "chooser", "space_allocation": "allocation", "peak_load": "peak"}
SHARING: dict[str, Callable[[str, str], Any]] = {
    "lfta_memory": _units,
    "phantoms": _switch,
    "weaving": _one_of(*WEAVING),
    "pin_plan": _switch,
    "cells": _switch,
    "eviction_cost": _probes,
    "phantom_choice": _one_of(*CHOOSERS),
    "space_allocation": _one_of(*ALLOCATIONS),
    "peak_load": _limit,
}
