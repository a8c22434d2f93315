"""A live join with a table: there may be a micro-batch in which nothing but the table is closed."""

from __future__ import annotations

from tests.harness import LocalDatabase


def test_a_table_alone_tells_no_rates(tmp_path):
    (tmp_path / "rooms.csv").write_text("room,building\n1,North\n2,South\n")
    (tmp_path / "in").mkdir()
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(f"""
            REGISTER SOURCE Readings (room INTEGER, temp DOUBLE, at TIMESTAMP) FROM FILES '{tmp_path}/in/*.csv'
            WITH (timestamp = 'at');
            REGISTER TABLE Rooms (room INTEGER, building VARCHAR) FROM FILES '{tmp_path}/rooms.csv';
            CREATE TAGGED STREAM Log OVER Readings;
            CREATE VIEW ByBuilding AS SELECT R.building, count(*) AS n, sum(L.temp) AS total
            FROM Log L SYNC EVERY 1 SECOND JOIN Rooms R ON L.room = R.room GROUP BY R.building;""")
        with db.running():
            while db.step():
                pass
            # Rows of one second, which is not over: the table is closed, and nothing else.
            for name, seconds in (("a", ("00.1", "00.5")), ("b", ("01.5", "09.0"))):
                lines = [f"1,5,2020-01-01 00:00:{at}\n" for at in seconds]
                (tmp_path / "in" / f"{name}.csv").write_text("".join(["room,temp,at\n", *lines]))
                while db.step():
                    pass
        db.run()
        assert db.query("SELECT * FROM ByBuilding").to_pylist() == [{"building": "North", "n": 4, "total": 20.0}]
