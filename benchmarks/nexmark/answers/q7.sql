WITH last AS (SELECT max(dateTime) AS t FROM bid),
windowed AS (SELECT *, make_timestamp((epoch_us(dateTime) // 10000000 + 1) * 10000000) AS ends FROM bid)
SELECT ends AS TS, auction, price, bidder, dateTime, extra FROM windowed, last
WHERE ends <= t QUALIFY price = max(price) OVER (PARTITION BY ends)
