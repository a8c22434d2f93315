WITH last AS (SELECT max(dateTime) AS t FROM bid),
ordered AS (
  SELECT bidder, dateTime, dateTime - lag(dateTime) OVER w >= INTERVAL 10 SECONDS AS begins FROM bid
  WINDOW w AS (PARTITION BY bidder ORDER BY dateTime)
),
numbered AS (SELECT *, count(*) FILTER (WHERE begins) OVER (PARTITION BY bidder ORDER BY dateTime) AS n FROM ordered),
sessions AS (
  SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime, max(dateTime) + INTERVAL 10 SECONDS AS endtime
  FROM numbered GROUP BY bidder, n
)
SELECT bidder, bid_count, starttime, endtime FROM sessions, last WHERE endtime <= t
