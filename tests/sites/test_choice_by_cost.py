"""`site_join = auto`: what is known of streams, what each way to join costs by that, and which one is taken."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.sites.test_algorithms import JOIN, STREAMS
from tests.sites.two_sites import equal_sites, finish_together, settle_all
from tidemill.errors import CatalogProblem
from tidemill.plan.sites import ALGORITHMS
from tidemill.runtime.sites.join_values import MOST, Sample, compare, hash_rows, measure_rows

values = st.lists(st.one_of(st.none(), st.integers(-3, 40)), max_size=40)


@effort(60)
@given(left=values, right=values, cut=st.integers(0, 40), text=st.booleans())
def test_samples_say_what_streams_have_in_common(left, right, cut, text):
    """As long as a sample has room for all values, everything it says is exact, however the rows were cut."""
    kind = pa.string() if text else pa.int32()

    def table(rows):
        return pa.table({"k": pa.array([None if v is None else str(v) if text else v for v in rows], kind)})

    parts = measure_rows(table(left[:cut]), [["k"]]), measure_rows(table(left[cut:]), [["k"]])
    together = parts[0].add(parts[1])
    whole = measure_rows(table(left), [["k"]])
    assert together.values == whole.values and together.rows == len(left)
    mine, other = Sample.decode(whole.values["k"]), Sample.of(hash_rows(table(right), ["k"]))
    a, b = ([v for v in rows if v is not None] for rows in (left, right))
    assert mine.distinct == len(set(a)) and sorted(mine.counts) == sorted(a.count(v) for v in set(a))
    found = compare(mine, other)
    assert found.common == len(set(a) & set(b))
    assert found.left == pytest.approx(sum(v in b for v in a) / len(a) if a else 0.0)
    assert found.right == pytest.approx(sum(v in a for v in b) / len(b) if b else 0.0)


def test_large_samples_are_about_right_and_small():
    rows = pa.table({"k": pa.array(np.arange(200_000) % 20_000)})
    found = Sample.of(hash_rows(rows, ["k"]))
    few = Sample.of(hash_rows(rows.slice(0, 5_000), ["k"]))
    assert len(found.hashes) == MOST and len(found.encode()) < 12_000
    assert found.distinct == pytest.approx(20_000, rel=0.15)
    overlap = compare(found, few)
    assert overlap.common == pytest.approx(5_000, rel=0.25) and overlap.right == 1.0
    assert overlap.left == pytest.approx(0.25, abs=0.06)


@pytest.mark.parametrize("text", ["x", "AAAA", Sample.of(np.arange(4, dtype=np.uint64)).encode()[:-8] + "AAAAAAA="])
def test_what_is_no_sample_is_refused(text):
    with pytest.raises(ValueError):
        Sample.decode(text)


def write(folder, name, keys, rate=4):
    (folder / name).mkdir(exist_ok=True)
    lines = [f"{keys[n % len(keys)]},{n},{n // rate}" for n in range(30 * rate)]
    (folder / name / "1.csv").write_text("k,v,tm\n" + "\n".join(lines) + "\n")


def measured_sites(folder, paris, lyon, network):
    """Both sites have read their streams after a join asked for the join values."""
    paris.execute(STREAMS.format("Far", folder) + "EXPORT STREAM Far TO SITE lyon")
    paris.execute("CREATE VIEW W AS SELECT k, v FROM Far")
    lyon.execute(STREAMS.format("Near", folder) + "CREATE VIEW W AS SELECT k FROM Near")
    lyon.execute(f"CREATE VIEW Early AS {JOIN.format('paris.')}")
    settle_all(network)
    lyon.execute("DROP VIEW Early")
    settle_all(network)
    paris.run(final=False)
    lyon.run(final=False)


@pytest.mark.parametrize(
    ("near", "far", "chosen"),
    [
        ([1, 2], [2, *range(10, 49)], ("sm_s1", "sm_s2", "bloom")),  # one row in forty matches
        (list(range(40)), list(range(40)), ("sp_s", "sp_d")),  # everything does
        (list(range(1_000, 1_010)), list(range(10)), ("sm_s1", "sm_s2", "sm_d1", "sm_d2", "bloom")),  # nothing does
    ],
)
def test_the_cheapest_way_is_taken(near, far, chosen, tmp_path):
    write(tmp_path, "Near", near)
    write(tmp_path, "Far", far)
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        measured_sites(tmp_path, paris, lyon, network)
        lyon.execute(f"CREATE STREAMED VIEW V AS {JOIN.format('paris.')}")
        options = lyon.catalog.find("V").options
        listed = {way["algorithm"]: way for way in options["site_costs"]}
        assert set(listed) == set(ALGORITHMS) and not any(way["assumed"] for way in listed.values())
        [taken] = [name for name, way in listed.items() if way["chosen"]]
        assert taken in chosen and taken == options.get("site_plan", {"algorithm": "sp_s"})["algorithm"]
        assert listed[taken]["cost"] <= 1.01 * min(way["cost"] for way in listed.values())


def test_explain_lists_every_way_and_what_was_measured(tmp_path):
    write(tmp_path, "Near", [1, 2])
    write(tmp_path, "Far", [2, *range(10, 49)])
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        measured_sites(tmp_path, paris, lyon, network)
        lyon.execute(f"CREATE STREAMED VIEW V AS {JOIN.format('paris.')}")
        settle_all(network)
        for name in ("Near", "Far"):
            lines = [f"{2 if n % 40 == 0 else 10 + n % 39},{n},{30 + n // 4}" for n in range(400)]
            (tmp_path / name / "2.csv").write_text("k,v,tm\n" + "\n".join(lines) + "\n")
        paris.start()
        lyon.start()
        for _ in range(8):
            for db in (paris, lyon):
                db.step()
                settle_all(network)
        finish_together(network)
        shown = str(lyon.execute("EXPLAIN VIEW V"))
        for name in ALGORITHMS:
            assert re.search(rf"^\s*(remark:? )?.*[* ] ?{name}: [\d,]+ B/s in", shown, re.M), shown
        assert len(re.findall(r"\* \w+: ", shown)) == 1 and "messages/s" in shown and "processing" in shown
        assert re.search(r"\* \w+: [\d,]+ B/s in \[measured [\d,]+\]", shown), shown


def test_a_limit_on_latency_excludes(tmp_path):
    write(tmp_path, "Near", [1, 2])
    write(tmp_path, "Far", [2, *range(10, 49)])
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        measured_sites(tmp_path, paris, lyon, network)
        lyon.state.sites.sessions["paris"].round_trip_s = 3.0
        text = f"CREATE VIEW {{}} WITH (max_latency = '{{}} seconds') AS {JOIN.format('paris.')}"
        lyon.execute(text.format("V", 30))
        assert lyon.catalog.find("V").options["site_plan"]["algorithm"] in ("sm_s1", "bloom", "sm_s2")
        lyon.execute(text.format("W2", 4))
        listed = {way["algorithm"]: way for way in lyon.catalog.find("W2").options["site_costs"]}
        assert listed["sp_s"]["chosen"] and "site_plan" not in lyon.catalog.find("W2").options
        assert listed["sp_s"]["latency"] <= 4.0 < listed["sm_s1"]["latency"]


def test_only_what_is_exported_is_measured(tmp_path):
    write(tmp_path, "Far", [1])
    with equal_sites(tmp_path, "paris", "lyon") as (_, (paris, _)):
        paris.execute(STREAMS.format("Far", tmp_path))
        with pytest.raises(CatalogProblem, match="no stream or view"):
            paris.state.sites.service.measure("lyon", "Far", ("k",))
        assert not paris.state.sites.service.measures.take_up()
        paris.execute("EXPORT STREAM Far TO SITE lyon")
        assert paris.state.sites.service.measure("lyon", "Far", ("k",)).values == ""
        assert paris.state.sites.service.measure("lyon", "Far", ("nothing",)).values == ""
        assert paris.state.sites.service.measures.take_up() and not paris.state.sites.service.measures.take_up()


def test_samples_are_there_after_the_database_was_opened_again(tmp_path):
    write(tmp_path, "Near", [1, 2])
    write(tmp_path, "Far", [2, 3])
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        measured_sites(tmp_path, paris, lyon, network)
        before = paris.state.sites.service.measure("lyon", "Far", ("k",))
        paris.state.sites.service.measures.save()
        assert before.values and before.rows == 120 and before.rate > 0 and 0 < before.widths["k"] < 9
        assert before.key_bytes >= 4
        service = type(paris.state.sites.service.measures)(
            paris.paths.measures, paris.paths.database, paris.catalog, lambda: paris.outlet
        )
        assert service.statistics("Far", ("k",)) == before
