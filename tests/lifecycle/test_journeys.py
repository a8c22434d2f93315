"""A database that crashes, is moved, backed up, restored and rescaled on its way answers as one that ran once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import tidemill
from tests.lifecycle.checkpointed import HEAD, CheckpointedDatabase
from tests.properties.effort import factor, thorough
from tests.spark import scenario
from tidemill.runtime.thresholds import changed

FILES, VIEWS = 5, ("Levels", "Sizes", "Occupied", "Lately", "Report")
SEEDS = range(2 * (factor() if thorough() else 1))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    scenario.write_input(folder, files=FILES, rows=10)
    return folder


@pytest.fixture(scope="module")
def wanted(data, tmp_path_factory):
    with CheckpointedDatabase(str(tmp_path_factory.mktemp("wanted") / "db")) as db:
        scenario.create(db, data, views=VIEWS)
        db.run()
        return answers(db)


def answers(db: CheckpointedDatabase) -> dict:
    return {name: scenario.answer(db, name) for name in VIEWS}


class Journey:
    """What happens to one database, by chance."""

    def __init__(self, folder: Path, data: Path, seed: int) -> None:
        self.folder, self.data, self.chance = folder, data, random.Random(seed)
        self.inbox, self.there, self.places = folder / "inbox", 0, 0
        for source in ("readings", "guests", "sales"):
            (self.inbox / source).mkdir(parents=True)
        self.shards = self.chance.randint(1, 4)
        self.path = folder / "db"
        self.db = self.opened()
        scenario.create(self.db, self.inbox, views=VIEWS)

    def opened(self) -> CheckpointedDatabase:
        return CheckpointedDatabase(str(self.path), shards=self.shards)

    def bring(self) -> None:
        for path in self.data.glob(f"*/{self.there:04d}.json"):
            scenario.write_lines(self.inbox / path.parent.name / path.name, path.read_text().splitlines())
        self.there += 1

    def another_place(self) -> Path:
        self.places += 1
        return self.folder / f"place {self.places}"

    def run(self) -> None:
        self.bring()
        self.db.run(final=False)

    def crash(self) -> None:
        """Somewhere in a batch; nothing is closed."""
        db, far = self.db, self.chance.choice(("logged", "computed", "applied", "done"))
        self.bring()
        db.runner.publisher.publish(mode="live")
        db.runner.bring_up()
        end = db.plan()
        if end is not None:
            db._log("offsets", db.batch, HEAD + json.dumps(end))
            blobs, sent = db.compute(end) if far != "logged" else ({}, [])
            if far in ("applied", "done"):
                db.outlet.apply(db.batch, sent)
            if far == "done":
                for shard, blob in blobs.items():
                    path = Path(db.paths.checkpoint) / "state" / str(shard) / str(db.batch)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(blob)
        db._closed = True
        db._requests.close()
        db.outlet.close()
        db.store.close()
        db.directory.release()
        self.db = self.opened()

    def move(self) -> None:
        self.db.close()
        self.path = self.path.rename(self.another_place())
        self.db = self.opened()

    def restore(self) -> None:
        """The database goes on from a backup; what it did after that was in vain."""
        kept = self.another_place()
        self.db.backup(str(kept), links=self.chance.random() < 0.5)
        if self.there < FILES:
            self.run()
        self.db.close()
        self.path = Path(tidemill.restore(str(kept), str(self.another_place())).path)
        self.db = self.opened()

    def rescale(self) -> None:
        self.shards = self.chance.randint(1, 4)
        self.db.rescale(self.shards)

    def go(self) -> dict:
        while self.there < FILES:
            step = self.chance.choice((self.run, self.crash, self.move, self.restore, self.rescale))
            step()
        self.db.run()
        found = answers(self.db)
        self.db.close()
        return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_journey_changes_no_answer(tmp_path, data, wanted, seed):
    with changed(**({"inline_bytes": 0} if seed % 2 else {})):
        found = Journey(tmp_path, data, seed).go()
    assert scenario.differences(found, wanted) == ""
