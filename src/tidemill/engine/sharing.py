"""What shared aggregation may use and has learned: settings that a user changes, statistics that the readers bring.

Both are kept with the catalog, so a restarted database plans as it did before. What `tidemill calibrate` measured on
this machine is kept for the user, and holds for databases that say nothing of their own.
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

from tidemill.engine.drift import Patience, differs
from tidemill.errors import PlanProblem, TidemillError
from tidemill.optimize.joins.cost import Constants as JoinConstants
from tidemill.optimize.share.costs import costs, met_cost
from tidemill.optimize.share.measure import reason_to_change, statistics
from tidemill.optimize.share.phantoms.cost import Constants
from tidemill.optimize.share.phantoms.method import Method
from tidemill.optimize.share.shape import Settings, Shape, kept
from tidemill.plan.physical import Op
from tidemill.runtime.layout import read_json, write_json
from tidemill.runtime.thresholds import sizes
from tidemill.sql.catalog import Catalog

WEAVING = ("gtweave", "weave_share", "shared", "unshared")
CHOOSERS = ("gc", "gp", "epes")
ALLOCATIONS = ("refined", "sl", "sr", "pl", "pr", "es")
_SMALLEST, _LARGEST = 1 << 16, 4 << 20


class Learnt(NamedTuple):
    """What the tables cost for each row in a batch (None if its plan is not the one in force); whether one has looked
    for another plan; why it is worth the change.
    """

    met: float | None = None
    looked: bool = False
    reason: str | None = None


class Sharing:
    """Settings and statistics of all sources."""

    def __init__(self, catalog: Catalog) -> None:
        self.patience = Patience()
        self.expected_costs: dict[str, tuple[Shape, float]] = {}  # by source: the plan, what its tables should cost
        self.kept: dict[str, Any] = catalog.settings.setdefault("sharing", {})
        measured = self.kept.setdefault("statistics", {})
        constants = self.kept.get("constants")
        self.settings = Settings(
            memory=int(self.kept.get("lfta_memory", 0)) or default_memory(),
            budget=4 * int(self.kept.get("lfta_memory", 0)) or None, phantoms=self.kept.get("phantoms", True),
            weaving=self.kept.get("weaving", "gtweave"), pinned=self.kept.get("pin_plan", False),
            cells=self.kept.get("cells", True),
            constants=Constants(**constants) if constants else kept_constants(), statistics=measured,
            method=Method(self.kept.get("phantom_choice", "gc"), self.kept.get("space_allocation", "refined"),
                          self.kept.get("peak_load")),
            kept=self.kept.setdefault("pinned", {}),
        )

    def set(self, name: str, value: str) -> None:
        """Change one setting; bad values are refused with what is possible."""
        found = SHARING[name](name, value)
        if name == "eviction_cost":
            self.kept["constants"] = {"c1": 1.0, "c2": found}
            self.settings.constants = Constants(1.0, found)
            return
        self.kept[name] = found
        if name in _METHOD:
            self.settings.method = replace(self.settings.method, **{_METHOD[name]: found})
            return
        field = {"lfta_memory": "memory", "pin_plan": "pinned"}.get(name, name)
        setattr(self.settings, field, found)
        if name == "lfta_memory":
            self.settings.budget = 4 * found
        if name == "pin_plan":  # what is pinned stays so when the database is opened again
            self.settings.kept.clear()
            self.settings.kept.update({s: kept(shape) for s, shape in self.settings.shapes.items()} if found else {})

    def shown(self) -> dict[str, Any]:
        """What SHOW SETTINGS says: the values in force."""
        s = self.settings
        return {"lfta_memory": s.memory, "phantoms": "on" if s.phantoms else "off", "weaving": s.weaving,
                "cells": "on" if s.cells else "off",
                "pin_plan": "on" if s.pinned else "off", "eviction_cost": s.constants.c2 / s.constants.c1,
                "phantom_choice": s.method.chooser, "space_allocation": s.method.allocation,
                "peak_load": "none" if s.method.peak is None else s.method.peak}

    def learn(self, op: Op, note: dict[str, Any], look: bool = True, rested: bool = True) -> Learnt:
        """Take in what a batch counted. One looks for another plan when that is due (`look`); also, if there is time
        for it (`rested`), when costs have drifted or the peak load is not kept.
        """
        source = op.id.partition(".")[2]
        shape, before = self.settings.shapes.get(source), self.settings.statistics.get(source, {})
        self.settings.statistics[source] = now = statistics(op.params, note, before)
        if shape is None:
            return Learnt()
        met = met_cost(shape, now, self.settings.constants)
        self._expect(source, shape, before)
        off = met is not None and differs(self.expected_costs[source][1], met)
        drifted = self.patience.seen(source, off or self._overloaded(shape, now))
        if not (look or (drifted and rested)):
            return Learnt(met)
        why = reason_to_change(source, shape, self.settings)
        self.patience.looked(source, why is not None)
        if why is None:
            self.expected_costs[source] = shape, costs(shape, now, self.settings).tables
        elif why == "statistics" and off and met is not None:
            why = f"statistics: cost {met:.3g}, predicted {self.expected_costs[source][1]:.3g}"
        return Learnt(met, looked=True, reason=why)

    def learn_trial(self, op: Op, note: dict[str, Any]) -> bool:
        """Take in what a look at some rows counted; True when another plan is worth it. The rows are as many a second
        as in the batches to come, but these have shares of a full batch.
        """
        source = op.id.partition(".")[2]
        self.settings.statistics[source] = found = statistics(op.params, note, {})
        rows, seconds = found["share"]
        factor = max(1.0, sizes.running_rows / rows)
        found["share"] = [factor * rows, factor * seconds]
        shape = self.settings.shapes.get(source)
        return shape is not None and reason_to_change(source, shape, self.settings) is not None

    def _expect(self, source: str, shape: Shape, before: dict[str, Any]) -> None:
        """A new plan is measured by what the statistics said of it when it was chosen."""
        known = self.expected_costs.get(source)
        if known is None or known[0] is not shape:
            self.patience.forget(source)
            self.expected_costs[source] = shape, costs(shape, before, self.settings).tables

    def _overloaded(self, shape: Shape, measured: dict[str, Any]) -> bool:
        limit = self.settings.method.peak
        return limit is not None and costs(shape, measured, self.settings).peak > limit

    def forget(self, live: Collection[str]) -> None:
        """Drop what is known of sources that are not registered any more."""
        known: dict[str, Any]
        for known in (self.settings.statistics, self.settings.shapes, self.settings.kept):
            for gone in [source for source in known if source not in live]:
                del known[gone]

    def expected(self, source: str) -> float | None:
        """What the tables of the plan in force cost for each row, by the statistics of today."""
        shape = self.settings.shapes.get(source)
        return costs(shape, self.settings.statistics.get(source, {}), self.settings).tables if shape else None


class Pace:
    """When to look for a better plan: after the first batches, then ever less often, and never for more than a small
    share of the time.
    """

    def __init__(self) -> None:
        self.batches, self.next, self.began, self.rest = 0, 1, 0.0, 0.0

    def due(self) -> bool:
        """Called for every batch."""
        self.batches += 1
        self.began = time.monotonic()
        return self.batches >= self.next and self.rested

    @property
    def rested(self) -> bool:
        """Whether enough time has passed since the last search, for the time that it took."""
        return self.began >= self.rest

    def looked(self) -> None:
        """The search is over: the longer it took, the longer until the next one."""
        now = time.monotonic()
        self.next = min(2 * self.batches, self.batches + 32)
        self.rest = now + 20 * (now - self.began)


def costs_path() -> str:
    """Where a user's measured costs are kept: they belong to the machine and can be measured again."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "tidemill", "costs.json")


def keep_costs(eviction: float, seconds: dict[str, float], joins: dict[str, float] | None = None) -> str:
    """Keep the cost of an eviction in probes, what it was computed from, and the constants of joins in nanoseconds;
    where. What is not measured this time stays as it was.
    """
    found = {"eviction_cost": eviction, "seconds": seconds} | ({} if joins is None else {"joins": joins})
    write_json(costs_path(), _kept() | found)
    return costs_path()


def _kept() -> dict[str, Any]:
    """All that was measured on this machine; a file that nobody can read is no reason to stop."""
    try:
        found = read_json(costs_path())
    except (OSError, ValueError, TidemillError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def kept_constants() -> Constants:
    """What was measured on this machine, or the paper's; a file that nobody can read is no reason to stop."""
    try:
        found = float((read_json(costs_path()) or {})["eviction_cost"])
        return Constants(1.0, found) if 0 < found < math.inf else Constants()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TidemillError):
        return Constants()


def kept_join_constants() -> JoinConstants:
    """What was measured on this machine of joins, or rough defaults."""
    try:
        found = {k: float(v) for k, v in _kept().get("joins", {}).items()}
        return JoinConstants(**found) if all(0 < v < math.inf for v in found.values()) else JoinConstants()
    except (ValueError, TypeError, AttributeError):
        return JoinConstants()


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
        raise PlanProblem("TM217", f'{name} cannot be "{value}"',
                          hint=f"a number of 4-byte units, for example SET {name} = 100000")
    return int(value)


def _probes(name: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not 0 < found < math.inf:
        raise PlanProblem("TM217", f'{name} cannot be "{value}"',
                          hint=f"what an eviction costs in probes, for example SET {name} = 15")
    return found


def _one_of(*words: str) -> Callable[[str, str], str]:
    def chosen(name: str, value: str) -> str:
        if value.lower() not in words:
            raise PlanProblem("TM217", f'{name} cannot be "{value}"', hint=f"one of {', '.join(words)}")
        return value.lower()

    return chosen


def _limit(name: str, value: str) -> float | None:
    return None if value.lower() in ("", "none") else _probes(name, value)


_METHOD = {"phantom_choice": "chooser", "space_allocation": "allocation", "peak_load": "peak"}
SHARING: dict[str, Callable[[str, str], Any]] = {
    "lfta_memory": _units, "phantoms": _switch, "weaving": _one_of(*WEAVING), "pin_plan": _switch,
    "cells": _switch,
    "eviction_cost": _probes, "phantom_choice": _one_of(*CHOOSERS), "space_allocation": _one_of(*ALLOCATIONS),
    "peak_load": _limit,
}
