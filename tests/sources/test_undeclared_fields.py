"""Fields of JSON records that no column is declared for are counted alike on the fast path and on the slow one."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.records import MOST_UNDECLARED
from tidemill.runtime.sources.text.decode import decode
from tidemill.runtime.sources.text.lines import find_lines

SPEC = SourceSpec("s", "port", (Column("id", "INTEGER"), Column("b", "VARCHAR")))
NAMES = ["id", "b", "ID", "B", "x", "y", "xy", "é", "", 'q"', "idx"]
VALUES = st.one_of(st.integers(0, 9), st.none(), st.sampled_from(["x", 'q"', "é"]), st.just({"id": 1}), st.just([1]))


def counted(records: list[dict], plain: bool) -> dict[str, int]:
    data = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()
    return decode(find_lines(data), SPEC, None, plain=plain).undeclared


@effort(150)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=6), max_size=8))
def test_each_undeclared_field_is_counted_once_a_record(records):
    wanted = Counter(name for r in records for name in r if name.lower() not in ("id", "b"))
    assert counted(records, True) == counted(records, False) == dict(wanted)


@effort(100)
@given(
    st.recursive(
        st.one_of(st.integers(), st.text('a"\\{}[],: é', max_size=5), st.none(), st.booleans()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text('a"\\{}[],: ', max_size=3), inner, max_size=3)
        ),
    ),
    st.text('xyz"\\{}[],:\t', min_size=1, max_size=4),
    st.booleans(),
)
def test_what_is_inside_of_a_value_is_no_field(value, name, spaced):
    record = json.dumps({"id": 1, name: value, "last": value}, separators=(" , ", " : ") if spaced else (",", ":"))
    for plain in (True, False):
        assert decode(find_lines(f"  {record} ".encode()), SPEC, None, plain=plain).undeclared == {name: 1, "last": 1}


def test_more_fields_than_are_told():
    records = [{"id": 1, **{f"f{i:03d}": i for i in range(100)}}] * 3
    for plain in (True, False):
        found = counted(records, plain)
        assert found == {f"f{i:03d}": 3 for i in range(MOST_UNDECLARED)}


def test_csv_and_arrays_have_no_fields_of_their_own():
    assert decode(find_lines(b'[1,"x"]\n[2,"y"]\n'), SPEC, None).undeclared == {}
