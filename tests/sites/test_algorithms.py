"""Joins between sites as the engine runs them: for each algorithm the log is that of one database, whatever happens."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.trial import log_of
from tests.sites.test_exact_over_any_network import ends_together
from tests.sites.two_sites import FAULTS, crash, equal_sites, finish_together, settle_all
from tidemill.errors import PlanProblem
from tidemill.plan.sites import ALGORITHMS

FAR = ("FarRows", "FarKeys", "FarView")
VIEW = "CREATE STREAMED VIEW FarView AS SELECT k, sum(v) AS v FROM FarRows GROUP BY k;"
windows = st.sampled_from(
    ["[WINDOW 3]", "[WINDOW 3]", "[WINDOW 9]", "[RANGE 6 SLIDE 2]", "[ROWS 3]", "SYNC EVERY 4 [WINDOW 5]"]
)


@st.composite
def joins(draw):
    """A join of a stream here with rows, keyed rows or a view of the other site; sometimes with both."""
    shown = draw(st.sampled_from(["A.k AS k, A.v AS av, B.v AS bv", "B.k AS k, count(*) AS n, sum(A.v) AS av"]))
    side = draw(st.sampled_from(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]))
    far = draw(st.sampled_from(FAR))
    behind = (
        draw(windows) if far == "FarRows" else draw(st.sampled_from(["", "[WINDOW 4]"] if far == "FarKeys" else [""]))
    )
    on = draw(st.sampled_from(["A.k = B.k", "A.k = B.k", "A.k = B.k AND A.v < B.v", "A.k = B.k AND A.v = B.v"]))
    text = f"FROM Near {draw(windows)} A {side} paris.{far} {behind} B ON {on}"
    if draw(st.booleans()) and "RIGHT" not in text and "FULL" not in text and far != "FarKeys":
        text += f" JOIN paris.{draw(st.sampled_from(['FarKeys', far]))} C ON A.k = C.k"
    if draw(st.booleans()):
        text += " WHERE B.v > 2"
    return f"SELECT {shown} {text}" + (" GROUP BY B.k" if "count" in shown else "")


@st.composite
def workloads(draw):
    near = draw(st.one_of(streams.append_only("Near", most=8), streams.keyed("Near", most=8)))
    far = [draw(streams.append_only("FarRows", most=8)), draw(streams.keyed("FarKeys", most=8))]
    return ends_together([near, *far]), draw(joins())


actions = st.lists(
    st.one_of(
        st.sampled_from(["paris", "lyon", "write Near", "write Far", "crash paris", "crash lyon"]),
        st.sampled_from(FAULTS).map(lambda fault: f"pump lyon paris {fault}"),
        st.sampled_from(FAULTS).map(lambda fault: f"pump paris lyon {fault}"),
    ),
    max_size=14,
)


def over_sites(found, query, algorithm, todo, place):
    """The log of the query at lyon; far streams are at paris. And how it was joined."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with equal_sites(folder, "paris", "lyon", **place) as (network, (paris, lyon)):
            for stream in found:
                (folder / stream.name).mkdir()
                (lyon if stream.name == "Near" else paris).execute(stream.statements(folder))
            paris.execute(VIEW)
            for far in FAR:
                paris.execute(f"EXPORT {'VIEW' if far == 'FarView' else 'STREAM'} {far} TO SITE lyon")
            lyon.execute(f"SET site_join = {algorithm}")
            lyon.execute(f"CREATE STREAMED VIEW V AS {query}")
            settle_all(network)
            written = dict.fromkeys((s.name for s in found), (0, 0))

            def write(stream, rows):
                first, file = written[stream.name]
                last = min(first + rows, len(stream.rows))
                written[stream.name] = last, stream.write(folder, first, last, file)

            paris.start()
            lyon.start()
            for what in todo:
                word, *rest = what.split(" ", 3)
                if word == "pump":
                    network.pump(rest[0], rest[1], " ".join(rest[2:]))
                elif word == "write":
                    for stream in found:
                        if stream.name.startswith(rest[0]):
                            write(stream, 3)
                elif word == "crash":
                    crash(network.nodes[rest[0]], network.nodes[rest[0]].step)
                else:
                    network.nodes[word].step()
            for stream in found:
                write(stream, len(stream.rows))
            finish_together(network)
            return sorted(map(repr, log_of(lyon, "V"))), lyon.catalog.find("V").options.get("site_plan")


def in_one_place(found, query, place):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with LocalDatabase(str(folder / "one"), **place) as db:
            for stream in found:
                stream.write(folder)
                db.execute(stream.statements(folder))
            db.execute(VIEW)
            db.execute(f"CREATE STREAMED VIEW V AS {query.replace('paris.', '')}")
            db.run()
            return sorted(map(repr, log_of(db, "V")))


places = st.fixed_dictionaries({"shards": st.integers(1, 3), "cores": st.integers(1, 2)})


@effort(14, thorough_cases=4_000)
@given(workload=workloads(), algorithm=st.sampled_from(sorted(ALGORITHMS)), todo=actions, place=places)
def test_each_algorithm_gives_the_log_of_one_database(workload, algorithm, todo, place):
    found, query = workload
    try:
        expected = in_one_place(found, query, place)
    except PlanProblem:  # the language refuses the query, at either site
        return
    log, _ = over_sites(found, query, algorithm, todo, place)
    assert log == expected


STREAMS = """
REGISTER SOURCE {0}Source (k INTEGER, v INTEGER, tm INTEGER) FROM FILES '{1}/{0}/*.csv' WITH (timestamp = 'tm');
CREATE TAGGED STREAM {0} OVER {0}Source;
"""
JOIN = "SELECT A.k, A.v AS a, B.v AS b FROM Near [WINDOW 3] A JOIN {}Far [WINDOW 3] B ON A.k = B.k"


def write_rows(folder, name, keys):
    (folder / name).mkdir(exist_ok=True)
    lines = [f"{keys[t % len(keys)]},{t},{t // 2}" for t in range(40)]
    (folder / name / "1.csv").write_text("k,v,tm\n" + "\n".join([*lines, "-1,0,21"]) + "\n")


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_an_algorithm_by_name_is_the_one_that_runs(algorithm, tmp_path):
    """The fragments are what the algorithm ships, and fewer rows cross than there are where few match."""
    write_rows(tmp_path, "Near", [1, 2, 3])
    write_rows(tmp_path, "Far", [3, 4, 5, 6, 7, 8, 9, 10])
    with LocalDatabase(str(tmp_path / "one")) as one:
        one.execute(STREAMS.format("Near", tmp_path) + STREAMS.format("Far", tmp_path))
        one.execute("CREATE STREAMED VIEW V AS " + JOIN.format(""))
        one.run()
        expected = one.changes("V").to_pylist()
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        lyon.execute(f"CREATE STREAMED VIEW V WITH (site_join = '{algorithm}') AS {JOIN.format('paris.')}")
        settle_all(network)
        roles = sorted(e.options["edge"].rpartition("_")[2] for db in (paris, lyon) for e in db.catalog.of("edge"))
        finish_together(network)
        assert lyon.changes("V").to_pylist() == expected and len(expected) > 5
        lyon.execute("DROP VIEW V")
        settle_all(network)
        assert not list(lyon.catalog.of("edge")) and len(list(lyon.catalog.of("source"))) == 1
        assert not list(paris.catalog.of("edge")) and len(list(paris.catalog.of("source"))) == 1
    shipped = {
        "sp_s": ["paris.Far#1"],
        "sp_d": ["answer", "rows"],
        "sm_s1": ["keys", "rows"],
        "bloom": ["keys", "rows"],
        "sm_s2": ["keys", "known", "rows"],
        "sm_d1": ["answer", "keys", "rows"],
        "sm_d2": ["answer", "keys", "known", "rows"],
    }
    assert roles == shipped[algorithm]


def test_three_sites_and_what_is_shown_of_a_join(tmp_path):
    """Each far input is reduced by the one here; EXPLAIN and status say how, and what has crossed."""
    for name, keys in (("Near", [1, 2, 3]), ("Far", [3, 4, 5, 6]), ("Third", [2, 3, 9, 10, 11])):
        write_rows(tmp_path, name, keys)
    query = (
        "SELECT A.k, A.v AS a, B.v AS b, C.v AS c FROM Near [WINDOW 3] A JOIN {0}Far [WINDOW 3] B ON A.k = B.k"
        " JOIN {1}Third [WINDOW 2] C ON C.k = A.k"
    )
    with LocalDatabase(str(tmp_path / "one")) as one:
        one.execute("".join(STREAMS.format(n, tmp_path) for n in ("Near", "Far", "Third")))
        one.execute("CREATE STREAMED VIEW V AS " + query.format("", ""))
        one.run()
        expected = one.changes("V").to_pylist()
    with equal_sites(tmp_path, "paris", "rome", "lyon") as (network, (paris, rome, lyon)):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        rome.execute(STREAMS.format("Third", tmp_path) + "EXPORT STREAM Third TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        lyon.execute("CREATE STREAMED VIEW V WITH (site_join = 'sm_s1') AS " + query.format("paris.", "rome."))
        settle_all(network)
        finish_together(network)
        assert lyon.changes("V").to_pylist() == expected and expected
        shown = str(lyon.execute("EXPLAIN VIEW V"))
        assert "join between sites by sm_s1 at lyon: b by keys of a, c by keys of a" in shown
        assert "from paris" in shown and "from rome" in shown and "to paris" in shown and "SELECT DISTINCT" in shown
        [there] = [e for s in paris.status()["sites"] if s["name"] == "lyon" for e in s["reads"]]
        assert there["known_keys"] == 4 and there["lag_seconds"] is not None  # 1, 2, 3 and -1
        [edge] = [e for s in lyon.status()["sites"] if s["name"] == "paris" for e in s["reads"]]
        assert edge["algorithm"] == "sm_s1" and 0 < edge["rows"] < 40


@pytest.mark.parametrize(("rate", "chosen"), [(40, "sm_s1"), (1, None)])
def test_auto_uses_join_values_where_they_can_add_little(rate, chosen, tmp_path):
    """Few rows here and many there; by the rates that were seen when the view is created."""
    write_rows(tmp_path, "Near", [1, 2])
    (tmp_path / "Far").mkdir()
    lines = [f"{n % 7},{n},{n // rate}" for n in range(20 * rate)]
    (tmp_path / "Far" / "1.csv").write_text("k,v,tm\n" + "\n".join(lines) + "\n")
    with equal_sites(tmp_path, "paris", "lyon") as (_, (paris, lyon)):
        paris.execute(
            STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon; CREATE VIEW W AS SELECT k FROM Far"
        )
        lyon.execute(STREAMS.format("Near", tmp_path) + "CREATE VIEW W AS SELECT k FROM Near")
        lyon.execute(f"CREATE VIEW Early AS {JOIN.format('paris.')}")
        assert "site_plan" not in lyon.catalog.find("Early").options, "nothing is known yet"
        lyon.execute("DROP VIEW Early")
        paris.run(final=False)
        lyon.run(final=False)
        lyon.execute(f"CREATE VIEW V AS {JOIN.format('paris.')}")
        plan = lyon.catalog.find("V").options.get("site_plan")
        assert (plan["algorithm"] if plan else None) == chosen


@pytest.mark.parametrize("algorithm", ["sm_s1", "sm_s2", "bloom", "auto"])
def test_a_stream_that_is_read_twice_comes_in_two_ways(algorithm, tmp_path):
    """Each item has a window and join columns of its own, so each has an edge of its own."""
    write_rows(tmp_path, "Near", [1, 2, 3])
    write_rows(tmp_path, "Far", [3, 4, 1, 6])
    query = (
        "SELECT A.v AS a, B.v AS b, C.v AS c FROM Near [WINDOW 3] A JOIN {0}Far [WINDOW 2] B ON A.k = B.k"
        " JOIN {1}Far [WINDOW 9] C ON A.v = C.v WHERE B.v > 2 AND C.v < 30"
    )
    with LocalDatabase(str(tmp_path / "one")) as one:
        one.execute(STREAMS.format("Near", tmp_path) + STREAMS.format("Far", tmp_path))
        one.execute("CREATE STREAMED VIEW V AS " + query.format("", ""))
        one.run()
        expected = one.changes("V").to_pylist()
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        lyon.execute(f"SET site_join = {algorithm}; CREATE STREAMED VIEW V AS {query.format('paris.', 'Paris.')}")
        settle_all(network)
        finish_together(network)
        assert lyon.changes("V").to_pylist() == expected and len(expected) > 5


@pytest.mark.parametrize(
    "behind", ["SYNC EVERY 4 [WINDOW 5]", "SYNC EVERY 4 [ROWS 9]", "[ROWS 9]", "[RANGE 6 SLIDE 3]"]
)
def test_conditions_with_now_see_the_same_time(behind, tmp_path):
    """Behind SYNC the condition holds at its points, which are not known where the rows arrive."""
    write_rows(tmp_path, "Near", [1, 2, 3])
    write_rows(tmp_path, "Far", [3, 4, 1, 6])
    query = (
        "SELECT A.v AS a, B.v AS b FROM Near [WINDOW 5] A JOIN {}Far " + behind + " B ON A.k = B.k WHERE NOW - 4 < B.TS"
    )
    with LocalDatabase(str(tmp_path / "one")) as one:
        one.execute(STREAMS.format("Near", tmp_path) + STREAMS.format("Far", tmp_path))
        one.execute("CREATE STREAMED VIEW V AS " + query.format(""))
        one.run()
        expected = one.changes("V").to_pylist()
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        lyon.execute(f"SET site_join = sm_s2; CREATE STREAMED VIEW V AS {query.format('paris.')}")
        settle_all(network)
        finish_together(network)
        assert lyon.changes("V").to_pylist() == expected and len(expected) > 5


def test_answers_that_would_be_too_late_are_refused(tmp_path):
    write_rows(tmp_path, "Near", [1])
    write_rows(tmp_path, "Far", [1])
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        network.pump("lyon", "paris")
        lyon.state.sites.sessions["paris"].round_trip_s = 3.0
        text = f"CREATE VIEW V WITH (site_join = '{{}}', max_latency = '4 seconds') AS {JOIN.format('paris.')}"
        with pytest.raises(PlanProblem, match="cannot be joined") as caught:
            lyon.execute(text.format("sm_s2"))
        assert caught.value.detail == "3 crossings take 4.500 s, and 4.000 s are allowed"
        lyon.execute(text.format("sm_s1"))


def test_what_cannot_be_joined_so_is_refused_or_shipped(tmp_path):
    write_rows(tmp_path, "Near", [1])
    write_rows(tmp_path, "Far", [1])
    with equal_sites(tmp_path, "paris", "lyon") as (_, (paris, lyon)):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        for options in ("site_join = 'sm_s1'", "at = 'paris'", "at = 'rome'"):
            with pytest.raises(PlanProblem) as caught:
                lyon.execute(f"CREATE VIEW V WITH ({options}) AS SELECT k FROM paris.Far [WINDOW 3]")
            assert caught.value.code == "TM716" and caught.value.hint
        lyon.execute("SET site_join = sm_s1; CREATE VIEW V AS SELECT k FROM paris.Far [WINDOW 3]")
        assert "site_plan" not in lyon.catalog.find("V").options
        with pytest.raises(PlanProblem, match="there is no join algorithm"):
            lyon.execute(f"CREATE VIEW W WITH (site_join = 'hash') AS {JOIN.format('paris.')}")


@pytest.mark.parametrize("algorithm", ["sm_s2", "sm_d1"])
def test_sites_that_are_opened_again_go_on(algorithm, tmp_path):
    """What was lent and what is read is bound again from the catalogs, and nothing is lost or taken twice."""
    write_rows(tmp_path, "Near", [1, 2, 3])
    write_rows(tmp_path, "Far", [3, 4, 5, 6])
    with LocalDatabase(str(tmp_path / "one")) as one:
        one.execute(STREAMS.format("Near", tmp_path) + STREAMS.format("Far", tmp_path))
        one.execute("CREATE STREAMED VIEW V AS " + JOIN.format(""))
        one.run()
        expected = one.changes("V").to_pylist()
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        lyon.execute(f"CREATE STREAMED VIEW V WITH (site_join = '{algorithm}') AS {JOIN.format('paris.')}")
        settle_all(network)
    with LocalDatabase(str(tmp_path / "paris")) as paris, LocalDatabase(str(tmp_path / "lyon")) as lyon:
        network.add("paris", paris)
        network.add("lyon", lyon)
        finish_together(network)
        assert lyon.changes("V").to_pylist() == expected and len(expected) > 5
        paris.execute("REVOKE STREAM Far FROM SITE lyon")
        assert not list(paris.catalog.of("edge")) or all(e.options.get("lent") for e in paris.catalog.of("edge"))
        assert len(list(paris.catalog.of("source"))) == 1, "nothing is read from lyon any more"
