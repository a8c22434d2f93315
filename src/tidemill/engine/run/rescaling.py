"""Changes the number of shards of a database that has run: the state of all shards is hashed into the new ones."""

from __future__ import annotations

from tidemill.engine.directory.rescale import rehash_shards
from tidemill.engine.run.runner import Runner
from tidemill.errors import EngineProblem
from tidemill.runtime.checkpoint.offsets import Offset
from tidemill.runtime.paths import load_plan
from tidemill.runtime.spark.shard_labels import shard_labels


def rescale_shards(runner: Runner, shards: int) -> None:
    """Put the state into another number of shards. The job is down afterwards."""
    state, before = runner.state, runner.state.catalog.version
    runner.drain()
    plan = load_plan(state.paths.plan(state.outlet.plan))
    homes, offset = state.workload.homes(plan.shards), _last_offset(runner)
    assert state.outlet.plan > before and offset is not None and offset.batch == state.outlet.committed
    blobs = rehash_shards(state.paths, plan, homes, runner.job.read_shards(), shard_labels(shards))
    runner.job.install_shards(offset, blobs)
    state.catalog.settings |= {"shards": shards, "unpublished": True}
    runner.publisher.plan_is_stale = True
    state.save_catalog()


def _last_offset(runner: Runner) -> Offset | None:
    """The offset of the last batch, where nothing is logged behind it."""
    found = runner.job.checkpoint()
    if found is None or not found.logged == found.committed == runner.state.outlet.committed:
        raise EngineProblem(
            "TM647",
            "the number of shards cannot be changed now",
            detail="a batch is logged that is not done",
            hint="run() the database, then try again",
        )
    return found.offset
