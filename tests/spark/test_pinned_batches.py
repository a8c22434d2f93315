"""A batch that fails for certain, pinned by a real checkpoint: what is done about it from outside takes effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tidemill
from tidemill.engine.recovery.repair import pinned_batch
from tidemill.errors import TidemillError
from tidemill.serve.cli import app

pytestmark = pytest.mark.spark

SETUP = """
    REGISTER SOURCE Good (k INTEGER, at BIGINT) FROM FILES '{data}/good/*.json' WITH (timestamp = 'at');
    REGISTER SOURCE Bad (k INTEGER, at BIGINT) FROM FILES '{data}/bad/*.json'
      WITH (timestamp = 'at', on_error = 'fail');
    CREATE TAGGED STREAM G OVER Good;
    CREATE TAGGED STREAM B OVER Bad;
    CREATE VIEW OfGood AS SELECT count(*) AS n FROM G;
    CREATE VIEW OfBad AS SELECT count(*) AS n FROM B;
"""


def write(path: Path, *keys: Any, since: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"k": k, "at": i}) + "\n" for i, k in enumerate(keys, since)))


@pytest.fixture
def where(spark, tmp_path) -> str:
    """A database with one good run behind it, whose next batch has failed and is logged."""
    data, path = tmp_path / "in", str(tmp_path / "db")
    write(data / "good" / "a.json", *range(10))
    write(data / "bad" / "a.json", *range(5))
    with tidemill.open(path, spark=spark) as db:
        db.execute(SETUP.format(data=data))
        db.run(final=True)
        assert counts(db, "OfGood", "OfBad") == [10, 5]
        write(data / "good" / "b.json", *range(100, 104), since=20)
        write(data / "bad" / "b.json", 200, "no number", 202, since=20)
        with pytest.raises(TidemillError, match="TM400"):
            db.run(final=True)
    with tidemill.open(path, spark=spark) as db:
        with pytest.raises(TidemillError, match="TM400"):  # opening again does not help
            db.run(final=True)
        assert pinned_batch(db.paths) is not None
    return path


def counts(db: Any, *views: str) -> list[int]:
    return [db.query(f"SELECT n FROM {v}").column(0)[0].as_py() for v in views]


def command(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


def test_a_batch_is_skipped_by_the_command(spark, where):
    """tidemill skip Bad --db DIR, behind the logged offset of a real checkpoint."""
    output = command("skip", "Bad", "--db", where)
    assert "failed batch of source Bad goes to the dead letters" in " ".join(output.split())
    with tidemill.open(where, spark=spark) as db:
        db.run(final=True)
        lost = db.query("SELECT source, reason, raw FROM dead_letters").to_pylist()
        assert len(lost) == 3 and {x["source"] for x in lost} == {"Bad"}
        assert any("no number" in x["raw"] for x in lost)
        assert counts(db, "OfGood", "OfBad") == [14, 5]
    assert "TM512" in command("skip", "Bad", "--db", where, code=1)


def test_a_drop_after_opening_again_takes_effect(spark, where):
    """DROP SOURCE Bad CASCADE, in another process than the one in which the batch failed."""
    with tidemill.open(where, spark=spark) as db:
        db.execute("DROP SOURCE Bad CASCADE")
    with tidemill.open(where, spark=spark) as db:
        db.run(final=True)
        assert counts(db, "OfGood") == [14]
