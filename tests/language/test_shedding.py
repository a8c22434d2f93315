"""Load shedding: options, the three rules of the paper, what overloaded means, and what is counted."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.lifecycle.pace import settle
from tests.paper.notation import Feed, tagged
from tidemill.errors import TidemillError
from tidemill.plan import relations as r
from tidemill.plan.node import walk

ALWAYS = "operation = 'op', shed_updates = {}, shed = 'always'"
COLUMNS = "id INTEGER, v INTEGER, op VARCHAR"


def opened(folder, options: str, rows: str, view: str = "SELECT id, v FROM K") -> LocalDatabase:
    db = LocalDatabase(str(folder / "db"))
    Feed(db, folder, "Raw", COLUMNS, options=options).send(rows)
    db.execute(f"CREATE TAGGED STREAM K OVER Raw KEY id; CREATE STREAMED VIEW V AS {view}")
    return db


def shed_of(db: LocalDatabase) -> int:
    return db.status()["sources"][0]["shed"]


def test_the_first_updates_of_a_key_in_a_unit_pass(tmp_path):
    """Units of event time: clock units. Another key, and the next unit, have caps of their own."""
    rows = "<1,10,u>1 <1,11,u>1 <1,12,u>1 <2,20,u>1 <1,13,u>2 <1,14,u>2 <1,15,u>2 <1,16,u>3"
    with opened(tmp_path, ALWAYS.format(2), rows) as db:
        summary = db.run()
        assert tagged(db, "V") == ["+<1,11>1", "+<2,20>1", "u<1,14>2", "u<1,16>3"]
        assert shed_of(db) == 2
        assert any("2 updates of Raw were shed" in text for text in summary.warnings)
        text = str(db.execute("EXPLAIN V"))
        assert "source Raw sheds always: at most 2 updates for each key and 1 second; 2 dropped so far" in text


def test_an_update_of_an_unknown_key_is_an_insertion(tmp_path):
    """Rule 2. Key 1 was deleted in its unit; the insertion after it is dropped, and the next update inserts it."""
    rows = "<1,10,insert>1 <1,0,delete>1 <1,11,insert>1 <1,12,u>2 <2,0,u>3"
    with opened(tmp_path, ALWAYS.format(1), rows) as db:
        db.run()
        assert tagged(db, "V") == ["+<1,12>2", "+<2,0>3"] and shed_of(db) == 1


def test_a_deletion_is_never_dropped_and_one_without_a_row_is_ignored(tmp_path):
    """Rule 3. Deletions pass beyond the cap and are not counted; that of key 2, whose insertion was shed, is void."""
    rows = (
        "<1,10,insert>1 <1,0,delete>1 <1,0,delete>1 <2,20,insert>2 <2,0,delete>2 <2,21,insert>2 <2,0,delete>3"
        " <3,30,insert>4 <3,31,u>4 <3,0,delete>5 <4,40,u>6"
    )
    with opened(tmp_path, ALWAYS.format(1), rows) as db:
        db.run()
        assert tagged(db, "V") == ["+<3,30>4", "-<3,30>5", "+<4,40>6"] and shed_of(db) == 2


def test_overloaded_is_a_live_batch_that_leaves_records_behind(tmp_path):
    """Batches of some 4 records over 11: those that leave some behind shed, the last one does not."""
    rows = " ".join(f"<1,{i},u>1" for i in range(1, 11)) + " <1,99,u>2"
    with opened(tmp_path, "operation = 'op', shed_updates = 1, batch_rows = 4", rows) as db:
        db.start()
        seen = []
        while db.step():
            source = db.status()["sources"][0]
            seen.append((db.offset["sources"]["Raw"]["shed"], source["rows"], source["shed"]))
        behind = [rows for sheds, rows, _ in seen if sheds]
        assert [sheds for sheds, _, _ in seen[: len(behind)]] == [True] * len(behind) and 4 <= behind[-1] < 10
        db.stop()
        db.run()
        # The first record passes; those after the last overloaded batch do too, and the last one of a time counts.
        assert tagged(db, "V") == ["+<1,10>1", "u<1,99>2"] and shed_of(db) == behind[-1] - 1
        assert "sheds when it is overloaded" in str(db.execute("EXPLAIN V"))


def test_a_finite_run_is_never_overloaded(tmp_path):
    rows = " ".join(f"<1,{i},u>1" for i in range(1, 11))
    with opened(tmp_path, "operation = 'op', shed_updates = 1, batch_rows = 4", rows) as db:
        db.run()
        assert tagged(db, "V") == ["+<1,10>1"] and shed_of(db) == 0


def test_a_replay_sheds_as_the_logged_offset_says(tmp_path):
    """The batch was planned overloaded; when it is run again the backlog is gone, and it drops the same records."""
    rows = " ".join(f"<1,{i},u>{i}" for i in (1, 1, 1, 2, 2, 3))
    with opened(tmp_path, "operation = 'op', shed_updates = 1, batch_rows = 5", rows) as db:
        db.start()
        end = db.plan()
        assert end["sources"]["Raw"]["shed"]
        first = [payload for _, payload in sorted(db.compute(end)[0].items())]
        for file in (tmp_path / "Raw").iterdir():
            file.touch()
        db.open_planner()
        assert [payload for _, payload in sorted(db.compute(end)[0].items())] == first
        db.logged = end
        settle(db)
        db.stop()
        db.run()
        assert shed_of(db) == 3


def test_a_unit_that_comes_in_two_batches_has_one_cap(tmp_path):
    with opened(tmp_path, ALWAYS.format(2), "<1,1,u>5") as db:
        feed = tmp_path / "Raw"
        db.run(final=False)
        (feed / "000002.json").write_text("".join(f'{{"id": 1, "v": {v}, "op": "u", "at": 5}}\n' for v in (2, 3)))
        db.run()
        assert tagged(db, "V") == ["+<1,2>5"] and shed_of(db) == 1


def test_views_of_one_stream_shed_once(tmp_path):
    """Two views with other columns, conditions and synchronization share the operator; a drop is counted once."""
    with opened(tmp_path, ALWAYS.format(1), "<1,10,u>1 <1,11,u>1 <2,20,u>2 <1,12,u>3") as db:
        db.execute(
            "CREATE STREAMED VIEW Filtered AS SELECT id FROM K WHERE v > 10;"
            "CREATE STREAMED VIEW OneKey AS SELECT v FROM K WHERE id = 1;"
            "CREATE STREAMED VIEW Synced AS SELECT id, v FROM K SYNC EVERY 2;"
        )
        db.run()
        plan = db.workload.physical(99, (0, 1))
        assert [op.kind for op in plan.stage].count("shed") == 1 and not plan.loops
        assert tagged(db, "Filtered") == ["+<2>2", "+<1>3"] and tagged(db, "OneKey") == ["+<10>1", "-<10>3", "+<12>3"]
        assert tagged(db, "Synced") == ["+<1,10>2", "+<2,20>2"]
        assert shed_of(db) == 1


def test_without_the_option_the_plan_is_as_before(tmp_path):
    with opened(tmp_path, "operation = 'op'", "<1,10,u>1 <1,11,u>1") as db:
        db.run()
        assert not any(isinstance(n, r.Shed) for n in walk(db.workload.views["v"].node))
        assert not db.offset["sources"]["Raw"]["shed"] and shed_of(db) == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("shed = 'always'", "TM407"),
        ("shed_updates = 0", "TM407"),
        ("shed_updates = 'many'", "TM407"),
        ("shed_updates = 3, shed = 'sometimes'", "TM407"),
        ("shed_update = 3", "TM110"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, code):
    with LocalDatabase(str(tmp_path / "db")) as db, pytest.raises(TidemillError) as caught:
        Feed(db, tmp_path, "Raw", COLUMNS, options=options)
    assert caught.value.code == code


def test_a_stream_without_a_key_is_refused(tmp_path):
    with LocalDatabase(str(tmp_path / "db")) as db:
        Feed(db, tmp_path, "Raw", COLUMNS, options="shed_updates = 3")
        with pytest.raises(TidemillError) as caught:
            db.execute("CREATE TAGGED STREAM S OVER Raw")
        assert caught.value.code == "TM320" and "KEY id" in caught.value.hint
        db.execute("CREATE TAGGED STREAM K OVER Raw KEY id")
