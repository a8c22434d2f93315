"""Plans between sites: trees, the SQL text of fragments, and what it answers when the real binder reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tests.sites.cases import many_sites, two_sites
from tests.sites.histories import log_of
from tests.sites.texts import UNIT, one_site, query_text, stamped_changes, texts
from tidemill.errors import PlanProblem
from tidemill.plan.sites import Equality, Method, SiteInput, SiteQuery, build_tree, methods_of, plan_sites, show_tree
from tidemill.plan.sites.tree import crossings
from tidemill.plan.sources import Column

COLUMNS = (Column("ip", "VARCHAR"), Column("bytes", "INTEGER"), Column("at", "TIMESTAMP"))


def packets(alias, site, **options):
    usual = SiteInput(alias, "Packets", site, COLUMNS, "at", "[WINDOW 3 SECONDS]", retention_us=3_000_000)
    return replace(usual, **options)


def query(left=None, right=None, reduces=("L", "R"), columns=("ip",)):
    equality = Equality("L", columns, "R", columns, frozenset(reduces))
    text = "SELECT L.ip, R.bytes FROM ⟨L⟩ JOIN ⟨R⟩ ON L.ip = R.ip"
    return SiteQuery((left or packets("L", "lyon"), right or packets("R", "paris")), (equality,), "lyon", text)


@pytest.mark.parametrize(
    ("name", "tree", "crossed"),
    [
        ("sp_s", "L ⋈ ship(R)", 1),
        ("sp_d", "ship(L) ⋈ R", 1),
        ("sm_s1", "L ⋈ ship(R ⋉ ship D(L))", 2),
        ("sm_s2", "L ⋈ ship(R ⋉ ship(D(L) ∩ ship D(R)))", 3),
        ("sm_d1", "ship(L ⋉ ship D(R)) ⋈ R", 2),
        ("sm_d2", "ship(L ⋉ ship(D(R) ∩ ship D(L))) ⋈ R", 3),
        ("bloom", "L ⋈ ship(R ⋉ ship B(L))", 2),
    ],
)
def test_the_algorithms_are_trees(name, tree, crossed):
    found = build_tree(query(), *methods_of(query(), name))
    assert show_tree(found) == tree and crossings(found) == crossed


def test_the_text_of_a_one_step_semijoin():
    plan = plan_sites(query(), "sm_s1")
    keys, rows = plan.fragments
    assert (keys.site, keys.to, keys.role, keys.key) == ("lyon", "paris", "keys", ("k0",))
    assert keys.sql == 'SELECT DISTINCT L."ip" AS k0 FROM Packets AS L WHERE L."ip" IS NOT NULL'
    assert (rows.site, rows.to, rows.answers, rows.expires_us) == ("paris", "lyon", keys.edge, 3_000_000)
    assert rows.sql == (
        'SELECT R."ip" AS "ip", R."bytes" AS "bytes", R."at" AS "at" FROM Packets AS R'
        ' JOIN q1_R_keys AS wanted ON R."ip" = wanted.k0 WHERE R.TS >= NOW - 3000000 MICROSECONDS'
    )
    assert plan.sql == (
        "SELECT L.ip, R.bytes FROM Packets [WINDOW 3 SECONDS] AS L"
        " JOIN q1_R_rows [WINDOW 3 SECONDS] AS R ON L.ip = R.ip"
    )
    assert keys.append_only and rows.append_only


def test_a_join_elsewhere_ships_its_answer():
    plan = plan_sites(query(), "sm_d1", output=(Column("ip", "VARCHAR"), Column("bytes", "INTEGER")))
    assert [(f.role, f.site, f.to) for f in plan.fragments] == [
        ("keys", "paris", "lyon"),
        ("rows", "lyon", "paris"),
        ("result", "paris", "lyon"),
    ]
    assert plan.fragments[-1].sql == plan.sql and plan.join_site == "paris"


def test_rows_windows_and_synchronized_inputs_are_shipped_above():
    for window in ("[ROWS 100]", "[WINDOW 3 SECONDS] SYNC EVERY 2"):
        far = packets("R", "paris", window=window, row_local=False, retention_us=None)
        plan = plan_sites(query(right=far), "sm_s1", lead_us=5)
        rows = plan.rows_edge("R")
        assert f"FROM Packets {window} AS R JOIN" in rows.sql
        assert plan.reads["R"].text("R") == "q1_R_rows AS R"
        assert not rows.append_only and rows.expires_us is None and rows.lead_us == 0


def test_only_append_only_inputs_with_row_local_windows_lead():
    assert plan_sites(query(), "sm_s1", lead_us=7).rows_edge("R").lead_us == 7
    assert plan_sites(query(), "sm_s1", lead_us=7).rows_edge("R").expires_us == 3_000_007
    keyed = packets("R", "paris", append_only=False)
    assert plan_sites(query(right=keyed), "sm_s1", lead_us=7).rows_edge("R").lead_us == 0
    leaving = packets("L", "lyon", append_only=False)  # its keys leave
    assert plan_sites(query(left=leaving), "sm_s1", lead_us=7).rows_edge("R").lead_us == 0
    assert plan_sites(query(), "sm_s1", lead_us=7, keys_stay=False).rows_edge("R").lead_us == 0


@pytest.mark.parametrize("name", ["sm_s1", "sm_s2", "bloom", "sm_d1", "sm_d2"])
def test_a_preserved_side_is_shipped_whole(name):
    """Every row of it is in the answer of an outer join."""
    plan = plan_sites(query(reduces=()), name)
    assert [f.role for f in plan.fragments if f.role != "result"] == ["rows"]
    half = plan_sites(query(reduces=("R",)), name)
    assert ("keys" in [f.role for f in half.fragments]) == (name in ("sm_s1", "sm_s2", "bloom"))


def test_fingerprints_need_types_whose_equal_values_have_equal_text():
    columns = (Column("ip", "DOUBLE"), *COLUMNS[1:])
    near, far = packets("L", "lyon"), packets("R", "paris")
    odd = SiteInput("R", "Packets", "paris", columns, "at", far.window, retention_us=far.retention_us)
    assert "md5" in plan_sites(query(near, far), "bloom").fragments[0].sql
    assert [f.role for f in plan_sites(query(near, odd), "bloom").fragments] == ["rows"]  # 0.0 and -0.0 are equal


def test_inputs_of_one_site_are_reduced_where_they_are():
    three = SiteQuery(
        (packets("A", "lyon"), packets("B", "paris"), packets("C", "paris")),
        (Equality.inner("A", ("ip",), "B", ("ip",)), Equality.inner("B", ("ip",), "C", ("ip",))),
        "lyon",
        "SELECT A.ip FROM ⟨A⟩ JOIN ⟨B⟩ ON A.ip = B.ip JOIN ⟨C⟩ ON B.ip = C.ip",
    )
    plan = plan_sites(three, {"B": Method("keys", "A"), "C": Method("both", "B")}, lead_us=3)
    assert [(f.role, f.edge) for f in plan.fragments] == [
        ("keys", "q1_B_keys"),
        ("rows", "q1_B_rows"),
        ("rows", "q1_C_rows"),
    ]
    assert "JOIN (SELECT DISTINCT" in plan.rows_edge("C").sql
    assert plan.rows_edge("C").lead_us == 0 and plan.rows_edge("B").lead_us == 3


def test_bad_names_are_refused():
    with pytest.raises(PlanProblem, match="TM242"):
        plan_sites(query(), "sm_s3")
    with pytest.raises(PlanProblem, match="TM240"):
        query(columns=("port",))
    with pytest.raises(PlanProblem, match="TM241"):
        query().input("X")


@effort(25, thorough_cases=1_500)
@given(case=st.one_of(two_sites(), two_sites(), many_sites()))
def test_texts_of_fragments_answer_as_the_query_of_one_site(case):
    plan = case.plan(case.first, query_text(case), UNIT)
    assume(not stamped_changes(plan, case))
    with texts(case) as found:
        for fragment in plan.fragments:
            if fragment.role != "result":
                found.ship(fragment)
        assert found.history("apart", plan.sql) == found.history("together", one_site(case))


@effort(20, thorough_cases=1_000)
@given(case=two_sites())
def test_the_python_meaning_of_inputs_and_joins_is_that_of_the_oracle(case):
    """What `test_exact` compares with is what the language says."""
    whole = [i.window.over(i.relation()) for i in case.inputs]
    with texts(case) as found:
        history = found.history("V", one_site(case))
    last = max(history) // UNIT
    here = Counter()
    for time, pair, copies in log_of(lambda t: case.join.at([r(t) for r in whole]), range(-1, last + 1)):
        here[time, tuple(v for row in pair for v in (row or (None,) * 3))] += copies
    there = Counter()
    before = Counter()
    for moment, rows in sorted(history.items()):
        for row in {*rows, *before}:
            if rows[row] != before[row]:
                there[moment // UNIT, row] = rows[row] - before[row]
        before = rows
    assert here == there
