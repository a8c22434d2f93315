-- Bids of a person in each session that is over: it ends with 10 seconds of silence.
CREATE VIEW q11 AS
SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM bid [SESSION 10 SECONDS PARTITION BY bidder] GROUP BY bidder, window_start, window_end;
