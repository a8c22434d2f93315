"""Where nothing comes there is no micro-batch."""

from __future__ import annotations

import time

from tests.harness import LocalDatabase


def test_a_table_that_was_read_lets_a_live_engine_rest(tmp_path):
    (tmp_path / "rooms.csv").write_text("room,building\n1,North\n")
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""
            REGISTER SOURCE Readings (room INTEGER, at TIMESTAMP) FROM FILES '{tmp_path}/none*.csv'
            WITH (timestamp = 'at');
            REGISTER TABLE Rooms (room INTEGER, building VARCHAR) FROM FILES '{tmp_path}/rooms.csv';
            CREATE TAGGED STREAM Log OVER Readings;
            CREATE VIEW Where1 AS SELECT L.room, R.building FROM Log L JOIN Rooms R ON L.room = R.room
            WITH (unbounded_state = true);""")
        with db.running():
            while db.step():
                pass
            time.sleep(0.6)  # longer than time alone may pass without a batch
            assert db.plan() is None
