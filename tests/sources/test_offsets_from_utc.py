"""Times with an offset from UTC, read into TIMESTAMP and TIMESTAMPTZ: the moment in UTC, on every path."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.text.decode import decode
from tidemill.runtime.sources.text.lines import declared_layout, find_lines

NOON = dt.datetime(2024, 3, 1, 12, 0)
CASES = {
    "2024-03-01T14:00:00+02:00": NOON,
    "2024-03-01T12:00:00Z": NOON,
    "2024-03-01T06:30:00-0530": NOON,
    "2024-03-01 14:00:00+02": NOON,
    "2024-03-01 06:30:00-05:30": NOON,
    "2024-03-01T12:00:00": NOON,
    "2024-03-01T12:00:00+00:00": NOON,
    "2024-03-01T14:00:00.25+02:00": NOON.replace(microsecond=250_000),
    "2024-03-01 12:00:00 UTC": NOON,
    "2024-03-02T02:00:00+14:00": NOON,
}


def spec(kind: str) -> SourceSpec:
    return SourceSpec("s", "port", (Column("t", kind), Column("n", "INTEGER")))


def lines(form: str, texts: list[str]) -> bytes:
    if form == "csv":
        return "".join(f"{text},{i}\n" for i, text in enumerate(texts)).encode()
    return "".join(json.dumps({"t": text, "n": i}) + "\n" for i, text in enumerate(texts)).encode()


def times(form: str, kind: str, texts: list[str], plain: bool = True) -> list[dt.datetime]:
    source = spec(kind)
    layout = declared_layout(source) if form == "csv" else None
    found = decode(find_lines(lines(form, texts)), source, layout, plain=plain)
    assert found.bad == {}
    return [t.replace(tzinfo=None) for t in found.rows.column("t").to_pylist()]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ"])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_offset_from_utc_counts(form, kind, plain):
    assert times(form, kind, list(CASES), plain) == list(CASES.values())


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_offset_that_cannot_be_read_is_bad(form):
    source = spec("TIMESTAMP")
    texts = ["2024-03-01T12:00:00 +02:00", "2024-03-01T12:00:00 Nowhere/Else"]
    found = decode(find_lines(lines(form, texts)), source, declared_layout(source) if form == "csv" else None)
    assert sorted(found.bad) == [0, 1]


@effort(60)
@given(
    moments=st.lists(
        st.tuples(
            st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)),
            st.one_of(st.none(), st.integers(-14 * 60, 14 * 60)),
        ),
        min_size=1,
        max_size=5,
    ),
    form=st.sampled_from(["csv", "json"]),
    plain=st.booleans(),
    colon=st.booleans(),
)
def test_every_offset_gives_the_moment_in_utc(moments, form, plain, colon):
    texts, wanted = [], []
    for moment, minutes in moments:
        offset = (
            ""
            if minutes is None
            else f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{':' if colon else ''}{abs(minutes) % 60:02d}"
        )
        texts.append(moment.isoformat() + offset)
        wanted.append(moment - dt.timedelta(minutes=minutes or 0))
    assert times(form, "TIMESTAMP", texts, plain) == wanted
