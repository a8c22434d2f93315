"""The conversation: when the job starts, what ctrl-C ends, what an error leaves alone."""

from __future__ import annotations

import io
import os
import signal
from itertools import pairwise

import pytest
from fake_db import CHANGES, FakeSubscription
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pygments.token import Keyword

from tidemill.engine.script import read_arriving
from tidemill.interrupts import plain_interrupts
from tidemill.serve.follow import follow, last_error
from tidemill.serve.shell import META, Leave, Shell, feed_lines, parse_meta
from tidemill.serve.shell_input import (
    TidemillLexer,
    Words,
    catalog_names,
    converse,
    history_path,
    is_complete,
    make_session,
)

VIEW = "CREATE VIEW v AS SELECT a FROM s;"


@pytest.fixture
def shell(db, console):
    return Shell(db, console)


def printed(shell):
    return shell.console.file.getvalue()


def test_the_job_starts_with_the_first_view(shell):
    shell.feed("SHOW ALL;")
    assert "<start>" not in shell.db.log
    shell.feed(VIEW)
    assert shell.db.log[-1] == "<start>"
    shell.feed(VIEW)
    assert shell.db.log.count("<start>") == 1


def test_the_job_starts_after_all_views_of_one_input(shell):
    shell.feed(VIEW + VIEW)
    assert shell.db.log[-1] == "<start>" and shell.db.log.count("<start>") == 1


def test_pasted_definitions_are_one_change_of_the_plan(shell):
    """50 pasted CREATE VIEWs: over 4 minutes, since each got its own plan."""
    views = "".join(f"CREATE VIEW v{i} AS SELECT a FROM s;\n" for i in range(50))
    shell.feed(views + "SELECT 1; DROP VIEW v1; DROP VIEW v2;")
    assert len(shell.db.calls) == 3
    assert all(f"v{i} created" in printed(shell) for i in range(50))


def test_lines_that_came_together_are_executed_together(shell):
    assert feed_lines(shell, [VIEW + "\n" + VIEW + "\n\\timing\nDROP VIEW v; CREATE", " VIEW w AS\nSELECT 1;\n"])
    assert [call.count(";") + 1 for call in shell.db.calls] == [2, 1, 1]
    assert shell.timing


def test_an_unmarked_paste_is_executed_together(shell, tmp_path):
    with create_pipe_input() as typed:
        typed.send_text("".join(f"CREATE VIEW v{i} AS SELECT a\r FROM s;\r" for i in range(20)) + "\\timing\r\\q\r")
        converse(shell, make_session(shell, str(tmp_path), input=typed, output=DummyOutput()))
    assert len(shell.db.calls) == 1 and shell.timing


def test_an_error_in_a_paste_points_at_its_statement(shell):
    first, last = "CREATE VIEW a AS SELECT 1; -- one\n\n", "CREATE VIEW c AS SELECT 1;"
    shell.feed(f"{first}  CREATE VIEW b AS SELECT x\nFROM missing;\n{last}")
    assert shell.failed and "a created" in printed(shell) and "c created" not in printed(shell)
    lines = printed(shell).splitlines()
    at = next(i for i, line in enumerate(lines) if "FROM missing" in line)
    assert lines[at].index("missing") == lines[at + 1].index("^")


@pytest.mark.parametrize("cuts", [(5,), (30, 31), ()])
def test_a_pipe_gives_what_has_come(cuts):
    text = "SHOW ALL;\nSELECT 'ä';\nSELECT 1"
    read, write = os.pipe()
    data = text.encode()
    found = []
    with os.fdopen(read, encoding="utf-8") as stream:
        lines = read_arriving(stream)
        for begin, end in pairwise([0, *cuts, len(data)]):
            os.write(write, data[begin:end])
        os.close(write)
        found = list(lines)
    assert "".join(found) == text


def test_no_run_starts_nothing(shell):
    shell.no_run = True
    shell.feed(VIEW + "SELECT * FROM v; SUBSCRIBE v;")
    assert "<start>" not in shell.db.log and "<run>" not in shell.db.log
    shell.feed("\\run")
    assert "<run>" in shell.db.log and "1,200" in printed(shell)


def test_a_script_takes_the_data_in_before_a_select(shell):
    shell.live = False
    assert feed_lines(shell, [VIEW + "\n", "SELECT * FROM v; SELECT 1;\n"])
    assert shell.db.log == [VIEW[:-1], "<run>", "SELECT * FROM v", "SELECT 1"]


def test_ctrl_c_ends_the_subscription_only(shell):
    shell.feed("SUBSCRIBE v;")
    assert not shell.failed and shell.db.is_running
    assert shell.db.subscriptions[0].closed
    assert "u 2 v VType=car n=2 (was 1)" in printed(shell) and "3 changes" in printed(shell)


def test_a_standing_query_is_followed_and_goes_on(shell):
    shell.feed("SELECT STREAMED a FROM R(s);")
    assert shell.db.is_running and shell.db.subscriptions[0].closed
    assert "DROP QUERY query_1" in printed(shell)


def test_ctrl_c_in_a_statement_is_survived(shell, monkeypatch):
    def interrupted(text):
        raise KeyboardInterrupt

    monkeypatch.setattr(shell.db, "execute", interrupted)
    shell.feed("SELECT 1;")
    assert shell.failed and "interrupted" in printed(shell)


def test_a_conversation_outlives_what_nobody_foresaw(shell, monkeypatch):
    monkeypatch.setattr(shell.db, "execute", lambda text: 1 / 0)
    shell.feed("SELECT 1;")
    assert shell.failed and "ZeroDivisionError" in printed(shell)


def test_a_job_that_ends_is_reported(shell, monkeypatch):
    def end(timeout):
        shell.db.is_running = False

    dying = FakeSubscription()
    dying.next = end
    monkeypatch.setattr(shell.db, "subscribe", lambda name: dying)
    shell.feed("SUBSCRIBE v;")
    assert shell.failed and dying.closed and "TM504 the job has ended" in printed(shell)


def test_the_log_tells_why_a_job_ended(tmp_path):
    log = tmp_path / "spark.log"
    assert last_error(str(log)) is None
    log.write_bytes(b"\xff INFO: Error\nValueError: first\n  at x\nCaused by: y\na.b.KeyError: 'k'\n\tat z\n")
    assert last_error(str(log)) == "a.b.KeyError: 'k'"


def test_following_restores_the_handler_of_others(console):
    before = signal.getsignal(signal.SIGINT)
    subscription = FakeSubscription(CHANGES)
    assert follow(console, {"v": subscription}) == 3
    assert subscription.closed and signal.getsignal(signal.SIGINT) is before


def test_following_ends_with_the_job_and_with_its_time(console):
    quiet = FakeSubscription(interrupt=False)
    assert follow(console, {"v": quiet}, alive=lambda: False) == 0
    assert follow(console, {"v": quiet}, seconds=0.01) == 0


def test_a_handler_of_spark_does_not_see_ctrl_c():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        with pytest.raises(KeyboardInterrupt), plain_interrupts():
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert seen == [1]
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_points_at_its_place_and_the_rest_is_left_out(shell):
    shell.feed("SHOW ALL;\n  SELECT * FROM missing; SHOW VIEWS;")
    assert shell.failed and shell.db.log == ["SHOW ALL", "SELECT * FROM missing"]
    lines = printed(shell).splitlines()
    at = next(i for i, line in enumerate(lines) if "SELECT * FROM missing" in line)
    assert lines[at].index("missing") == lines[at + 1].index("^")


def test_a_script_stops_at_the_first_error(shell):
    assert not feed_lines(shell, ["SELEC 1;\n", "SHOW ALL;\n"])
    assert shell.db.log == [] and "TM105" in printed(shell)


def test_a_script_may_spread_and_end_without_a_semicolon(shell):
    assert feed_lines(shell, io.StringIO("SELECT\n1\n;SHOW\nALL"))
    assert shell.db.log == ["SELECT\n1", "SHOW\nALL"]


def test_a_script_may_use_meta_commands_and_leave(shell):
    assert feed_lines(shell, ["\\timing\n", "SHOW ALL;\n", "\\q\n", "SELEC;\n"])
    assert " ms" in printed(shell)


@pytest.mark.parametrize(
    "text, command",
    [
        ("help", ("\\help", "")),
        ("EXIT;", ("\\q", "")),
        ("quit", ("\\q", "")),
        ("\\PLAN Lot", ("\\plan", "Lot")),
        ("SELECT help;", None),
        ("", None),
        ("\\nothing", ("\\nothing", "")),
    ],
)
def test_meta_commands(text, command):
    assert parse_meta(text) == command


@pytest.mark.parametrize("command", [name for name in META if name != "\\q"])
def test_every_meta_command_answers(shell, command):
    shell.feed(command)
    assert not shell.failed and printed(shell).strip()


def test_an_unknown_command_gets_help(shell):
    shell.feed("\\nothing")
    assert "there is no command \\nothing" in printed(shell) and "\\status" in printed(shell)


def test_leaving(shell):
    with pytest.raises(Leave):
        shell.feed("\\q")


@pytest.mark.parametrize(
    "text, done",
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT", False),
        ("exit", True),
        ("\\q", True),
    ],
)
def test_enter_executes_complete_input_only(text, done):
    assert is_complete(text) is done


def complete(words, text):
    return [found.text for found in words.get_completions(Document(text), None)]


def test_completion_knows_keywords_names_and_commands(db):
    words = Words(lambda: catalog_names(db))
    assert complete(words, "SELECT * FROM lo") == ["Lot"]
    assert "STREAMED" in complete(words, "select str")
    assert complete(words, "\\st") == ["\\status"]
    assert complete(words, "SELECT ") == []


def test_completion_survives_a_database_that_cannot_answer():
    assert catalog_names(None) == []


def test_our_words_are_keywords():
    kinds = {value: kind for _, kind, value in TidemillLexer().get_tokens_unprocessed("SUBSCRIBE x SYNC EVERY")}
    assert all(kinds[word] in Keyword for word in ("SUBSCRIBE", "SYNC", "EVERY")) and kinds["x"] not in Keyword


def test_history_is_kept_beside_the_data(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_path(None) == str(tmp_path / ".tidemill_history")
    assert history_path(str(tmp_path / "db")) == str(tmp_path / "db" / "shell_history")


def test_a_conversation_over_several_lines(shell, tmp_path):
    with create_pipe_input() as keys:
        keys.send_text("SHOW\rALL;\rabc\x03SELECT 1;\r\x04")
        converse(shell, make_session(shell, str(tmp_path), input=keys, output=DummyOutput()))
    assert shell.db.log == ["SHOW\nALL", "SELECT 1"]
    assert "+SHOW" in (tmp_path / "shell_history").read_text()
