"""A LocalDatabase whose micro-batches go on by themselves between start() and stop()."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.harness import LocalDatabase, LocalJob
from tidemill.engine.run.reports import BatchReports


class LiveJob(LocalJob):
    """A LocalJob whose micro-batches go on by themselves while it is live."""

    pump: threading.Thread | None = None

    def run_live(self) -> None:
        self.pump = threading.Thread(target=self._go, daemon=True)
        self.pump.start()

    def _go(self) -> None:
        while self.is_up:
            if not self.db.step():
                time.sleep(0.01)

    def wait_for_batch(self, reports: BatchReports, reached: Any) -> None:
        if self.pump is None:
            super().wait_for_batch(reports, reached)
        else:
            time.sleep(0.01)

    def end(self) -> bool:
        if self.query is not None:
            self.query.stop()
        if self.pump is not None:
            self.pump.join()
            self.pump = None
        return super().end()


class LiveDatabase(LocalDatabase):
    """Between start() and stop() its job goes on in a thread."""

    def _make_job(self, spark: Any) -> LiveJob:
        return LiveJob(self)

    def start(self) -> None:
        super().start()
        assert isinstance(self.runner.job, LiveJob)
        self.runner.job.run_live()
