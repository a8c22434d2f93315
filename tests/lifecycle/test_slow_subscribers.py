"""A subscriber who does not read costs a bounded amount of memory, and finds out that changes are missing."""

from __future__ import annotations

import queue

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.errors import TidemillError
from tidemill.runtime.views.subscriptions import SubscriptionQueue

SETUP = """
REGISTER SOURCE S (a INTEGER, at TIMESTAMP) FROM GENERATE (rate = 10, rows = 400)
WITH (timestamp = 'at', batch_rows = 40);
CREATE TAGGED STREAM T OVER S;
CREATE STREAMED VIEW V AS SELECT a, at FROM T;
"""


@pytest.fixture
def db(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SETUP)
        yield db


def test_a_slow_subscriber_is_told(db):
    """SUBSCRIBE, and never read: the queue grew without end."""
    slow, fast = db.subscribe("V", most_bytes=2000), db.subscribe("V")
    db.run()
    with pytest.raises(TidemillError, match="TM518") as told:
        slow.next(timeout=1)
    assert told.value.hint and slow.closed and slow.next(timeout=0) is None
    assert not any(h.most == 2000 for queues in db.outlet.subscribers.values() for h in queues)
    seen = 0
    while (table := fast.next(timeout=0)) is not None:
        seen += table.num_rows
    assert seen == 400


def test_who_reads_in_time_misses_nothing(db):
    small, seen = db.subscribe("V", most_bytes=4000), []

    def read(_):
        while (table := small.next(timeout=0)) is not None:
            seen.append(table.num_rows)

    db.outlet.listeners.append(read)
    db.run()
    assert sum(seen) == 400 and len(seen) > 5 and not small.closed


@effort(100)
@given(st.lists(st.integers(0, 30)), st.integers(1, 2000))
def test_what_waits_is_bounded_and_whole_or_lost(steps, most):
    """0 reads; any other number is the number of changes in a batch."""
    waiting, sent, seen = SubscriptionQueue(most), [], []
    for number, rows in enumerate(steps):
        if rows:
            table = pa.table({"n": [number] * rows})
            sent.append(table)
            waiting.put(table)
            assert len(waiting._waiting) <= 1 or sum(t.nbytes for t in waiting._waiting) <= most
        else:
            try:
                seen.append(waiting.get(0))
            except queue.Empty:
                assert waiting.lost or len(seen) == len(sent)
    if not waiting.lost:
        while not waiting.empty():
            seen.append(waiting.get(0))
        assert seen == sent
    else:
        assert seen == sent[: len(seen)]
        assert waiting.lost == sum(t.num_rows for t in sent[len(seen) :])
