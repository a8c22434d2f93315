"""Hundreds of small views share tables: what a view holds does not depend on where its rows lie."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle
from tests.paper.notation import Feed, rows_of, tagged
from tests.properties.effort import effort
from tidemill.plan.sources import Column
from tidemill.runtime.thresholds import sizes
from tidemill.runtime.views.stored_view import StoredView

VIEWS = {
    "Latest": "CREATE STREAMED VIEW {name} AS SELECT k, v FROM K",
    "Grown": "CREATE STREAMED VIEW {name} AS SELECT k, v FROM S",
    "Kept": "CREATE STREAMED VIEW {name} WITH (retain = 3) AS SELECT k, v FROM S",
    "Now": "CREATE COMPLETE VIEW {name} AS SELECT k, v FROM K",
    "Bag": "CREATE STREAMED VIEW {name} AS SELECT v FROM K",
    "Whole": "CREATE RSTREAM VIEW {name} AS SELECT k, count(*) AS n FROM S [RANGE 4 SLIDE 2] GROUP BY k",
}
COPIES = 2


def eagerly(patch) -> None:
    """Rows move early: into pools, out of them, and pools are rewritten, within a few batches."""
    patch.setattr(sizes, "pooled_views", 2)
    patch.setattr(sizes, "alone_rows", 6)
    patch.setattr(sizes, "own_rows", 4)
    patch.setattr(sizes, "rewrite_rows", 4)


@pytest.fixture
def everywhere(monkeypatch):
    eagerly(monkeypatch)


def create(db) -> None:
    db.execute("CREATE TAGGED STREAM K OVER Raw KEY k; CREATE TAGGED STREAM S OVER Raw")
    for copy in range(COPIES):
        for name, text in VIEWS.items():
            db.execute(text.format(name=f"{name}{copy}"))


def everything(db) -> dict[str, list]:
    """Logs in order; contents of all views."""
    found = {}
    for name, view in db.workload.views.items():
        if view.stored.output == "streamed":
            found[f"log of {name}"] = tagged(db, name)
        with db.store.reading() as duck:
            found[name] = sorted(duck.sql(db.store.relation_sql(view.stored, duck)).fetchall(), key=str)
    return found


def tables(db, owner: str) -> int:
    """Rows in the tables of a view or pool."""
    names = db.store.cursor().sql("SELECT table_name FROM duckdb_tables()").fetchall()
    mine = [n for (n,) in names if n.partition(" ")[2] == owner]
    return sum(db.store.cursor().sql(f'SELECT count(*) FROM "{n}"').fetchall()[0][0] for n in mine)


def pooled(db) -> int:
    """Rows in all pools."""
    return sum(tables(db, pool) for pool in {v.stored.pool for v in db.workload.views.values()})


def fed(db, folder, batches, after=lambda db, number: None) -> Feed:
    """All views, and the batches one after the other; the feed can send more."""
    feed = Feed(db, folder, "Raw", "k INTEGER, v INTEGER")
    create(db)
    db.start()
    for number, rows in enumerate(batches):
        feed.send(rows)
        settle(db)
        after(db, number)
    return feed


def go_on(db, reached, feed, batches) -> None:
    """The same batches in a database that was opened again, from what Spark would remember."""
    db.blobs, db.offset, db.batch = reached
    db.start()
    for batch in batches:
        feed.send(batch)
        settle(db)


def run(folder, batches, after=lambda db, number: None, **options) -> dict[str, list]:
    folder.mkdir(exist_ok=True)
    with LocalDatabase(str(folder / "db"), **options) as db:
        fed(db, folder, batches, after)
        return everything(db)


rows = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=8)


def timed(batches):
    """Event times that grow, two rows each."""
    at, found = 0, []
    for batch in batches:
        found.append([(k, v, (at := at + 1) // 2) for k, v in batch])
    return found


@effort(4)
@given(batches=st.lists(rows, min_size=2, max_size=5).map(timed))
def test_pools_change_no_log_and_no_contents(batches, tmp_path_factory):
    found = []
    for layout in (apart, eagerly, pooled_appends, lambda patch: None):
        with pytest.MonkeyPatch.context() as patch:
            layout(patch)
            found.append(run(tmp_path_factory.mktemp("db"), batches))
    assert all(other == found[0] for other in found)


STREAM = timed([[(k, i % 3 + 1) for k in (1, 2, 3)] for i in range(8)])


def apart(patch) -> None:
    """Every view has its own tables only."""
    patch.setattr(sizes, "alone_rows", 0)


def pooled_appends(patch) -> None:
    """The same, but one append-only view is enough for a pool."""
    apart(patch)
    patch.setattr(sizes, "pooled_append_views", 1)
    patch.setattr(sizes, "own_rows", 4)


def none_pooled(db, number) -> None:
    assert pooled(db) == 0


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """What the views hold when nothing disturbs them."""
    with pytest.MonkeyPatch.context() as patch:
        apart(patch)
        return run(tmp_path_factory.mktemp("wanted"), STREAM, none_pooled)


def test_rows_go_into_pools_and_out_of_them_again(everywhere, tmp_path):
    seen, moved = [], []

    def look(db, number):
        seen.append(pooled(db))
        moved.append(sum(tables(db, v.stored.id) for v in db.workload.views.values()))

    run(tmp_path, STREAM, look)
    assert min(seen[1:]) > 0 and any(b < a for a, b in pairwise(seen))
    assert moved[0] == 0 < moved[-1]


def test_a_crowd_that_only_grows_stays_in_its_pool(tmp_path, wanted):
    held = []

    def look(db, number):
        whole = [v.stored for v in db.workload.views.values() if v.stored.output == "rstream"]
        assert all(view.appends_contents for view in whole)
        held.append((tables(db, whole[0].pool), sum(tables(db, view.id) for view in whole)))

    with pytest.MonkeyPatch.context() as patch:
        pooled_appends(patch)
        assert run(tmp_path, STREAM, look) == wanted
    assert held[-1][0] > 16 and all(own == 0 for _, own in held)


def test_few_views_have_logs_of_their_own(tmp_path):
    seen = []

    def look(db, number):
        logs = {f"changes {v.stored.pool}" for v in db.workload.views.values() if v.stored.output == "streamed"}
        seen.append(sum(db.store.cursor().sql(f'SELECT count(*) FROM "{log}"').fetchall()[0][0] for log in logs))

    run(tmp_path, STREAM[:4], look)
    assert sizes.pooled_views > COPIES and seen == [0, 0, 0, 0]


class Stubborn(LocalDatabase):
    """Every batch fails once, in the middle of its transaction, and is run again."""

    def __init__(self, path: str) -> None:
        self.failures: list[int] = []
        super().__init__(path)

    def finish(self, end) -> None:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError, match="no space"):
            patch.setattr(self.outlet, "_store_dead_letters", self._fail)
            super().finish(end)
        self.after_failure()
        super().finish(end)

    def after_failure(self) -> None:
        """What else to do before it runs again."""

    def _fail(self, batch: int, _) -> None:
        self.failures.append(batch)
        raise OSError("no space left on device")


def test_a_batch_that_fails_leaves_pools_as_they_were(wanted, everywhere, tmp_path):
    with Stubborn(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM)
        assert everything(db) == wanted
        assert len(db.failures) >= len(STREAM)


def test_a_reopened_database_goes_on_with_its_pools(wanted, everywhere, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        feed = fed(db, tmp_path, STREAM[:4])
        assert pooled(db) > 0
        reached = db.blobs, db.offset, db.batch
    with LocalDatabase(str(tmp_path / "db")) as db:
        go_on(db, reached, feed, STREAM[4:])
        assert everything(db) == wanted


def test_a_dropped_view_leaves_nothing_and_its_neighbours_everything(wanted, everywhere, tmp_path):
    gone = []

    def drop(db, number):
        if number == 5:
            gone.append(db.workload.views["now1"].stored)
            db.execute("DROP VIEW Now1")
            assert db.store.cursor().sql(
                f"SELECT count(*) FROM \"contents {gone[0].pool}\" WHERE __view = '{gone[0].id}'"
            ).fetchall() == [(0,)]

    found = run(tmp_path, STREAM, drop)
    assert found == {name: rows for name, rows in wanted.items() if not name.endswith("now1")}


def test_what_a_crash_left_of_a_dropped_view_is_swept(everywhere, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM[:4])
        views = [v.stored for v in db.workload.views.values()]
        gone = [v for v in views if v.name == "Now0"]
        before = everything(db)
        db.store.sweep(v for v in views if v not in gone)
        owners = db.store.cursor().sql(f'SELECT DISTINCT __view FROM "contents {gone[0].pool}"').fetchall()
        assert (gone[0].id,) not in owners
        names = {n for (n,) in db.store.cursor().sql("SELECT table_name FROM duckdb_tables()").fetchall()}
        assert f"contents {gone[0].id}" not in names
        db.store.sweep(views)
        kept = everything(db)
        assert {n: r for n, r in kept.items() if n != "now0"} == {n: r for n, r in before.items() if n != "now0"}


def test_a_view_of_a_pooled_view_begins_with_its_contents(everywhere, tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM[:3])
        assert pooled(db) > 0
        db.execute("CREATE VIEW Later AS SELECT k, v FROM Latest0")
        settle(db)
        assert rows_of(db, "SELECT * FROM Later ORDER BY ALL") == rows_of(db, "SELECT * FROM Now0 ORDER BY ALL") != []


def test_subscribers_of_pooled_views_hear_of_their_own_changes(everywhere, tmp_path):
    heard: dict[str, list] = {"Latest1": [], "Now1": [], "Whole0": []}
    inboxes = {}

    def listen(db, number):
        if number == 0:
            for name in heard:
                inboxes[name] = db.subscribe(name)
                inboxes[name].next(0)
        for name, inbox in inboxes.items():
            while (table := inbox.next(0)) is not None:
                heard[name] += table.to_pylist()

    with LocalDatabase(str(tmp_path / "db")) as db:
        fed(db, tmp_path, STREAM, listen)
        log = db.changes("Latest1").to_pylist()
        whole = rows_of(db, 'SELECT "TS", k, n FROM Whole0')
    assert heard["Latest1"] == heard["Now1"] == log[-len(heard["Latest1"]) :] != []
    assert {r["TAG"] for r in heard["Whole0"]} == {"+"}
    assert {(r["TS"], r["k"], r["n"]) for r in heard["Whole0"]} <= set(whole)


def test_a_pool_depends_on_the_columns_alone():
    from tidemill.plan.sources import Column

    def one(**other):
        known = {"columns": (Column("k", "BIGINT"),), "keys": None, "output": "complete", "append_only": False}
        return StoredView(**{"id": "v1", "name": "V", "stamp": "__time", "stamp_type": "BIGINT", **known, **other})

    assert one().pool == one(id="v2", keys=("k",), output="streamed", append_only=True).pool
    assert one().pool != one(columns=(Column("k", "INTEGER"),)).pool != one(columns=(Column("K", "BIGINT"),)).pool


class Counted:
    """A cursor that counts the statements that pass it."""

    def __init__(self, duck) -> None:
        self.duck, self.statements = duck, 0

    def __getattr__(self, name):
        self.statements += name in ("execute", "sql")
        return getattr(self.duck, name)


def test_a_batch_costs_statements_for_each_kind_of_view_and_not_for_each_view(tmp_path):
    costs = []
    for count in (10, 40):
        folder = tmp_path / str(count)
        folder.mkdir()
        with LocalDatabase(str(folder / "db")) as db:
            feed = Feed(db, folder, "Raw", "k INTEGER, v INTEGER")
            db.execute("CREATE TAGGED STREAM K OVER Raw KEY k")
            for i in range(count):
                db.execute(
                    f"CREATE STREAMED VIEW V{i} AS SELECT k, v + {i} AS w FROM K;"
                    f"CREATE VIEW C{i} AS SELECT k, v + {i} AS w FROM K"
                )
            db.start()
            db.outlet.duck = db.outlet.pools.duck = counted = Counted(db.outlet.duck)  # type: ignore[assignment]
            for batch in STREAM[:3]:
                feed.send(batch)
                settle(db)
            assert len(db.changes("V3")) > 0 < len(db.query("SELECT * FROM C3"))
            costs.append(counted.statements)
    assert costs[0] == costs[1]


def test_a_stored_view_is_read_by_the_names_that_it_was_stored_with():
    """Views of databases that exist have `insert_only`."""
    view = StoredView("v", "V", "complete", (Column("k", "BIGINT"),), None, "__time", "BIGINT", True)
    kept = view.to_dict()
    assert kept["insert_only"] is True and "append_only" not in kept
    assert StoredView.from_dict(json.loads(json.dumps(kept))) == view
