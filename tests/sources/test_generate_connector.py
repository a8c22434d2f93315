"""Generated rows are a pure function of seed, column and row number."""

from __future__ import annotations

import numpy as np
import pytest
from connector_laws import check_cuts, read
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import SourceProblem
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.generate.distributions import distribution
from tidemill.runtime.sources.registry import open_connector

COLUMNS = {
    "uni": ("INTEGER", "uniform(1,200)"),
    "nor": ("DOUBLE", "normal(85,5)"),
    "zip": ("BIGINT", "zipf(1.2, 1000)"),
    "cho": ("VARCHAR", "choice(car,bus,truck)"),
    "wei": ("VARCHAR", "choice(car:8,police:1)"),
    "seq": ("BIGINT", "sequence"),
    "cyc": ("SMALLINT", "cycle(200)"),
    "wal": ("DOUBLE", "walk(20, 0.5)"),
    "con": ("DECIMAL(6,2)", "constant(1.25)"),
    "dec": ("DECIMAL(8,3)", "uniform(0,10)"),
}


def source(columns=None, timestamp="ts", time_type="TIMESTAMP", options=None, **origin):
    columns = COLUMNS if columns is None else columns
    declared = (Column("ts", time_type), *(Column(name, kind) for name, (kind, _) in columns.items()))
    texts = {name: text for name, (_, text) in columns.items() if text}
    return open_connector(
        SourceSpec(
            "g",
            "generate",
            declared,
            timestamp=timestamp,
            options=options or {},
            origin={"seed": 7, "columns": texts, **origin},
        ),
        "/nonexistent",
    )


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 700), min_size=2, max_size=6, unique=True).map(sorted),
    parts=st.integers(1, 5),
    rate=st.sampled_from([1000.0, 3, 0.7]),
    arrivals=st.sampled_from(["regular", "exponential"]),
    time_type=st.sampled_from(["TIMESTAMP", "TIMESTAMPTZ", "BIGINT", "DOUBLE", "DATE", "HUGEINT"]),
)
def test_small_steps_equal_one_big_step(cuts, parts, rate, arrivals, time_type):
    generator = source(rate=rate, arrivals=arrivals, time_type=time_type, rows=700)
    rows, bad = check_cuts(generator, [{"row": cut} for cut in cuts], parts)
    assert bad == [] and rows.column("__seq").to_pylist() == list(range(cuts[0], cuts[-1]))


def test_distributions_look_like_their_names():
    rows, _ = read(source(rows=20_000), {"row": 0}, {"row": 20_000})
    got = {name: rows.column(name).to_numpy() for name in ("uni", "nor", "zip", "seq", "cyc", "wal")}
    assert (got["uni"].min(), got["uni"].max()) == (1, 200)
    assert abs(got["nor"].mean() - 85) < 0.2 and abs(got["nor"].std() - 5) < 0.2
    assert got["zip"].min() == 1 and got["zip"].max() <= 1000 and (got["zip"] == 1).mean() > 0.15
    assert got["seq"].tolist() == list(range(20_000)) and got["cyc"][201] == 1
    assert np.abs(np.diff(got["wal"])).max() < 2
    cars = rows.column("wei").to_pylist().count("car")
    assert abs(cars / 20_000 - 8 / 9) < 0.02
    assert set(rows.column("cho").to_pylist()) == {"car", "bus", "truck"}


def test_another_seed_gives_other_rows():
    first, second = source(seed=1, rows=50), source(seed=2, rows=50)
    assert read(first, {"row": 0}, {"row": 50})[0] != read(second, {"row": 0}, {"row": 50})[0]


def test_every_type_has_a_default():
    kinds = [
        "BOOLEAN",
        "TINYINT",
        "UBIGINT",
        "HUGEINT",
        "FLOAT",
        "DECIMAL(2,2)",
        "DECIMAL(4,2)",
        "VARCHAR",
        "BLOB",
        "DATE",
        "TIME",
        "TIMESTAMPTZ",
    ]
    generator = source({f"c{i}": (kind, None) for i, kind in enumerate(kinds)}, rows=100)
    rows, _ = read(generator, {"row": 0}, {"row": 100})
    assert all(column.null_count == 0 for column in rows.columns)


def test_event_time_is_the_row_over_the_rate():
    rows, _ = read(source(rate=3, start=1_000_000, rows=3), {"row": 0}, {"row": 3})
    assert rows.column("__arrival").to_pylist() == [1_000_000, 1_333_333, 1_666_667]
    ints, _ = read(source(rate=3, start=1_000_000, rows=5, time_type="INTEGER"), {"row": 0}, {"row": 5})
    assert ints.column("ts").to_pylist() == [1, 1, 1, 2, 2]
    fine, _ = read(source(rate=4, rows=3, time_type="INTEGER", options={"unit_us": 1000}), {"row": 0}, {"row": 3})
    assert fine.column("ts").to_pylist() == [0, 250, 500]


def test_live_rows_exist_when_they_are_due():
    generator = source(rate=10, rows=25, began=1_000_000)
    assert generator.latest({"row": 0}, None, True, 999_999).end == {"row": 0}
    due = generator.latest({"row": 0}, None, True, 2_000_000)
    assert due.end == {"row": 11} and due.exhausted
    capped = generator.latest({"row": 0}, 4, True, 2_000_000)
    assert capped.end == {"row": 4} and not capped.exhausted
    done = generator.latest({"row": 11}, None, True, 2**50)
    assert done.end == {"row": 25} and done.exhausted
    assert generator.latest({"row": 0}, None, False, 0).end == {"row": 25}
    assert source(rate=10, began=0).latest({"row": 0}, None, False, 1_000_000).end == {"row": 11}


@settings(max_examples=30, deadline=None)
@given(end=st.integers(0, 100), arrivals=st.sampled_from(["regular", "exponential"]))
def test_no_later_row_arrives_before_the_clock(end, arrivals):
    generator = source(timestamp=None, rate=7, rows=200, arrivals=arrivals)
    progress = generator.latest({"row": 0}, max(end, 1), False, 0)
    later, _ = read(generator, progress.end, {"row": 200})
    assert min(later.column("__arrival").to_pylist()) >= progress.clock


def test_a_timestamp_with_its_own_distribution_is_read_in_one_piece():
    declared = (Column("ts", "BIGINT"),)
    generator = open_connector(
        SourceSpec("g", "generate", declared, timestamp="ts", origin={"columns": {"ts": "uniform(1,9)"}}), ""
    )
    assert [piece.max_time for piece in generator.split({"row": 0}, {"row": 9}, 4)] == [None]


@pytest.mark.parametrize(
    "text",
    [
        "poisson(3)",
        "uniform(1)",
        "uniform(5,1)",
        "uniform(a,b)",
        "normal(1,-1)",
        "zipf(1,0)",
        "choice()",
        "choice(a:-1,b:1)",
        "cycle(0)",
        "constant(abc)",
        "walk(1)",
        "sequence(2)",
        "uniform(1,2",
        "choice(1,x)",
    ],
)
def test_an_unknown_distribution_says_what_exists(text):
    with pytest.raises(SourceProblem, match="TM403") as caught:
        source({"x": ("INTEGER", text)})
    assert "uniform(low,high)" in caught.value.hint


@pytest.mark.parametrize("origin", [{"rate": 0}, {"rate": "fast"}, {"rows": -1}, {"arrivals": "bursty"}])
def test_a_bad_setting_is_refused(origin):
    with pytest.raises(SourceProblem, match="TM403"):
        source(**origin)


def test_a_distribution_for_an_unknown_column_is_refused():
    with pytest.raises(SourceProblem, match="TM403"):
        open_connector(
            SourceSpec("g", "generate", (Column("a", "INTEGER"),), origin={"columns": {"b": "sequence"}}), ""
        )


@pytest.mark.parametrize(
    "kind, low, high",
    [
        ("TINYINT", -128, 127),
        ("UTINYINT", 0, 255),
        ("INTEGER", -(2**31), 2**31 - 1),
        ("DECIMAL(4,1)", -999, 999),
        ("USMALLINT", 0, 65535),
    ],
)
def test_bounds_are_those_of_the_type(kind, low, high):
    """uniform(1,99999999999) for an INTEGER: most rows were 2147483647."""
    distribution(f"uniform({low},{high})", Column("a", kind), 1)
    for bounds in ((low - 1, high), (low, high + 1)):
        with pytest.raises(SourceProblem, match="TM403") as refused:
            distribution(f"uniform({bounds[0]},{bounds[1]})", Column("a", kind), 1)
        assert "holds numbers" in str(refused.value.detail)
