-- One of two sites (`tidemill demo --sites`): paris sees flows and lets lyon read them.
-- The stream is generated; replace FROM GENERATE (…) by FROM PORT 5501 or FROM FILES '…' for your own.
REGISTER SOURCE FlowsSource (ip INTEGER, bytes INTEGER, port INTEGER, path VARCHAR, agent VARCHAR)
FROM GENERATE (rate = 200, seed = 1, start = 'now', ip = 'uniform(1,400)', bytes = 'uniform(40,1500)',
               port = 'choice(80:3,443:8,22)', path = 'choice(/,/index.html,/images/logo.png,/api/v1/orders)',
               agent = 'choice(Mozilla/5.0,curl/8.5.0,python-requests/2.32)');
CREATE TAGGED STREAM Flows OVER FlowsSource;

EXPORT STREAM Flows TO SITE lyon;
