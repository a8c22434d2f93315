-- Bids of a person in windows of 10 seconds. The original takes the time of processing, of which no answer can be
-- checked; here it is the time of the event.
CREATE RSTREAM VIEW q12 AS
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM bid [RANGE 10 SECONDS] GROUP BY bidder, window_start, window_end;
