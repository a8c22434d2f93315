"""A LIMIT over several shards: each sends its first rows on, and takes them back when better ones come."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.properties.trial import log_of
from tidemill.plan import physical as p

ROWS = [(i, (7 * i) % 23, i) for i in range(60)]


@pytest.fixture
def db(tmp_path):
    (tmp_path / "s.csv").write_text("id,v,at\n" + "".join(f"{i},{v},{at}\n" for i, v, at in ROWS))
    with LocalDatabase(str(tmp_path / "db"), shards=3) as db:
        db.execute(f"""
            REGISTER SOURCE Raw (id INTEGER, v INTEGER, at BIGINT) FROM FILES '{tmp_path}/s.csv'
              WITH (timestamp = 'at', batch_rows = 7);
            CREATE TAGGED STREAM S OVER Raw""")
        yield db


def expected(chosen):
    """The answer after each row, by `chosen`, as changes of multisets."""
    found, before = [], []
    for count in range(1, len(ROWS) + 1):
        after = chosen(ROWS[:count])
        found += [(count - 1, "-", row) for row in before if row not in after]
        found += [(count - 1, "+", row) for row in after if row not in before]
        before = after
    return sorted(found)


@pytest.mark.parametrize("kind", ["LIMIT 3", "OFFSET", "DENSE"])
def test_changes_are_those_of_all_rows_together(db, kind):
    def first(rows):
        ordered = sorted((v, i) for i, v, _ in rows)
        if kind == "DENSE":
            return [(i, v) for v, i in ordered if v in sorted({v for v, _ in ordered})[:3]]
        return [(i, v) for v, i in (ordered[:3] if kind == "LIMIT 3" else ordered[2:5])]

    text = {
        "LIMIT 3": "SELECT id, v FROM S ORDER BY v, id LIMIT 3",
        "OFFSET": "SELECT id, v FROM S ORDER BY v, id LIMIT 3 OFFSET 2",
        "DENSE": "SELECT id, v FROM S QUALIFY dense_rank() OVER (ORDER BY v) <= 3",
    }[kind]
    db.execute(f"CREATE STREAMED VIEW V AS {text}")
    own, whole = (op for op in db.workload.physical(1, (0, 1, 2)).stage if isinstance(op, p.Ranked))
    assert own.bounded and not whole.bounded, "first rows of a shard are taken back, so the last step keeps them all"
    db.run()
    assert sorted((c.time // 1_000_000, c.tag, c.row) for c in log_of(db, "V")) == expected(first)


def test_state_of_the_first_rows_of_a_growing_stream_is_bounded(db):
    """One shard keeps what may still be shown, and no more, whatever has passed."""
    from tidemill.runtime.state.shard_state import ShardState

    db.execute("CREATE VIEW V AS SELECT id, v FROM S QUALIFY row_number() OVER (PARTITION BY v % 2 ORDER BY v) <= 2")
    db.run()
    kept = 0
    for blob in db.blobs.values():
        state = ShardState.load(blob, "")
        kept += sum(s.live for op, names in state.stored.items() if "ranked" in op for s in names.get("rows", ()))
    assert 4 <= kept <= 12  # segments that were not merged yet hold rows that have gone
