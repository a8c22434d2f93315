"""SUBSCRIBE … AS OF BATCH: exactly the changes of later batches, and whole batches that say which they are."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.adhoc.test_as_of import ROOMS, readings, write
from tests.harness import LocalDatabase
from tests.properties.trial import contents_of
from tests.reference.logs import canonical_row
from tidemill.errors import TidemillError
from tidemill.runtime.views import batch_times
from tidemill.sql.parse.statements import parse_one

MORE = """
CREATE STREAMED VIEW Flow AS SELECT room, temp FROM Rooms;
CREATE STREAMED VIEW Seen WITH (retain = 6) AS SELECT room, temp FROM Log;
CREATE VIEW Slow {kept} AS SELECT building, count(*) AS n FROM Log SYNC EVERY 3 SECONDS GROUP BY building;
"""
VIEWS = ("Hot", "ByBuilding", "BySize", "Flow", "Slow")
KEPT = "WITH (retain = 1000)"


def open_database(tmp_path, kept=KEPT, times=range(40)):
    write(tmp_path, "rooms/1.csv", readings(times))
    db = LocalDatabase(str(tmp_path / "db"))
    db.execute((ROOMS + MORE).format(folder=tmp_path, kept=kept, rows=4, lateness=2))
    db.start()
    return db


def apply(contents, moment, view):
    """The contents of a view after a moment."""
    contents = Counter(contents)
    for row in moment.changes[view].to_pylist() if moment.changes else []:
        names = [name for name in row if name not in ("TAG", "TS", "OLD")]
        if row["TAG"] == "u":
            contents[canonical_row([row["OLD"][name] for name in names])] -= 1
        contents[canonical_row([row[name] for name in names])] += -1 if row["TAG"] == "-" else 1
    return +contents


def drain(changes):
    while (moment := changes.next(0.001)) is not None:
        yield moment


def test_a_subscriber_goes_on_after_exactly_the_changes_of_a_batch(tmp_path, monkeypatch):
    """Each moment is what the view holds after its batch; from any batch on, all later changes come once."""
    monkeypatch.setattr(batch_times, "_BETWEEN", 3)
    with open_database(tmp_path) as db:
        live = {view: db.subscribe(view, by_batch=True) for view in VIEWS}
        held, told = {view: Counter() for view in VIEWS}, {view: {} for view in VIEWS}
        while db.step():
            for view in VIEWS:
                for moment in drain(live[view]):
                    held[view] = apply(held[view], moment, view)
                    told[view][moment.batch] = held[view]
                assert held[view] == contents_of(db, view)
        for view in VIEWS:
            assert len(told[view]) > 5 and live[view].next(0.001) is None
            for batch, contents in told[view].items():
                with db.subscribe(view, as_of_batch=batch) as again:
                    [moment] = drain(again)
                    assert moment.batch == db.outlet.committed
                    assert apply(contents, moment, view) == held[view]


def test_the_changes_after_a_batch_are_those_that_the_log_has_of_later_batches(tmp_path):
    with open_database(tmp_path) as db:
        lengths = {}
        while db.step():
            lengths[db.outlet.committed] = db.changes("Flow").num_rows
        for batch, length in lengths.items():
            [moment] = drain(db.subscribe("Flow", as_of_batch=batch))
            rest = db.changes("Flow").slice(length).to_pylist()
            assert [dict(row) for row in (moment.changes["Flow"].to_pylist() if moment.changes else [])] == rest


def test_it_goes_on_after_a_restart_and_while_changes_come(tmp_path):
    with open_database(tmp_path) as db:
        for _ in range(4):
            db.step()
        batch, contents = db.outlet.committed, contents_of(db, "Hot")
        db.step()
    with LocalDatabase(str(tmp_path / "db")) as db, db.subscribe("Hot", as_of_batch=batch) as changes:
        assert apply(contents, changes.next(0.001), "Hot") == contents_of(db, "Hot")


def test_what_is_not_kept_is_refused(tmp_path, monkeypatch):
    """Seen keeps its changes for six seconds; BySize as long as another view needs them; a later view has none."""
    monkeypatch.setattr(batch_times, "_BETWEEN", 2)
    with open_database(tmp_path, kept="") as db:
        first, contents = None, {}
        while db.step():
            first = db.outlet.committed if first is None else first
            contents[db.outlet.committed] = contents_of(db, "Seen")
        last = db.outlet.committed
        db.execute("CREATE VIEW Later WITH (retain = 1000) AS SELECT room FROM Rooms")
        answered = []
        for batch in contents:
            try:
                [moment] = drain(db.subscribe("Seen", as_of_batch=batch))
            except TidemillError as problem:
                assert problem.code == "TM233" and batch < last
            else:
                answered.append(batch)
        assert answered == list(range(answered[0], last + 1)) and first < answered[0] < last
        for view, batch, code in (
            ("ByBuilding", first, "TM233"),
            ("Later", last, "TM233"),
            ("Seen", last + 1, "TM232"),
        ):
            with pytest.raises(TidemillError, match=code):
                db.subscribe(view, as_of_batch=batch)
        with db.subscribe("ByBuilding", as_of_batch=last) as changes:
            moment = changes.next(0.001)
            assert (moment.batch, moment.changes) == (last, {})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SUBSCRIBE V AS OF BATCH x", "TM101"),
        ("SUBSCRIBE V AS OF BATCH 1.5", "TM101"),
        ("SUBSCRIBE V AS OF BATCH 12345678901234567890", "TM101"),
        ("SUBSCRIBE V, W AS OF BATCH 1", "TM112"),
        ("SELECT a FROM V AS OF BATCH 1", "TM112"),
    ],
)
def test_a_batch_is_a_whole_number_and_for_one_subscription(text, code):
    with pytest.raises(TidemillError, match=code):
        parse_one(text)
