"""Values as people read them, and what a stream must not be able to do to a terminal."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from fake_db import CHANGES
from hypothesis import given
from hypothesis import strategies as st

from tidemill.plan.value_text import clean, plain
from tidemill.serve.render import change_lines, fit_widths, format_size, rows_line, table_of
from tidemill.serve.results import SCREEN_ROWS, print_result


def shown(console, thing):
    console.print(thing)
    return console.file.getvalue()


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "NULL"),
        (False, "false"),
        (7, "7"),
        (1e300, "1e+300"),
        (float("nan"), "nan"),
        (0.1 + 0.2, "0.3"),
        (-0.0, "-0.0"),
        (b"\x01\xff", "0x01ff"),
        ({"a": None}, "{a: NULL}"),
        (dt.date(2026, 1, 2), "2026-01-02"),
        (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), "2026-01-02 00:00:00+00:00"),
        ("a\nb", "a↵b"),
    ],
)
def test_values(value, text):
    assert plain(value) == text


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x07", "\x9b31m", "\u202eabc", "\r"])
def test_a_value_cannot_control_the_terminal(console, hostile):
    text = shown(console, table_of(pa.table({hostile: [hostile]})))
    assert hostile not in text and hostile not in clean(hostile)
    table = CHANGES.set_column(2, hostile, pa.array([hostile] * 3))
    assert all(hostile not in line.plain for line in change_lines(hostile, table))


def test_a_value_is_never_read_as_markup(console):
    assert "[red]x[/red]" in shown(console, table_of(pa.table({"a": ["[red]x[/red]"]})))


def test_numbers_stand_to_the_right_and_text_to_the_left(console):
    lines = shown(console, table_of(pa.table({"n": [1, 1000], "s": ["a", "long text"]}))).splitlines()
    assert any(line.strip().startswith("1 ") and line.index("1") > 1 for line in lines)
    assert any("a        " in line + " " * 9 for line in lines)


def test_decimals_keep_their_digits(console):
    table = pa.table({"d": pa.array([Decimal("1.50"), Decimal("1E+3")], pa.decimal128(10, 2))})
    text = shown(console, table_of(table))
    assert "1.50" in text and "1000.00" in text


def test_columns_may_have_equal_names(console):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert "1" in shown(console, table_of(table)) and "2" in shown(console, table_of(table))


def test_a_wide_table_fits_the_terminal(console):
    table = pa.table({f"c{i}": ["x" * 50] for i in range(6)})
    assert max(len(line) for line in shown(console, table_of(table)).splitlines()) <= 100


def test_a_long_column_leaves_the_short_ones_whole(console):
    console.print(table_of(pa.table({"name": ["Entrances"], "definition": ["x" * 300]}), width=60))
    text = console.file.getvalue()
    assert "Entrances" in text and "…" in text and max(len(line) for line in text.splitlines()) <= 60


@given(st.lists(st.integers(1, 200), max_size=12), st.integers(-5, 300))
def test_fitted_widths(widths, room):
    found = fit_widths(widths, room)
    assert all(1 <= got <= wanted for got, wanted in zip(found, widths, strict=True))
    assert sum(found) <= max(room, len(widths))
    assert found == widths or sum(widths) > room


def test_nanoseconds_are_shown_in_microseconds(console):
    table = pa.table({"t": pa.array([1_000_000_001], pa.timestamp("ns"))})
    assert "1970-01-01 00:00:01" in shown(console, table_of(table))


def test_an_empty_table_says_so(console):
    print_result(console, pa.table({"a": pa.array([], pa.int64())}))
    assert "0 rows" in console.file.getvalue()


def test_a_pipe_gets_all_rows(console):
    print_result(console, pa.table({"a": list(range(SCREEN_ROWS + 40))}))
    assert str(SCREEN_ROWS + 39) in console.file.getvalue()
    assert rows_line(pa.table({"a": [1]})) == "1 row"


def test_tags_are_coloured_and_updates_show_what_was_there():
    inserted, updated, deleted = change_lines("Lot", CHANGES)
    assert [line.spans[0].style for line in (inserted, updated, deleted)] == ["bold green", "bold yellow", "bold red"]
    assert updated.plain == "u 2 Lot VType=car n=2 (was 1)"
    assert deleted.plain == "- 3 Lot VType=bus n=1"


def test_what_is_left_out_is_counted():
    assert change_lines("Lot", CHANGES, limit=1)[-1].plain.strip() == "… 2 more changes of Lot"


def test_sizes():
    assert [format_size(n) for n in (0, 1500, 2.5e15)] == ["0 B", "1.5 kB", "2500.0 TB"]
