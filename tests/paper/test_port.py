"""Section 4.1: the statements that define raw and tagged streams, with tuples that come in through the port."""

from __future__ import annotations

import socket
import time

from tests.network import free_port
from tests.paper.notation import tagged


def step_until(db, reached) -> None:
    """Micro-batches until the condition holds; arrival times need a moment to be closed."""
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        if not db.step():
            time.sleep(0.05)


def test_temperature_source_received_on_a_port(db):
    port = free_port()
    db.execute(f"REGISTER SOURCE TemperatureSource (int RoomID, int Temperature)\nFROM port{port}")
    db.execute("CREATE TAGGED STREAM RoomTempStr\nOVER TemperatureSource KEY RoomID")
    db.execute("CREATE STREAMED VIEW T1 AS SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80")
    db.start()
    with socket.create_connection(("127.0.0.1", port)) as sensor:
        for line in ("1,99", "2,75", "3,80", "1,95", "1,60"):
            sensor.sendall(f"{line}\n".encode())
            time.sleep(0.01)
        step_until(db, lambda: db.changes("T1").num_rows >= 3)
    db.stop()
    changes = [(c["TAG"], c["RoomID"], c["Temperature"]) for c in db.changes("T1").to_pylist()]
    assert changes == [("+", 1, 99), ("u", 1, 95), ("-", 1, 95)]
    assert tagged(db, "T1")[0].startswith("+<1,99>20"), "without a timestamp column the time is that of the arrival"
