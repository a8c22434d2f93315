"""Where statements end, what waits for the data, and where errors point."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.engine.script import place_statements, setup_and_questions, take_complete
from tidemill.errors import SyntaxProblem, TidemillError
from tidemill.serve.problems import WIDEST_EXCERPT, describe, excerpt
from tidemill.sql.lexical.tokens import find_semicolons, split

PIECES = [
    "SHOW ALL",
    "SELECT ';'",
    ";",
    "\n",
    " -- a ; b\n",
    "/* ; /* ; */ */",
    '"a;b"',
    "'it''s;'",
    "$$;$$",
    "$x$;$x$",
    " ",
    "x",
    "1",
    "(",
    ")",
    "--",
    "$$",
    "$",
    "$x$",
    "é",
    "_",
    "e'",
    "E'\\';'",
    "x'",
    ".",
    "1e",
    "@",
    "0x",
    "::",
    "N'",
    "\\",
    "''",
    "'",
    '"',
    "#",
    "{#",
    "b'",
    "\u00a0",
    "\x00",
    "r'",
    "{{",
    "%}",
    "-",
    "/",
    "\r",
    "<",
    ">",
    "|",
    "!",
    "&",
    "~",
    "^",
    "+",
    "=",
    "?",
    ":",
    "1.",
    "1e+",
    "1_",
    "xe",
    "$1",
    "{",
    "}",
    "[",
    "`",
]


@pytest.mark.parametrize(
    "text, complete, rest",
    [
        ("", "", ""),
        ("SHOW ALL", "", "SHOW ALL"),
        ("SHOW ALL;", "SHOW ALL;", ""),
        ("a; b", "a;", " b"),
        ("SELECT 'a;", "", "SELECT 'a;"),
        ("SELECT 'a;';", "SELECT 'a;';", ""),
        ("-- a;\n", "", "-- a;\n"),
        ("SELECT ALL$$;$$", "SELECT ALL$$;", "$$"),
        ("/* ; */ a;", "/* ; */ a;", ""),
        ("/* ;", "", "/* ;"),
        ("$t$ ; $t$;", "$t$ ; $t$;", ""),
        ('"x;', "", '"x;'),
    ],
)
def test_complete_statements(text, complete, rest):
    assert take_complete(text) == (complete, rest)


@effort(1500)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_statements_end_where_the_parser_says(text):
    """SELECT ALL$$;$$ was one statement for the shell and two for the parser."""
    ends = find_semicolons(text)
    assert all(text[end] == ";" for end in ends)
    try:
        expected = split(text)
    except TidemillError:
        return
    assert len([part for part in parts(text, ends) if has_statement(part)]) == len(expected)


def parts(text, ends):
    return [text[a + 1 : b] for a, b in pairwise([-1, *ends, len(text)])]


def has_statement(part):
    """Whether the parser finds exactly one statement, or something that it cannot read."""
    try:
        assert len(split(part)) <= 1
        return bool(split(part))
    except TidemillError:
        return True


@effort(500)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.integers(0, 40))
def test_what_is_complete_stays_so_when_more_is_typed(text, cut):
    """Statements that a shell has taken from a beginning are those of the whole."""
    complete, _ = take_complete(text[:cut])
    ends = find_semicolons(text)
    assert all(end in ends for end in find_semicolons(complete[:-1])) or not complete


def test_questions_at_the_end_wait_for_the_data():
    text = "SELECT 1; CREATE VIEW v AS SELECT a FROM s; SHOW ALL; SELECT 2; SUBSCRIBE v"
    setup, questions = setup_and_questions(place_statements(text))
    assert [part.statement.text for part in setup] == ["SELECT 1", "CREATE VIEW v AS SELECT a FROM s"]
    assert [part.statement.text for part in questions] == ["SHOW ALL", "SELECT 2", "SUBSCRIBE v"]


def test_a_standing_query_does_not_wait():
    setup, questions = setup_and_questions(place_statements("SELECT STREAMED a FROM R(s)"))
    assert len(setup) == 1 and not questions


def test_each_statement_keeps_its_place_in_the_file():
    text = "SHOW ALL; SHOW ALL;\n\r\n  SHOW VIEWS"
    for part in place_statements(text):
        assert text.startswith(part.text.strip(), len(part.text) - len(part.text.strip()))
        assert len(part.text) <= len(text)
    last = place_statements(text)[-1].text
    assert last.count("\n") == 2 and last.endswith("  SHOW VIEWS")


@pytest.mark.parametrize(
    "text, line, column, shown, caret",
    [
        ("SELEC 1", 1, 1, "SELEC 1", 0),
        ("a\nb c", 2, 3, "b c", 2),
        ("\tx y", 1, 4, " x y", 3),
        ("a\r\nbc", 2, 2, "bc", 1),
        ("a", 1, 2, "a", 1),
        ("日本 x", 1, 4, "日本 x", 5),
    ],
)
def test_the_caret_stands_under_the_place(text, line, column, shown, caret):
    assert excerpt(text, line, column) == (shown, " " * caret + "^")


def test_no_excerpt_where_there_is_no_such_line():
    assert excerpt("a", 2, 1) is None and excerpt("a", 0, 1) is None


@given(st.text("abc ", min_size=1, max_size=400), st.data())
def test_long_lines_are_cut_around_the_place(text, data):
    column = data.draw(st.integers(1, len(text)))
    shown, caret = excerpt(text, 1, column)
    assert shown[len(caret) - 1] == text[column - 1] and len(shown) <= WIDEST_EXCERPT + 2


def test_an_error_shows_code_place_caret_and_hint():
    error = SyntaxProblem("TM105", 'no statement begins with "SELEC"', line=2, column=1, hint="did you mean SELECT?")
    lines = describe(error, "SHOW ALL;\nSELEC 1;", "x.sql").plain.splitlines()
    assert lines == [
        'TM105 no statement begins with "SELEC"',
        "  at x.sql:2:1",
        "  2 │ SELEC 1;",
        "    │ ^",
        "hint:   did you mean SELECT?",
    ]


def test_an_error_without_a_place_is_short():
    assert describe(TidemillError("TM601", "held", detail="by 7")).plain == "TM601 held\ndetail: by 7"


def test_a_traceback_is_for_the_log():
    told = 'Return Message: Traceback (most recent call last):\n  File "worker.py", line 1\nOSError: [Errno 28] full'
    error = TidemillError("TM504", "the job failed: OSError: [Errno 28] full", detail=told, hint="the log is x")
    assert describe(error).plain == "TM504 the job failed: OSError: [Errno 28] full\nhint:   the log is x"
