"""Every statement of paper 004, without its misprints; R with an index is written R(S, Sync)."""

from __future__ import annotations

import pytest

from tests.statements import parse, parse_one
from tidemill.plan.statements import CreateView, Select
from tidemill.sql.dialect.dialect import to_sql
from tidemill.sql.dialect.nodes import Difference, Sync

STATEMENTS = {
    "4.1 source": "REGISTER SOURCE TemperatureSource (int RoomID, int Temperature)\nFROM port5501",
    "4.1 keyed stream": "CREATE TAGGED STREAM RoomTempStr\nOVER TemperatureSource KEY RoomID",
    "4.1 append-only stream": "CREATE TAGGED STREAM TempStr OVER TemperatureSource",
}

# name: (text, the output asked for, the plain query)
QUERIES = {
    "example 1": ("SELECT * FROM R(RoomTempStr)", None, "SELECT * FROM RoomTempStr"),
    "P1, example 2": (
        "SELECT STREAMED R1.VID, R1.VType\nFROM R(S1) R1 — R(S2) R2",
        "streamed",
        "SELECT R1.VID, R1.VType FROM S1 AS R1 - S2 AS R2",
    ),
    "T1, example 2": (
        "SELECT STREAMED RoomID, Temperature\nFROM R(RoomTempStr) R\nWHERE R.Temperature > 80",
        "streamed",
        "SELECT RoomID, Temperature FROM RoomTempStr AS R WHERE R.Temperature > 80",
    ),
    "T2": (
        "SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 100",
        "streamed",
        "SELECT RoomID, Temperature FROM RoomTempStr AS R WHERE R.Temperature > 100",
    ),
    "ParkLot, example 3": (
        "CREATE STREAMED VIEW ParkLot AS\nSELECT R1.VID, R1.VType\nFROM R(S1) R1 - R(S2) R2",
        "streamed",
        "SELECT R1.VID, R1.VType FROM S1 AS R1 - S2 AS R2",
    ),
    "P2, example 3": (
        "SELECT STREAMED P.VType, Count(P.VID)\nFROM R(ParkLot) P\nGROUP BY P.VType",
        "streamed",
        "SELECT P.VType, COUNT(P.VID) FROM ParkLot AS P GROUP BY P.VType",
    ),
    "window join, 4.4": (
        "SELECT * FROM R(Si) A, R(Sj) B WHERE A.TS - 5 < B.TS < A.TS + 5",
        None,
        "SELECT * FROM Si AS A, Sj AS B WHERE A.TS - 5 < B.TS AND B.TS < A.TS + 5",
    ),
    "P7, example 4": (
        "CREATE STREAMED VIEW FiveUnitsWindow AS\nSELECT *\nFROM R(S1) R\nWHERE Now - 5 < R.TS ≤ Now",
        "streamed",
        "SELECT * FROM S1 AS R WHERE NOW - 5 < R.TS AND R.TS <= NOW",
    ),
    "CompParkLot, 4.5": (
        "CREATE COMPLETE VIEW CompParkLot AS\nSELECT R1.VID, R1.VType, R1.VOwner\nFROM R(S1) R1 - R(S2) R2",
        "complete",
        "SELECT R1.VID, R1.VType, R1.VOwner FROM S1 AS R1 - S2 AS R2",
    ),
    "P3, 4.5": (
        "SELECT *\nFROM CompParkLot C\nWHERE C.VOwner = 'JOE DOE'",
        None,
        "SELECT * FROM CompParkLot AS C WHERE C.VOwner = 'JOE DOE'",
    ),
    "P4": (
        "SELECT STREAMED R1.VID, R1.VType FROM R(S1, Sync2) R1 - R(S2, Sync2) R2",
        "streamed",
        'SELECT R1.VID, R1.VType FROM S1 SYNC ON "Sync2" AS R1 - S2 SYNC ON "Sync2" AS R2',
    ),
    "P5": (
        "SELECT STREAMED P.VType, Count(P.VID) FROM R(ParkLot, Sync4) P GROUP BY P.VType",
        "streamed",
        'SELECT P.VType, COUNT(P.VID) FROM ParkLot SYNC ON "Sync4" AS P GROUP BY P.VType',
    ),
    "P6": (
        "SELECT STREAMED P.VType, Count(P.VID) FROM R(ParkLot, PoliceSync) P GROUP BY P.VType",
        "streamed",
        'SELECT P.VType, COUNT(P.VID) FROM ParkLot SYNC ON "PoliceSync" AS P GROUP BY P.VType',
    ),
    "T3, example 5": (
        """CREATE STREAMED VIEW HotRooms2 AS
           SELECT RoomID, Temperature
           FROM R(RoomTempStr, Sync2) R
           WHERE R.Temperature > 80""",
        "streamed",
        'SELECT RoomID, Temperature FROM RoomTempStr SYNC ON "Sync2" AS R WHERE R.Temperature > 80',
    ),
    "T4, example 11": (
        "SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr, Sync4) R WHERE R.Temperature > 100",
        "streamed",
        'SELECT RoomID, Temperature FROM RoomTempStr SYNC ON "Sync4" AS R WHERE R.Temperature > 100',
    ),
    "T5, its synchronization": (
        "CREATE STREAMED VIEW HotSync AS SELECT R.TS FROM R(RoomTempStr) R WHERE R.Temperature > 120",
        "streamed",
        "SELECT R.TS FROM RoomTempStr AS R WHERE R.Temperature > 120",
    ),
    "T5": (
        "SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr, HotSync) R WHERE R.Temperature > 100",
        "streamed",
        'SELECT RoomID, Temperature FROM RoomTempStr SYNC ON "HotSync" AS R WHERE R.Temperature > 100',
    ),
    "example 6": (
        "CREATE STREAMED VIEW Sync2 AS\nSELECT C.TimePoint\nFROM R(clockStr) C\nWHERE C.TimePoint mod 2 = 0",
        "streamed",
        "SELECT C.TimePoint FROM clockStr AS C WHERE C.TimePoint % 2 = 0",
    ),
    "example 7": (
        "CREATE STREAMED VIEW PoliceSync AS\nSELECT R.TS\nFROM R(S1) R\nWHERE R.VType = 'POLICE'",
        "streamed",
        "SELECT R.TS FROM S1 AS R WHERE R.VType = 'POLICE'",
    ),
    "example 8": (
        "SELECT STREAMED * FROM R(RoomTempStr, Sync2)",
        "streamed",
        'SELECT * FROM RoomTempStr SYNC ON "Sync2"',
    ),
    "example 9": (
        "select STREAMED *\nfrom R(S2, Sync2) R2, R(S3, Sync3) R3\nwhere R2.ID = R3.ID",
        "streamed",
        'SELECT * FROM S2 SYNC ON "Sync2" AS R2, S3 SYNC ON "Sync3" AS R3 WHERE R2.ID = R3.ID',
    ),
    "10.5 view": (
        """CREATE STREAMED VIEW BuildHotRooms AS
           SELECT R.Building, Count(R.RoomID) as cntRooms
           FROM R(RoomTempStr) R
           WHERE Temperature > 85
           GROUP BY R.Building""",
        "streamed",
        "SELECT R.Building, COUNT(R.RoomID) AS cntRooms FROM RoomTempStr AS R "
        + "WHERE Temperature > 85 GROUP BY R.Building",
    ),
    "10.5 query": (
        "SELECT V.Building, V.cntRooms\nFROM R(BuildHotRooms, Sync2) V",
        None,
        'SELECT V.Building, V.cntRooms FROM BuildHotRooms SYNC ON "Sync2" AS V',
    ),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_declarations(name):
    assert len(parse(STATEMENTS[name])) == 1


@pytest.mark.parametrize("name", QUERIES)
def test_queries(name):
    text, output, plain = QUERIES[name]
    statement = parse_one(text)
    assert isinstance(statement, (CreateView, Select))
    assert statement.output == output
    assert to_sql(statement.query) == plain


@pytest.mark.parametrize("name", QUERIES)
def test_queries_written_and_read_again_are_the_same(name):
    tree = parse_one(QUERIES[name][0]).query
    assert parse_one(to_sql(tree)).query == tree


def test_all_of_it_is_one_script():
    script = ";\n\n".join([*STATEMENTS.values(), *(text for text, *_ in QUERIES.values())])
    assert len(parse(script)) == len(STATEMENTS) + len(QUERIES)


def test_p4_synchronizes_both_sides_of_the_difference():
    item = parse_one(QUERIES["P4"][0]).query.args["from_"].this
    assert isinstance(item, Difference)
    assert item.this.args["sync"] == item.expression.args["sync"] == Sync(on="Sync2")
