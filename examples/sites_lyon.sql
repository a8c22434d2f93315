-- The other site (`tidemill demo --sites`): lyon looks for its few addresses that paris sees within three seconds too.
REGISTER SOURCE FlowsSource (ip INTEGER, bytes INTEGER)
FROM GENERATE (rate = 50, seed = 2, start = 'now', ip = 'uniform(1,20)', bytes = 'uniform(40,1500)');
CREATE TAGGED STREAM Flows OVER FlowsSource;

-- Addresses of lyon go to paris, once each, and only rows with one of them come back.
CREATE STREAMED VIEW Both WITH (site_join = 'sm_s1') AS
SELECT A.ip, A.bytes AS here, B.bytes AS there, B.path, B.agent
FROM Flows [WINDOW 3 SECONDS] A JOIN paris.Flows [WINDOW 3 SECONDS] B ON A.ip = B.ip;

-- Everything crosses for this one: what it costs to ship a stream whole.
CREATE STREAMED VIEW Everything WITH (retain = '10 seconds') AS
SELECT * FROM paris.Flows WHERE port + 0 = -1;
