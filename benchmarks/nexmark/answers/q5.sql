WITH last AS (SELECT max(dateTime) AS t FROM bid),
windowed AS (
  SELECT auction, unnest(range(epoch_us(dateTime) // 2000000 * 2000000 + 2000000, epoch_us(dateTime) // 2000000 * 2000000 + 10000001, 2000000)) AS ends
  FROM bid
),
counted AS (SELECT ends, auction, count(*) AS num FROM windowed GROUP BY ALL)
SELECT make_timestamp(ends) AS TS, auction, num FROM counted, last
WHERE make_timestamp(ends) <= t QUALIFY num = max(num) OVER (PARTITION BY ends)
