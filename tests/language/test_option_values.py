"""Wrong values of options and settings are refused when they are said, with their place; what is accepted runs."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness import LocalDatabase
from tests.properties.effort import effort
from tidemill.engine import Database
from tidemill.engine.adapt.joins import JOIN_SETTINGS
from tidemill.engine.adapt.sharing import SHARING
from tidemill.engine.settings.options import CHECKS
from tidemill.engine.settings.queries import QUERYING
from tidemill.errors import TidemillError

SOURCE = "REGISTER SOURCE S (a INTEGER, b VARCHAR, at TIMESTAMP) FROM "
REFUSED = """
SET trigger = 'x'
SET trigger = 0
SET trigger = '400 days'
SET sealed_rows = 'many'
SET lfta_memory = '²'
SET phantoms = 'maybe'
SET hot_keys = 5
{S}GENERATE (rate = -1)
{S}GENERATE (rate = 0)
{S}GENERATE (rate = true)
{S}GENERATE (rate = 'fast')
{S}GENERATE (rate = 1e300)
{S}GENERATE (rows = -1)
{S}GENERATE (rows = 1.5)
{S}GENERATE (rows = 9000000000000000, rate = 0.001)
{S}GENERATE (seed = 0.5)
{S}GENERATE (start = 'yesterday')
{S}GENERATE (start = 1.5)
{S}GENERATE (start = 'now + 9000000 days')
{S}GENERATE (arrivals = 'never')
{S}GENERATE (a = 'choice()')
{S}GENERATE (a = 'choice')
{S}GENERATE (a = 'choice(x,y)')
{S}GENERATE (a = 'uniform(9,1)')
{S}GENERATE (a = 'uniform(1,1e300)')
{S}GENERATE (a = 'uniform(1,99999999999)')
{S}GENERATE (a = 'uniform(-99999999999,1)')
{S}GENERATE (a = 'normal(99999999999,1)')
{S}GENERATE (a = 'walk(99999999999,1)')
{S}GENERATE (a = 'cycle(99999999999)')
{S}GENERATE (a = 'zipf(1e9,10)')
{S}GENERATE (a = 'cycle(0)')
{S}GENERATE (a = 'dice(6)')
{S}GENERATE (a = 5)
{S}PORT 5599 WITH (lateness = -5)
{S}PORT 5599 WITH (lateness = true)
{S}PORT 5599 WITH (lateness = 'x')
{S}PORT 5599 WITH (lateness = 9000000000000000000)
{S}PORT 5599 WITH (idle_timeout = 'soon')
{S}PORT 5599 WITH (batch_rows = 0)
{S}PORT 5599 WITH (batch_rows = true)
{S}PORT 5599 WITH (backlog_bytes = -1)
{S}PORT 5599 WITH (backlog_bytes = 'x')
{S}PORT 5599 WITH (max_record_bytes = 0)
{S}PORT 5599 WITH (max_record_bytes = 'big')
{S}PORT 5599 WITH (key_null = 'perhaps')
{S}PORT 5599 WITH (delimiter = '')
{S}PORT 5599 WITH (delimiter = '||')
{S}PORT 5599 WITH (format = 'xml')
{S}PORT 5599 WITH (on_error = 'x')
{S}PORT 5599 WITH (host = '')
{S}PORT 5599 WITH (timestamp = 'nosuch')
{S}PORT 5599 WITH (timestamp = 'b')
{S}PORT 5599 WITH (operation = 5)
{S}FILES 'x/*.csv' WITH (header = 'maybe')
{S}FILES 'x/*.csv' WITH (settle_seconds = -1)
{S}FILES 'x/*.csv' WITH (settle_seconds = 'x')
CREATE VIEW V WITH (unbounded_state = 'perhaps') AS SELECT a FROM T
CREATE VIEW V WITH (retain = 'soon') AS SELECT a FROM T
CREATE VIEW V WITH (retain = -1) AS SELECT a FROM T
CREATE VIEW V WITH (spread = 5) AS SELECT a FROM T
CREATE SINK K FROM V0 TO FILES 'out' WITH (format = 'xml')
""".strip().splitlines()


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    with LocalDatabase(str(tmp_path_factory.mktemp("options") / "db")) as db:
        db.execute(
            "REGISTER SOURCE R (a INTEGER) FROM GENERATE (rows = 5); CREATE TAGGED STREAM T OVER R;"
            "CREATE VIEW V0 AS SELECT a FROM T"
        )
        yield db


@pytest.mark.parametrize("attack", REFUSED)
def test_a_wrong_value_is_refused_when_it_is_said(attack, db):
    """The attack is the name of the case."""
    text = attack.replace("{S}", SOURCE)
    with pytest.raises(TidemillError) as refused:
        db.execute(f"\n  {text}")
    error = refused.value
    assert (
        error.code in ("TM217", "TM403", "TM407", "TM307", "TM213", "TM211", "TM222", "TM111", "TM404") and error.hint
    )
    assert error.line == 2
    value = text.rpartition("=")[2].strip() if "rate = 0.001" not in text else "9000000000000000"
    assert f"\n  {text}".splitlines()[1][error.column - 1 :].startswith(value[:4].rstrip(")")[:4])
    assert "s" not in db.catalog.entries


@pytest.mark.parametrize(
    "arguments",
    [
        {"trigger": "x"},
        {"trigger": -1},
        {"clock": "x"},
        {"clock": "0 seconds"},
        {"shards": 0},
        {"shards": "many"},
        {"shards": True},
    ],
)
def test_the_arguments_of_open_are_checked(arguments, tmp_path):
    with pytest.raises(TidemillError, match="TM308") as refused:
        Database(str(tmp_path / "db"), **arguments)
    assert refused.value.hint and not (tmp_path / "db").exists()


def test_every_option_is_checked_somewhere():
    from tidemill.sql.parse.options import KNOWN

    # Views check `retain`, topics where they start, joins of sites what is late, subscriptions what they tell.
    elsewhere = {"retain", "start", "max_latency", "progress"}
    assert {option for known in KNOWN.values() for option in known} == set(CHECKS) | elsewhere


VALUES = st.one_of(
    st.integers(-(2**62), 2**62).map(str),
    st.floats(-1e15, 1e15, allow_nan=False).map(lambda v: f"{v:.6f}"),
    st.sampled_from(
        [
            "true",
            "false",
            "on",
            "off",
            "none",
            "''",
            "'x'",
            "'-1'",
            "'²'",
            "'1e400'",
            "'nan'",
            "'inf'",
            "'0 seconds'",
            "'5 seconds'",
            "'1 GB'",
            "'NOW'",
            "'a'",
            "'10'",
            "'1_0'",
            "'٣'",
            "'\t'",
        ]
    ),
    st.text("abc019.,-+ ²", max_size=8).map(lambda v: "'" + v + "'"),
)
SETTINGS = ["trigger", "sealed_rows", "optimizer_off", *SHARING, *JOIN_SETTINGS, *QUERYING]


@effort(60)
@given(st.lists(st.tuples(st.sampled_from(SETTINGS), VALUES), min_size=1, max_size=6))
def test_no_value_of_a_setting_stops_a_run(said):
    with tempfile.TemporaryDirectory() as folder, LocalDatabase(folder) as db:
        db.execute(
            "REGISTER SOURCE R (a INTEGER, at TIMESTAMP) FROM GENERATE (rows = 50) WITH (timestamp = 'at');"
            "CREATE TAGGED STREAM T OVER R;"
            "CREATE VIEW V AS SELECT a, count(*) AS n FROM T [RANGE 2] GROUP BY a"
        )
        for name, value in said:
            refused(db, f"SET {name} = {value}")
        db.run()
        db.execute("SHOW SETTINGS")


def refused(db, text):
    """Whether it was; a refusal has a hint and a place."""
    try:
        db.execute(text)
    except TidemillError as error:
        assert error.hint and error.line == 1, str(error)
        return True
    return False


ARGUMENT = st.one_of(st.integers(-(2**70), 2**70).map(str), st.floats().map(str), st.text("ab1:.-", max_size=3))
DISTRIBUTION = st.builds(
    lambda name, arguments: f"'{name}({','.join(arguments)})'",
    st.sampled_from("uniform normal zipf choice sequence cycle walk constant dice".split()),
    st.lists(ARGUMENT, max_size=3),
)
GENERATED = st.one_of(
    st.tuples(st.sampled_from(["rate", "rows", "seed", "start", "arrivals"]), VALUES),
    st.tuples(st.sampled_from(["a", "b", "d", "at"]), DISTRIBUTION),
)


@effort(60)
@given(st.lists(GENERATED, max_size=4, unique_by=lambda pair: pair[0]).map(dict))
def test_a_generator_that_is_accepted_makes_rows(pairs):
    rows = pairs.pop("rows", "3")
    text = ", ".join(f"{name} = {value}" for name, value in {**pairs, "rows": rows}.items())
    with tempfile.TemporaryDirectory() as folder, LocalDatabase(folder) as db:
        columns = "a INTEGER, b VARCHAR, d DECIMAL(4,2), at TIMESTAMP"
        if refused(db, f"REGISTER SOURCE R ({columns}) FROM GENERATE ({text}) WITH (timestamp = 'at', batch_rows = 5)"):
            return
        db.execute("CREATE TAGGED STREAM T OVER R; CREATE VIEW V AS SELECT * FROM T")
        db.start()
        for _ in range(3):
            db.step()
