"""A crash at each point of the protocol: the log stays the same, and the crash, resends and duplicates did happen."""

from __future__ import annotations

import pytest

from tests.properties.effort import thorough
from tests.sites.two_sites import crash, finish, two_sites
from tidemill.runtime.sites import inbox, outbox
from tidemill.runtime.sites.inbox import Inbox
from tidemill.runtime.sites.outbox import Outbox
from tidemill.runtime.views.outlet import Outlet

SOURCE = """
REGISTER SOURCE {0}S (k INTEGER, v INTEGER, at INTEGER) FROM FILES '{1}/{0}/*.csv' WITH (timestamp = 'at');
CREATE TAGGED STREAM {0} OVER {0}S{2};
"""
VIEW = """CREATE STREAMED VIEW V WITH (unbounded_state = true) AS
SELECT a.k, a.v AS here, b.v AS there FROM Near [WINDOW 4] a LEFT JOIN {}Far b ON a.k = b.k;"""
FILES = {
    "Near": ["1,10,1\n2,20,2\n", "1,30,4\n2,21,5\n", "3,1,6\n1,11,9\n"],
    "Far": ["1,100,1\n2,200,2\n", "1,101,3\n3,300,5\n", "2,201,7\n1,102,7\n1,103,7\n"],
}
# Where a crash happens: the object and the name of the function, and at which site it is called.
POINTS = {
    "outbox rename": (outbox, "write_file", "paris"),
    "commit": (Outlet, "_commit", "paris"),
    "inbox sync": (inbox, "write_file", "lyon"),
    "inbox head": (Inbox, "_write_head", "lyon"),
    "acknowledgement": (outbox, "write_note", "lyon"),
    "trim of the outbox": (Outbox, "_trim", "lyon"),
    "commit of the reader": (Outlet, "_commit", "lyon"),
    "trim of the inbox": (Inbox, "trim", "lyon"),
}


class Crash(BaseException):
    """The process ends here."""


def write(folder, name, number):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{number}.csv").write_text("k,v,at\n" + FILES[name][number])


def log(db):
    return sorted(map(repr, db.changes("V").to_pylist()))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    from tests.harness import LocalDatabase

    folder = tmp_path_factory.mktemp("one")
    with LocalDatabase(str(folder / "db")) as db:
        for name, key in (("Near", ""), ("Far", " KEY k")):
            for number in range(3):
                write(folder, name, number)
            db.execute(SOURCE.format(name, folder, key))
        db.execute(VIEW.format(""))
        db.run()
        return log(db)


@pytest.mark.parametrize("nth", [1, 2, 3] if thorough() else [2])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", POINTS)
def test_the_log_after_a_crash_is_the_same(tmp_path, monkeypatch, expected, point, when, nth):
    place, name, _ = POINTS[point]
    true, calls, crashes = getattr(place, name), [], []

    def fail(*args, **kwargs):
        calls.append(1)
        is_due = len(calls) == nth and not crashes
        if is_due and when == "before":
            crashes.append(point)
            raise Crash
        done = true(*args, **kwargs)
        if is_due:
            crashes.append(point)
            raise Crash
        return done

    with two_sites(tmp_path) as (network, paris, lyon):
        for name_, db, key in (("Near", lyon, ""), ("Far", paris, " KEY k")):
            (tmp_path / name_).mkdir()
            db.execute(SOURCE.format(name_, tmp_path, key))
        paris.execute("EXPORT STREAM Far TO SITE lyon")
        lyon.execute(VIEW.format("paris."))
        network.settle("lyon", "paris")
        paris.start()
        lyon.start()

        def survive(work):
            """Work that may be cut short; both sites are then as after a crash."""
            try:
                work()
            except Crash:
                for db in (paris, lyon):
                    crash(db, lambda: None)
                if point == "trim of the inbox":  # sources trim after the batch has been committed
                    lyon.offset, lyon.logged, lyon.batch = lyon.logged, None, lyon.batch + 1
                else:
                    work()

        monkeypatch.setattr(place, name, fail)
        for number in range(3):
            for name_ in FILES:
                write(tmp_path, name_, number)
            for work in (paris.step, lambda: network.settle("lyon", "paris"), lyon.step, lyon.step):
                survive(work)
        monkeypatch.setattr(place, name, true)
        finish(network, paris, lyon)
        assert crashes == [point], "the crash did not happen"
        assert log(lyon) == expected


@pytest.mark.parametrize("fault", ["request lost", "answer lost", "answer late", "answer twice"])
def test_what_the_network_loses_or_repeats_changes_nothing(tmp_path, expected, fault):
    with two_sites(tmp_path) as (network, paris, lyon):
        for name, db, key in (("Near", lyon, ""), ("Far", paris, " KEY k")):
            (tmp_path / name).mkdir()
            db.execute(SOURCE.format(name, tmp_path, key))
        paris.execute("EXPORT STREAM Far TO SITE lyon")
        lyon.execute(VIEW.format("paris."))
        network.settle("lyon", "paris")
        paris.start()
        lyon.start()
        for number in range(3):
            for name in FILES:
                write(tmp_path, name, number)
            paris.step()
            network.pump("lyon", "paris", fault)
            lyon.step()
        finish(network, paris, lyon)
        assert network.counts["twice" if fault == "answer twice" else "lost"] >= 3
        assert log(lyon) == expected


def test_a_partition_holds_back_only_what_reads_the_other_site(tmp_path, expected):
    """One direction alone: the answers of paris do not arrive. Local views keep their pace, then all catches up."""
    with two_sites(tmp_path) as (network, paris, lyon):
        for name, db, key in (("Near", lyon, ""), ("Far", paris, " KEY k")):
            (tmp_path / name).mkdir()
            db.execute(SOURCE.format(name, tmp_path, key))
        paris.execute("EXPORT STREAM Far TO SITE lyon")
        lyon.execute(VIEW.format("paris."))
        lyon.execute("CREATE STREAMED VIEW Own AS SELECT k, v FROM Near")
        network.settle("lyon", "paris")
        paris.start()
        lyon.start()
        network.cut = {("paris", "lyon")}
        for number in range(3):
            for name in FILES:
                write(tmp_path, name, number)
            paris.step()
            network.pump("lyon", "paris")
            lyon.step()
        assert [r["v"] for r in lyon.changes("Own").to_pylist()] == [10, 20, 30, 21, 1]
        assert not log(lyon)
        network.cut = set()
        finish(network, paris, lyon)
        assert log(lyon) == expected
