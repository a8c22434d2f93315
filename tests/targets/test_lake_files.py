"""Large batches of lakes are files that workers write and one commit names: the table is the same as without."""

from __future__ import annotations

import os
import random
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from tests.kafka.test_kafka_kills import Crash
from tests.properties.effort import thorough
from tests.targets.rooms import Rooms, apply, draw_changes
from tests.targets.test_targets import Delta, Iceberg
from tidemill.runtime.targets.lake_files import LakeWriter, call_in_turn
from tidemill.runtime.targets.lake_types import lake_table
from tidemill.runtime.targets.target import SinkSpec, open_target
from tidemill.runtime.thresholds import changed
from tidemill.runtime.views.sinks import Sinks

ROUNDS = 60 if thorough() else 4


@pytest.fixture(params=[Delta, Iceberg], ids=lambda made: made.__name__.lower())
def place(request, tmp_path):
    return request.param(tmp_path, request)


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_the_table_is_the_view_whether_workers_write_or_the_driver(place, tmp_path, monkeypatch, mode):
    """Batches of both kinds follow each other; some processes end between the last file and the commit."""
    rooms, draw, known, written = Rooms(tmp_path), random.Random(19), set[int](), []
    write = LakeWriter.write

    def note(self, rows, where):
        files = write(self, rows, where)
        written.append(len(files))
        if draw.random() < 0.3:
            raise Crash
        return files

    monkeypatch.setattr(LakeWriter, "write", note)
    monkeypatch.setattr(Sinks, "spread", staticmethod(call_in_turn))  # as on a cluster
    with rooms.open() as db:
        rooms.define(db)
        db.execute(place.sink(mode))
        for turn in range(ROUNDS):
            rooms.add(draw_changes(draw, known))
            with changed(lake_file_rows=(1, 2, 1000)[turn % 3]):
                while True:
                    try:
                        db.run()
                        break
                    except Crash:
                        db.reopen_outlet()
            assert db.status()["sinks"][0]["problem"] is None
            found = place.rows() if mode == "upsert" else apply(row[:4] for row in place.changes())
            assert found == rooms.rows(db)
        assert not [name for name in os.listdir(db.paths.outbox) if name.startswith("lake-")]
    assert max(written) > 1


VALUES = {
    "k": [1, 2, 3],
    "text": ["a", "it's", None],
    "number": [1.5, None, float("inf")],
    "exact": [Decimal("1.50"), None, Decimal("-2.25")],
    "day": [date(2026, 1, 2), None, date(1969, 1, 1)],
    "at": [datetime(2026, 1, 2, 3, 4, 5, 6), None, datetime(1969, 1, 1)],
    "clock": [time(1, 2, 3), None, time(0)],
    "yes": [True, None, False],
    "raw": [b"\x00\xff", None, b""],
    "list": [[1, None], None, []],
    "pair": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
    "id": [str(UUID(int=7)), None, str(UUID(int=8))],
}
TYPES = {"k": pa.uint64(), "exact": pa.decimal128(9, 2), "clock": pa.time64("us")}


def make_log(tag):
    columns = {name: pa.array(values, TYPES.get(name)) for name, values in VALUES.items()}
    return pa.table({"TAG": pa.array([tag] * 3), "TS": pa.array([1, 2, 3]), **columns, "OLD": pa.nulls(3, pa.string())})


def open_sink(place, path, mode, *, large):
    columns = tuple(VALUES)
    if isinstance(place, Delta):
        kind, where, options = "delta", {"path": str(path / "lake")}, {}
    else:
        kind, where = "iceberg", {"table": "shop.rooms"}
        options = {"catalog": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}"}
    spec = SinkSpec("sink", "K", kind, mode, where, options, columns, ("k",) if mode == "upsert" else None)
    return open_target(spec, LakeWriter(str(path / "shared"), call_in_turn) if large else None)


def read(place, path):
    if isinstance(place, Delta):
        import deltalake

        table = deltalake.DeltaTable(str(path / "lake"))
        return table.schema().to_json(), lake_table(pa.table(table.to_pyarrow_table()))
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("default", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
    found = catalog.load_table("shop.rooms")
    return str(found.schema()), lake_table(found.scan().to_arrow())


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_values_of_every_type_are_the_same_as_those_of_the_library(place, tmp_path, mode):
    found = []
    for large in (True, False):
        path = tmp_path / str(large)
        path.mkdir()
        with changed(lake_file_rows=1):
            target = open_sink(place, path, mode, large=large)
            target.write(make_log("+"), 1)
            target.write(make_log("u"), 2)
            target.write(make_log("u"), 2)  # once more: nothing
            target.close()
        schema, rows = read(place, path)
        found.append((schema, sorted(map(repr, rows.to_pylist()))))
    assert found[0] == found[1]
    assert len(found[0][1]) == (3 if mode == "upsert" else 6)


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_tables_that_the_user_has_made_are_left_to_the_library(tmp_path, mode):
    """They have partitions, or other types; files of workers have neither."""
    import deltalake

    for large in (True, False):
        for name, kind, parts in (("parts", pa.decimal128(20, 0), ["day"]), ("types", pa.int32(), None)):
            path = tmp_path / f"{large} {name}"
            path.mkdir()
            empty = lake_table(make_log("+").slice(0, 0).select(VALUES))
            empty = empty.set_column(0, "k", empty.column("k").cast(kind))
            tags = pa.table({"TAG": pa.array([], pa.string()), "TS": pa.array([], pa.int64())})
            if mode == "changelog":
                for column in ("TS", "TAG"):
                    empty = empty.add_column(0, column, tags.column(column))
                empty = empty.append_column("OLD", pa.array([], pa.string()))
            deltalake.write_deltalake(str(path / "lake"), empty, partition_by=parts)
            with changed(lake_file_rows=1):
                target = open_sink(Delta(path, None), path, mode, large=large)
                target.write(make_log("+"), 1)
                target.write(make_log("u"), 2)
    for name in ("parts", "types"):
        found = [read(Delta(tmp_path, None), tmp_path / f"{large} {name}") for large in (True, False)]
        assert found[0][0] == found[1][0]
        assert sorted(map(repr, found[0][1].to_pylist())) == sorted(map(repr, found[1][1].to_pylist()))
        assert found[0][1].column("day").null_count == found[0][1].num_rows // 3


def test_partitions_of_iceberg_are_left_to_the_library(tmp_path):
    from pyiceberg.catalog import load_catalog

    place, log = Iceberg.__new__(Iceberg), make_log("+").take([0, 2, 2, 0])
    catalog = load_catalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    with catalog.create_table("shop.rooms", schema=lake_table(log).schema).update_spec() as spec:
        spec.add_identity("day")
    with changed(lake_file_rows=2):
        target = open_sink(place, tmp_path, "changelog", large=True)
        target.write(log, 1)
        target.close()
    days = read(place, tmp_path)[1].column("day").to_pylist()
    assert sorted(days) == sorted(log.column("day").to_pylist())


def test_what_another_writer_has_removed_meanwhile_is_not_brought_back(tmp_path):
    """Files that the commit replaces were rewritten by another writer: the batch is refused, and can be tried again."""
    import deltalake

    place = Delta(tmp_path, None)
    with changed(lake_file_rows=1):
        target = open_sink(place, tmp_path, "upsert", large=True)
        target.write(make_log("+"), 1)
        leave_out = LakeWriter.leave_out

        def meet(self, keys, where, files):
            found = leave_out(self, keys, where, files)
            deltalake.DeltaTable(where).optimize.compact()
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LakeWriter, "leave_out", meet)
            with pytest.raises(Exception, match=r"[Cc]onflict|delete|transaction"):
                target.write(make_log("u"), 2)
        target.write(make_log("u"), 2)
    assert read(place, tmp_path)[1].num_rows == 3


def test_object_stores_are_left_to_the_library(tmp_path):
    writer = LakeWriter(str(tmp_path), call_in_turn)
    with changed(lake_file_rows=1):
        assert writer.is_for(make_log("+"), "/lake/t") and not writer.is_for(make_log("+"), "s3://lake/t")
