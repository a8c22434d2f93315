-- The room temperatures of the SyncSQL paper (Ghanem et al. 2010), queries T1 to T5.
--   tidemill run examples/temperatures.sql

REGISTER SOURCE TemperatureSource (RoomID INTEGER, Temperature INTEGER, at INTEGER)
FROM GENERATE (rate = 1, rows = 24, seed = 3, RoomID = 'cycle(4)', Temperature = 'normal(95,22)')
WITH (timestamp = 'at');

-- With a KEY, a report replaces the one before it from the same room: insert, then update.
CREATE TAGGED STREAM RoomTempStr OVER TemperatureSource KEY RoomID;

-- T1: rooms above 80 degrees.
CREATE STREAMED VIEW HotRooms AS
SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80;

-- T2: rooms above 100 degrees.
SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 100;

-- T3: T1, refreshed every 2 time units.
CREATE STREAMED VIEW Sync2 AS
SELECT C.TimePoint FROM R(clockStr) C WHERE C.TimePoint mod 2 = 0;

CREATE STREAMED VIEW HotRooms2 AS
SELECT RoomID, Temperature FROM R(RoomTempStr, Sync2) R WHERE R.Temperature > 80;

-- T4: T2, refreshed every 4 time units.
SELECT STREAMED RoomID, Temperature FROM R(RoomTempStr) SYNC EVERY 4 SECONDS AS R WHERE R.Temperature > 100;

-- T5: T2, refreshed whenever some room reports more than 120 degrees.
CREATE STREAMED VIEW HotSync AS
SELECT R.TS FROM R(RoomTempStr) R WHERE R.Temperature > 120;

CREATE COMPLETE VIEW AlarmRooms AS
SELECT RoomID, Temperature FROM R(RoomTempStr, HotSync) R WHERE R.Temperature > 100;

-- Answered when all the data is in.
SELECT RoomID, Temperature FROM AlarmRooms ORDER BY Temperature DESC;
