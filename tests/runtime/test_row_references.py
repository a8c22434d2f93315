"""Texts as references to rows: the same values in another form, wherever they are taken, kept, written and read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.runtime.answer_files.write import read, write_file
from tidemill.runtime.fast_paths import without
from tidemill.runtime.messages.outbox import pack_blocks
from tidemill.runtime.row_references import concat_rows, is_reference, keep_dictionaries, take_rows, write_out
from tidemill.runtime.thresholds import smallest

rows = st.lists(st.tuples(st.sampled_from(["", "x", "y", None]), st.integers(0, 3)), min_size=1, max_size=8)


def table(values) -> pa.Table:
    texts, numbers = zip(*values, strict=True)
    columns = {"t": pa.array(texts, pa.string()), "b": pa.array([t and t.encode() for t in texts], pa.binary())}
    return pa.table(columns | {"n": pa.array(numbers, pa.int64())})


@effort(60)
@given(rows, st.data())
def test_references_have_the_values_of_the_rows(values, data):
    whole = table(values)
    index = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=12)), np.int64)
    wanted = whole.take(pa.array(index))
    found = pa.table(take_rows(whole, index, whole.column_names))
    refers = 2 * len(index) >= len(values)
    assert is_reference(found.schema.field("t").type) == (refers and not whole.column("t").null_count)
    assert write_out(found).equals(wanted)
    again = pa.table(take_rows(found, np.arange(found.num_rows)[::-1], ["n", "t"]))
    assert write_out(again).equals(wanted.select(["n", "t"]).take(pa.array(np.arange(wanted.num_rows)[::-1])))
    kept, _ = keep_dictionaries(found, data.draw(st.integers(0, 20)))
    assert write_out(kept).equals(wanted)
    for field in kept.schema:
        if is_reference(field.type):
            values_of = kept.column(field.name).chunk(0).dictionary.to_pylist()
            assert len(values_of) == len(set(values_of))
    both = concat_rows([found, found.slice(1), wanted])
    assert write_out(both).equals(pa.concat_tables([wanted, wanted.slice(1), wanted]))
    with without(["row_references"]):
        assert pa.table(take_rows(whole, index, whole.column_names)).equals(wanted)


@pytest.mark.parametrize("repeated", [1, 40])
def test_files_and_messages_have_texts(tmp_path, repeated):
    whole = table([("one", 1), ("two", 2), ("one", 3)])
    index = np.tile(np.array([2, 0, 0, 1]), repeated)
    referring = pa.table(take_rows(whole, index, ["t", "b", "n"])).append_column("__diff", pa.array(index * 0 + 1))
    plain = write_out(referring)
    [block] = pack_blocks([("o", referring)])
    assert block.replace_schema_metadata(None).equals(plain)
    assert write_file(str(tmp_path), [("o", referring)]) is None  # bytes are not written to files
    referring, plain = referring.drop_columns(["b"]), plain.drop_columns(["b"])
    file, same = (write_file(str(tmp_path), [("o", t)]) for t in (referring, plain))
    assert file.look == same.look
    for one in (file, same):
        [(_, found)] = read(str(tmp_path), one, {"o"})
        assert found.combine_chunks().equals(plain)


SOURCES = "".join(
    f"REGISTER SOURCE {n}Source (k BIGINT, w BIGINT, ts BIGINT, {n}note VARCHAR) FROM FILES '{{0}}/{n}/*.csv'"
    f" WITH (timestamp = 'ts', batch_rows = 15); CREATE TAGGED STREAM {n} OVER {n}Source;"
    for n in ("A", "B")
)
VIEWS = {
    "Joined": "SELECT A.k, A.w, B.w AS other, A.Anote, B.Bnote, A.Anote || 'x' AS made FROM A JOIN B ON A.k = B.k",
    "Two": "SELECT x.k, x.Anote, y.Anote AS again, B.Bnote FROM A AS x JOIN B ON x.k = B.k JOIN A AS y ON y.w = B.w"
    " WHERE B.Bnote <> 'n2'",
    "Lonely": "SELECT A.w, A.Anote, B.Bnote FROM A LEFT JOIN B ON A.k = B.k AND A.w = B.w",
    "Best": "SELECT k, Anote, Bnote, row_number() OVER (PARTITION BY k ORDER BY w DESC, other) AS place FROM"
    " (SELECT A.k, A.w, B.w AS other, A.Anote, B.Bnote FROM A JOIN B ON A.k = B.k) QUALIFY place <= 2",
    "Counted": "SELECT Bnote, count(*) AS n, max(Anote) AS m FROM"
    " (SELECT A.Anote, B.Bnote FROM A JOIN B ON A.k = B.k WHERE A.w < B.w OR A.Anote = B.Bnote) GROUP BY Bnote",
    "Windowed": "SELECT A.k, A.Anote, B.Bnote FROM A [RANGE 6 SLIDE 3] AS A JOIN B [RANGE 6 SLIDE 3] AS B ON A.k = B.k",
    "Both": "SELECT Anote FROM A UNION ALL SELECT B.Bnote FROM A JOIN B ON A.k = B.k",
}


def answers(place, folder, off: str) -> dict[str, list[str]]:
    with smallest(sealed_rows=3, slice_rows=20), LocalDatabase(str(place)) as db:
        db.execute(f"SET fast_paths_off = '{off}'")
        db.execute(SOURCES.format(folder))
        for name, sql in VIEWS.items():
            db.execute(f"CREATE STREAMED VIEW {name} WITH (unbounded_state = true) AS {sql}")
        db.execute(f"CREATE VIEW Rows WITH (unbounded_state = true) AS {VIEWS['Joined']}")
        db.run()
        found = {n: sorted(map(str, db.changes(n).to_pylist())) for n in VIEWS}
        return found | {"Rows": sorted(map(str, db.query("SELECT * FROM Rows").to_pylist()))}


def test_views_are_the_same_with_and_without(tmp_path):
    for name, keys in (("A", 5), ("B", 4)):
        (tmp_path / name).mkdir()
        for part in range(2):
            lines = (
                f"{i % keys},{i * 7 % 5},{i // 3},{'' if name == 'B' and i % 9 == 0 else f'n{i % 4}'}\n"
                for i in range(20 * part, 20 * part + 20)
            )
            (tmp_path / name / f"{part}.csv").write_text(f"k,w,ts,{name}note\n" + "".join(lines))
    found = answers(tmp_path / "on", tmp_path, "")
    assert all(found.values())
    assert found == answers(tmp_path / "off", tmp_path, "row_references")
