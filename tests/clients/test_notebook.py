"""Cells of SQL in IPython: results as tables, plans as pictures, errors, and a view that updates in place."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from tests.postgres.serving import wait_until
from tidemill.errors import TidemillError


@pytest.fixture(scope="module")
def shell(db):
    made = InteractiveShell.instance()
    made.run_line_magic("load_ext", "tidemill")
    made.user_ns["lot"] = db
    made.run_line_magic("tidemill", "lot")
    yield made
    InteractiveShell.clear_instance()


def shown(outputs):
    return "".join(str(output.data.get("text/html", "")) for output in outputs)


def test_cells_show_the_result_of_every_statement(shell):
    with capture_output() as found:
        shell.run_cell_magic("tidemill", "answer", "SHOW VIEWS; SELECT room, temp FROM Hot ORDER BY room")
    text = shown(found.outputs)
    assert "PerRoom" in text and "90.5" in text and text.count("<table>") == 2
    assert shell.user_ns["answer"].column("room").to_pylist() == [1, 3, 5]


def test_plans_are_pictures_with_their_text(shell, db):
    with capture_output() as found:
        shell.run_cell_magic("tidemill", "", "EXPLAIN VIEW Hot")
    text = shown(found.outputs)
    assert text.startswith("<svg") and "placement" in text
    db.execute("CREATE VIEW Odd AS SELECT note || '<script>' AS a FROM Log")
    assert "<script>" not in db.explain("EXPLAIN VIEW Odd")._repr_html_()
    db.execute("DROP VIEW Odd")


def test_errors_are_shown_and_end_the_cell(shell, db):
    with capture_output() as found, pytest.raises(TidemillError):
        shell.run_cell_magic("tidemill", "", "DROP VIEW Nothing; CREATE VIEW Later AS SELECT room FROM Hot")
    assert "TM301" in shown(found.outputs) and "later" not in db.catalog.entries


def test_a_view_is_kept_up_to_date_in_place(shell, db, feed):
    feed.write((7, 99.5, "live"), (9, 0, "later"))
    wait_until(lambda: 7 in db.query("SELECT room FROM Hot").column("room").to_pylist())
    with capture_output() as found:
        shell.run_line_magic("tidemill_follow", "Hot 1")
    assert "99.5" in shown(found.outputs[-1:])
    updates = [output for output in found.outputs if output.update]
    assert updates


def test_without_a_database_the_hint_says_what_to_type(shell):
    from tidemill.serve.notebook import Magics

    with pytest.raises(TidemillError, match="TM534"):
        Magics(shell).execute("", "SHOW VIEWS")
