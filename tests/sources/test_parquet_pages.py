"""Pages that are read without Arrow give what Arrow gives; pages that should not be are left to it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.runtime.sources.files.pages import Pages

TIMES = 1_767_225_600_000_000 + np.cumsum(np.random.default_rng(3).integers(0, 140, 5_000))
WRITTEN = {"use_dictionary": False, "compression": "snappy", "data_page_size": 4_096}


def read(path, name: str = "v", group: int = 0) -> tuple[pa.Array | None, pa.Array]:
    """A column by its pages, and by Arrow."""
    with open(path, "rb") as source, pq.ParquetFile(path) as file:
        found = Pages(source, file.metadata, {name: file.schema_arrow.field(name).type}).read(group).get(name)
        return found, file.read_row_group(group, columns=[name]).column(0).combine_chunks()


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us")])
@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("size", [512, 4_096, 1 << 20])
def test_pages_equal_arrow(tmp_path, kind, nullable, size):
    table = pa.Table.from_arrays([pa.array(TIMES).cast(kind)], schema=pa.schema([pa.field("v", kind, nullable)]))
    pq.write_table(table, tmp_path / "f", row_group_size=2_000, **(WRITTEN | {"data_page_size": size}))
    for group in range(3):
        found, expected = read(tmp_path / "f", group=group)
        assert found is not None and found.equals(expected)


KINDS = [pa.int32(), pa.int64(), pa.float64(), pa.timestamp("us")]


@effort(60)
@given(
    values=st.lists(st.integers(-4, 60), min_size=1, max_size=500),
    kind=st.sampled_from(KINDS),
    nullable=st.booleans(),
    dictionary=st.booleans(),
    compression=st.sampled_from(["snappy", "none"]),
    size=st.sampled_from([64, 256, 8_192]),
    small=st.booleans(),
)
def test_dictionaries_equal_arrow(tmp_path_factory, values, kind, nullable, dictionary, compression, size, small):
    """Also where a dictionary grows too large and the rest of the pages has the values themselves."""
    path = tmp_path_factory.mktemp("pages") / "f"
    table = pa.Table.from_arrays(
        [pa.array(values, pa.int64()).cast(pa.int32()).cast(pa.int64()).cast(kind)],
        schema=pa.schema([pa.field("v", kind, nullable)]),
    )
    pq.write_table(
        table,
        path,
        use_dictionary=dictionary,
        compression=compression,
        data_page_size=size,
        write_batch_size=16,
        dictionary_pagesize_limit=64 if small else 1 << 20,
    )
    found, expected = read(path)
    assert found is not None and found.equals(expected)


def test_long_columns_equal_arrow(tmp_path):
    """Numbers of many bits, long runs, and rows of bits of many groups."""
    random = np.random.default_rng(5)
    columns = {
        "few": np.repeat(random.integers(0, 5, 300), random.integers(1, 900, 300))[:60_000].astype(np.int32),
        "many": random.integers(-(1 << 31), 1 << 31, 20_000)[random.integers(0, 20_000, 60_000)].astype(np.int32),
        "wide": random.integers(0, 1 << 62, 3_000)[random.integers(0, 3_000, 60_000)],
    }
    pq.write_table(pa.table(columns), tmp_path / "f")
    for name in columns:
        found, expected = read(tmp_path / "f", name)
        assert found is not None and found.equals(expected)


@effort(60)
@given(
    gaps=st.lists(st.sampled_from([0, 1, 90, 40_000, 1 << 33, -5]), min_size=1, max_size=400),
    size=st.sampled_from([64, 256, 8_192]),
)
def test_any_numbers_equal_arrow(tmp_path_factory, gaps, size):
    path = tmp_path_factory.mktemp("pages") / "f"
    pq.write_table(pa.table({"v": np.cumsum(np.array(gaps, np.int64))}), path, **(WRITTEN | {"data_page_size": size}))
    found, expected = read(path)
    assert found is not None and found.equals(expected)


@pytest.mark.parametrize(
    "column, options",
    [
        (pa.array([1, None, 3], pa.int64()), {}),
        (pa.array([1, 2, 3], pa.int16()), {}),
        (pa.array([1, 2, 3], pa.uint64()), {}),
        (pa.array([1, 2, 3], pa.float32()), {}),
        (pa.array(["a", "b", "a"]), {}),
        (pa.array([1, 2, 3], pa.timestamp("ms")), {}),
        (pa.array([1, 2, 3], pa.timestamp("us", "UTC")), {}),
        (pa.array([1, 2, 3], pa.int64()), {"compression": "zstd"}),
        (pa.array([1, 2, 3], pa.int64()), {"data_page_version": "2.0"}),
        (pa.array([1, 2, 3], pa.int64()), {"column_encoding": {"v": "DELTA_BINARY_PACKED"}}),
        (pa.array([[1], [2], [3]], pa.list_(pa.int64())), {}),
    ],
)
def test_other_columns_are_left_to_arrow(tmp_path, column, options):
    pq.write_table(pa.table({"v": column}), tmp_path / "f", **(WRITTEN | options))
    assert read(tmp_path / "f")[0] is None


@effort(100)
@given(
    at=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
    dictionary=st.booleans(),
    compression=st.sampled_from(["snappy", "none"]),
)
def test_damage_gives_no_error(tmp_path_factory, at, byte, dictionary, compression):
    """Whatever a byte becomes: a column as long as it was, or the case is Arrow's."""
    path = tmp_path_factory.mktemp("damage") / "f"
    numbers = TIMES // 1_000 % 300 if dictionary else TIMES
    pq.write_table(
        pa.table({"v": numbers}), path, **(WRITTEN | {"use_dictionary": dictionary, "compression": compression})
    )
    with pq.ParquetFile(path) as file:
        chunk, kind = file.metadata.row_group(0).column(0), file.schema_arrow.field("v").type
        metadata = file.metadata
    data = bytearray(path.read_bytes())
    first = chunk.dictionary_page_offset if dictionary else chunk.data_page_offset
    data[first + int(at * chunk.total_compressed_size)] = byte
    path.write_bytes(data)
    with open(path, "rb") as source:
        found = Pages(source, metadata, {"v": kind}).read(0).get("v")
    assert found is None or len(found) == len(TIMES)
