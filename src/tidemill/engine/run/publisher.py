"""Publishes plan versions: the plan is written, the catalog is saved, and `control.json` names the version.

The planner reads `control.json` before each micro-batch, so a running job takes up a version with its next batch.
"""

from __future__ import annotations

from typing import Any

from tidemill.engine.adapt.plans_in_force import plans_in_force
from tidemill.engine.adapt.previews import describe_previews, learn_from_previews, preview_sources
from tidemill.engine.directory.consistency import restore_notes
from tidemill.engine.recovery.repair import describe_rerun, relist_changed_files
from tidemill.engine.run.compiling import compile_for
from tidemill.engine.run.job import Job
from tidemill.engine.state import DatabaseState
from tidemill.errors import EngineProblem
from tidemill.runtime.kernels.compiling.cache import Compilation
from tidemill.runtime.paths import load_plan, write_json, write_plan
from tidemill.runtime.spark.shard_labels import shard_labels


class Publisher:
    """Knows which plan version the planner has been told of, and writes the next one when it is stale."""

    def __init__(self, state: DatabaseState, job: Job) -> None:
        self._state, self._job = state, job
        self.control: dict[str, Any] | None = restore_notes(state.paths, state.store)  # as it was last written
        self.plan_is_stale = self._is_unpublished() or bool(state.workload.stopped)

    def publish(self, **control: Any) -> None:
        """Write the next plan version if the plan is stale, and point the planner at it and at what it shall do."""
        with self._state.lock:  # statistics of the last batch may still be on their way into the catalog
            compilation = self._publish_now(compiles=self._job.is_up, **control)
        if compilation is not None:
            compilation.wait()  # without the lock: batches go on meanwhile
            with self._state.lock:
                self._publish_now(**control)

    def _publish_now(self, compiles: bool = False, **control: Any) -> Compilation | None:
        """Publish the plan. If it `compiles` and kernels are missing, only begin to compile them and return that."""
        if not self.plan_is_stale:
            if control:
                self.write_control(**control)
            return None
        state, workload = self._state, self._state.workload
        version, shards = workload.pending, self.shards()
        state.learn_streams()
        plan = workload.physical(version, shards, keep=True)
        compilation = compile_for(plan, self._job.spark) if compiles else None
        if compilation is not None and compilation.groups:
            return compilation
        # A preview pays only where the job is up: starting processes takes far longer than a first batch.
        looks = preview_sources(state.paths, plan) if control.get("mode") == "finite" and self._job.is_up else {}
        if learn_from_previews(workload.sharing, plan, looks):
            plan = workload.physical(version, shards, keep=True)
        write_plan(state.paths, plan)
        workload.history.publish(version, state.outlet.committed, plans_in_force(workload, plan))
        state.catalog.version = version
        state.catalog.settings.pop("unpublished", None)
        state.save_catalog()
        self.write_control(plan=version, previews=describe_previews(looks, version), **control)
        self.plan_is_stale = False
        return None

    def shards(self) -> tuple[int, ...]:
        """The labels of the shards; their number is fixed when it is first needed."""
        settings = self._state.catalog.settings
        if "shards" not in settings:  # only then: the JVM may be gone
            settings["shards"] = self._job.count_cores()
        return shard_labels(settings["shards"])

    def write_control(self, **values: Any) -> None:
        """Tell the planner. The file holds nothing that is not known elsewhere: a lost one is written again."""
        catalog = self._state.catalog
        known = self.control or {"plan": catalog.version, "mode": "finite"}
        self.control = {
            **known,
            "run": self.last_run(),
            "database": self._state.directory.database,
            "sources": [e.spec.name for e in catalog.of("source") if e.spec],
            **values,
        }
        write_json(self._state.paths.control, self.control)

    def last_run(self) -> int:
        """The number of the last finite run; the batch that ends it may be logged and not done yet."""
        logged = self._job.checkpoint()
        offset = logged.offset if logged else None
        told = int((self.control or {}).get("run", 0))
        return max(told, offset.final if offset else 0, self._state.outlet.final)

    def prepare_pinned_batch(self) -> None:
        """Let a batch that was logged and did not succeed run with the newest plan, and with files as they are now."""
        state, found = self._state, self._job.pinned_batch()
        if found is None or found.batch <= state.outlet.committed:
            return
        if relist_changed_files(state.paths, state.catalog, found):
            self._job.unlog(found.batch)
        elif (way := describe_rerun(self.control, found, state.catalog.version)) is not None:
            self.write_control(again=way)

    def _is_unpublished(self) -> bool:
        """Whether the planner does not know the newest plan: nothing has run since it changed, a crash came in between,
        or `control.json` is lost.
        """
        state, published = self._state, int((self.control or {}).get("plan", 0))
        if state.catalog.settings.get("unpublished") or published != state.catalog.version or published == 0:
            return True
        try:
            load_plan(state.paths.plan(published))
        except EngineProblem:
            return True
        return False
