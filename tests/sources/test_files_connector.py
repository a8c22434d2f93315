"""A growing directory: nothing is lost or doubled, however it is cut, restarted or damaged."""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_laws import check_cuts, read, steps
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import SourceProblem
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.registry import open_connector

COLUMNS = (Column("ts", "BIGINT"), Column("b", "VARCHAR"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


def files(folder, pattern="*", columns=COLUMNS, **settings):
    spec = SourceSpec("f", "files", columns, origin={"glob": f"{folder}/in/{pattern}"}, **settings)
    return open_connector(spec, str(folder / "db"))


def everything(connector, parts=1, **run):
    return read(connector, connector.initial(), steps(connector, None, **run)[-1], parts)


def old(path: Path) -> Path:
    """Make a file look settled."""
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


def table(first: int, count: int) -> pa.Table:
    # Times go up and down, so that a maximum is not simply the last value.
    times = [(first + i) ^ 5 for i in range(count)]
    return pa.table({"extra": [0] * count, "B": [f"v{t}" for t in times], "ts": pa.array(times, pa.int64())})


def write_parquet(path, rows, group=3):
    pq.write_table(rows, path, row_group_size=group)


def write_csv(path, rows):
    lines = [f'{r["ts"]},"{r["B"]}",x' if r["ts"] % 7 else "oops" for r in rows.to_pylist()]
    path.write_text("\n".join(["ts,b,extra", *lines, ""]))


def two_rows(path):
    path.write_text("ts,b\n1,x\n2,y\n")


def write_json(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" if r["ts"] % 7 else '{"ts":"no"}\n' for r in rows.to_pylist()))


def write_stream(path, rows):
    with pa.ipc.new_stream(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=3)


def write_feather(path, rows):
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=3)


WRITERS = {
    "parquet": write_parquet,
    "csv": write_csv,
    "jsonl": write_json,
    "arrow": write_stream,
    "feather": write_feather,
}


@settings(max_examples=60, deadline=None)
@given(
    extension=st.sampled_from(sorted(WRITERS)),
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    batch=st.integers(1, 20),
    parts=st.integers(1, 5),
    timestamp=st.sampled_from([None, "ts"]),
)
def test_small_steps_equal_one_big_step(extension, sizes, batch, parts, timestamp):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for i, size in enumerate(sizes):
            WRITERS[extension](folder / "in" / f"{i}.{extension}", table(i * 20, size))
        connector = files(folder, timestamp=timestamp)
        rows, bad = check_cuts(connector, steps(connector, batch), parts)
        assert rows.num_rows + len(bad) == sum(sizes)
        # A second object on the same folder, as after a restart.
        again, bad_again = everything(files(folder, timestamp=timestamp), parts)
        assert again.equals(rows) and bad_again == bad


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 20), min_size=2, max_size=5, unique=True).map(sorted), parts=st.integers(1, 4))
def test_parquet_may_be_cut_at_any_row(cuts, parts):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        write_parquet(folder / "in" / "a.parquet", table(0, 20), group=6)
        connector = files(folder, timestamp="ts")
        connector.latest(connector.initial(), None, False, 1)
        rows, _ = check_cuts(connector, [{"file": 0, "at": cut} for cut in cuts], parts)
        assert rows.num_rows == cuts[-1] - cuts[0]


def test_parquet_batches_have_exactly_max_rows(folder):
    write_parquet(folder / "in" / "a.parquet", table(0, 10))
    write_parquet(folder / "in" / "b.parquet", table(10, 5))
    assert steps(files(folder), 4) == [
        {"file": 0, "at": 0},
        {"file": 0, "at": 4},
        {"file": 0, "at": 8},
        {"file": 1, "at": 2},
        {"file": 2, "at": 0},
    ]


def test_parquet_with_times_is_split_at_row_groups(folder):
    write_parquet(folder / "in" / "a.parquet", table(0, 100), group=10)
    connector = files(folder, timestamp="ts")
    end = steps(connector, None)[-1]
    pieces = connector.split(connector.initial(), end, 4)
    assert len(pieces) == 4 and all(piece.end["at"] % 10 == 0 for piece in pieces)
    read(connector, connector.initial(), end, 4)


def test_parquet_with_times_is_never_split_inside_a_row_group(folder):
    write_parquet(folder / "in" / "a.parquet", table(0, 100), group=40)
    connector = files(folder, timestamp="ts")
    pieces = connector.split(connector.initial(), steps(connector, None)[-1], 4)
    assert [piece.end for piece in pieces] == [{"file": 0, "at": 40}, {"file": 0, "at": 80}, {"file": 1, "at": 0}]
    assert len(files(folder).split(connector.initial(), pieces[-1].end, 4)) == 4


def test_parquet_without_statistics_is_one_piece(folder):
    pq.write_table(table(0, 100), folder / "in" / "a.parquet", row_group_size=10, write_statistics=False)
    connector = files(folder, timestamp="ts")
    assert [p.max_time for p in connector.split(connector.initial(), steps(connector, None)[-1], 4)] == [None]


def test_a_directory_grows_and_each_file_is_taken_once(folder):
    connector = files(folder)
    start = connector.latest(connector.initial(), None, True, 10)
    assert start.end == connector.initial() and start.exhausted and start.clock == 10
    two_rows(folder / "in" / "b.csv")
    first = connector.latest(start.end, None, True, 20)
    two_rows(folder / "in" / "a.csv")
    second = files(folder).latest(first.end, None, True, 30)
    assert connector.latest(second.end, None, True, 40).end == second.end
    rows, _ = read(files(folder), connector.initial(), second.end)
    assert rows.column("__arrival").to_pylist() == [20, 20, 30, 30]
    assert rows.column("b").to_pylist() == ["x", "y", "x", "y"]
    lines = (folder / "db" / "files.jsonl").read_text().splitlines()
    names = [json.loads(line.partition("\t")[0])["path"] for line in lines]
    assert [Path(n).name for n in names] == ["b.csv", "a.csv"]


def test_the_clock_is_the_arrival_of_what_comes_next(folder):
    connector = files(folder)
    write_parquet(folder / "in" / "a.parquet", table(0, 4))
    connector.latest(connector.initial(), None, True, 100)
    write_parquet(folder / "in" / "b.parquet", table(4, 4))
    progress = connector.latest(connector.initial(), 4, True, 200)
    assert (progress.end, progress.exhausted, progress.clock) == ({"file": 1, "at": 0}, False, 200)
    assert connector.latest(connector.initial(), 3, True, 300).clock == 100
    assert connector.latest(progress.end, None, True, 50).clock == 300
    assert files(folder, timestamp="ts").latest(connector.initial(), 3, True, 300).clock is None


def test_a_torn_log_line_was_never_taken(folder):
    two_rows(folder / "in" / "a.csv")
    everything(files(folder))
    log = folder / "db" / "files.jsonl"
    log.write_bytes(log.read_bytes() + b'{"n": 1, "path": "' + b"x" * 1000)
    two_rows(folder / "in" / "b.csv")
    rows, _ = everything(files(folder))
    assert rows.num_rows == 4
    assert [json.loads(line.partition("\t")[0])["n"] for line in log.read_text().splitlines()] == [0, 1]


def test_hidden_and_empty_files_wait(folder):
    for name in ("_a.csv", ".b.csv", "_temporary/0/c.csv"):
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        two_rows(path)
    (folder / "in" / "d.csv").touch()
    connector = files(folder, "**/*.csv")
    assert everything(connector)[0].num_rows == 0
    two_rows(folder / "in" / "d.csv")
    assert everything(connector)[0].num_rows == 2


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_an_unreadable_file_waits_and_then_is_bad(folder, name):
    path = folder / "in" / name
    path.write_bytes(b"PAR1 half of a file")
    two_rows(folder / "in" / "b.csv")
    connector = files(folder)
    assert connector.latest(connector.initial(), None, True, 1).end == {"file": 1, "at": 0}
    old(path)
    rows, bad = everything(connector, live=True)
    assert rows.num_rows == 2 and len(bad) == 1
    assert bad[0]["raw"] == str(path).encode() and "cannot be read as" in bad[0]["reason"]


def test_an_unreadable_file_is_bad_at_once_in_a_finite_run(folder):
    (folder / "in" / "a.parquet").write_bytes(b"nonsense")
    assert len(everything(files(folder))[1]) == 1


def test_a_half_written_line_waits(folder):
    path = folder / "in" / "a.csv"
    path.write_text("ts,b\n1,x\n2,")
    for tail, waits in ((None, {"file": 1, "at": 0}), (False, {"file": 0, "at": 0})):
        connector = files(folder, options={} if tail is None else {"tail": tail})
        assert connector.latest(connector.initial(), None, True, 1).end == waits, "whole lines are not held up"
        (folder / "db" / "files.jsonl").unlink()
    old(path)
    assert everything(files(folder), live=True)[0].num_rows == 2


def test_a_range_of_text_stays_as_long_as_it_was(folder):
    path = folder / "in" / "a.csv"
    path.write_text("ts,b\n1,x\n")
    connector = files(folder)
    end = steps(connector, None)[-1]
    path.write_text("ts,b\n1,x\n2,y\n")
    assert read(connector, connector.initial(), end)[0].column("ts").to_pylist() == [1]


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_listed_file_must_stay(folder, change):
    path = folder / "in" / "a.parquet"
    write_parquet(path, table(0, 3))
    connector = files(folder)
    end = steps(connector, None)[-1]
    change(path)
    with pytest.raises(SourceProblem, match="TM401"):
        read(connector, connector.initial(), end)


def test_a_missing_column_makes_the_file_bad(folder):
    pq.write_table(pa.table({"ts": [1]}), folder / "in" / "a.parquet")
    (folder / "in" / "b.csv").write_text("ts,c\n1,2\n")
    (folder / "in" / "c.jsonl").write_text('{"ts":1}\n')
    rows, bad = everything(files(folder))
    assert rows.to_pylist()[0]["b"] is None
    assert [row["reason"] for row in bad] == ['column "b" is missing'] * 2


def test_parquet_values_that_do_not_fit_are_bad_rows(folder):
    pq.write_table(pa.table({"ts": ["1", "x", "3"], "b": [1, 2, 3]}), folder / "in" / "a.parquet")
    rows, bad = everything(files(folder, timestamp="ts"), parts=3)
    assert rows.column("ts").to_pylist() == [1, 3] and rows.column("b").to_pylist() == ["1", "3"]
    assert bad == [
        {
            "reason": 'column "ts": cannot read "x" as BIGINT',
            "raw": b'{"ts": "x", "b": 2}',
            "position": json.dumps({"file": 0, "at": 1, "path": str(folder / "in" / "a.parquet")}),
        }
    ]


def test_a_damaged_row_group_is_one_bad_record_wherever_it_is_cut(folder):
    path = folder / "in" / "a.parquet"
    pq.write_table(table(0, 30), path, row_group_size=10, compression="gzip", use_dictionary=False)
    column = pq.read_metadata(path).row_group(1).column(1)
    with open(path, "r+b") as file:
        file.seek(column.data_page_offset)
        file.write(b"\xff" * column.total_compressed_size)
    connector = files(folder)
    connector.latest(connector.initial(), None, False, 1)
    rows, bad = check_cuts(connector, [{"file": 0, "at": at} for at in (0, 5, 12, 15, 25, 30)], 3)
    assert rows.num_rows == 20 and len(bad) == 1 and "damaged" in bad[0]["reason"]


def test_nanosecond_times_and_dictionaries_fit(folder):
    rows = pa.table({"ts": pa.array([1500, 2500], pa.timestamp("ns")), "b": pa.array(["x", "y"]).dictionary_encode()})
    pq.write_table(rows, folder / "in" / "a.parquet")
    connector = files(folder, columns=(Column("ts", "TIMESTAMP"), Column("b", "VARCHAR")), timestamp="ts")
    found, bad = everything(connector)
    # Rounded as DuckDB rounds them.
    assert bad == [] and found.column("ts").cast(pa.int64()).to_pylist() == [2, 3]


def test_csv_options(folder):
    (folder / "in" / "a.txt").write_text("1;'x;y'\n2;NA\n")
    connector = files(folder, format="csv", options={"header": False, "delimiter": ";", "quote": "'", "null": "NA"})
    assert everything(connector)[0].column("b").to_pylist() == ["x;y", None]


def test_tsv_and_a_byte_order_mark(folder):
    (folder / "in" / "a.tsv").write_bytes(b"\xef\xbb\xbfB\tTS\r\nx\t1\r\n")
    (folder / "in" / "b.jsonl").write_bytes(b'\xef\xbb\xbf{"ts":2}\n')
    rows, bad = everything(files(folder))
    assert bad == [] and rows.column("ts").to_pylist() == [1, 2] and rows.column("b").to_pylist() == ["x", None]


def test_each_bad_line_is_put_aside_with_its_place(folder):
    path = folder / "in" / "a.csv"
    path.write_bytes(b"ts,b\n1,x\nabc,y\n2\n\n3,\xff\n" + b"4," + b"z" * 200 + b"\n5,ok")
    rows, bad = everything(files(folder, options={"max_record_bytes": 100}))
    assert rows.column("ts").to_pylist() == [1, 5]
    assert [row["reason"] for row in bad] == [
        'column "ts": cannot read "abc" as BIGINT',
        "1 fields where 2 were expected",
        "not valid UTF-8",
        "record of 202 bytes exceeds 100 bytes",
    ]
    assert json.loads(bad[0]["position"]) == {"file": 0, "at": 9, "path": str(path)}
    assert bad[0]["raw"] == b"abc,y"


def test_a_line_longer_than_a_block_is_one_bad_record(folder):
    path = folder / "in" / "a.csv"
    path.write_bytes(b"ts,b\n1,x\n2," + b"y" * (20 << 20) + b"\r\n3,z\n")
    connector = files(folder)
    rows, bad = check_cuts(connector, steps(connector, 1), 3)
    assert rows.column("ts").to_pylist() == [1, 3]
    assert [row["reason"] for row in bad] == [f"record of {(20 << 20) + 2} bytes exceeds {1 << 20} bytes"]
    assert len(bad[0]["raw"]) == 64 * 1024


def test_fail_names_the_file_and_the_line(folder):
    (folder / "in" / "a.csv").write_text("ts,b\n1,x\nabc,y\n")
    with pytest.raises(SourceProblem, match="TM400") as caught:
        everything(files(folder, on_error="fail"))
    assert f"{folder}/in/a.csv line 3" in caught.value.detail


def test_fail_refuses_a_bad_file(folder):
    (folder / "in" / "a.parquet").write_bytes(b"nonsense")
    with pytest.raises(SourceProblem, match="TM400"):
        everything(files(folder, on_error="fail"))


def test_a_link_to_another_place_is_refused(folder):
    secret = folder / "secret.csv"
    secret.write_text("ts,b\n1,hidden\n")
    (folder / "in" / "a.csv").symlink_to(secret)
    two_rows(folder / "in" / "b.csv")
    (folder / "in" / "c.csv").symlink_to(folder / "in" / "b.csv")
    rows, bad = everything(files(folder))
    assert rows.num_rows == 4 and "hidden" not in rows.column("b").to_pylist()
    assert len(bad) == 1 and "outside" in bad[0]["reason"]


def test_a_file_that_becomes_a_link_is_not_followed(folder):
    secret = folder / "secret.csv"
    secret.write_text("ts,b\n1,hidden\n")
    path = folder / "in" / "a.csv"
    path.write_text("ts,b\n1,x\n")
    connector = files(folder)
    end = steps(connector, None)[-1]
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(SourceProblem, match="TM401"):
        read(connector, connector.initial(), end)


def test_an_unknown_format_is_refused(folder):
    with pytest.raises(SourceProblem, match="TM402"):
        files(folder, format="xml")
    (folder / "in" / "a.doc").write_text("x")
    assert len(everything(files(folder))[1]) == 1
