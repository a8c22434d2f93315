"""The kernels of the aggregation join equal their slow twins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.dataflow.annotations import Annotations, PartSpec, Piece, word_column
from tidemill.runtime.dataflow.value_codes import JoinValues, hash_rows, match, match_all, number_rows
from tidemill.runtime.kernels.joins import delta_join, delta_join_rows
from tidemill.runtime.kernels.joins.delta_join import NOTHING, Groups, Probes, Sums, Terms, Versions, walk

WORDS = st.one_of(st.integers(-3, 3), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 40]))
HUGE = st.one_of(st.integers(-5, 5), st.integers(-(10**37), 10**37))
TIMES, BUCKETS = 5, 3


def ints(values):
    return np.array(list(values), np.int64)


@st.composite
def probes_and_versions(draw):
    """(versions, probes): a version is (bucket, row, time, n), a probe (bucket, until, n)."""
    row_bucket = draw(st.lists(st.integers(0, BUCKETS - 1), min_size=1, max_size=6))
    one = st.tuples(st.integers(0, len(row_bucket) - 1), st.integers(0, TIMES - 1))
    found = draw(st.lists(one, unique=True, max_size=12))
    versions = [(row_bucket[r], r, t, draw(st.integers(-1, 2))) for r, t in found]
    probe = st.tuples(st.integers(-1, BUCKETS - 1), st.integers(0, TIMES), st.integers(-2, 2))
    return versions, draw(st.lists(probe, max_size=10))


def twin_pairs(versions, probes):
    """A probe meets the last version of every row of its bucket that began before `until`, if it is alive."""
    found = []
    for p, (bucket, until, _) in enumerate(probes):
        for row in {v[1] for v in versions if v[0] == bucket}:
            begun = [(v[2], i) for i, v in enumerate(versions) if v[1] == row and v[2] < until]
            if begun and versions[max(begun)[1]][3] != 0:
                found.append((p, max(begun)[1]))
    return found


def prepared(versions, probes, nested):
    """The arrays of a delta join; a nested loop has one bucket and compares codes."""
    bucket, row, time, n = (ints(v[i] for v in versions) for i in range(4))
    sought, until, m = (ints(p[i] for p in probes) for i in range(3))
    code, probe_code, buckets = bucket, sought, BUCKETS
    if nested:
        bucket, sought, buckets = np.zeros_like(bucket), np.zeros_like(sought), 1
    start = np.empty(buckets + 1, np.int64)
    order = delta_join_rows.order_rows(bucket, time, buckets, TIMES, start)
    by = delta_join_rows.order_rows(sought, until, buckets, TIMES + 1, np.empty(buckets + 1, np.int64))
    return Probes(by, sought, probe_code, until), Versions(order, start, code, time, row, n != 0, np.abs(n)), m, n


@effort(150)
@given(probes_and_versions(), st.booleans(), st.integers(1, 5))
def test_probes_meet_the_versions_of_their_moment(drawn, nested, piece):
    probes, versions, _, n = prepared(*drawn, nested)  # type: ignore[call-arg]
    counts = np.empty(len(probes.order), np.int64)
    worth = delta_join.count_pairs(probes, versions, walk(6), nested, counts)
    twin = twin_pairs(*drawn)
    assert counts.tolist() == [sum(p == q for q, _ in twin) for p in probes.order.tolist()]
    assert worth == sum(abs(int(n[v])) for _, v in twin)
    found, here = [], walk(6)
    for first in range(0, len(counts), piece):
        last = min(first + piece, len(counts))
        probe, version = (np.empty(counts[first:last].sum(), np.int64) for _ in range(2))
        assert delta_join.find_pairs(first, last, probes, versions, here, nested, probe, version) == len(probe)
        found += zip(probe.tolist(), version.tolist(), strict=True)
    assert sorted(found) == sorted(twin)


@effort(150)
@given(probes_and_versions(), st.booleans(), st.booleans(), st.data())
def test_pairs_are_added_to_their_groups(drawn, nested, direct, data):
    probes, versions, m, n = prepared(*drawn, nested)  # type: ignore[call-arg]
    pairs = twin_pairs(*drawn)
    width = 3

    def column(rows, low, high):
        return ints(data.draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows)))

    sides = []
    for count, rows in ((m, len(m)), (n, len(n))):
        lows = np.where(column(rows, 0, 3) == 0, NOTHING, column(rows, 0, 9))
        sides.append((count, column(rows, -9, 9)[:, None], column(rows, -9, 9)[:, None] / 4, lows[:, None]))
    groups = column(len(m), 0, 4), column(len(n), 0, width - 1)
    table = np.zeros(5 * width if direct else 1 << (2 * len(pairs)).bit_length(), np.int32)
    keys = np.empty(len(pairs), np.int64)
    sums = Sums(np.zeros((len(pairs), 3), np.int64), np.zeros((len(pairs), 2)), np.full((len(pairs), 2), NOTHING))
    slots = delta_join.add_pairs(
        0,
        len(probes.order),
        probes,
        versions,
        walk(6),
        nested,
        Terms(*sides[0], *sides[1]),
        Groups(*groups, width, direct, table, keys),
        sums,
    )
    twin: dict[int, list] = {}
    (_, i_p, f_p, l_p), (_, i_v, f_v, l_v) = sides
    for p, v in pairs:
        key = int(groups[0][p]) * width + int(groups[1][v])
        old = twin.setdefault(key, [0, 0, 0, 0.0, 0.0, NOTHING, NOTHING])
        new = [m[p] * n[v], i_p[p, 0] * n[v], m[p] * i_v[v, 0], f_p[p, 0] * n[v], m[p] * f_v[v, 0]]
        twin[key] = [a + b for a, b in zip(old, new, strict=False)] + [min(old[5], l_p[p, 0]), min(old[6], l_v[v, 0])]
    found = {int(keys[s]): [*sums.ints[s], *sums.floats[s], *sums.lows[s]] for s in range(slots)}
    assert found == twin
    assert slots == len(twin)


@effort(150)
@given(st.lists(WORDS, max_size=12), st.lists(WORDS, max_size=12))
def test_equal_words_have_equal_numbers(held, sought):
    ids, found, first = match(ints(held), ints(sought))
    order = list(dict.fromkeys(held))
    assert ids.tolist() == [order.index(v) for v in held]
    assert found.tolist() == [order.index(v) if v in order else -1 for v in sought]
    assert [held[i] for i in first] == order


@effort(80)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=10), st.lists(st.tuples(WORDS, WORDS), max_size=10))
def test_rows_of_several_codes_match_on_all(held, sought):
    ids, found, count = match_all(*([ints(r[i] for r in rows) for i in range(2)] for rows in (held, sought)))
    assert count == len(set(held))
    for h, i in zip(held, ids.tolist(), strict=True):
        assert [s == h for s in sought] == [f == i for f in found.tolist()]


@effort(100)
@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 4)), max_size=15))
def test_rows_are_ordered_by_both_numbers(rows):
    major, minor = (ints(r[i] for r in rows) for i in range(2))
    start = np.empty(5, np.int64)
    order = delta_join_rows.order_rows(major, minor, 4, 5, start)
    twin = sorted((i for i, r in enumerate(rows) if r[0] >= 0), key=lambda i: (*rows[i], i))
    assert order.tolist() == twin
    assert start.tolist() == [sum(r[0] >= 0 and r[0] < m for r in rows) for m in range(5)]


def words(values):
    """128-bit numbers as (low, high) words."""
    table = pa.table({"x": pa.array(values, pa.decimal128(38, 0))})
    return Annotations.of((PartSpec("x", "HUGEINT", "sum", ""),), [Piece(table)], len(values))


@effort(100)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-2, 2), HUGE), min_size=1, max_size=12))
def test_changes_run_up_to_versions(changes):
    row, time, n = (ints(c[i] for c in changes) for i in range(3))
    parts = words([c[3] for c in changes])
    floats, lows = np.array([[c[3] % 7 / 4] for c in changes]), ints(c[3] % 5 for c in changes)[:, None]
    order = delta_join_rows.order_rows(row, time, 3, 4, np.empty(4, np.int64))
    kept, step = np.empty(len(row), np.bool_), np.empty(len(row), np.int64)
    delta_join_rows.run_versions(order, row, time, n, parts.words, floats, lows, kept, step)
    sums = parts.column(0).to_pylist()
    found = {
        (int(row[i]), int(time[i])): (int(n[i]), int(sums[i]), floats[i, 0], int(lows[i, 0]), int(step[i]))
        for i in np.flatnonzero(kept)
    }
    twin = {}
    for r, t in {(c[0], c[1]) for c in changes}:
        past = [c for c in changes if c[0] == r and c[1] <= t]
        twin[r, t] = (
            sum(c[2] for c in past),
            sum(c[3] for c in past),
            sum(c[3] % 7 / 4 for c in past),
            min(c[3] % 5 for c in past),
            sum(c[2] for c in past if c[1] == t),
        )
    assert found == twin
    assert kept.sum() == len(found)


@effort(100)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), HUGE), max_size=12))
def test_rows_of_one_number_are_added_up_in_its_place(rows):
    ids, first = number_rows([pa.array([r[0] for r in rows], pa.int64())], len(rows))
    n, parts = ints(r[1] for r in rows), words([r[2] for r in rows])
    floats = np.array([r[2] % 7 / 4 for r in rows]).reshape(-1, 1)
    lows = ints(r[2] % 5 for r in rows).reshape(-1, 1)
    delta_join_rows.add_rows(ids, n, parts.words, floats, lows)
    sums = parts.column(0).to_pylist()
    for k, row in enumerate(first):
        own = [r for r in rows if r[0] == rows[row][0]]
        assert (n[k], sums[k], floats[k, 0]) == (
            sum(r[1] for r in own),
            sum(r[2] for r in own),
            sum(r[2] % 7 / 4 for r in own),
        )
        assert lows[k, 0] == min(r[2] % 5 for r in own)


@effort(100)
@example(
    [
        (9_452_287_945_267_267_643_830_578_041_788_854_728, 1),
        (8_904_575_964_810_937_644_783_972_577_525_162_842, 9),
        (10**37, 9),
    ],
    55,
)
@given(st.lists(st.tuples(HUGE, st.integers(-9, 9)), min_size=1, max_size=8), st.integers(4, 62))
def test_wide_sums_survive_their_digits(terms, room):
    parts = words([x for x, _ in terms])
    digits, base = parts.digits(0, room)
    assert np.abs(digits).max() <= 1 << room
    # The sum of products by digits, as a kernel adds them up; with room for the factors.
    if room <= 55:
        total = (digits * ints(n for _, n in terms)[:, None]).sum(axis=0)[None, :]
        low, high = np.empty(1, np.int64), np.empty(1, np.int64)
        delta_join_rows.join_words(np.ascontiguousarray(total), base, low, high)
        expected = sum(x * n for x, n in terms)
        found = int(low[0]) % (1 << 64) + (int(high[0]) << 64)
        assert (found - expected) % (1 << 128) == 0  # as all sums of 128 bits, modulo 2^128
        if abs(expected) < 10**38:
            assert int(word_column(low, high, "HUGEINT")[0].as_py()) == expected


@effort(100)
@given(st.lists(st.tuples(st.integers(-(2**100), 2**100), st.integers(-(2**20), 2**20)), min_size=1, max_size=8))
def test_words_are_scaled_as_wide_numbers(rows):
    wide = np.array([[x & ((1 << 64) - 1), (x >> 64) & ((1 << 64) - 1)] for x, _ in rows], np.uint64).view(np.int64)
    delta_join_rows.scale_words(wide, ints(n for _, n in rows))
    assert [int(lo) % (1 << 64) + (int(hi) << 64) for lo, hi in wide] == [x * n for x, n in rows]


VALUES = {
    "int": (pa.int32(), [0, 1, -1]),
    "unsigned": (pa.uint64(), [0, 1, (1 << 64) - 1]),
    "text": (pa.string(), ["", "a", "b", "ab"]),
    "double": (pa.float64(), [0.0, -0.0, float("nan"), -float("nan"), -1.5]),
    "wide": (pa.decimal128(38, 0), [0, 1, 10**30]),
    "bool": (pa.bool_(), [True, False]),
    "time": (pa.timestamp("us"), [0, 1]),
    "date": (pa.date32(), [0, 1]),
    "blob": (pa.binary(), [b"", b"a"]),
    "listed": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"]),
}


def plain(value):
    """NaN is equal to NaN."""
    return "NaN" if isinstance(value, float) and value != value else value


@effort(120)
@given(st.sampled_from(sorted(VALUES)), st.data())
def test_codes_and_hashes_are_equal_where_values_are(kind, data):
    arrow, pool = VALUES[kind]
    chunks = [data.draw(st.lists(st.sampled_from(pool), max_size=6)) for _ in range(3)]  # type: ignore[call-overload]
    columns = [pa.chunked_array([pa.array(c, arrow)]) for c in chunks]
    values, seen = JoinValues(), []
    for column, chunk in zip(columns, chunks, strict=True):
        codes, hashes = values.codes(column), hash_rows([column], len(chunk))
        seen += zip(map(plain, chunk), codes.tolist(), hashes.tolist(), strict=True)
    for value, code, digest in seen:
        assert [v == value for v, _, _ in seen] == [c == code for _, c, _ in seen]
        assert [v == value for v, _, _ in seen] == [h == digest for _, _, h in seen]
    nullable = [*chunks[0], None, *chunks[1], None]
    ids, first = number_rows([pa.chunked_array([pa.array(nullable, arrow)])], len(nullable))
    assert [plain(nullable[i]) for i in first] == list(dict.fromkeys(map(plain, nullable)))
    for i, value in enumerate(nullable):
        assert [plain(v) == plain(value) for v in nullable] == [ids[i] == other for other in ids]


def test_intervals_of_one_length_are_one_value():
    from tidemill.runtime.duckdb import duck

    months = duck.run("SELECT unnest([INTERVAL 1 MONTH, INTERVAL 30 DAY, INTERVAL 720 HOUR, INTERVAL 1 DAY]) AS x")
    codes = JoinValues().codes(months.column("x")).tolist()
    assert len(set(codes[:3])) == 1
    assert codes[3] != codes[0]
    seconds = duck.run("SELECT unnest([INTERVAL 61 SECOND, INTERVAL '1' MINUTE, INTERVAL '61.5' SECOND]) AS x")
    assert len(set(JoinValues().codes(seconds.column("x")).tolist())) == 3
