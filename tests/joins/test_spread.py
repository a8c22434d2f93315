"""A hot key may be spread over the shards: the same answers, and every shard has its part of the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import LocalDatabase
from tidemill.errors import PlanProblem
from tidemill.runtime.state.shard_state import ShardState

QUERY = """CREATE STREAMED VIEW v{option} AS
    SELECT A.g, count(*) AS n, sum(A.x) AS x, sum(B.x) AS y, max(B.x) AS most
    FROM SA AS A [RANGE 6 SLIDE 2], SB AS B [WINDOW 5] WHERE A.k = B.k GROUP BY A.g"""


def opened(folder: Path, option: str = "", mode: str = "auto", rows: int = 240) -> LocalDatabase:
    """Three quarters of the rows of both streams have the key 7."""
    db = LocalDatabase(str(folder))
    for name in ("a", "b"):
        path = folder / f"{name}.csv"
        shift = 3 if name == "b" else 0
        path.write_text(
            "k,g,x,at\n"
            + "\n".join(f"{7 if i % 4 else i % 16},{i % 3},{(i * 37 + shift) % 101 - 50},{i // 8}" for i in range(rows))
        )
        db.execute(f"""REGISTER SOURCE r{name} (k INTEGER, g INTEGER, x INTEGER, at BIGINT)
            FROM FILES '{path}' WITH (timestamp = 'at', batch_rows = 50);
            CREATE TAGGED STREAM S{name.upper()} OVER r{name}""")
    db.execute(f"SET early_aggregation = '{mode}'")
    db.execute(QUERY.format(option=option))
    return db


def changes(db: LocalDatabase) -> list[str]:
    db.run()
    found = sorted(map(str, db.changes("v").to_pylist()))
    db.close()
    return found


@pytest.mark.parametrize("mode", ["auto", "late", "early", "01"])
@pytest.mark.parametrize("spread", ["A", "b"])
def test_spread_rows_give_the_same_changes(tmp_path, spread, mode):
    (tmp_path / "x").mkdir()
    (tmp_path / "y").mkdir()
    wanted = changes(opened(tmp_path / "x"))
    assert len(wanted) > 10
    assert changes(opened(tmp_path / "y", f" WITH (spread = '{spread}')", mode)) == wanted


def test_every_shard_keeps_a_part_of_the_hot_key(tmp_path):
    def shares(option: str) -> list[int]:
        folder = tmp_path / ("spread" if option else "plain")
        folder.mkdir()
        db = opened(folder, option, "late")
        db.run()
        (name,) = [op.id for op in db.workload.physical(1, (0, 1)).stage if op.kind == "join_aggregate"]
        states = [ShardState.load(blob, db.paths.shard(shard)) for shard, blob in sorted(db.blobs.items())]
        kept = [
            sum(s.live for part, segments in state.stored.get(name, {}).items() if "0" in part for s in segments)
            for state in states
        ]
        db.close()
        return kept

    plain, spread = shares(""), shares(" WITH (spread = 'A')")
    assert min(plain) < 0.4 * max(plain)
    assert min(spread) > 0.5 * max(spread)


def test_what_cannot_be_spread_is_refused(tmp_path):
    db = opened(tmp_path)
    with pytest.raises(PlanProblem, match="TM222"):
        db.execute(
            "CREATE VIEW w WITH (spread = 'C') AS SELECT A.g, count(*) AS n FROM SA A [WINDOW 5],"
            " SB B [WINDOW 5] WHERE A.k = B.k GROUP BY A.g"
        )
    with pytest.raises(PlanProblem, match="TM222"):
        db.execute("CREATE VIEW w WITH (spread = 'SA') AS SELECT g, count(*) AS n FROM SA [WINDOW 5] GROUP BY g")
    db.close()
