"""What the comparison of joins takes for granted: its inputs, its questions, and what it promises."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import answers, data
from benchmarks.joins import auctions, duckdb_side, set_state, streams, tidemill_side, window_cost
from benchmarks.joins.figures import AUCTIONS, DENSE, SPARSE, Case, Figures, Input
from benchmarks.joins.page import page
from benchmarks.joins.workloads import ASKED, BY_HAND, WORKS

PACKETS, WINDOWS, SIPS, EVENTS = 300, 3, 40, 40_000


@pytest.fixture(scope="module", autouse=True)
def inputs(tmp_path_factory):
    """Small inputs do not lie among those of the benchmarks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "_BASE", str(tmp_path_factory.mktemp("inputs")))
        yield


def folder_of(work: str) -> str:
    return auctions.house(EVENTS) if work == "J2" else streams.streams(PACKETS, WINDOWS, SIPS)


# ---- inputs ------------------------------------------------------------------------------------


def test_a_window_has_the_pairs_that_the_number_of_addresses_promises():
    sips = streams.addresses(7_000, 14, 900_000)
    a, b = (Counter(streams.window(s, 0, 7_000, sips).column("sip").to_pylist()) for s in (0, 1))
    assert abs(sum(n * b[sip] for sip, n in a.items()) / (900_000 / 14) - 1) < 0.05


def test_fewer_windows_are_the_beginning_of_more():
    few, many = (
        pq.read_table(f"{streams.streams(PACKETS, windows, SIPS)}/PacketsA").slice(0, PACKETS * WINDOWS)
        for windows in (WINDOWS, WINDOWS + 2)
    )
    assert few.equals(many)


def test_packets_lie_in_their_window_in_order_and_the_last_one_ends_it():
    for name in streams.NAMES:
        rows = pq.read_table(f"{folder_of('J1')}/{name}")
        times = rows.column("ts").cast(pa.int64()).to_numpy() - streams.EPOCH_US
        assert np.all(np.diff(times) >= 0)
        assert times[-1] == WINDOWS * streams.SECONDS * 1_000_000
        assert np.bincount(times // (streams.SECONDS * 1_000_000)).tolist() == [PACKETS] * WINDOWS + [1]


def test_the_last_packets_have_no_partner():
    a, b = (streams.closing(stream, WINDOWS).column("sip").to_pylist() for stream in (0, 1))
    assert not set(a) & set(b)


def test_the_auction_has_the_proportions_of_nexmark():
    made = auctions.generated(EVENTS)
    assert {name: rows.num_rows * 50 // EVENTS for name, rows in made.items()} == {"Bid": 46, "Auction": 3, "Person": 1}
    assert made["Bid"].num_rows + made["Auction"].num_rows == auctions.rows(EVENTS)


def test_no_bid_is_earlier_than_its_auction_and_some_auctions_are_hot():
    made = auctions.generated(EVENTS)
    created = made["Auction"].column("ts").cast(pa.int64()).to_numpy()
    chosen = made["Bid"].column("auctionID").to_numpy()
    assert np.all(created[chosen] < made["Bid"].column("ts").cast(pa.int64()).to_numpy())
    assert np.bincount(chosen).max() > 20 * len(chosen) / len(created)


def test_a_bid_goes_to_the_newest_auction_of_its_place():
    last = np.full(5_000, 3 * auctions.OPEN - 1)
    chosen = auctions.chosen(np.random.default_rng(0), last)
    assert chosen.min() >= 2 * auctions.OPEN and chosen.max() < 3 * auctions.OPEN


# ---- questions ---------------------------------------------------------------------------------


def definition(work: str, folder: str) -> list[tuple[int, ...]]:
    """What the paper says, for each point in time by itself: the windows, their join, the groups."""
    with duckdb.connect() as db:
        for name in (*WORKS[work].streams, *WORKS[work].tables):
            db.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder}/{name}/*.parquet')")
        if work == "J2":
            return db.execute(
                """WITH minutes AS (SELECT min(epoch_us(ts)) // 60000000 AS first, max(epoch_us(ts)) // 60000000 AS last
                                    FROM Bid),
                   points AS (SELECT unnest(range(first + 1, last + 1)) * 60000000 AS t FROM minutes)
                   SELECT t, A.auctionID, count(*) FROM points, Auction A, Bid B, Person P
                   WHERE epoch_us(A.ts) <= t AND epoch_us(B.ts) >= t - 3600000000 AND epoch_us(B.ts) < t
                   AND A.auctionID = B.auctionID AND A.sellerID = P.personID AND P.state = 'VT' GROUP BY ALL"""
            ).fetchall()
        both = ", sum(B.len)::BIGINT" if work == "J1both" else ""
        return db.execute(
            f"""WITH points AS (SELECT unnest(range(1, {WINDOWS + 1})) * 10000000 + {streams.EPOCH_US} AS t)
                SELECT t, A.sip, sum(A.len)::BIGINT{both}, count(*) FROM points, PacketsA A, PacketsB B
                WHERE A.sip = B.sip AND epoch_us(A.ts) >= t - 10000000 AND epoch_us(A.ts) < t
                AND epoch_us(B.ts) >= t - 10000000 AND epoch_us(B.ts) < t GROUP BY ALL"""
        ).fetchall()


def kept(work: str, folder: str, place) -> list[tuple[int, ...]]:
    """The answer in a folder, windows that had ended."""
    rows = pq.read_table(place / work / "rows.parquet")
    until = min(answers.last_time(f"{folder}/{name}") for name in WORKS[work].streams)
    rows = answers.plain(rows).filter(pc.less_equal(rows.column("TS"), pa.scalar(until, pa.timestamp("us"))))
    columns = [rows.column("TS").cast(pa.int64()), *(rows.column(c).cast(pa.int64()) for c in WORKS[work].columns)]
    return list(zip(*(c.to_pylist() for c in columns), strict=True))


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("way", [ASKED, BY_HAND])
def test_duckdb_is_asked_what_the_paper_says(work, way, tmp_path):
    folder = folder_of(work)
    duckdb_side.DuckDBSide().measure(folder, work, way, str(tmp_path))
    wanted = definition(work, folder)
    assert wanted and sorted(kept(work, folder, tmp_path)) == sorted(wanted)


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("plan", [tidemill_side.LATE, tidemill_side.AUTO])
def test_tidemill_is_asked_what_the_paper_says(work, plan, tmp_path):
    folder = folder_of(work)
    run = tidemill_side.ProcessSide().measure(folder, work, str(tmp_path), plan)
    assert run["rows"] >= auctions.rows(EVENTS) if work == "J2" else run["rows"] == 2 * (PACKETS * WINDOWS + 1)
    assert sorted(kept(work, folder, tmp_path)) == sorted(definition(work, folder))


def test_the_pairs_are_those_of_all_windows():
    folder = folder_of("J1")
    assert duckdb_side.DuckDBSide().pairs(folder, WORKS["J1"]) == sum(row[-1] for row in definition("J1", folder))


def test_windows_of_any_length_have_the_same_matches_and_a_wrong_view_is_seen(tmp_path):
    side = window_cost.WindowSide(str(tmp_path))
    for length in (500, 5_000):
        side.load(length, None)
        assert len(side.batches(length, None, 2)) == 2
    matches = [side.made[length, None].check() / length for length in (500, 5_000)]
    assert all(abs(m / window_cost.MATCHES - 1) < 0.25 for m in matches)
    side.made[500, None].length -= 1
    with pytest.raises(AssertionError, match="window of 499"):
        side.made[500, None].check()
    for windows in side.made.values():
        windows.db.close()


def test_every_fragment_has_all_pairs():
    rows = pq.read_table(f"{set_state.packets(1_500)}/A")
    fragment = pc.divide(pc.subtract(rows.column("ts").cast(pa.int64()), streams.EPOCH_US), 10_000_000)
    found = rows.append_column("fragment", fragment).group_by(["fragment", "dip", "sip"]).aggregate([])
    assert found.num_rows == set_state.SIPS * set_state.DIPS * set_state.LAST + 1  # and the last packet, by itself
    assert set_state.pairs() == set_state.SIPS * set_state.DIPS + set_state.SIPS


# ---- promises ----------------------------------------------------------------------------------


def measured(**sides: float) -> Figures:
    """Figures of 1,000 rows, the long input 10,000, in which a side took this many seconds for every case."""
    base, long = Input("base", 1_000, 9), Input("long", 10_000, 90)
    works = {SPARSE: "J1", DENSE: "J1", AUCTIONS: "J2"}
    found = Figures({name: Case(name, work, base, base, long, base) for name, work in works.items()}, 1)
    names = {"spark": f"Spark, {ASKED}", "flink": f"Flink, {ASKED}", "hand": f"Spark, {BY_HAND}"}
    for case in works:
        for side, seconds in {"Tidemill": 1.0, **sides}.items():
            found.add(case, names.get(side, side), {"seconds": seconds, "rows": 1_000})
        found.long[case] = {"Tidemill": [{"seconds": 2.0, "rows": 10_000, "sustained": 5_000.0}]}
    found.windows = {"auto": {100: [0.010], 1_000: [0.0125]}}
    found.loaded, found.matches = {"auto": {100: 1, 1_000: 2}}, {100: 400, 1_000: 4_000}
    found.state = {10: {"auto": {"rows": 100, "bytes": 5}}, 40: {"auto": {"rows": 110, "bytes": 6}}}
    return found


def promised(found: Figures, *words: str) -> list[tuple[str, bool]]:
    return [(c.measured, c.met) for c in page(found).checks if all(word in c.what for word in words)]


def test_targets_are_about_the_query_as_it_is_asked_and_by_hand_stands_beside():
    found = measured(spark=20.0, hand=0.5)
    assert promised(found, SPARSE, "Spark") == [("20.00 ×", True), ("100.00 ×", True)]
    assert promised(found, DENSE, "Spark") == [("20.00 ×", False), ("100.00 ×", True)]
    by_hand = next(t for t in page(found).tables if t.title.startswith("Rewritten by hand"))
    assert by_hand.rows[0] == [SPARSE, "Spark", 0.002, 0.5, 0.002, 2.5]


def test_without_flink_its_columns_say_so_and_nothing_is_promised():
    found = measured(spark=20.0)
    rates = page(found).tables[1]
    assert all(row[rates.columns.index("Flink")] == "not installed" for row in rates.rows)
    assert not promised(found, "Flink")


def test_windows_and_state_are_compared_with_their_smallest():
    found = measured(spark=20.0)
    assert promised(found, "J3") == [("1.25 ×", False)]
    assert promised(found, "J4") == [("1.10 ×", True)]


def test_the_chosen_plan_is_compared_with_the_late_one():
    found = measured(spark=20.0)
    assert not promised(found, "late plan")
    runs = {"late": [{"seconds": 30.0}], "auto": [{"seconds": 2.0}]}
    found.plans = {"in one process": {SPARSE: runs, DENSE: runs}}
    assert promised(found, "late plan") == [("15.00 ×", True)]
