"""Aggregation joins as people write them, with answers computed by hand; paper 000's examples under every plan."""

from __future__ import annotations

import pytest

from tests.harness import LocalDatabase
from tests.joins.drawn import plan_names
from tests.joins.switching import switch
from tests.paper.notation import Feed, answers, rows_of, tagged
from tidemill.errors import TidemillError


def plans(count: int) -> list[str]:
    """What a join of this many inputs is asked under: where there is a choice, every plan of two, some of many."""
    names = plan_names(count)
    some = names if count == 2 else [names[0], names[5], names[-1]]
    return ["auto", *some]


@pytest.fixture
def db(tmp_path):
    database = LocalDatabase(str(tmp_path / "db"))
    yield database
    database.close()


def feed(db, tmp_path, name, columns, rows, key=""):
    """Stream `name` over a source of its own; its rows in the notation of the papers."""
    found = Feed(db, tmp_path, f"{name}Source", columns).send(rows)
    db.execute(f"CREATE TAGGED STREAM {name} OVER {name}Source {key}")
    return found


def changed(db, query, plan="auto"):
    """The tagged output of a query over everything there is."""
    switch(db, plan)
    db.execute(f"CREATE STREAMED VIEW v AS {query}")
    db.run()
    return tagged(db, "v")


# ---- Example 1 -----------------------------------------------------------------------------------

AUCTION_QUERY = """SELECT A.auctionID, COUNT(B.*)
FROM Auction AS A [WINDOW UNTIL NOW], Bid AS B [WINDOW 1 HOUR],
     Person AS P
WHERE A.auctionID = B.auctionID AND A.sellerID = P.personID AND P.state = "VT"
GROUP BY A.auctionID;"""
AUCTIONS = "<1,7,10>0 <2,8,10>60 <3,9,5>120 <4,7,1>5000"
BIDS = "<1,8,11>100 <1,9,12>200 <2,9,20>300 <3,8,6>400 <1,8,13>3700 <3,8,7>4000 <4,8,9>4500 <2,7,21>7400"
# A bid made at t counts from t + 1 to t + 3600. At 3701 one bid on auction 1 goes and one comes; at 4001 the same on 3.
# Auction 4 was created after its first bid. Auction 2 is by a seller from New York.
COUNTED = ["+<1,1>101", "u<1,2>201", "+<3,1>401", "u<1,1>3801", "+<4,1>5000", "-<1,1>7301"]


@pytest.fixture
def auctions(db, tmp_path):
    """Bid(ts, auctionID, bidderID, bidPrice), Auction(ts, auctionID, sellerID, startPrice), Person(…)."""
    feed(db, tmp_path, "Auction", "auctionID INTEGER, sellerID INTEGER, startPrice INTEGER", AUCTIONS)
    feed(db, tmp_path, "Bid", "auctionID INTEGER, bidderID INTEGER, bidPrice INTEGER", BIDS)
    (tmp_path / "person.csv").write_text("personID,name,state\n7,Ann,VT\n8,Bob,NY\n9,Eve,VT\n")
    db.execute(
        f"REGISTER TABLE Person (personID INTEGER, name VARCHAR, state VARCHAR) FROM FILES '{tmp_path}/person.csv'"
    )
    return db


@pytest.mark.parametrize("plan", ["auto", "late", "early", *plan_names(3)])
def test_example_1_as_it_is_printed(auctions, plan):
    assert changed(auctions, AUCTION_QUERY, plan) == COUNTED


def test_example_1_as_a_standing_query(auctions):
    name = auctions.execute(AUCTION_QUERY.replace("SELECT", "SELECT STREAMED", 1)).name
    auctions.run()
    assert tagged(auctions, name) == COUNTED


def test_example_1_in_other_words(auctions):
    query = """SELECT A.auctionID, COUNT(*) FROM Auction AS A JOIN Bid [WINDOW 3600] AS B USING (auctionID)
               JOIN Person P ON sellerID = personID WHERE P.state = 'VT' GROUP BY A.auctionID
               WITH (unbounded_state = true)"""
    assert changed(auctions, query) == COUNTED


def test_a_landmark_window_is_asked_for_by_name(auctions):
    """[WINDOW UNTIL NOW] says that the input is kept for ever; no window at all says nothing."""
    with pytest.raises(TidemillError, match='join of stream "Auction" and stream "Bid" would keep state') as caught:
        auctions.execute("""CREATE VIEW w AS SELECT A.auctionID, COUNT(*) FROM Auction AS A, Bid AS B [WINDOW 1 HOUR]
                            WHERE A.auctionID = B.auctionID GROUP BY A.auctionID""")
    assert caught.value.code == "TM204" and "[WINDOW" in caught.value.hint


# ---- Examples 2 to 4 -----------------------------------------------------------------------------


@pytest.mark.parametrize("plan", plans(2))
def test_examples_2_and_3_an_auction_meets_the_count_of_its_bids(db, tmp_path, plan):
    """At 4 the auction meets the set (1, 3); at 5 a bid meets the window; at 6 the same auction comes once more."""
    feed(db, tmp_path, "Auction", "auctionID INTEGER", "<1>4 <2>5 <1>6")
    feed(db, tmp_path, "Bid", "auctionID INTEGER", "<1>1 <1>2 <2>2 <1>3 <1>5 <3>8")
    query = """SELECT A.auctionID, COUNT(*) FROM Auction [WINDOW UNTIL NOW] AS A, Bid [WINDOW UNTIL NOW] AS B
               WHERE A.auctionID = B.auctionID GROUP BY A.auctionID WITH (unbounded_state = true)"""
    assert changed(db, query, plan) == ["+<1,3>4", "u<1,4>5", "+<2,1>5", "u<1,8>6"]


@pytest.mark.parametrize("plan", plans(2))
def test_example_4_sums_are_scaled_by_counts(db, tmp_path, plan):
    """s1 = (p, 1, 10) matches c = 3 rows, c_g = 2 of them with g2 = x: SUM(A1) grows by 10 · 2, SUM(A2) by 5 + 7."""
    feed(db, tmp_path, "S2", "G2 VARCHAR, J2 INTEGER, A2 INTEGER", "<x,1,5>0 <x,1,7>0 <y,1,2>0 <x,2,100>0 <x,9,1>4")
    feed(db, tmp_path, "S1", "G1 VARCHAR, J1 INTEGER, A1 INTEGER", "<p,1,10>1 <p,1,3>2 <q,2,4>3")
    query = """SELECT S1.G1, S2.G2, SUM(S1.A1), SUM(S2.A2) FROM S1 [WINDOW 10], S2 [WINDOW 10]
               WHERE S1.J1 = S2.J2 GROUP BY S1.G1, S2.G2"""
    assert changed(db, query, plan) == [
        "+<p,x,20,12>2",
        "+<p,y,10,2>2",
        "u<p,x,26,24>3",
        "u<p,y,13,4>3",
        "+<q,x,4,100>4",
    ]


@pytest.mark.parametrize("plan", plans(2))
def test_definition_5_of_every_function(db, tmp_path, plan):
    """Values 1 and 4 of S meet two rows of T: each counts twice, and no average, least or greatest value changes."""
    feed(db, tmp_path, "S", "k INTEGER, a INTEGER", "<1,1>0 <1,4>0 <1,>0 <,9>0 <2,7>0")
    feed(db, tmp_path, "T", "k INTEGER, b INTEGER", "<1,10>1 <1,20>1 <,30>1 <3,40>1 <3,40>9")
    query = """SELECT COUNT(*), COUNT(a), SUM(a), AVG(a), MIN(a), MAX(a), COUNT(DISTINCT a), VAR_POP(a), SUM(a * b)
               FROM S [WINDOW 5], T [WINDOW 5] WHERE S.k = T.k"""
    first = "0,0,,,,,0,,"
    assert changed(db, query, plan) == [f"+<{first}>0", "u<6,4,10,2.5,1,4,2,2.25,150>2", f"u<{first}>6"]


# ---- graphs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", plans(3))
def test_a_cycle_counts_triangles(db, tmp_path, plan):
    """Each directed triangle is found from its three corners: 1 2 3, then 1 2 4; without 1 → 2 there is none."""
    rows = [
        (0, 1, 2, "+", 1),
        (1, 2, 3, "+", 2),
        (2, 3, 1, "+", 3),
        (3, 2, 4, "+", 4),
        (4, 4, 1, "+", 5),
        (5, 3, 4, "+", 6),
        (0, None, None, "delete", 7),
    ]
    Feed(db, tmp_path, "Edges", "id INTEGER, x INTEGER, y INTEGER, op VARCHAR", options="operation = 'op'").send(rows)
    db.execute("CREATE TAGGED STREAM E OVER Edges KEY id")
    query = "SELECT COUNT(*) FROM E AS e, E AS f, E AS g WHERE e.y = f.x AND f.y = g.x AND g.y = e.x"
    assert changed(db, query, plan) == ["+<0>1", "u<3>3", "u<6>5", "u<0>7"]


@pytest.mark.parametrize("plan", plans(4))
def test_a_clique_of_one_key(db, tmp_path, plan):
    """n rows of one key make n⁴ rows; the sum over one input is n³ times the sum of its values."""
    feed(db, tmp_path, "K", "id INTEGER, k INTEGER, v INTEGER", "<1,0,1>1 <2,0,2>2 <3,0,3>3 <2,5,2>4", "KEY id")
    pairs = " AND ".join(f"{a}.k = {b}.k" for a, b in ("ab", "ac", "ad", "bc", "bd", "cd"))
    query = f"SELECT a.k, COUNT(*), SUM(c.v) FROM K a, K b, K c, K d WHERE {pairs} GROUP BY a.k"
    assert changed(db, query, plan) == ["+<0,1,1>1", "u<0,16,24>2", "u<0,81,162>3", "u<0,16,32>4", "+<5,1,2>4"]


@pytest.mark.parametrize("plan", plans(4))
def test_a_star_multiplies_what_its_rays_hold(db, tmp_path, plan):
    """The centre meets 2 · 3 · 1 rows; the sum over the first ray is 3 · 1 times its own, and so on."""
    feed(db, tmp_path, "X", "k INTEGER, v INTEGER", "<1,5>1 <1,6>1 <2,7>1")
    feed(db, tmp_path, "Y", "k VARCHAR, v INTEGER", "<a,1>1 <a,2>1 <a,3>1 <b,9>1")
    feed(db, tmp_path, "Z", "k INTEGER, v INTEGER", "<8,4>1 <9,4>1")
    feed(db, tmp_path, "C", "g VARCHAR, x INTEGER, y VARCHAR, z INTEGER", "<m,1,a,8>2 <n,2,b,7>2 <m,1,a,8>5 <z,0,z,0>9")
    windows = "C [WINDOW 4] AS c, X [WINDOW 20] AS x, Y [WINDOW 20] AS y, Z [WINDOW 20] AS z"
    query = f"""SELECT c.g, COUNT(*), SUM(x.v), SUM(y.v), SUM(z.v), SUM(x.v * y.v) FROM {windows}
                WHERE c.x = x.k AND c.y = y.k AND c.z = z.k GROUP BY c.g"""
    # [2, 5) holds the first row of C at 3 … 6, the second at 6 … 9.
    once, twice = "m,6,33,12,24,66", "m,12,66,24,48,132"
    assert changed(db, query, plan) == [f"+<{once}>3", f"u<{twice}>6", f"u<{once}>7"]


@pytest.mark.parametrize("plan", plans(3))
def test_a_chain_has_another_key_at_each_link(db, tmp_path, plan):
    """Two ways from 1 over a to 7, one over b: the composite link needs both columns."""
    feed(db, tmp_path, "A", "k INTEGER, v INTEGER", "<1,10>1 <1,20>1 <,5>1")
    feed(db, tmp_path, "B", "k INTEGER, s VARCHAR, n INTEGER", "<1,a,7>1 <1,b,7>1 <1,b,8>1 <1,,7>1 <,a,7>1")
    feed(db, tmp_path, "C", "s VARCHAR, n INTEGER, w INTEGER", "<a,7,1>2 <b,7,2>2 <b,8,4>3 <a,8,8>3 <,7,16>3 <z,0,0>9")
    query = """SELECT b.n, COUNT(*), SUM(a.v), SUM(c.w), MIN(b.s) FROM A [WINDOW 20] a JOIN B [WINDOW 20] b ON a.k = b.k
               JOIN C [WINDOW 20] c ON b.s = c.s AND b.n = c.n GROUP BY b.n"""
    assert changed(db, query, plan) == ["+<7,4,60,6,a>3", "+<8,2,30,8,b>4"]


@pytest.mark.parametrize("plan", plans(2))
def test_half_of_the_rows_have_one_key(db, tmp_path, plan):
    """20 rows of key 0 and keys 1 to 20 on each side: 20 · 20 pairs and 20; the sums of 0 are scaled by 20."""
    keys = [0, *range(1, 21)] + [0] * 19
    for name in ("L", "R"):
        found = Feed(db, tmp_path, f"{name}Source", "k INTEGER, v INTEGER").send([(k, k + 1, 1) for k in keys])
        found.send([(-1, 0, 5)])
        db.execute(f"CREATE TAGGED STREAM {name} OVER {name}Source")
    query = """SELECT l.k % 2 AS odd, COUNT(*) AS n, SUM(l.v) AS sl, SUM(r.v) AS sr
               FROM L [WINDOW 3] AS l JOIN R [WINDOW 3] AS r ON l.k = r.k GROUP BY l.k % 2"""
    even, odd = 20 * 20 * 1 + sum(k + 1 for k in range(2, 21, 2)), sum(k + 1 for k in range(1, 21, 2))
    assert changed(db, query, plan) == [
        f"+<0,410,{even},{even}>2",
        f"+<1,10,{odd},{odd}>2",
        f"-<0,410,{even},{even}>5",
        f"-<1,10,{odd},{odd}>5",
    ]


# ---- points and outputs --------------------------------------------------------------------------


@pytest.mark.parametrize("plan", plans(2))
def test_a_partial_point_shows_the_old_state_of_the_other_input(db, tmp_path, plan):
    """S is seen at 2, 4, 6 and T at 3, 6: the second row of T waits for 6, when S has three rows."""
    feed(db, tmp_path, "S", "k INTEGER, v INTEGER", "<1,1>1 <1,2>3 <1,4>5")
    feed(db, tmp_path, "T", "k INTEGER", "<1>2 <1>4 <9>7")
    query = """SELECT COUNT(*) AS n, SUM(s.v) AS v FROM S SYNC EVERY 2 AS s JOIN T SYNC EVERY 3 AS t ON s.k = t.k
               GROUP BY s.k WITH (unbounded_state = true)"""
    assert answers_of(db, query, plan) == {3: [(1, 1)], 4: [(2, 3)], 6: [(6, 14)]}


def answers_of(db, query, plan):
    changed(db, query, plan)
    return answers(db, "v")


@pytest.mark.parametrize("plan", plans(2))
def test_rstream_of_a_join_repeats_the_answer_of_each_point(db, tmp_path, plan):
    feed(db, tmp_path, "S", "k INTEGER, v INTEGER", "<1,1>0 <1,2>1 <2,5>2 <1,7>5")
    feed(db, tmp_path, "T", "k INTEGER", "<1>0 <2>3 <1>4 <7>8")
    switch(db, plan)
    db.execute("""CREATE RSTREAM VIEW v AS SELECT s.k, COUNT(*) AS n, SUM(s.v) AS v
                  FROM S [RANGE 4 SLIDE 2] AS s JOIN T [RANGE 4 SLIDE 2] AS t ON s.k = t.k GROUP BY s.k""")
    db.run()
    # [-2, 2): 1 meets 1 and 2. [0, 4): also key 2. [2, 6): 7 meets the T of 4, key 2 still there. [4, 8): 7 alone.
    expected = [(2, 1, 2, 3), (4, 1, 2, 3), (4, 2, 1, 5), (6, 1, 1, 7), (6, 2, 1, 5), (8, 1, 1, 7)]
    assert rows_of(db, "SELECT TS, k, n, v FROM v ORDER BY ALL") == expected


# ---- refusals ------------------------------------------------------------------------------------

REFUSED = [
    ("SELECT COUNT(*) FROM S, T WHERE S.k = T.k", "TM204", "would keep state for ever"),
    ("SELECT COUNT(*) FROM S [WINDOW 5], T WHERE S.k = T.k", "TM204", "would keep state for ever"),
    ("SELECT S.k, COUNT(*) FROM S [WINDOW 5], T [WINDOW 5] WHERE S.k = T.k", "TM206", "grouped or inside an aggregate"),
    ("SELECT COUNT(U.*) FROM S [WINDOW 5], T [WINDOW 5] WHERE S.k = T.k", "TM201", '"U"'),
    ("SELECT SUM(T.*) FROM S [WINDOW 5], T [WINDOW 5] WHERE S.k = T.k", "TM201", "* is not possible here"),
    ('SELECT COUNT(*) FROM S [WINDOW 5], T [WINDOW 5] WHERE S.k = T."kk"', "TM201", 'no column "kk"'),
    ("SELECT COUNT(*) FROM S [WINDOW 5], T [WINDOW 5] WHERE S.k = T.k AND S.s = VT", "TM201", 'no column "VT"'),
]


@pytest.mark.parametrize(("query", "code", "message"), REFUSED, ids=[q[0][7:60] for q in REFUSED])
def test_refusals_say_what_is_wrong(db, tmp_path, query, code, message):
    for name in ("S", "T"):
        feed(db, tmp_path, name, "k INTEGER, s VARCHAR", "<1,a>1")
    with pytest.raises(TidemillError) as caught:
        db.execute(f"CREATE VIEW v AS {query}")
    assert caught.value.code == code and message in caught.value.message and caught.value.hint


@pytest.mark.parametrize("value", ["sometimes", "012", "", "1x", "-1"])
def test_a_setting_that_is_no_plan_is_refused(db, value):
    with pytest.raises(TidemillError) as caught:
        db.execute(f"SET early_aggregation = '{value}'")
    assert caught.value.code == "TM217" and "auto" in caught.value.hint


def test_bits_of_another_length_leave_a_join_to_the_optimizer(auctions):
    assert changed(auctions, AUCTION_QUERY, "10") == COUNTED
