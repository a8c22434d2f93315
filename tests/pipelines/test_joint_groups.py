"""Groupings by one key that read a shared tagger together give the changes, and the state, of each alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.joins.test_group_walk import cut, frontiers, run, stored
from tests.lifecycle.checkpointed import CheckpointedDatabase
from tests.pipelines.test_shared_taggers import ROWS, SOURCE, _order, create, logs_of, records, write_records
from tests.properties.effort import effort
from tidemill.plan import physical as p
from tidemill.plan.sources import Column
from tidemill.runtime import fast_paths
from tidemill.runtime.operators.grouping import joint_group
from tidemill.runtime.operators.grouping.group import GroupBy
from tidemill.runtime.operators.grouping.joint_group import JointGroup
from tidemill.runtime.operators.grouping.numbered_rows import NumberedRows
from tidemill.runtime.thresholds import changed

CHANGES = pa.schema(
    [
        ("__key0", pa.int32()),
        ("__key1", pa.string()),
        ("x", pa.int64()),
        ("t", pa.string()),
        ("__time", pa.int64()),
        ("__diff", pa.int64()),
    ]
)
COLUMNS = (Column("__key0", "INTEGER"), Column("__key1", "VARCHAR"), Column("x", "BIGINT"), Column("t", "VARCHAR"))
COUNT, SUM = "CAST(sum(CASE WHEN {0} IS NOT NULL THEN __diff ELSE 0 END) AS BIGINT)", "HUGEINT"
changes = st.lists(
    st.tuples(
        st.none() | st.integers(0, 1),
        st.none() | st.sampled_from(["", "a"]),
        st.none() | st.integers(-3, 3) | st.sampled_from([1 << 60, -(1 << 62), (1 << 63) - 1]),
        st.none() | st.just("b"),
        st.integers(0, 9),
        st.sampled_from([1, 1, -1, 2]),
    ),
    max_size=16,
)


def joint(predicate: str | None, plain: bool) -> p.JointGroup:
    """COUNT of rows and of texts, SUM of numbers; and AVG where answers are not plain."""
    answers = [
        p.Item("n", "CAST(__n AS BIGINT)"),
        p.Item("c", 'CAST("t__c" AS BIGINT)'),
        p.Item("s", 'CAST(CASE WHEN "x__c" > 0 THEN "x__s" END AS HUGEINT)'),
        p.Item("a", 'CAST(CASE WHEN "x__c" > 0 THEN CAST("x__s" AS DOUBLE) / "x__c" END AS DOUBLE)'),
    ][: 3 if plain else 4]
    types = {"n": "BIGINT", "c": "BIGINT", "s": "HUGEINT", "a": "DOUBLE"}
    keys = (Column("k", "INTEGER"), Column("g", "VARCHAR"))
    total = "CAST(coalesce(sum(CAST(x AS HUGEINT) * __diff), 0) AS HUGEINT)"
    return p.JointGroup(
        "g",
        ("numbered",),
        (*keys, *(Column(a.name, types[a.name]) for a in answers)),
        keys,
        (p.Part("t__c", "BIGINT", "sum"), p.Part("x__c", "BIGINT", "sum"), p.Part("x__s", "HUGEINT", "sum")),
        (),
        "first row",
        tuple(answers),
        rows=COLUMNS,
        read=("__key0", "__key1"),
        predicate=predicate,
        sums=(p.Item("t__c", COUNT.format("t")), p.Item("x__c", COUNT.format("x")), p.Item("x__s", total)),
        addends=(p.Addend("t__c", "t", True), p.Addend("x__c", "x", True), p.Addend("x__s", "x", False)),
        plain=(p.PlainAnswer("", ""), p.PlainAnswer("t__c", ""), p.PlainAnswer("x__s", "x__c")) if plain else (),
    )


class Together(JointGroup):
    """With the operator below it."""

    def step(self, inputs: Any, state: Any) -> Any:
        below = NumberedRows(p.NumberedRows("numbered", (), COLUMNS, ("__key0", "__key1")))
        return super().step([below.step(inputs, state)], state)


@effort(40, thorough_cases=3_000)
@given(
    drawn=changes,
    closing=frontiers,
    predicate=st.sampled_from([None, "t IS NOT NULL", "x > 0"]),
    plain=st.booleans(),
    most=st.sampled_from([8, 1 << 61]),
)
def test_the_walk_gives_the_changes_and_the_state_of_sql(
    drawn: list[Any], closing: list[int], predicate: str | None, plain: bool, most: int
) -> None:
    op, batches = joint(predicate, plain), cut(drawn, CHANGES, 4, closing)
    layout = GroupBy(op).layout
    with changed(word_sums=most):
        walked, state = run(Together, op, batches, closing)
    with fast_paths.without(["joint_groups", "group_walk"]):
        stated, twin = run(Together, op, batches, closing)
    assert walked == stated
    assert stored(state, op, "parts", layout) == stored(twin, op, "parts", layout)


def test_sums_that_fit_a_word_alone_but_not_together_are_added_up_in_sql():
    """The state has one sum for each segment; these stay apart while each is less than half of the one before."""
    batches = []
    for time, groups in enumerate((16, 8, 4, 2, 1)):
        largest = ((1 << 61) - 1) // (16 * groups)
        rows = [(0, largest)] * (15 * groups + 1) + [(key, 0) for key in range(1, groups)]
        batches.append(
            pa.Table.from_pylist([{"__key0": k, "x": x, "__time": time, "__diff": 1} for k, x in rows], CHANGES)
        )
    op, closing = joint(None, True), list(range(1, 6))
    walked, state = run(Together, op, batches, closing)
    assert len(state.arrangement(op.id, "parts", GroupBy(op).layout).segments) > 3
    with fast_paths.without(["joint_groups", "group_walk"]):
        assert walked == run(Together, op, batches, closing)[0]


GROUPED = (
    "building, count(*) AS n FROM Rooms{} GROUP BY building",
    "building AS b, sum(degrees) AS s, count(humid) AS c FROM Rooms{} GROUP BY building",
    "building, avg(room) AS a FROM Rooms{} GROUP BY building",
    "degrees % 2 AS odd, sum(degrees) AS s FROM Rooms{} GROUP BY degrees % 2",
    "degrees % 2 AS other, count(*) AS n FROM Rooms{} GROUP BY degrees % 2",
    "building, max(degrees) AS hot FROM Rooms{} GROUP BY building",
)
queries = st.builds(
    str.format, st.sampled_from(GROUPED), st.sampled_from(["", " WHERE degrees > 3", " WHERE building = 'a'"])
)


@effort(4)
@given(
    rows=st.lists(records, min_size=5, max_size=30),
    views=st.lists(queries, min_size=3, max_size=6, unique=True),
    last=st.booleans(),
)
def test_logs_stay_when_neighbours_go_and_the_path_is_switched(rows: list[Any], views: list[str], last: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_records(folder, rows)
        expected = logs_of(folder, views, "off")
        kept = len(views) - 1 if last else 0
        with LocalDatabase(f"{folder}/db") as db:
            db.execute("SET shared_tagging = tagger")
            db.execute(SOURCE.format(folder=folder, rows=3))
            create(db, views)
            db.runner.publisher.publish(mode="live")
            db.runner.bring_up()
            for change in ("SET fast_paths_off = 'joint_groups'", *_drops(views, kept), "SET fast_paths_off = ''"):
                db.step()
                db.execute(change)
                db.runner.publisher.publish()
            db.run()
            assert sorted(db.changes(f"V{kept}").to_pylist(), key=_order) == expected[kept]


def _drops(views: list[str], kept: int) -> list[str]:
    return [f"DROP VIEW V{i}" for i in range(len(views)) if i != kept]


def kinds_of(db: LocalDatabase) -> list[str]:
    return [op.kind for op in db.execute("EXPLAIN").physical.stage]


@pytest.mark.parametrize(
    ("other", "together"),
    [
        ("building, sum(degrees) AS s FROM Rooms GROUP BY building", True),
        ("building AS b, avg(room) AS a FROM Rooms WHERE degrees > 3 GROUP BY building", True),
        ("degrees, count(*) AS n FROM Rooms GROUP BY degrees", False),
        ("building, sum(humid) AS h FROM Rooms GROUP BY building", False),
        ("building, max(degrees) AS hot FROM Rooms GROUP BY building", False),
        ("building, sum(room + 1) AS s FROM Rooms GROUP BY building", False),
        ("building, count(*) AS n FROM Rooms SYNC EVERY 2 GROUP BY building", False),
    ],
    ids=["same key", "renamed, selected", "another key", "doubles", "extreme", "computed argument", "other points"],
)
def test_which_groupings_read_together(tmp_path: Path, other: str, together: bool) -> None:
    write_records(tmp_path, ROWS)
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute("SET shared_tagging = tagger")
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, ("building, count(*) AS n FROM Rooms WHERE degrees > 1 GROUP BY building", other))
        assert kinds_of(db).count("joint_group") == (2 if together else 0)
        assert kinds_of(db).count("numbered_rows") == together


def test_groupings_stay_together_when_one_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on its way to them would be lost otherwise."""
    write_records(tmp_path, ROWS)
    walked = []
    run_all = joint_group._run
    monkeypatch.setattr(joint_group, "_run", lambda *given: walked.append(1) or run_all(*given))
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, [text.format(where) for text in GROUPED[:2] for where in ("", " WHERE degrees > 3")])
        db.run(final=False)
        before = {op.id for op in db.execute("EXPLAIN").physical.stage if op.kind == "numbered_rows"}
        db.execute("DROP VIEW V0; DROP VIEW V1; DROP VIEW V2")
    with LocalDatabase(str(tmp_path / "db")) as db:
        after = {op.id for op in db.execute("EXPLAIN").physical.stage if op.kind == "numbered_rows"}
        assert before == after and len(before) == 1 and walked


def test_the_number_of_shards_changes(tmp_path: Path) -> None:
    """What a key is called may be another column of the stream, of another type."""
    views = [
        "degrees % 2 AS building, count(*) AS n FROM Rooms GROUP BY degrees % 2",
        "degrees % 2 AS odd, sum(degrees) AS s FROM Rooms WHERE building = 'a' GROUP BY degrees % 2",
    ]
    with CheckpointedDatabase(str(tmp_path / "db")) as db:
        db.execute("SET shared_tagging = tagger")
        db.execute(SOURCE.format(folder=tmp_path, rows=7))
        create(db, views)
        assert kinds_of(db).count("joint_group") == 2
        last = write_records(tmp_path, ROWS[:14])
        db.run(final=False)
        db.rescale(3)
        write_records(tmp_path, ROWS[14:21], "2", last)
        db.run()
        found = [sorted(db.changes(f"V{i}").to_pylist(), key=_order) for i in range(len(views))]
    assert found == logs_of(tmp_path, views, "off")
