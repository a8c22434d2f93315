"""Every fast path gives what the general way gives, is taken where it is on, and is not taken where it is off."""

from __future__ import annotations

import ast
import re
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.fast_paths.entries import ENTRIES, watch_entries
from tests.harness import LocalDatabase
from tests.places import ROOT
from tidemill.errors import PlanProblem
from tidemill.plan.physical import Physical
from tidemill.runtime import fast_paths, paths
from tidemill.runtime.fast_paths import NAMES, is_on, without
from tidemill.runtime.paths import load_plan
from tidemill.runtime.thresholds import changed

ROWS = 600
# Enough that readers make the cells of all of them from one raw relation.
WINDOWS = [(("a", "b", "a, b")[i % 3], 20 * (1 + i // 9), 20, 5 * (i % 9)) for i in range(27)]
VIEWS = ";".join(
    [
        *(
            f"CREATE RSTREAM VIEW W{i} AS SELECT {by}, count(*) AS n, sum(v) AS s FROM S"
            f" [RANGE {r} SECONDS SLIDE {s} SECONDS] WHERE v >= {least} GROUP BY {by}"
            for i, (by, r, s, least) in enumerate(WINDOWS)
        ),
        "CREATE STREAMED VIEW G AS SELECT k, count(*) AS n, sum(w) AS s, max(w) AS m FROM T GROUP BY k",
        "CREATE RSTREAM VIEW R AS SELECT k, w FROM T [RANGE 20 SLIDE 10]",
        "CREATE STREAMED VIEW J AS SELECT A.k, count(*) AS n, sum(A.w) AS s, max(B.w) AS m"
        " FROM T [RANGE 20 SLIDE 10] AS A, U [RANGE 20 SLIDE 10] AS B WHERE A.k = B.k GROUP BY A.k",
        "CREATE STREAMED VIEW M AS SELECT A.k, A.w, B.w AS other, A.note FROM T AS A [RANGE 20 SLIDE 10]"
        " JOIN U AS B [RANGE 20 SLIDE 10] ON A.k = B.k AND A.w < B.w",
        "CREATE STREAMED VIEW F AS SELECT k, w, ts FROM T ORDER BY w DESC LIMIT 3",
        *(
            f"CREATE STREAMED VIEW B{i} AS SELECT note, count(*) AS n, sum(w) AS s FROM K WHERE w > {i} GROUP BY note"
            for i in range(5)
        ),
    ]
)
SMALL = {
    "different_rows": 1,
    "telling_rows": 10,
    "preview_rows": 100,
    "sealed_rows": 1,
    "running_rows": 1,
    "running_rows_an_entry": 0,
    "running_queries": 1,
    "running_alone": 1,
    "running_cells_a_row": 1 << 40,
    "running_looks_a_row": 1 << 40,
    "running_least_bytes": 0,
    "aggregated_rows": 200,
    "ranked_rows": 20,
    "assumed_rows": 200,
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("in")
    at = np.arange(ROWS)
    for i, part in enumerate(np.array_split(at, 4)):
        columns = {
            "a": part % 7,
            "b": part * part % 11,
            "v": part.astype(np.int32),
            "ts": (part // 3 * 1_000_000).astype("M8[us]"),
        }
        pq.write_table(pa.table(columns), folder / f"{i}.parquet", row_group_size=50)
    for name, keys in (("t", 5), ("u", 4)):
        lines = (f"{i % keys},{i * 7 % 13},{i // 3},note {i % 2}\n" for i in range(ROWS // 2))
        (folder / f"{name}.csv").write_text("k,w,ts,note\n" + "".join(lines))
    return folder


def answers(place: Path, inputs: Path, off: str) -> tuple[dict[str, list[str]], set[str]]:
    """What all views hold at the end, and the paths that were taken."""
    # A plan file is read before it is known what it says of garbage.
    unknown = patch.object(paths, "seldom_collected", nullcontext)
    with changed(**SMALL), watch_entries() as taken, unknown, LocalDatabase(str(place)) as db:
        db.execute(f"SET fast_paths_off = '{off}'")
        taken.clear()
        db.execute(
            f"REGISTER SOURCE P (a BIGINT, b BIGINT, v INT, ts TIMESTAMP) FROM FILES '{inputs}/*.parquet'"
            " WITH (timestamp = 'ts'); CREATE TAGGED STREAM S OVER P;"
            + "".join(
                f"REGISTER SOURCE {n}Source (k BIGINT, w BIGINT, ts BIGINT, note VARCHAR)"
                f" FROM FILES '{inputs}/{n.lower()}.csv' WITH (timestamp = 'ts');"
                f" CREATE TAGGED STREAM {n} OVER {n}Source;"
                for n in ("T", "U")
            )
            + "CREATE TAGGED STREAM K OVER TSource KEY k"
        )
        db.warm()
        db.execute(VIEWS)
        db.run()
        names = [*(f"W{i}" for i in range(len(WINDOWS))), "R"]
        found = {n: sorted(map(str, db.query(f"SELECT * FROM {n}").to_pylist())) for n in names}
        found |= {f"log of {n}": sorted(map(str, db.changes(n).to_pylist())) for n in ("G", "J", "M", "F", "B0", "B4")}
        return found, set(taken)


@pytest.fixture(scope="module")
def with_all(inputs, tmp_path_factory):
    return answers(tmp_path_factory.mktemp("all") / "db", inputs, "")


def test_every_path_is_taken_where_it_is_on(with_all):
    found, taken = with_all
    assert taken == set(NAMES) == set(ENTRIES) and all(found.values())


@pytest.mark.parametrize("path", NAMES)
def test_a_path_that_is_off_is_not_taken_and_changes_no_answer(path, inputs, with_all, tmp_path):
    needing = {"pair_sums": {"value_presence"}, "joined_pairs": {"row_references"}}.get(path, set())
    found, taken = answers(tmp_path / "db", inputs, path)
    assert found == with_all[0]
    assert taken == set(NAMES) - {path} - needing


def test_all_may_be_off(inputs, with_all, tmp_path):
    assert answers(tmp_path / "db", inputs, ", ".join(NAMES)) == (with_all[0], set())


def test_the_setting_is_kept_and_carried_by_the_next_plan(tmp_path, inputs):
    with LocalDatabase(str(tmp_path / "db")) as db:
        db.execute(
            f"REGISTER SOURCE P (a BIGINT, ts TIMESTAMP) FROM FILES '{inputs}/*.parquet' WITH (timestamp = 'ts')"
        )
        db.execute("CREATE TAGGED STREAM S OVER P; CREATE VIEW V AS SELECT a, count(*) AS n FROM S GROUP BY a")
        db.execute("SET fast_paths_off = 'pair_sums group_walk,group_walk'")
        with pytest.raises(PlanProblem, match='there is no fast path "warp"') as refused:
            db.execute("SET fast_paths_off = 'preview, warp'")
        assert refused.value.code == "TM217"
    with LocalDatabase(str(tmp_path / "db")) as db:
        setting = {"name": "fast_paths_off", "value": "group_walk, pair_sums"}
        assert setting in db.execute("SHOW SETTINGS").to_pylist()
        db.run()
        assert load_plan(db.paths.plan(db.catalog.version)).fast_paths_off == ("group_walk", "pair_sums")
        db.execute("SET fast_paths_off = ''")
        db.run()
        assert load_plan(db.paths.plan(db.catalog.version)).fast_paths_off == ()


def test_a_plan_without_the_field_has_all_paths():
    plan = Physical(version=1, unit_us=1, shards=(0,))
    assert Physical.from_json(plan.to_json().replace('"fast_paths_off": [],\n', "")).fast_paths_off == ()


def test_blocks_that_overlap_may_end_in_any_order():
    first, second = without(["preview"]), without(["group_walk"])
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert is_on("preview") and not is_on("group_walk")
    second.__exit__(None, None, None)
    assert is_on("group_walk")


def test_the_reference_lists_every_path():
    text = (ROOT / "docs/language.md").read_text(encoding="utf-8")
    table = text.partition("### Fast paths")[2].partition("```")[0]
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(NAMES)


@pytest.mark.parametrize("path", NAMES)
def test_every_path_has_a_file_of_its_own_that_states_its_law(path):
    """The list names the file; its docstring says what the path equals, and where it is not taken."""
    listed = dict(re.findall(r'^    "(\w+)",  # ([\w/.]+): ', Path(fast_paths.__file__).read_text(), re.MULTILINE))
    assert list(listed) == list(NAMES) and len(set(listed.values())) == len(NAMES)
    text = ast.get_docstring(ast.parse((Path(fast_paths.__file__).parent / listed[path]).read_text())) or ""
    assert f"fast path `{path}`" in text, "say its law in the docstring of its file"
    law = text.partition(f"fast path `{path}`")[2]
    assert re.search(r"exactly|no answer|The law:|gives the rows|the order is", text), text
    assert law.startswith((":", ".")), law
