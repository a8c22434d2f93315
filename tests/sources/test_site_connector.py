"""The inbox of an edge keeps the laws of a connector; its rows come in the order of time, not of their numbers."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pyarrow as pa
import pytest

from tidemill.errors import EngineProblem
from tidemill.plan.physical import BEGINNING
from tidemill.plan.sources import SITE, Column, SourceSpec
from tidemill.runtime.sites.inbox import Inbox
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.sources.registry import open_connector

SPEC = SourceSpec("paris.S#1", SITE, (Column("v", "INTEGER"),), {"site": "paris", "name": "S", "text": ""})


@pytest.fixture
def filled(tmp_path):
    """Five messages of three rows."""
    out, box = Outbox(str(tmp_path / "out"), SPEC.name), Inbox(str(tmp_path / "in"), SPEC.name)
    for batch in range(5):
        times = [10 * batch, 10 * batch, 10 * batch + 5]
        out.write(batch, pa.table({"v": times, "__seq": [7, 8, batch], "__time": times}), 10 * batch, 10 * batch + 10)
        [data] = out.pending(box.head().seq, batch, 1)
        box.append(data)
    return open_connector(SPEC, str(tmp_path / "in")), box


def read(connector, start, end, parts=1):
    pieces = pickle.loads(pickle.dumps(connector.split(start, end, parts)))
    tables = [chunk.rows for piece in pieces for chunk in connector.read(piece)]
    for left, right in pairwise(pieces):
        assert left.end == right.start
    return pa.concat_tables(tables).to_pylist() if tables else []


def steps(connector, most):
    cuts = [connector.initial()]
    while True:
        progress = connector.latest(cuts[-1], most, True, 0)
        if progress.end != cuts[-1]:
            cuts.append(progress.end)
        if progress.exhausted:
            return cuts, progress


@pytest.mark.parametrize("most", [None, 1, 4, 7])
@pytest.mark.parametrize("parts", [1, 2, 9])
def test_cuts_do_not_matter_and_reading_is_repeatable(filled, most, parts):
    connector, _ = filled
    cuts, last = steps(connector, most)
    whole = read(connector, cuts[0], cuts[-1])
    assert [r["__arrival"] for r in whole] == sorted(r["__arrival"] for r in whole) and len(whole) == 15
    pieces = [row for a, b in pairwise(cuts) for row in read(connector, a, b, parts)]
    assert pieces == whole == read(connector, cuts[0], cuts[-1], parts)
    assert last.clock == 50


def test_the_clock_of_a_part_is_that_of_its_last_message(filled):
    connector, _ = filled
    progress = connector.latest(connector.initial(), 6, True, 0)
    assert (progress.clock, progress.exhausted) == (20, False)


def test_a_finite_run_waits_for_the_end_of_the_other_site(filled):
    connector, box = filled
    end = connector.latest(connector.initial(), None, False, 0).end
    assert not connector.latest(end, None, False, 0).exhausted
    box.note(box.head().seq, 60, True, 59)
    progress = connector.latest(end, None, False, 0)
    assert (progress.exhausted, progress.clock, progress.top) == (True, 60, 59)


def test_what_was_read_is_removed_and_its_loss_noticed(filled):
    connector, box = filled
    cuts, _ = steps(connector, 4)
    connector.trim(cuts[2])
    assert read(connector, cuts[2], cuts[-1]) and box.headers(-1, box.head().seq)[0].seq > cuts[2]["seq"]
    with pytest.raises(EngineProblem, match="a batch reads it"):
        read(connector, cuts[0], cuts[2])
    with pytest.raises(EngineProblem, match="has been read"):
        connector.latest({"seq": 1 << 40}, None, True, 0)
    assert connector.initial() == {"seq": -1} and box.head().frontier > BEGINNING
