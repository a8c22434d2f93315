"""psql, as it is installed: statements, its commands about the catalog, errors, COPY, and ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from tests.installed import need

PSQL = "psql"


@pytest.fixture(autouse=True, scope="module")
def installed():
    need("psql", "postgresql-client")


def psql(server, *commands, expect=0, **environment):
    """What psql prints without alignment; each command is executed by itself."""
    arguments = [part for command in commands for part in ("-c", command)]
    done = subprocess.run(
        [PSQL, "-X", "-A", "-F", "|", server.dsn(), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )
    assert done.returncode == expect, done.stderr
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("\\d", "public|Hot|view|tester"),
        ("\\d Hot", "temp|double precision|||"),
        ("\\d hot", "note|text|||"),
        ("\\d+ Hot", "SELECT room, temp, note FROM Rooms WHERE temp > 80"),
        ("\\d Measured", "at|bigint||||"),
        ("\\d+ Buildings", "building|text||||plain||||"[:15]),
        ("\\dv", "public|PerRoom|view|tester"),
        ("\\dv+", "public|Hot|view|tester|permanent|0 bytes|"),
        ("\\dt", "public|Buildings|table|tester"),
        ("\\dE", "public|Rooms|foreign table|tester"),
        ("\\l", "lot|tester|UTF8|C|C||libc|"),
        ("\\du", "tester|Superuser, Create role, Create DB, Bypass RLS|{}"),
        ("\\dn", "public|tester"),
        ("\\df", "(0 rows)"),
        ("\\dp", "public|Hot|view|||"),
        ("\\di", "Did not find any relations."),
        ("\\dT", "(0 rows)"),
        ("\\dx", "(0 rows)"),
        ("\\sv Hot", "SELECT room, temp, note FROM Rooms WHERE temp > 80"),
        ("\\conninfo", 'You are connected to database "lot" as user "tester"'),
        ("\\encoding", "UTF8"),
        ("SELECT version()", "PostgreSQL 15.0"),
        ("SELECT current_user, current_database(), current_schema()", "tester|lot|public"),
    ],
)
def test_commands_of_psql_show_the_catalog(server, command, line):
    shown = psql(server, command)
    assert any(found.startswith(line) for found in shown), shown


def test_statements_and_answers(server):
    assert psql(server, "SELECT room, temp, note FROM Hot ORDER BY room") == [
        "room|temp|note",
        "1|90.5|it's",
        "3|85|ä€",
        "5|81.25|b",
        "(3 rows)",
    ]
    shown = psql(
        server, "CREATE VIEW P1 AS SELECT room FROM Hot", "SELECT count(*) AS n FROM public.P1", "DROP VIEW P1"
    )
    assert shown[0] == "CREATE VIEW" and "DROP VIEW" in shown


def test_errors_are_shown_at_their_place(server):
    shown = psql(server, "SELECT room FROM Hott", expect=1)
    assert shown[0] == 'ERROR:  TM301 there is no stream, view or table named "Hott"'
    assert shown[1:3] == ["LINE 1: SELECT room FROM Hott", "                         ^"]
    assert shown[3] == "HINT:  did you mean Hot?"


def test_copy_in_psql(server):
    assert psql(server, "\\copy (SELECT room, note FROM Hot ORDER BY room) to stdout csv header") == [
        "room,note",
        "1,it's",
        "3,ä€",
        "5,b",
    ]


def test_a_subscription_streams_by_copy(server):
    """psql itself collects lines for a pipe; `stdbuf -oL` makes it pass each one on."""
    found = subprocess.Popen(
        ["stdbuf", "-oL", PSQL, "-X", server.dsn(), "-c", "COPY (SUBSCRIBE Hot) TO STDOUT"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [found.stdout.readline().rstrip("\n").split("\t") for _ in range(3)]
        assert sorted((line[0], line[2], line[3]) for line in lines) == [
            ("+", "1", "90.5"),
            ("+", "3", "85"),
            ("+", "5", "81.25"),
        ]
    finally:
        found.kill()
        found.wait()
        found.stdout.close()


def test_ctrl_c_cancels_within_a_second(server):
    running = subprocess.Popen(
        [PSQL, "-X", server.dsn(), "-c", "SUBSCRIBE Hot"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    time.sleep(1.0)
    began = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert time.monotonic() - began < 1.0
    assert "TM522 the query was cancelled" in errors
