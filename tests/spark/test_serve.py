"""`tidemill serve` as a command: it begins with a file, serves live answers over the protocol, and stops when told."""

from __future__ import annotations

import base64
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from typing import Any

import psycopg
import pytest

INIT = """
REGISTER SOURCE Readings (room INTEGER, temp DOUBLE, at TIMESTAMP)
FROM GENERATE (rate = 50, seed = 7, room = 'uniform(1,9)', temp = 'normal(70,5)', start = 'now')
WITH (timestamp = 'at');
CREATE TAGGED STREAM Log OVER Readings;
CREATE VIEW PerRoom WITH (retain = '1 hour') AS SELECT room, count(*) AS n FROM Log GROUP BY room;
CREATE USER admin PASSWORD 'open sesame';
"""


@pytest.mark.spark
@pytest.mark.crash
def test_the_command_serves_live_answers_and_stops_when_told(tmp_path):
    (tmp_path / "init.sql").write_text(INIT)
    command = ["-m", "tidemill.serve.cli", "serve", "--db", str(tmp_path / "lot"), "--port", "0", "--shards", "2"]
    command += ["--http-port", "0"]
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # as systemd listens
    manager.bind(str(tmp_path / "notify"))
    served = subprocess.Popen(
        [sys.executable, *command, "--init", str(tmp_path / "init.sql")],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "NOTIFY_SOCKET": str(tmp_path / "notify")},
    )
    try:
        port = _read_port(served)
        console = re.search(r"console: (http://127\.0\.0\.1:\d+)/$", served.stderr.readline())[1]
        assert urllib.request.urlopen(f"{console}/readyz").read() == b"ready\n"
        dsn = f"host=127.0.0.1 port={port} dbname=tidemill user=admin password='open sesame'"
        with psycopg.connect(dsn, autocommit=True) as connection:
            _wait_for_rows(connection, 9)
            before = connection.execute("SELECT sum(n) AS n FROM PerRoom").fetchone()[0]
            rows: Any = connection.cursor().stream("SUBSCRIBE PerRoom WITH (progress = true)")
            seen = [next(rows) for _ in range(30)]
            rows.close()
            assert {"+", "u", "p"} >= {row[0] for row in seen} >= {"+", "p"}
            assert connection.execute("SELECT sum(n) AS n FROM PerRoom").fetchone()[0] >= before
            login = {"Authorization": "Basic " + base64.b64encode(b"admin:open sesame").decode()}
            metrics = (
                urllib.request.urlopen(urllib.request.Request(f"{console}/metrics", headers=login)).read().decode()
            )
            assert 'tidemill_connections{protocol="postgres"} 1.0' in metrics and 'view="PerRoom"' in metrics
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(dsn.replace("sesame", "barley"))
    finally:
        served.send_signal(signal.SIGTERM)
        _, rest = served.communicate(timeout=120)
    assert served.returncode == 0, rest
    assert "INFO stopping" in rest and "sesame" not in rest
    assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]
    manager.close()


def _read_port(served) -> int:
    lines = []
    for line in served.stderr:
        lines.append(line)
        found = re.search(r"ready: postgresql://127\.0\.0\.1:(\d+)/tidemill", line)
        if found:
            return int(found[1])
    raise AssertionError("".join(lines))


def _wait_for_rows(connection, count) -> None:
    end = time.monotonic() + 120
    while connection.execute("SELECT count(*) AS n FROM PerRoom").fetchone()[0] < count:
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.parametrize("arguments", [["--listen", "0.0.0.0"], ["--tls-cert", "missing.pem"]])
def test_the_command_refuses_to_be_open_to_others(tmp_path, arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tidemill.serve.cli", "serve", "--db", str(tmp_path / "lot"), "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert ("TM531" if "--listen" in arguments else "TM530") in done.stderr
