"""Keys of a join that are split over all shards are still right when there are other shards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.joins.heating import SEEN, Heat, Heating, note_split
from tests.joins.rows import APPENDED, KEYED
from tests.joins.switching import install, switch
from tests.joins.test_hot_keys import ONE_KEY, REPLACED, VIEWS, of_one_key
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.properties.streams import Stream
from tests.properties.trial import database
from tests.share.outcomes import check_same, outcome

STREAMS = (Stream("A", APPENDED, ONE_KEY, batch_rows=3), Stream("K", KEYED, REPLACED, ("k",), batch_rows=3))


class Kept(Heating, CheckpointedDatabase):
    """A database to which heats happen, and which keeps what Spark would keep."""


@pytest.mark.parametrize(("plan", "shards"), [("00", (2, 3)), ("11", (3, 2)), ("11", (2, 1, 4))])
def test_split_keys_move_with_the_others(plan, shards):
    Heating.heats, Heating.faults = [Heat(3, key="1::BIGINT")], []
    before, size = SEEN["split"], len(ONE_KEY) // len(shards)
    with database(STREAMS, write=False, kind=Kept, shards=shards[0]) as db:
        folder, file = Path(db.paths.root).parent, {s.name: 0 for s in STREAMS}
        switch(db, plan)
        install(db, VIEWS)
        for number, count in enumerate(shards):
            if number:
                db.rescale(count)
            for s in STREAMS:
                last = len(s.rows) if number == len(shards) - 1 else (number + 1) * size
                file[s.name] = s.write(folder, number * size, last, file[s.name])
            db.run(final=number == len(shards) - 1)
        note_split(db)
        found = outcome(db, list(VIEWS))
    assert SEEN["split"] == before + len(VIEWS), "no key was split"
    check_same(found, of_one_key(plan, []))
