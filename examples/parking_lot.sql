-- The parking lot of the SyncSQL paper (Ghanem et al. 2010), queries P1 to P7.
--   tidemill run examples/parking_lot.sql
-- Time begins with 1970 and one row comes each second, so the changes can be followed with a finger.

-- Sixteen vehicles come in, one a second. The first ten leave again, six seconds later each: same seed and same
-- columns, so the exits are the entrances once more, in the same order.
REGISTER SOURCE Entrances (VID INTEGER, VType VARCHAR, VOwner VARCHAR)
FROM GENERATE (rate = 1, rows = 16, seed = 7, VID = 'sequence', VType = 'choice(CAR:5,TRUCK:2,BUS:2,POLICE:2)',
               VOwner = 'choice(JOE DOE,JANE ROE,ANN LEE)');

REGISTER SOURCE Exits (VID INTEGER, VType VARCHAR, VOwner VARCHAR)
FROM GENERATE (rate = 1, rows = 10, seed = 7, start = 6000000, VID = 'sequence',
               VType = 'choice(CAR:5,TRUCK:2,BUS:2,POLICE:2)', VOwner = 'choice(JOE DOE,JANE ROE,ANN LEE)');

CREATE TAGGED STREAM S1 OVER Entrances;
CREATE TAGGED STREAM S2 OVER Exits;

-- P1: which vehicles are inside? As a view, so that others can build on it.
CREATE STREAMED VIEW ParkLot AS
SELECT R1.VID, R1.VType FROM R(S1) R1 - R(S2) R2;

-- P2: how many of each type? A view on a view.
CREATE STREAMED VIEW LotByType AS
SELECT P.VType, count(P.VID) AS vehicles FROM R(ParkLot) P GROUP BY P.VType;

-- P3: is Joe Doe's car inside right now? A COMPLETE view keeps the answer; the question is at the end of this file.
CREATE COMPLETE VIEW CompParkLot AS
SELECT R1.VID, R1.VType, R1.VOwner FROM R(S1) R1 - R(S2) R2;

-- P4: P1, but reported every 2 time units only. A synchronization stream is a view of time points.
CREATE STREAMED VIEW Sync2 AS
SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod 2 = 0;

CREATE STREAMED VIEW ParkLot2 AS
SELECT R1.VID, R1.VType FROM R(S1, Sync2) R1 - R(S2, Sync2) R2;

-- P5: P2 every 4 time units, this time without writing the synchronization stream.
SELECT STREAMED P.VType, count(P.VID) AS vehicles FROM R(ParkLot) SYNC EVERY 4 SECONDS AS P GROUP BY P.VType;

-- P6: P2 whenever a police car comes in: the refresh follows an event.
CREATE STREAMED VIEW PoliceSync AS
SELECT R.TS FROM R(S1) R WHERE R.VType = 'POLICE';

SELECT STREAMED P.VType, count(P.VID) AS vehicles FROM R(ParkLot, PoliceSync) P GROUP BY P.VType;

-- P7: who came in during the last five time units?
CREATE STREAMED VIEW FiveUnitsWindow AS
SELECT R.VID, R.VType FROM R(S1) R WHERE NOW - 5 < R.TS <= NOW;

-- Questions at the end of a file are answered when all the data is in.
SELECT * FROM CompParkLot C WHERE C.VOwner = 'JOE DOE' ORDER BY C.VID;
