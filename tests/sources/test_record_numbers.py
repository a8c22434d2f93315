"""The numbers of bad records do not depend on how files are read, nor on thresholds but the one that resets them."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.properties.streams import KEYED, Stream
from tests.properties.trial import drawn_thresholds
from tidemill.runtime.fast_paths import without
from tidemill.runtime.thresholds import changed, parse_thresholds, sizes

BAD = (1, 2, 5, 8, 10, 12)
RECORD = {"k": 1, "v": 1, "x": 0.5, "d": None, "s": "a"}
ROWS = tuple(RECORD | {"k": i % 3, "op": "truncate" if i in BAD else "insert", "tm": i} for i in range(14))


def numbers(tmp_path, stream: Stream, **thresholds: int) -> list[str]:
    """The positions of the dead letters after one run."""
    with changed(**thresholds), LocalDatabase(str(tmp_path / f"db{len(list(tmp_path.iterdir()))}")) as db:
        db.execute(stream.statements(tmp_path) + "CREATE VIEW V AS SELECT k, v FROM K")
        db.run()
        return sorted(db.query("SELECT position FROM dead_letters").column("position").to_pylist(), key=int)


@pytest.mark.parametrize("kind", ["parquet", "json", "csv"])
def test_numbers_do_not_depend_on_how_files_are_read(tmp_path, kind):
    stream = Stream("K", KEYED, ROWS, ("k",), format=kind, sizes=(4, 5), batch_rows=3)
    stream.write(tmp_path)
    others = {n: v for n, v in parse_thresholds("smallest").items() if n != "numbered_entries"}
    expected = numbers(tmp_path, stream)
    assert len(expected) == len(BAD)
    with without(["parquet_pages", "plain_text", "ordered_rows", "preview"]):
        assert numbers(tmp_path, stream) == expected
    assert numbers(tmp_path, stream, **others) == expected
    assert numbers(tmp_path, stream, numbered_entries=1) != expected


def test_runs_over_one_stream_number_records_alike():
    """Tests compare them: the threshold is drawn by the streams alone."""
    stream, seen = Stream("K", KEYED, ROWS, ("k",)), set()
    for i in range(60):
        drawn = set()
        for options in ({}, {"shards": 1}, {"without": ("plain_joins",)}, {"cores": 1, "shards": 3}):
            with drawn_thresholds([stream.recut((i,), None)], options):
                drawn.add(sizes.numbered_entries)
        assert len(drawn) == 1
        seen |= drawn
    assert len(seen) == 2
