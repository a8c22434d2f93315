"""Records that are read in blocks become the rows that they become one by one; a twin checks the spool's kernels."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.kernels.text.spool import frame_lines
from tidemill.runtime.sources.port.segments import HEADER, records
from tidemill.runtime.sources.text.decode import decode
from tidemill.runtime.sources.text.lines import declared_layout, find_lines, layout
from tidemill.runtime.sources.text.plain import take_plain

INTEGERS = {
    "TINYINT": (-(2**7), 2**7),
    "SMALLINT": (-(2**15), 2**15),
    "INTEGER": (-(2**31), 2**31),
    "BIGINT": (-(2**63), 2**63),
    "UTINYINT": (0, 2**8),
    "USMALLINT": (0, 2**16),
    "UINTEGER": (0, 2**32),
    "UBIGINT": (0, 2**64),
    "HUGEINT": (-(10**38), 10**38),
}
TYPES = [
    *INTEGERS,
    "FLOAT",
    "DOUBLE",
    "BOOLEAN",
    "VARCHAR",
    "BLOB",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "DECIMAL(9,3)",
    "DECIMAL(18,0)",
    "DECIMAL(38,10)",
]

TIMES = st.from_regex(r"([01]\d|2[0-9]):[0-6]\d(:[0-6]\d(\.\d{1,7})?)?", fullmatch=True)
DATES = st.one_of(
    st.dates().map(str),
    st.from_regex(r"\d{4}-[01]\d-[0-3]\d", fullmatch=True),
    st.from_regex(r"\d{1,5}-\d{1,2}-\d{1,2}( \(BC\))?", fullmatch=True),
)
STAMPS = st.one_of(
    st.datetimes().map(str),
    st.datetimes().map(lambda d: d.isoformat() + "Z"),
    st.tuples(
        DATES,
        st.sampled_from([" ", "T", "  ", "t", ""]),
        TIMES,
        st.sampled_from(["", "", "Z", "z", "+00", "+00:00", "-05:30", " UTC", " "]),
    ).map("".join),
    st.sampled_from(
        [
            "infinity",
            "-infinity",
            "epoch",
            "2024-02-29 00:00:00",
            "2023-02-29 00:00:00",
            "1900-02-29 00:00:00",
            "2000-02-29T23:59:60",
            "0000-01-01 00:00:00",
            "9999-12-31 23:59:59.999999",
            "10000-01-01 00:00:00",
            "294247-01-10 04:00:54.775806",
            "2020-01-01",
            "2020-01-01 24:00:00",
        ]
    ),
)
WORDS = st.sampled_from(
    [
        "true",
        "false",
        "True",
        "FALSE",
        "t",
        "f",
        "yes",
        "no",
        "on",
        "1",
        "0",
        "2",
        "null",
        "NULL",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "nan",
        "",
        " ",
        "-",
        "+",
        ".",
        "e5",
        "1_000",
        "0x1F",
        "0b1",
    ]
)
NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.integers(-2000, 2000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.2f}"),
    st.decimals(-(10**9), 10**9, places=3).map(str),
    st.from_regex(r"[+-]?0{0,3}\d{0,20}\.?\d{0,20}([eE][+-]?\d{1,3})?", fullmatch=True).filter(str.isascii),
)
EDGES = st.sampled_from([str(n + d) for low, high in INTEGERS.values() for n in (low, high) for d in (-1, 0, 1)])
TEXTS = st.one_of(st.text("abZ ,;\t'é€😀\"\\{}[]:", max_size=6), st.text(max_size=5))
WILD = st.one_of(WORDS, NUMBERS, EDGES, STAMPS, DATES, TIMES, TEXTS)


def spelled(kind: str) -> st.SearchStrategy[str]:
    """Texts for a column of a type: mostly ones that it takes."""
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        near = st.one_of(st.integers(low, high - 1).map(str), st.integers(max(low, -999), min(high - 1, 999)).map(str))
    elif kind.startswith("DECIMAL") or kind in ("FLOAT", "DOUBLE"):
        near = NUMBERS
    else:
        near = {"BOOLEAN": WORDS, "DATE": DATES, "TIME": TIMES, "VARCHAR": TEXTS, "BLOB": TEXTS}.get(kind, STAMPS)
    padded = st.tuples(st.sampled_from(["", "", "", " "]), near, st.sampled_from(["", "", "", " "])).map("".join)
    return st.one_of(near, near, near, padded, st.just(""), WILD)


@st.composite
def csv_case(draw):
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    quoting = st.sampled_from(["{}", "{}", "{}", '"{}"', '"{}', '{}"', '"{}"x', '""{}'])
    lines = []
    for _ in range(draw(st.integers(1, 6))):
        width = len(kinds) + draw(st.sampled_from([0] * 8 + [-1, 1]))
        fields = [draw(quoting).format(draw(spelled(kinds[i] if i < len(kinds) else "VARCHAR"))) for i in range(width)]
        lines.append(",".join(fields))
    return kinds, lines


@st.composite
def json_case(draw):
    kinds = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    names = [f"c{i}" for i in range(len(kinds))]
    others = st.sampled_from([*names, *map(str.upper, names), "x", "é", "", "C"])
    lines = []
    for _ in range(draw(st.integers(1, 6))):
        items = []
        for name, kind in zip(names, kinds, strict=True):
            text = draw(spelled(kind))
            value = draw(
                st.sampled_from(
                    [
                        json.dumps(text),
                        json.dumps(text, ensure_ascii=False),
                        text,
                        text,
                        "null",
                        '{"a":1}',
                        "[1]",
                        f'"{text}"',
                    ]
                )
            )
            items.append((draw(others) if draw(st.integers(0, 7)) == 0 else name, value))
        if draw(st.integers(0, 3)) == 0:
            more = draw(others), draw(st.sampled_from(["1", '"x"', "null", "[]"]))
            items.insert(draw(st.integers(0, len(items))), more)
        if draw(st.integers(0, 5)) == 0:
            items.pop()
        blank = draw(st.sampled_from(["", "", " ", "\t "]))
        body = f"{blank},{blank}".join(f'"{name}"{blank}:{blank}{value}' for name, value in items)
        around = st.sampled_from(["{{{}}}", "{{{}}}", "{{ {} }}", "{{{}}} ", " {{{}}}", "{{{}", "{{{},}}"])
        lines.append(draw(around).format(body))
    return kinds, lines


def spec_of(kinds):
    return SourceSpec(
        "s", "port", tuple(Column(f"c{i}", kind) for i, kind in enumerate(kinds)), options={"max_record_bytes": 200}
    )


def facts(decoded):
    """What may be compared: NaN and the sign of zero as text, times that Python does not know as numbers."""
    columns = []
    for column in decoded.rows.columns:
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
        columns.append([repr(v) if isinstance(v, float) else v for v in column.to_pylist()])
    return columns, decoded.rows.schema, decoded.index.tolist(), decoded.bad


def check_equal(data: bytes, spec, fields, mixed):
    """Block by block and record by record, wherever the text is cut."""
    lines = find_lines(data)
    fast, slow = decode(lines, spec, fields, mixed), decode(lines, spec, fields, mixed, plain=False)
    assert facts(fast) == facts(slow)


@effort(120)
@given(case=csv_case(), ending=st.sampled_from(["\n", "\r\n"]))
def test_csv_in_blocks_equals_csv_record_by_record(case, ending):
    kinds, lines = case
    spec = spec_of(kinds)
    check_equal(ending.join(lines).encode("utf-8", "surrogatepass"), spec, declared_layout(spec), False)


@effort(120)
@given(case=json_case(), mixed=st.booleans())
def test_json_in_blocks_equals_json_record_by_record(case, mixed):
    kinds, lines = case
    spec = spec_of(kinds)
    check_equal(
        "\n".join(lines).encode("utf-8", "surrogatepass"), spec, declared_layout(spec) if mixed else None, mixed
    )


@effort(60)
@given(
    case=csv_case(),
    delimiter=st.sampled_from([",", ";", "\t", '"', "é"]),
    quote=st.sampled_from(['"', "'", "", ","]),
    data=st.data(),
)
def test_layouts_of_every_kind(case, delimiter, quote, data):
    kinds, lines = case
    spec = spec_of(kinds)
    spec.options.update({"delimiter": delimiter, "quote": quote})
    width = len(kinds) + data.draw(st.integers(0, 1))
    places = data.draw(st.permutations(range(width)))[: len(kinds)]
    if delimiter == quote or not delimiter.isascii():
        return
    text = "\n".join(lines).replace(",", delimiter).replace('"', quote or '"')
    check_equal(text.encode("utf-8", "surrogatepass"), spec, layout(spec, width, tuple(places)), False)


PLAIN = {
    "TINYINT": "-128",
    "SMALLINT": "32767",
    "INTEGER": "-2147483648",
    "BIGINT": "123456789012345678",
    "UTINYINT": "255",
    "USMALLINT": "0",
    "UINTEGER": "4294967295",
    "UBIGINT": "7",
    "FLOAT": "0.1",
    "DOUBLE": "-12.75e-3",
    "BOOLEAN": "true",
    "VARCHAR": "né",
    "DATE": "2024-02-29",
    "TIME": "23:59:59.5",
    "TIMESTAMP": "2024-02-29T01:02:03.000004Z",
    "TIMESTAMPTZ": "2024-02-29 01:02:03",
    "DECIMAL(9,3)": "-1.250",
}


@pytest.mark.parametrize("kind", list(PLAIN))
def test_plain_values_of_every_type_are_read_in_blocks(kind):
    columns, text = (Column("c0", kind), Column("c1", "VARCHAR")), PLAIN[kind]
    spec = SourceSpec("s", "port", columns)
    for line in (f"{text},x", f'"{text}",', ",x"):
        found = take_plain(find_lines(line.encode()), np.arange(1), columns, declared_layout(spec), 1 << 20)
        assert found is not None and found[1].tolist() == [0]
        check_equal(line.encode(), spec, declared_layout(spec), False)
    for line in (f'{{"c0":"{text}","c1":"x"}}', '{"c1":null, "z":-1.5}', '{ "c1":7 ,"c0":null}'):
        found = take_plain(find_lines(line.encode()), np.arange(1), columns, None, 1 << 20)
        assert found is not None and found[1].tolist() == [0]
        check_equal(line.encode(), spec, None, False)


def test_the_reason_of_bad_json_does_not_depend_on_its_neighbours():
    spec = spec_of(["TIMESTAMP"])
    bad = b'{"c0":0-0-0}', '{"c0" : "x" , "c0" : ٠००𐒠-0٠-0० 0𐒠:00}'.encode()
    for record in bad:
        alone = decode(find_lines(record), spec, None)
        among = decode(find_lines(b'{"c0":null}\n[1,2]\n' + record), spec, None)
        assert alone.bad[0] == among.bad[2] == "not valid JSON"


def test_one_bad_record_in_a_block_leaves_the_others_plain():
    spec = spec_of(["INTEGER", "VARCHAR"])
    data = b"".join(b"%d,x\n" % i if i % 7 else b"oops\n" for i in range(50))
    found = take_plain(find_lines(data), np.arange(50), spec.columns, declared_layout(spec), 1 << 20)
    assert found is not None and len(found[1]) == 42
    check_equal(data, spec, declared_layout(spec), False)


def framed(data: bytes, arrival: int, limit: int) -> bytes | None:
    """The slow twin of `frame_lines`."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]]
    if any(len(line) > limit for line in lines):
        return None
    return b"".join(HEADER.pack(arrival, len(line)) + line for line in lines if line)


@effort(100)
@given(
    lines=st.lists(st.text("ab\r", max_size=20).map(str.encode), min_size=1, max_size=9),
    limit=st.integers(1, 30),
    arrival=st.integers(-(2**63), 2**63 - 1),
)
def test_lines_are_framed_as_the_twin_frames_them(lines, limit, arrival):
    data = b"\n".join(lines) + b"\n"
    out = np.empty(len(data) + HEADER.size * (len(data) // 2 + 1), np.uint8)
    size = frame_lines(np.frombuffer(data, np.uint8), arrival, limit, out)
    assert (None if size < 0 else out[:size].tobytes()) == framed(data, arrival, limit)


@effort(100)
@given(
    bodies=st.lists(st.binary(min_size=1, max_size=20), max_size=9),
    torn=st.integers(0, 40),
    limit=st.one_of(st.none(), st.integers(0, 9)),
    zeros=st.booleans(),
)
def test_records_are_found_up_to_the_torn_one(bodies, torn, limit, zeros):
    data = b"".join(HEADER.pack(i, len(body) | (i % 2) << 31) + body for i, body in enumerate(bodies))
    data = data + b"\0" * 30 if zeros else data[: max(len(data) - torn, 0)]
    found = records(data, 1000, limit)
    borders = [0, *np.cumsum([HEADER.size + len(body) for body in bodies]).tolist()]
    whole = [(a, b) for a, b in pairwise(borders) if b <= len(data)][:limit]
    assert found.byte.tolist() == [1000 + a for a, _ in whole]
    assert list(zip(found.begin.tolist(), found.end.tolist(), strict=True)) == [(a + HEADER.size, b) for a, b in whole]
    assert found.arrival.tolist() == list(range(len(whole)))
    assert found.is_cut.tolist() == [bool(i % 2) for i in range(len(whole))]
