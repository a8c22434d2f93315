"""Two sites as processes in network namespaces: one direction of the link is cut while rows come, and the log is that
of one database. With the flag for long runs; Linux and root only.
"""

from __future__ import annotations

import random
import time

import pytest

from benchmarks.wire.__main__ import CASES, JOIN, STREAM, begin, connect, numbers, settled, wait, write
from tests.harness import LocalDatabase
from tests.properties.effort import thorough
from tests.sites.emulator import Emulator, refusal

pytestmark = [
    pytest.mark.skipif(bool(refusal()), reason=f"no emulated network: {refusal()}"),
    pytest.mark.skipif(not thorough(), reason="a minute of real time: TIDEMILL_THOROUGH=1"),
]
CASE = next(case for case in CASES if case.exported)


@pytest.mark.parametrize("direction", [0, 1])
def test_a_cut_of_one_direction_delays_and_changes_nothing(direction, tmp_path):
    chance = random.Random(7)
    rows = {name: numbers(20, 30, 10)(chance) for name in ("Near", "Far")}
    with Emulator(delay=0.02) as network:
        paris, lyon = connect(network, tmp_path)
        begin(CASE, tmp_path, paris, lyon)
        lyon.ask(execute=f"SET site_join = sm_s1; CREATE STREAMED VIEW V AS {JOIN}")
        lyon.ask(execute="CREATE STREAMED VIEW Own AS SELECT k, v FROM Near")
        time.sleep(2.0)
        network.cut[direction] = True
        for name, found in rows.items():
            write(tmp_path, name, found, last=60)
        until = time.monotonic() + 30
        while lyon.ask(rows="Own") < len(rows["Near"]) and time.monotonic() < until:
            time.sleep(0.2)
        assert lyon.ask(rows="Own") >= len(rows["Near"]), "a local view keeps its pace"
        assert lyon.ask(rows="V") == 0
        network.cut[direction] = False
        wait(lyon, 60)
        log = settled(lyon)
        paris.close()
        lyon.close()
    with LocalDatabase(str(tmp_path / "one")) as one:
        for name in rows:
            one.execute(STREAM.format(name, "INTEGER", tmp_path, 30, "BIGINT"))
        one.execute(f"CREATE STREAMED VIEW V AS {JOIN.replace('paris.', '')}")
        one.run()
        assert log == one.changes("V").num_rows > 0
