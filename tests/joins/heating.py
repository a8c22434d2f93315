"""Runs in which keys of aggregation joins become hot when the test says so, between any two micro-batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, ClassVar

from tests.properties.test_invariance import Crashing
from tidemill.optimize.joins.decide import HotKey
from tidemill.plan import physical
from tidemill.plan.node import walk
from tidemill.plan.physical import Physical, ids
from tidemill.plan.relations import JoinAggregate
from tidemill.runtime.duckdb import duck
from tidemill.runtime.paths import load_plan

VALUES: dict[str, tuple[str, ...]] = {
    "INTEGER": ("0", "1", "2"),
    "BIGINT": ("0", "1", "2", "300"),
    "VARCHAR": ("'a'", "'b'", "'1'"),
}
SEEN: Counter[str] = Counter()


@dataclass(frozen=True)
class Heat:
    """Before the batch of this number: a seed that chooses keys to become hot, a key in SQL, or another plan."""

    batch: int
    seed: int = 0
    plan: str = ""
    key: str = ""


class Heating(Crashing):
    """A database to which heats happen; crashes as in `Crashing`."""

    heats: ClassVar[list[Heat]] = []

    def plan(self) -> dict[str, Any] | None:
        for heat in [h for h in self.heats if h.batch == self.batch]:
            self.heats.remove(heat)
            if heat.plan:
                self.workload.join_planning.set("early_aggregation", heat.plan)
            else:
                self._heat(Random(heat.seed), heat.key)
            self.runner.publisher.plan_is_stale = True
            self.runner.publisher.publish()
        return super().plan()

    def _heat(self, rng: Random, key: str) -> None:
        for node, op in joins_of(self):
            able = op.hot
            SEEN["splittable" if able else "not splittable"] += 1
            if able:
                for hash_ in [key_hash(key)] if key else rng.sample(key_hashes_of(op), 2):
                    heat(self, node, hash_, rng.choice(able.spread))


def heat(db: Any, node: JoinAggregate, hash_: int, spread: int) -> None:
    """From the next plan on the key is copied, and split from the one after it."""
    db.workload.join_planning.split(node, [HotKey(hash_, spread)])


def running(db: Any) -> Physical:
    """The newest published plan."""
    return load_plan(db.paths.plan(db.catalog.version))


def joins_of(db: Any) -> Iterator[tuple[JoinAggregate, physical.JoinAggregate]]:
    """The aggregation joins that stand, with their operators in the newest plan."""
    ops = {op.id: op for op in running(db).stage if isinstance(op, physical.JoinAggregate)}
    nodes = {n.fingerprint: n for v in db.workload.views.values() for n in walk(v.node) if isinstance(n, JoinAggregate)}
    return (
        (node, ops[ids.node("meet", name)]) for name, node in sorted(nodes.items()) if ids.node("meet", name) in ops
    )


def key_hashes_of(op: physical.JoinAggregate) -> list[int]:
    """Hashes of some keys that rows may have, and of some that none has."""
    assert op.hot is not None
    number, keys = next((i, own) for i, own in enumerate(op.hot.keys) if own is not None)
    types = {c.name: c.type for c in op.joined[number].keys}
    choices = [VALUES.get(types[k], ("NULL", "0")) for k in keys]
    return [
        key_hash(*(f"CAST({v} AS {types[k]})" for v, k in zip(values, keys, strict=True)))
        for values in product(*choices)
    ]


def key_hash(*values: str) -> int:
    """The hash of a key, its values given as SQL."""
    return int(duck.run(f"SELECT hash({', '.join(values)}) AS h").column("h")[0].as_py())


def note_split(db: Any) -> None:
    """Count what was reached: keys that were split in the end, joins whose groups went round, inputs of every kind."""
    plan = running(db)
    for _, op in joins_of(db):
        able = op.hot or physical.Splitting((), ())
        SEEN["split"] += len(able.split)
        SEEN["copied only"] += len(able.hot) - len(able.split)
        if able.split:
            SEEN[f"split in a join of {len(op.joined)}"] += 1
            SEEN["groups gone round"] += any(e.source_op == ids.split(op.id) for e in plan.loops)
            SEEN["copied by a loop"] += any(e.hot is not None for e in plan.loops)
