-- The live demo (`tidemill demo`): a parking lot and the temperatures of a few rooms.
-- The streams are generated; replace FROM GENERATE (…) by FROM PORT 5501 or FROM FILES '…' for your own.

-- Vehicles come in six a second and leave four a second: the lot slowly fills. Same seed and same columns,
-- so the exits are the entrances once more, in the same order, and nobody leaves before coming in.
-- No column is declared as the event time: a row's time is when it arrives.
REGISTER SOURCE Entrances (VID INTEGER, VType VARCHAR, VOwner VARCHAR)
FROM GENERATE (rate = 6, seed = 1, start = 'now', VID = 'sequence',
               VType = 'choice(car:8,truck:3,bus:2,police:1)', VOwner = 'choice(Ada,Ben,Cleo,Dov,Eve,Finn)');

REGISTER SOURCE Exits (VID INTEGER, VType VARCHAR, VOwner VARCHAR)
FROM GENERATE (rate = 4, seed = 1, start = 'now', VID = 'sequence',
               VType = 'choice(car:8,truck:3,bus:2,police:1)', VOwner = 'choice(Ada,Ben,Cleo,Dov,Eve,Finn)');

CREATE TAGGED STREAM S1 OVER Entrances;
CREATE TAGGED STREAM S2 OVER Exits;

-- Who is inside: every entrance is a +, every exit a -.
CREATE STREAMED VIEW ParkLot AS
SELECT R1.VID, R1.VType, R1.VOwner FROM R(S1) R1 - R(S2) R2;

-- A view on a view, refreshed every two seconds.
CREATE VIEW LotByType AS
SELECT P.VType, count(P.VID) AS vehicles FROM R(ParkLot) SYNC EVERY 2 SECONDS AS P GROUP BY P.VType;

-- The same, refreshed by an event: whenever a police car comes in.
CREATE STREAMED VIEW PoliceSync AS
SELECT R.TS FROM R(S1) R WHERE R.VType = 'police';

CREATE VIEW LotAtPolice AS
SELECT P.VType, count(P.VID) AS vehicles FROM R(ParkLot, PoliceSync) P GROUP BY P.VType;

-- A sliding window: who came in during the last five seconds.
CREATE STREAMED VIEW LastFive AS
SELECT R.VID, R.VType FROM R(S1) R WHERE NOW - 5 < R.TS <= NOW;

CREATE VIEW LastFiveCount AS
SELECT count(F.VID) AS vehicles FROM R(LastFive) SYNC EVERY 1 SECOND AS F;

-- Rooms report again and again, each report with its own time; with a KEY it replaces the one before.
REGISTER SOURCE TemperatureSource (RoomID INTEGER, Temperature DOUBLE, ts TIMESTAMP)
FROM GENERATE (rate = 20, seed = 2, start = 'now', RoomID = 'uniform(1,30)', Temperature = 'normal(74,6)')
WITH (timestamp = 'ts');

CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID;

CREATE VIEW HotRooms AS
SELECT RoomID, CASE WHEN RoomID <= 10 THEN 'North' WHEN RoomID <= 20 THEN 'South' ELSE 'Tower' END AS Building,
       Temperature
FROM R(RoomTempStr) SYNC EVERY 2 SECONDS AS T
WHERE T.Temperature > 80;

CREATE VIEW HotByBuilding AS
SELECT H.Building, count(H.RoomID) AS rooms, max(H.Temperature) AS hottest FROM R(HotRooms) H GROUP BY H.Building;
