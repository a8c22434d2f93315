"""Fragments put together for each query, in readers and in stages, change no answer, whenever it happens."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.properties.trial import database
from tests.share import test_shared_many as many
from tests.share.outcomes import UNSHARED, check_same
from tests.share.test_shared_answers import ALL, places, run
from tests.share.test_shared_configurations import forcing
from tests.share.workloads import few_cuts, settings_text, shared_workloads
from tidemill.runtime.kernels.share import intercede
from tidemill.runtime.share.stage import fragments, weave
from tidemill.runtime.thresholds import changed, sizes


def eager(stack: ExitStack, pending: int) -> list[int]:
    """Always put together, in every chunk and in every batch; how many times it was done."""
    done: list[int] = []

    def counted(rows: int, *_: object) -> bool:
        done.append(rows)
        return True

    for module, name, value in (
        (intercede, "worthwhile", counted),
        (intercede, "fewer", lambda *_: True),
        (sizes, "few_entries", 1),
        (sizes, "pending_entries", pending),
        (sizes, "kept_cells", 40),
        (sizes, "prune_rows", 1),
    ):
        stack.enter_context(patch.object(module, name, value))
    return done


@effort(10)
@given(workload=shared_workloads(ALL), sets=settings_text(), place=places, cut=few_cuts(24), pending=st.integers(0, 20))
def test_interceded_equals_unshared(workload, sets, place, cut, pending):
    stream, views = workload
    expected, _ = run(stream.recut(cut[0], None), views, without=UNSHARED, shards=1, cores=1)
    with ExitStack() as stack:
        eager(stack, pending)
        found, _ = run(stream, views, sets, **place)
    check_same(found, expected)


@effort(15)
@given(
    workload=shared_workloads(ALL),
    seed=st.integers(0, 2**32),
    place=places,
    cut=few_cuts(24),
    pending=st.integers(0, 20),
)
def test_interceded_without_tables_equals_unshared(workload, seed, place, cut, pending):
    """Any forest, some relations without tables: their cells come from the entries of the table above."""
    stream, views = workload
    expected, _ = run(stream.recut(cut[0], None), views, without=UNSHARED, shards=1, cores=1)
    with ExitStack() as stack, forcing(seed):
        eager(stack, pending)
        found, _ = run(stream, views, **place)
    check_same(found, expected)


def test_many_queries_are_put_together_in_the_stage():
    """200 queries, batches of 300 rows: nothing in a reader, all of it where fragments are kept."""
    folded: list[tuple[int, int]] = []
    plain = fragments.intercede_rows

    def watched(rows, *rest):
        made = plain(rows, *rest)
        folded.append((rows.num_rows, made.num_rows))
        return made

    def shown():
        with database([many.STREAM], shards=2, cores=2) as db:
            names = many.create(db, "v", many.QUERIES)
            db.run()
            return many.shown(db, names)

    expected = shown()
    with (
        patch.object(weave, "intercede_rows", watched),
        changed(prune_rows=1, few_entries=1 << 30),
        patch.object(intercede, "worthwhile", lambda *_: True),
    ):
        assert shown() == expected
    assert any(made != rows for rows, made in folded)
