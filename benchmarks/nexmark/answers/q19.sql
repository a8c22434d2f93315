SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, bidder, channel, url, dateTime, extra) AS rank_number
FROM bid QUALIFY rank_number <= 10
