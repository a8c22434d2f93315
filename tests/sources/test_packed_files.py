"""Compressed text is read as if it were not compressed; a file that ends too early is bad as a whole."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pytest
from connector_laws import check_cuts, read, steps
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.errors import SourceProblem
from tidemill.plan.sources import Column, SourceSpec
from tidemill.runtime.sources.files.packed import Unpacked
from tidemill.runtime.sources.registry import open_connector
from tidemill.runtime.thresholds import changed

COLUMNS = (Column("id", "BIGINT"), Column("b", "VARCHAR"))


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


PACKERS = {".gz": gzip.compress, ".zst": zstd}


def files(folder, pattern="*", **settings):
    spec = SourceSpec("f", "files", COLUMNS, origin={"glob": f"{folder}/in/{pattern}"}, **settings)
    return open_connector(spec, str(folder / "db"))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


def everything(connector):
    return read(connector, connector.initial(), steps(connector, None)[-1])


@effort(40)
@given(
    ending=st.sampled_from([".gz", ".zst"]),
    form=st.sampled_from([".csv", ".json", ".tsv"]),
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    batch=st.integers(1, 9),
    parts=st.integers(1, 3),
    timestamp=st.sampled_from([None, "id"]),
    limit=st.sampled_from([0, 1 << 20]),
)
def test_a_compressed_file_gives_the_rows_of_its_text(ending, form, counts, batch, parts, timestamp, limit):
    with tempfile.TemporaryDirectory() as name, changed(unpacked_bytes=limit):
        folder = Path(name)
        (folder / "in").mkdir()
        comma = "\t" if form == ".tsv" else ","
        for i, count in enumerate(counts):
            lines = [
                json.dumps({"id": 10 * i + k, "b": "é"}) if form == ".json" else f"{10 * i + k}{comma}é"
                for k in range(count)
            ]
            header = [] if form == ".json" else [f"id{comma}b"]
            text = "".join(f"{line}\n" for line in [*header, *lines]).encode()
            (folder / "in" / f"{i}{form}{ending}").write_bytes(PACKERS[ending](text))
        connector = files(folder, timestamp=timestamp)
        rows, bad = check_cuts(connector, steps(connector, batch), parts)
        assert bad == []
        assert rows.column("id").to_pylist() == [10 * i + k for i, count in enumerate(counts) for k in range(count)]


@pytest.mark.parametrize("ending", PACKERS)
def test_a_truncated_file_is_one_bad_record_with_its_name(folder, ending):
    path = folder / "in" / f"a.csv{ending}"
    text = "id,b\n" + "".join(f"{i},{i * 7919}\n" for i in range(2000))
    path.write_bytes(PACKERS[ending](text.encode())[:-20])
    (folder / "in" / "b.csv").write_text("id,b\n5,x\n")
    connector = files(folder)
    assert connector.latest(connector.initial(), None, True, 1).end == {"file": 1, "at": 0}, "it may still be written"
    os.utime(path, (time.time() - 60, time.time() - 60))
    rows, bad = everything(connector)
    assert rows.column("id").to_pylist() == [5]
    assert len(bad) == 1 and bad[0]["raw"] == str(path).encode() and "Truncated" in bad[0]["reason"]
    with pytest.raises(SourceProblem, match="TM400") as caught:
        everything(files(folder, on_error="fail"))
    assert str(path) in str(caught.value)


def test_a_compressed_file_is_not_followed(folder):
    path = folder / "in" / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id,b\n1,x\n"))
    connector = files(folder)
    end = steps(connector, None)[-1]
    assert read(connector, connector.initial(), end)[0].num_rows == 1
    with open(path, "ab") as file:
        file.write(gzip.compress(b"2,y\n"))
    _, bad = read(connector, end, connector.latest(end, None, False, 2).end)
    assert "has changed" in bad[0]["reason"]


def test_members_of_one_file_follow_each_other(folder):
    (folder / "in" / "a.csv.gz").write_bytes(gzip.compress(b"id,b\n1,x\n") + gzip.compress(b"2,y\n"))
    assert everything(files(folder))[0].column("id").to_pylist() == [1, 2]


def test_compressed_parquet_is_refused_by_name(folder):
    (folder / "in" / "a.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    assert "compressed themselves" in everything(files(folder))[1][0]["reason"]


def test_the_format_may_be_said(folder):
    (folder / "in" / "log.gz").write_bytes(gzip.compress(b'{"id": 1}\n'))
    assert everything(files(folder, format="json"))[0].column("id").to_pylist() == [1]


@effort(60)
@given(data=st.binary(max_size=200), moves=st.lists(st.tuples(st.sampled_from("rsl"), st.integers(0, 60)), max_size=9))
def test_an_unpacked_file_reads_like_a_file(data, moves):
    with tempfile.TemporaryDirectory() as name, changed(block_bytes=16):
        plain, packed = Path(name) / "a", Path(name) / "a.gz"
        plain.write_bytes(data)
        packed.write_bytes(gzip.compress(data))
        with open(plain, "rb") as one, Unpacked(str(packed), "gzip") as other:
            for what, number in moves:
                if what == "s":
                    assert other.seek(min(number, len(data))) == one.seek(min(number, len(data)))
                else:
                    assert (
                        (other.read(number) == one.read(number))
                        if what == "r"
                        else (other.readline(number + 1) == one.readline(number + 1))
                    )
                assert other.tell() == one.tell()
