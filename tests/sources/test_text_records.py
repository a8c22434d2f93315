"""CSV and JSON lines: what becomes a row, what becomes a bad record and why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.text.decode import decode
from tidemill.runtime.sources.text.lines import declared_layout, find_lines

SPEC = SourceSpec("s", "files", (Column("a", "INTEGER"), Column("b", "VARCHAR")), options={"max_record_bytes": 40})


def outcome(data: bytes, layout, spec=SPEC, mixed=False):
    """One entry for each record: its row, or the reason it has none."""
    lines = find_lines(data)
    decoded = decode(lines, spec, layout, mixed)
    rows = dict(zip(decoded.index.tolist(), map(tuple, map(dict.values, decoded.rows.to_pylist())), strict=True))
    assert set(rows) | set(decoded.bad) == set(range(len(lines)))
    assert not set(rows) & set(decoded.bad)
    assert np.all(np.diff(decoded.index) > 0)
    return [rows.get(i, decoded.bad.get(i)) for i in range(len(lines))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"1,x", (1, "x")),
        (b"1,x\r", (1, "x")),
        (b"1,", (1, None)),
        (b',""', (None, "")),
        (b'"",x', (None, "x")),
        (b'1,"a,""b"""', (1, 'a,"b"')),
        (b'1,5" disk', (1, '5" disk')),
        (b"1,\xc3\xa4", (1, "ä")),
        (b"abc,x", 'column "a": cannot read "abc" as INTEGER'),
        (b"1", "1 fields where 2 were expected"),
        (b"1,2,3", "3 fields where 2 were expected"),
        (b"1,\xff", "not valid UTF-8"),
        (b'1,"open', "quoted field is not closed"),
        (b"1,a\rb", "carriage return inside the record"),
        (b"1," + b"x" * 40, "record of 42 bytes exceeds 40 bytes"),
        (b"\xef\xbb\xbf1,x", 'column "a": cannot read "\ufeff1" as INTEGER'),
    ],
)
def test_csv_line(line, expected):
    layout = declared_layout(SPEC)
    assert outcome(line, layout) == [expected]
    assert outcome(b"7,y\n" + line + b"\n8,z\n", layout) == [(7, "y"), expected, (8, "z")]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"a":1,"b":"x"}', (1, "x")),
        (b'  {"a":1}', (1, None)),
        (b'{"A":1,"B":"x"}', (1, "x")),
        (b'{"a":null,"z":5}', (None, None)),
        (b'{"a":"12","b":7}', (12, "7")),
        (b'{"b":{"k":[1,2]}}', (None, '{"k":[1,2]}')),
        (b'{"b":"\\u00e4"}', (None, "ä")),
        (b'[3,"x"]', (3, "x")),
        (b"[3]", "1 fields where 2 were expected"),
        (b"12", "neither a JSON object nor a JSON array"),
        (b'{"a":', "not valid JSON"),
        (b"[1,", "not valid JSON"),
        (b'{"b":"\xff"}', "not valid UTF-8"),
        (b'{"a":"q"}', 'column "a": cannot read "q" as INTEGER'),
        (b'{"b":"' + b"x" * 40 + b'"}', "record of 48 bytes exceeds 40 bytes"),
    ],
)
def test_json_line(line, expected):
    def same(found):
        return found == expected or (isinstance(found, str) and str(found).startswith(str(expected)))

    assert same(outcome(line, None)[0])
    around = outcome(b'{"a":7}\n' + line + b"\n[8,null]\n", None)
    assert (around[0], around[2]) == ((7, None), (8, None)) and same(around[1])


def test_mixed_lines_keep_their_order():
    data = b'1,x\n{"a":2}\n\n3,y\n{"a":"q"}\n4,z'
    found = outcome(data, declared_layout(SPEC), mixed=True)
    assert found == [(1, "x"), (2, None), (3, "y"), 'column "a": cannot read "q" as INTEGER', (4, "z")]


PIECES = st.sampled_from(
    [
        b"1",
        b"x",
        b",",
        b'"',
        b"\r",
        b"\xff",
        b"\xc3\xa4",
        b"{",
        b"}",
        b'"a":',
        b"[",
        b"]",
        b" ",
        b"\xef\xbb\xbf",
        b"\\",
        b"null",
        b"\\u00e4",
        b'{"a":1}',
        b'{"A":2,"b":"t"}',
        b"1,x",
        b"2,y",
    ]
)
LINES = st.lists(st.lists(PIECES, max_size=6).map(b"".join), max_size=12)


@settings(max_examples=300, deadline=None)
@given(lines=LINES, mixed=st.booleans(), is_json=st.booleans())
def test_a_line_never_depends_on_its_neighbours(lines, mixed, is_json):
    layout = None if is_json else declared_layout(SPEC)
    together = outcome(b"\n".join(lines), layout, mixed=mixed)
    alone = [found for line in lines for found in outcome(line, layout, mixed=mixed)]
    assert [r if isinstance(r, tuple) else "bad" for r in together] == [
        r if isinstance(r, tuple) else "bad" for r in alone
    ]


@settings(max_examples=100, deadline=None)
@given(lines=LINES)
def test_the_reason_is_the_same_in_any_block(lines):
    layout = declared_layout(SPEC)
    assert outcome(b"\n".join(lines), layout) == [r for line in lines for r in outcome(line, layout)]
