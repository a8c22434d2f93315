WITH last AS (SELECT max(dateTime) AS t FROM bid),
counted AS (SELECT bidder, count(*) AS bid_count, epoch_us(dateTime) // 10000000 * 10000000 AS begins FROM bid GROUP BY ALL)
SELECT make_timestamp(begins + 10000000) AS TS, bidder, bid_count, make_timestamp(begins) AS starttime,
  make_timestamp(begins + 10000000) AS endtime
FROM counted, last WHERE make_timestamp(begins + 10000000) <= t
