"""Four views over one port, in an engine that is up."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from typing import Any

from benchmarks.live import sender
from benchmarks.sides import quiet

VIEWS = {
    "High": "CREATE STREAMED VIEW High AS SELECT sensor, value, at FROM Log WHERE value > {high}",
    "ByKind": "CREATE VIEW ByKind AS SELECT kind, count(*) AS n, sum(n) AS total FROM Log SYNC EVERY 1 SECOND"
    " GROUP BY kind",
    "Sliding": "CREATE STREAMED VIEW Sliding AS SELECT sensor, count(*) AS n, max(value) AS top"
    " FROM Log [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY sensor",
    "ByRoom": "CREATE VIEW ByRoom AS SELECT S.room, count(*) AS n, sum(L.value) AS total"
    " FROM Log L SYNC EVERY 1 SECOND JOIN Sensors S ON L.sensor = S.sensor GROUP BY S.room",
}


class TidemillSide:
    """One database for each run, all in one session."""

    def open(self) -> int:
        """Make the database, bring it up; the port it listens on."""
        import tidemill

        self.place = tempfile.mkdtemp(prefix="tidemill-live-")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        self.seen: list[tuple[float, dict[str, Any]]] = []
        with quiet():
            self.db = tidemill.open(os.path.join(self.place, "db"))
            self.db.execute(f"""
                REGISTER SOURCE Readings ({sender.COLUMNS}) FROM PORT {port} WITH (timestamp = 'at');
                REGISTER TABLE Sensors (sensor INTEGER, room VARCHAR) FROM FILES '{sender.table(self.place)}';
                CREATE TAGGED STREAM Log OVER Readings;
                {";".join(VIEWS.values()).format(high=sender.HIGH)}""")
            self.db.warm()
            self.db.outlet.listeners.append(lambda summary: self.seen.append((time.time(), dict(summary))))
            self.db.start()
        return port

    def take(self, rows: int) -> dict[str, Any]:
        """Wait until this many rows are in all views: when the last batch ended, batches, processor time of all."""
        before = _processor_s()
        while self._rows() < rows:
            time.sleep(0.01)
        high = self.db.query("SELECT count(*) AS n FROM ByKind").to_pylist()[0]["n"]
        assert high == sender.KINDS, high
        return {"end": self.seen[-1][0], "batches": len(self.seen), "processor_s": _processor_s() - before}

    def _rows(self) -> int:
        return sum(t["rows"] for _, s in self.seen for name, t in s["tallies"].items() if name == "Readings")

    def follow(self, seconds: float, settle: float) -> list[float]:
        """Latencies of the rows of a subscription, from the sending to the reader of the subscription."""
        found: list[float] = []
        began = time.time()
        with self.db.subscribe("High") as changes:
            while time.time() - began < seconds:
                table = changes.next(0.2)
                now = time.time()
                if table is not None and now - began > settle:
                    found += (now - table.column("at").cast("int64").to_numpy() / 1e6).tolist()
        return found

    def close(self) -> None:
        with quiet():
            self.db.close()
        shutil.rmtree(self.place)


def _processor_s() -> float:
    import psutil  # an extra of the benchmarks; the tests of this module go without

    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
