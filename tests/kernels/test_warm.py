"""What was compiled once is never compiled again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.harness import LocalDatabase
from tests.places import IMPORTS, ROOT
from tidemill.runtime.kernels.compiling import warm as module
from tidemill.runtime.kernels.compiling.warm import kernels, warm
from tidemill.runtime.spark import warm_up

WORKLOAD = """
    REGISTER SOURCE Readings (room INTEGER, floor SMALLINT, big BIGINT, temp DOUBLE, name VARCHAR, at TIMESTAMP)
    FROM GENERATE (rate = 10, rows = 300, seed = 7, room = 'uniform(1,9)', floor = 'uniform(1,3)',
                   temp = 'normal(74,6)', name = 'choice(a,b,c)')
    WITH (timestamp = 'at');
    CREATE TAGGED STREAM Log OVER Readings;
    CREATE TAGGED STREAM Rooms OVER Readings KEY room;
    CREATE STREAMED VIEW Current AS SELECT room, temp FROM Rooms;
    CREATE VIEW Extremes AS SELECT floor, min(temp) AS low, max(temp) AS high FROM Rooms GROUP BY floor;
    CREATE VIEW ByRoom AS SELECT room, count(*) AS n, sum(temp) AS s, min(temp) AS low, max(big) AS high
    FROM Log [RANGE 6 SECONDS SLIDE 2 SECONDS] WHERE floor > 1 GROUP BY room;
    CREATE RSTREAM VIEW ByName AS SELECT name, floor, avg(big) AS mean
    FROM Log [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY name, floor;
    CREATE VIEW ByBoth AS SELECT room, name, count(DISTINCT floor) AS floors
    FROM Log SYNC EVERY 3 SECONDS WHERE NOW - 9 < TS AND TS <= NOW GROUP BY room, name;
    CREATE VIEW Hottest AS SELECT room, temp FROM Rooms ORDER BY temp DESC LIMIT 3;
    CREATE VIEW Rises AS SELECT room, temp - lag(temp) OVER (PARTITION BY floor ORDER BY room) AS rise FROM Rooms;
"""


def test_every_kernel_is_called():
    found = warm()
    assert found.kernels == len(kernels()) > 20
    assert not [name for name, kernel in kernels().items() if not kernel.signatures]
    assert all(os.path.isdir(folder) for folder in found.folder.split(", "))


def test_the_engine_finds_every_kernel_compiled(tmp_path):
    # In a process of its own: here other tests have called kernels with types of their own.
    code = (
        f"from tests.kernels.test_warm import types_that_warmth_missed\n"
        f"print('missed', types_that_warmth_missed({str(tmp_path)!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": IMPORTS}
    )
    assert "missed {}" in done.stdout, done.stdout + done.stderr


def types_that_warmth_missed(folder: str) -> dict[str, list[str]]:
    """Signatures that an engine at work added to those of `warm`."""
    warm()
    before = {name: set(kernel.signatures) for name, kernel in kernels().items()}
    with LocalDatabase(os.path.join(folder, "db")) as db:
        db.execute(WORKLOAD)
        db.run()
        assert db.query("SELECT count(*) AS n FROM ByName").to_pylist()[0]["n"] > 100
    return {
        name: [str(s) for s in kernel.signatures if s not in before[name]]
        for name, kernel in kernels().items()
        if set(kernel.signatures) != before[name]
    }


def test_an_unwanted_warmth_ends_early(monkeypatch):
    called = []
    monkeypatch.setattr(module, "GROUPS", {name: lambda n=name: called.append(n) for name in "abc"})
    warm(wanted=lambda: len(called) < 2)
    assert called == ["a", "b"]


@pytest.mark.parametrize("problem", [RuntimeError("cannot cache function"), OSError("no room"), ImportError("numba")])
def test_a_kernel_that_does_not_compile_fails_no_session(monkeypatch, problem):
    def broken(groups, wanted):
        raise problem

    monkeypatch.setattr(warm_up, "compiled_groups", lambda: ("lines",))
    monkeypatch.setattr(module, "warm", broken)
    warm_up.load_kernels()


def test_a_folder_of_ones_own_is_used(tmp_path):
    code = "from tidemill.runtime.kernels.share.edges import floor_edges; print(floor_edges.stats.cache_path)"
    told = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": IMPORTS}
    done = subprocess.run([sys.executable, "-c", code], env=told, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(tmp_path))
