"""Any configuration gives the same answers: any forest, any table sizes down to one bucket, any room for evictions."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.share.outcomes import UNSHARED, check_same
from tests.share.test_shared_answers import run
from tests.share.workloads import Taste, shared_workloads
from tidemill.optimize.share import reader_plan, weave
from tidemill.optimize.share.phantoms.choose import Choice
from tidemill.optimize.share.phantoms.configuration import Configuration, Relation
from tidemill.runtime.thresholds import sizes


def random_groups(queries, rng):
    """The queries in weaved groups at random."""
    numbers = [rng.randrange(1, 1 + rng.choice([1, 2, len(queries)])) for _ in queries]
    return tuple(tuple(q.id for q, n in zip(queries, numbers, strict=True) if n == g) for g in sorted(set(numbers)))


def random_forest(leaves, attributes, rng):
    """The leaves below phantoms and below each other, at random."""
    feeders: dict[Relation, Relation | None] = dict.fromkeys(leaves)
    for _ in range(rng.randrange(6)):
        roots = [r for r, feeder in feeders.items() if feeder is None]
        chosen = rng.sample(roots, rng.randrange(1, len(roots) + 1))
        wanted = frozenset().union(*(r.attributes for r in chosen))
        if rng.random() < 0.3:
            wanted |= {rng.choice(attributes)}
        feeder = Relation(wanted)
        if feeder in feeders and (feeders[feeder] is not None or len(chosen) == 1):
            continue
        feeders.setdefault(feeder, None)
        for root in chosen:
            if feeder.feeds(root):
                feeders[root] = feeder
        if feeder not in leaves and feeder not in feeders.values():
            del feeders[feeder]
    return Configuration.of(feeders, leaves)


def without_some_tables(tree, rng):
    """Some relations without a table; then those below have none either."""
    found, spare = [], rng.choice([0.0, 0.4, 1.0])
    for node in tree:
        bare = node.parent >= 0 and (not found[node.parent].buckets or rng.random() < spare)
        found.append(replace(node, buckets=0) if bare else node)
    return tuple(found)


def forced(rng, seen):
    """In place of `plan_reader`: a configuration that the optimizer would not choose."""

    def plan_reader(source, queries, parts, settings):
        groups = random_groups(queries, rng)
        leaves = reader_plan._group_leaves(queries, groups)
        attributes = sorted({name for q in queries for name in q.names})
        configuration = random_forest(leaves, attributes, rng)
        buckets = {r: rng.choice([1, 1, 2, 3, 64]) for r in configuration.relations}
        chosen = Choice(configuration, buckets, dict.fromkeys(configuration.relations, 0.0), 0.0)
        tree = without_some_tables(reader_plan._build_tree(chosen, leaves), rng)
        found = reader_plan.ReaderPlan(tree, chosen, groups, tuple(queries), parts)
        settings.reader_plans[source] = found
        seen.append(configuration)
        return found

    return plan_reader


@contextmanager
def forcing(seed, **room):
    """Configurations by chance, and little room in the readers; the configurations that were used."""
    seen: list[Configuration] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weave, "plan_reader", forced(random.Random(seed), seen))
        for name, value in room.items():
            patch.setattr(sizes, name, value)
        yield seen


rooms = st.fixed_dictionaries(
    {
        "block_rows": st.sampled_from([1, 2, 5, 1 << 16]),
        "pending_entries": st.sampled_from([0, 3, 1 << 20]),
        "fragments": st.sampled_from([0, 2, 1 << 18]),
    }
)
places = st.fixed_dictionaries({"shards": st.integers(1, 2), "cores": st.integers(1, 2)})


@effort(8)
@given(workload=shared_workloads(Taste(failing=True, gaps=True)), seed=st.integers(0, 10**9), room=rooms, place=places)
def test_any_configuration_gives_the_same_answers(workload, seed, room, place):
    stream, views = workload
    expected, _ = run(stream.recut((), None), views, without=UNSHARED, shards=1, cores=1)
    with forcing(seed, **room) as seen:
        found, shared = run(stream, views, **place)
    assert bool(seen) == bool(shared)
    check_same(found, expected)
    # A row that falls between two windows is not looked at by the unshared plan: there it cannot fail.
    assert len(found.aside) >= len(expected.aside)


def test_the_forests_above_are_deep_and_wide():
    """Phantoms that feed phantoms, and queries that feed queries, do occur."""
    rng = random.Random(7)
    leaves = [
        Relation(frozenset(names), tag)
        for names, tag in [("a", None), ("ab", None), ("bc", 1), ("bc", 2), ("abcd", None), ("d", None)]
    ]
    found = [random_forest(leaves, list("abcde"), rng) for _ in range(200)]
    assert all(set(leaves) <= set(c.relations) for c in found)
    assert max(c.depth(r) for c in found for r in c.relations) >= 3
    assert any(c.emits[p] for c in found for p in c.parents if p >= 0)
    assert any(not c.emits[p] for c in found for p in c.parents if p >= 0)
