"""Another plan takes over in mid-run: the log is that of one database, whenever and however it changes."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties import streams
from tests.properties.effort import effort
from tests.properties.streams import maybe, small
from tests.properties.trial import log_of
from tests.sites.test_algorithms import JOIN, STREAMS, places
from tests.sites.test_choice_by_cost import measured_sites
from tests.sites.test_exact_over_any_network import ends_together
from tests.sites.two_sites import FAULTS, crash, equal_sites, finish_together, settle_all
from tidemill.engine.sites import changing
from tidemill.engine.sites.choosing import Choosing
from tidemill.engine.views.ways import WAYS
from tidemill.engine.workload import Workload
from tidemill.plan.sites import ALGORITHMS
from tidemill.runtime.views.moments import read_frontiers
from tidemill.sql.catalog import Catalog

HAPPENED: Counter[str] = Counter()
windows = st.sampled_from(["[WINDOW 1]", "[WINDOW 3]", "[RANGE 2 SLIDE 1]", "SYNC EVERY 2 [WINDOW 2]"])


@contextmanager
def wanting(wanted: list[str]):
    """Inside, the prices of all plans are known, and the first of `wanted` that is possible is the best by far."""
    weigh = Choosing.weigh

    def prefer(self, *given):
        found = weigh(self, *given)
        best = next((name for name in wanted if name in found.prices), found.best)
        return replace(found, best=best, assumed=())

    with patch.object(Choosing, "weigh", prefer), patch.object(changing, "takes_over", lambda old, new: True):
        yield


@st.composite
def joins(draw):
    shown = draw(st.sampled_from(["A.k AS k, A.v AS av, B.v AS bv", "B.k AS k, count(*) AS n, sum(A.v) AS av"]))
    side = draw(st.sampled_from(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"]))
    on = draw(st.sampled_from(["A.k = B.k", "A.k = B.k", "A.k = B.k AND A.v < B.v"]))
    text = f"FROM Near {draw(windows)} A {side} paris.FarRows {draw(windows)} B ON {on}"
    if draw(st.booleans()) and side == "JOIN":
        text += f" JOIN paris.FarRows {draw(windows)} C ON A.k = C.k"
    return f"SELECT {shown} {text}" + (" GROUP BY B.k" if "count" in shown else "")


@st.composite
def rows_of(draw, name):
    """A stream without a key, in the order of time."""
    steps = draw(
        st.lists(st.tuples(st.sampled_from([0, 1, 1, 3]), maybe(st.integers(0, 2)), small), min_size=12, max_size=20)
    )
    times = accumulate(step for step, _, _ in steps)
    rows = tuple({"k": k, "v": v, "tm": tm} for tm, (_, k, v) in zip(times, steps, strict=True))
    return streams.Stream(
        name, (*streams.PLAIN[:2], streams.PLAIN[-1]), rows, batch_rows=draw(st.sampled_from([None, 3]))
    )


@st.composite
def workloads(draw):
    return ends_together([draw(rows_of("Near")), draw(rows_of("FarRows"))]), draw(joins())


# What happens in a round, beside that rows come and all sites go on; the plan is looked at in some of them.
disturbances = st.sampled_from(["", "", "", "", "crash paris", "crash lyon", "half batch", "paris rests", "lyon rests"])
rounds = st.lists(
    st.tuples(disturbances, st.sampled_from(FAULTS), st.booleans(), st.integers(1, 4)), min_size=6, max_size=7
)
READER = "CREATE STREAMED VIEW W AS SELECT k, count(*) AS n FROM V GROUP BY k"


def over_sites(found, query, wanted, todo, place):
    """The logs of the query, and of a view on it, at lyon."""
    with tempfile.TemporaryDirectory() as name, wanting(wanted):
        folder = Path(name)
        with equal_sites(folder, "paris", "lyon", **place) as (network, (paris, lyon)):
            for stream in found:
                (folder / stream.name).mkdir()
                (lyon if stream.name == "Near" else paris).execute(stream.statements(folder))
            paris.execute("EXPORT STREAM FarRows TO SITE lyon")
            lyon.execute(f"CREATE STREAMED VIEW V AS {query}")
            lyon.execute(READER)
            settle_all(network)
            written = dict.fromkeys((s.name for s in found), (0, 0))

            def write(rows):
                for stream in found:
                    first, file = written[stream.name]
                    last = min(first + rows, len(stream.rows))
                    written[stream.name] = last, stream.write(folder, first, last, file)

            paris.start()
            lyon.start()
            for what, fault, looks, rows in todo:
                write(rows)
                if looks:
                    wanted.append(wanted.pop(0))
                    lyon.state.sites.changes.consider()
                for name, db in (("paris", paris), ("lyon", lyon)):
                    disturb(db, what.replace("half batch", "half batch lyon").replace(name, "me"))
                    network.pump(*(("lyon", "paris") if name == "paris" else ("paris", "lyon")), fault)
                    settle_all(network)
                note(lyon)
            write(100)
            finish_together(network)
            note(lyon)
            return [sorted(map(repr, log_of(lyon, view))) for view in ("V", "W")]


def in_one_place(found, query, place):
    """The same logs, of one database."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with LocalDatabase(str(folder / "one"), **place) as db:
            for stream in found:
                stream.write(folder)
                db.execute(stream.statements(folder))
            db.execute(f"CREATE STREAMED VIEW V AS {query.replace('paris.', '')}")
            db.execute(READER)
            db.run()
            return [sorted(map(repr, log_of(db, view))) for view in ("V", "W")]


def disturb(db, what):
    """A batch of a site, whole or in part, or none."""
    if what == "half batch me":  # computed and not applied, as in a crash before the commit
        planned = db.logged = db.logged or db.plan()
        if planned is not None:
            crash(db, lambda: db.compute(planned))
    elif what == "crash me":
        crash(db, db.step)
    elif what != "me rests":
        db.step()


def note(lyon):
    """Count how far changes are. What the catalog says is bound to the same plans by a database that opens."""
    ways = lyon.catalog.find("V").options[WAYS]
    HAPPENED["begun"] += ways["next"] is not None
    HAPPENED["agreed"] += bool(ways["next"] and ways["next"]["agreed"])
    HAPPENED["changed"] += ways["number"]
    if ways["next"] is not None or ways["number"]:
        again = Workload(Catalog.from_dict(json.loads(json.dumps(lyon.catalog.to_dict()))), lyon.workload.unit_us)
        assert all(again.views[name].node is view.node for name, view in lyon.workload.views.items())


@effort(4, thorough_cases=4_000)
@given(workload=workloads(), wanted=st.permutations(sorted(ALGORITHMS)), todo=rounds, place=places)
def test_a_change_of_plan_leaves_the_log_as_it_is(workload, wanted, todo, place):
    found, query = workload
    expected = in_one_place(found, query, place)
    assert over_sites(found, query, list(wanted), todo, place) == expected


def test_plans_have_changed():
    """The property above has met changes at each of their steps."""
    assert HAPPENED["begun"] and HAPPENED["agreed"] and HAPPENED["changed"], HAPPENED


def write_rows(folder, name, file, keys, start, rate=2):
    """Twenty seconds of rows, from `start` on."""
    (folder / name).mkdir(exist_ok=True)
    lines = [f"{keys[n % len(keys)]},{n},{start + n // rate}" for n in range(20 * rate)]
    (folder / name / f"{file:02}.csv").write_text("k,v,tm\n" + "\n".join(lines) + "\n")


FEW, ALL = ([1, 2], [2, *range(10, 49)]), ([1, 2], [1, 2])


@contextmanager
def measured_join(folder):
    """Two sites whose join has begun with rows that all match, so everything is shipped."""
    for name, keys in zip(("Near", "Far"), ALL, strict=True):
        write_rows(folder, name, 1, keys, 0)
    with equal_sites(folder, "paris", "lyon") as (network, (paris, lyon)):
        measured_sites(folder, paris, lyon, network)
        lyon.execute(f"CREATE STREAMED VIEW V AS {JOIN.format('paris.')}")
        settle_all(network)
        paris.start()
        lyon.start()
        for part in range(2, 5):
            go_on(network, folder, part, ALL)
        yield network, paris, lyon


def go_on(network, folder, part, keys):
    for name, listed in zip(("Near", "Far"), keys, strict=True):
        write_rows(folder, name, part, listed, 20 * part)
    step_all(network)


def step_all(network):
    for _ in range(2):
        for db in network.nodes.values():
            db.step()
            settle_all(network)


def change_of_data(network, folder):
    """Few rows match from now on, and samples of what was before are forgotten."""
    for part in range(5, 8):
        go_on(network, folder, part, FEW)
        for db in network.nodes.values():
            db.state.sites.service.measures.age()
        network.nodes["lyon"].state.sites.changes.consider()


def test_the_plan_follows_the_data(tmp_path):
    with measured_join(tmp_path) as (network, _, lyon):
        assert "site_plan" not in lyon.catalog.find("V").options
        lyon.state.sites.changes.consider()
        assert lyon.catalog.find("V").options[WAYS]["next"] is None, "a plan that is good stays"
        change_of_data(network, tmp_path)
        coming = lyon.catalog.find("V").options[WAYS]["next"]
        assert coming["algorithm"] not in ("sp_s", "sp_d"), coming
        assert f"{coming['algorithm']} takes over" in str(lyon.execute("EXPLAIN VIEW V"))
        for part in range(8, 11):
            go_on(network, tmp_path, part, FEW)
        ways = lyon.catalog.find("V").options[WAYS]
        assert (ways["number"], ways["next"]) == (1, None)
        last = lyon.execute("SHOW PLANS").to_pylist()[-1]
        assert (last["kind"], last["name"]) == ("site", "V") and last["before"] == "sp_s at this site"
        assert last["after"].startswith(coming["algorithm"]) and " of sp_s" in last["reason"]
        left = {edge["algorithm"] for site in lyon.state.sites.status() for edge in site["reads"]}
        assert left <= {coming["algorithm"], "keys"}, "the old edge has ended"
        finish_together(network)
        assert_same_log(lyon, tmp_path)


@contextmanager
def begun_change(folder):
    """A change that has begun, and of which the job hears only through the test."""
    with measured_join(folder) as (network, paris, lyon), wanting(["sm_s1"]):
        changes = lyon.state.sites.changes
        changes.consider()
        assert lyon.catalog.find("V").options[WAYS]["next"] is not None
        lyon.outlet.listeners.remove(changes.follow)
        yield network, paris, lyon, changes


def test_a_job_that_hears_of_the_time_late_changes_over_late(tmp_path):
    """Answers have passed the agreed time when the job hears of it: nothing is lost."""
    with begun_change(tmp_path) as (network, _, lyon, changes):
        go_on(network, tmp_path, 5, ALL)
        ways = lyon.catalog.find("V").options[WAYS]["next"]
        report = lyon.runner.reports.last
        for part in (6, 7):  # rows that a batch takes in which is planned before the time is agreed on
            for name, listed in zip(("Near", "Far"), ALL, strict=True):
                write_rows(tmp_path, name, part, listed, 20 * part)
        network.nodes["paris"].step()
        settle_all(network)
        lyon.logged = lyon.plan()
        changes.follow(report)
        lyon.step()
        closed = read_frontiers(lyon.outlet.known)[f"view {lyon.catalog.find('V').id}"]
        assert lyon.outlet.plan < ways["version"] and closed > ways["agreed"], "answers have passed the agreed time"
        for part in range(8, 12):
            go_on(network, tmp_path, part, ALL)
            changes.follow(report)
        ways = lyon.catalog.find("V").options[WAYS]
        assert (ways["number"], ways["next"]) == (1, None)
        finish_together(network)
        assert_same_log(lyon, tmp_path)


def test_a_plan_whose_edge_is_refused_is_given_up(tmp_path):
    with begun_change(tmp_path) as (_, __, lyon, changes):
        [edge] = [n for n in lyon.catalog.find("V").needs if n.endswith("_b_rows")]
        lyon.state.sites.sessions["paris"].refused[edge] = "no"
        changes.follow(lyon.runner.reports.last)
        view = lyon.catalog.find("V")
        assert (view.options[WAYS]["number"], view.options[WAYS]["next"]) == (0, None) and edge not in view.needs
        assert edge.lower() not in lyon.catalog.entries and not list(lyon.catalog.of("edge")), "nothing is left of it"
        changes.consider()
        assert lyon.catalog.find("V").options[WAYS]["next"]["number"] == 2, "its number is not used again"


def test_a_plan_that_shares_an_edge_waits_for_what_was_read_of_it(tmp_path):
    """Rows that are ahead of the other stream were read for another view before the plan began."""
    for name in ("Near", "Far"):
        write_rows(tmp_path, name, 1, [1, 2], 0, rate=1)
    wanted = ["sm_s1"]
    with equal_sites(tmp_path, "paris", "lyon") as (network, (paris, lyon)), wanting(wanted):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path) + f"CREATE STREAMED VIEW V AS {JOIN.format('paris.')}")
        lyon.execute("CREATE VIEW Other AS SELECT k, v FROM paris.Far")
        settle_all(network)
        paris.start()
        lyon.start()
        step_all(network)
        write_rows(tmp_path, "Far", 2, [1, 2], 20, rate=1)
        step_all(network)
        wanted[:] = ["sp_s"]
        lyon.state.sites.changes.consider()
        [edge] = lyon.catalog.find("Other").needs
        assert edge in lyon.catalog.find("V").needs
        step_all(network)
        assert lyon.catalog.find("V").options[WAYS]["next"]["agreed"] > 39 * streams.UNIT
        write_rows(tmp_path, "Near", 2, [1, 2], 20, rate=1)
        for name in ("Near", "Far"):
            write_rows(tmp_path, name, 3, [1, 2], 40, rate=1)
        for _ in range(3):
            step_all(network)
        assert lyon.catalog.find("V").options[WAYS]["number"] == 1
        finish_together(network)
        assert_same_log(lyon, tmp_path, 0)


def assert_same_log(lyon, folder, begun=30):
    """The log of the join is that of one database, behind the rows that came before the view."""
    found = log_of(lyon, "V")
    with LocalDatabase(str(folder / "one")) as one:
        one.execute(STREAMS.format("Near", folder) + STREAMS.format("Far", folder))
        one.execute(f"CREATE STREAMED VIEW V AS {JOIN.format('')}")
        one.run()
        expected = [row for row in log_of(one, "V") if row.time > begun * streams.UNIT]
    assert sorted(map(repr, (row for row in found if row.time > begun * streams.UNIT))) == sorted(map(repr, expected))


def test_pinned_plans_stay(tmp_path):
    with measured_join(tmp_path) as (network, _, lyon):
        lyon.execute("SET pin_plan = on")
        change_of_data(network, tmp_path)
        assert lyon.catalog.find("V").options[WAYS]["next"] is None


def test_what_is_not_bounded_or_not_exact_keeps_its_plan(tmp_path):
    for name in ("Near", "Far"):
        write_rows(tmp_path, name, 1, [1, 2], 0)
    with equal_sites(tmp_path, "paris", "lyon") as (_, (paris, lyon)), wanting(["sm_s1"]):
        paris.execute(STREAMS.format("Far", tmp_path) + "EXPORT STREAM Far TO SITE lyon")
        lyon.execute(STREAMS.format("Near", tmp_path))
        join = "Near [WINDOW 3] A JOIN paris.Far {} B ON A.k = B.k"
        for number, (shown, window, after, changes) in enumerate(
            [
                ("A.k", "[WINDOW 3]", "", True),
                ("A.k, sum(A.v) AS v", "[RANGE 4 SLIDE 2]", "GROUP BY A.k", True),
                ("sum(A.v) AS v", "[WINDOW 3]", "", False),
                ("A.k, list(B.v) AS v", "[WINDOW 3]", "GROUP BY A.k", False),
                ("A.k", "[ROWS 3]", "", False),
            ]
        ):
            lyon.execute(f"CREATE VIEW V{number} AS SELECT {shown} FROM {join.format(window)} {after}")
            assert (WAYS in lyon.catalog.find(f"V{number}").options) == changes, shown
        lyon.execute(f"CREATE VIEW W WITH (site_join = 'sm_s1') AS SELECT A.k FROM {join.format('[WINDOW 3]')}")
        assert WAYS not in lyon.catalog.find("W").options
