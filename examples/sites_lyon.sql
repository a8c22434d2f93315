-- The other site (`tidemill demo --sites`): lyon looks for addresses that send much to both places within three seconds.
REGISTER SOURCE FlowsSource (ip INTEGER, bytes INTEGER)
FROM GENERATE (rate = 200, seed = 2, start = 'now', ip = 'uniform(1,400)', bytes = 'uniform(40,1500)');
CREATE TAGGED STREAM Flows OVER FlowsSource;

-- Of paris, the columns ip and bytes of rows with more than 1,300 bytes cross the network.
CREATE STREAMED VIEW Both AS
SELECT A.ip, A.bytes AS here, B.bytes AS there
FROM Flows [WINDOW 3 SECONDS] A JOIN paris.Flows [WINDOW 3 SECONDS] B ON A.ip = B.ip
WHERE B.bytes > 1300;

-- Everything crosses for this one: what it costs to ship a stream whole.
CREATE STREAMED VIEW Everything WITH (retain = '10 seconds') AS
SELECT * FROM paris.Flows WHERE port + 0 = -1;
